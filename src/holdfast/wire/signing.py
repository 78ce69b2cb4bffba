"""Signatures of jobs: HMAC-SHA256 over the identity of a job, with keys that have ids.

``Signer`` signs new jobs with the newest key, and verifies reserved jobs with every key of its ring. The text of a
signature is ``<key id>:v1.<MAC in base64url>``. Keys are in no repr and in no pickle.
"""

from __future__ import annotations

import hmac
import re
from binascii import b2a_base64
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import NoReturn, Protocol

from msgspec.structs import replace

from holdfast.errors import InvalidInput
from holdfast.model.job import JobRecord
from holdfast.model.job_batch import JobBatch
from holdfast.wire.codec import has_repeated_key
from holdfast.wire.envelope import META_CODEC
from holdfast.wire.identity import own_frames, shared_frames, split_signature

FORMAT = "v1."  # before the MAC
_FORMAT_BYTES = FORMAT.encode()
MIN_SECRET_BYTES = 16
MAX_SECRET_BYTES = 1 << 10
_KEY_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")
_URL_SAFE = bytes.maketrans(b"+/", b"-_")


class Verdict(Enum):
    """What a signature says about a job."""

    VALID = "valid"
    UNSIGNED = "unsigned"
    UNKNOWN_KEY = "unknown key"  # a newer key than those of this process, or an invented one
    INVALID = "invalid"  # the job is not the one that was signed
    AMBIGUOUS = "ambiguous"  # the payload has a key twice: which value was meant is unknown


@dataclass(frozen=True, slots=True, kw_only=True)
class SigningKey:
    """A secret with an id. A key with a queue signs and verifies jobs of this queue only."""

    id: str
    secret: bytes = field(repr=False)
    created_at: int | None = None
    queue: str | None = None
    _started: hmac.HMAC = field(init=False, repr=False, compare=False)  # a copy costs half as much as a new one

    def __post_init__(self) -> None:
        if not _KEY_ID.fullmatch(self.id):
            raise InvalidInput("key id", wanted="1 to 64 letters, digits, '.', '_' or '-'", got=self.id)
        if not MIN_SECRET_BYTES <= len(self.secret) <= MAX_SECRET_BYTES:
            wanted = f"a secret of {MIN_SECRET_BYTES} to {MAX_SECRET_BYTES} bytes"
            raise InvalidInput(f"signing key {self.id}", wanted=wanted, got=f"{len(self.secret)} bytes")
        object.__setattr__(self, "_started", hmac.new(self.secret, digestmod="sha256"))

    def __reduce__(self) -> NoReturn:
        raise TypeError("a signing key is not pickled: each process reads its own keys")

    @classmethod
    def from_secret(cls, secret: bytes) -> SigningKey:
        """Return a key whose id is made from its secret: every process that has the secret finds the same id."""
        mac = hmac.digest(secret, b"holdfast key id", "sha256")
        return cls(id=f"k-{mac[:6].hex()}", secret=secret)

    def mac(self, message: bytes) -> bytes:
        """Return the MAC of a message, in base64url without padding."""
        started = self._started.copy()
        started.update(message)
        return b2a_base64(started.digest(), newline=False)[:-1].translate(_URL_SAFE)  # 32 bytes have one "=" at the end


class KeyRing:
    """Keys, the newest last. Never changes."""

    def __init__(self, keys: Iterable[SigningKey]) -> None:
        self.keys = tuple(keys)
        self._by_id = {key.id: key for key in self.keys}
        if len(self._by_id) < len(self.keys):
            raise InvalidInput("signing keys", wanted="a different id for each", got="one id twice")
        self._newest = {key.queue: key for key in self.keys}  # a later key replaces an earlier one

    def __repr__(self) -> str:
        return f"KeyRing({[key.id for key in self.keys]})"

    def signing_key(self, queue: str) -> SigningKey | None:
        """Return the newest key of a queue, else the newest key without a queue."""
        return self._newest.get(queue) or self._newest.get(None)

    def find(self, key_id: str) -> SigningKey | None:
        """Return the key with this id."""
        return self._by_id.get(key_id)

    def current(self) -> KeyRing:
        """Return this ring, whose keys never change."""
        return self

    def reload(self) -> KeyRing:
        """Return this ring, whose keys never change."""
        return self


class KeySource(Protocol):
    """Where a signer gets its keys from: a ring, or a file that changes."""

    def current(self) -> KeyRing:
        """Return the keys; they may be a few seconds old."""
        ...

    def reload(self) -> KeyRing:
        """Return the keys as they are now."""
        ...


class Signer:
    """Signs and verifies the jobs of one space. Safe to share between threads."""

    def __init__(self, keys: KeySource, *, space: str = "main", required: bool = False) -> None:
        """With ``required``, a job without a signature must not run."""
        self._keys = keys
        self._space = space
        self.required = required

    def __reduce__(self) -> NoReturn:
        raise TypeError("a signer is not pickled: each process reads its own keys")

    def sign(self, jobs: Sequence[JobRecord]) -> Sequence[JobRecord]:
        """Return the jobs with new signatures. A ``JobBatch`` stays one."""
        ring = self._keys.current()
        if isinstance(jobs, JobBatch):
            key = self._signing_key(ring, jobs.template.queue)
            return jobs.with_signatures(list(self._batch_signatures(jobs, key)))
        return [self._sign_one(ring, job) for job in jobs]

    def verify(self, job: JobRecord) -> Verdict:
        """Return whether the job is the one that was signed. Reads changed keys if it does not know the key."""
        if job.signature is None:
            return Verdict.UNSIGNED
        key_id, text = split_signature(job.signature)
        if key_id is None or text is None:
            return Verdict.INVALID
        key = self._keys.current().find(key_id) or self._keys.reload().find(key_id)
        if key is None:
            return Verdict.UNKNOWN_KEY
        if key.queue not in (None, job.queue):
            return Verdict.INVALID
        expected = _FORMAT_BYTES + _mac_of(job, self._space, key)
        # The texts are compared, not the decoded MACs: base64 has several texts for the same bytes.
        if not hmac.compare_digest(expected, text.encode(errors="surrogatepass")):
            return Verdict.INVALID
        return Verdict.AMBIGUOUS if META_CODEC not in job.meta and has_repeated_key(job.payload) else Verdict.VALID

    def _sign_one(self, ring: KeyRing, job: JobRecord) -> JobRecord:
        key = self._signing_key(ring, job.queue)
        return replace(job, signature=f"{key.id}:{FORMAT}{_mac_of(job, self._space, key).decode()}")

    def _batch_signatures(self, jobs: JobBatch, key: SigningKey) -> Iterator[str]:
        shared = shared_frames(jobs.template, self._space, key.id)
        prefix = f"{key.id}:{FORMAT}"
        limit_key = jobs.template.limit_key
        for place, (job_id, payload) in enumerate(zip(jobs.ids, jobs.payloads, strict=True)):
            if jobs.limit_keys is not None:
                limit_key = jobs.limit_keys[place]
            own = own_frames(job_id, None if jobs.keys is None else jobs.keys[place], payload, limit_key)
            yield prefix + key.mac(shared + own).decode()

    def _signing_key(self, ring: KeyRing, queue: str) -> SigningKey:
        key = ring.signing_key(queue)
        if key is None:
            raise InvalidInput("signing key", wanted=f"a key for the queue {queue}, or one for all queues", got="none")
        return key


def _mac_of(job: JobRecord, space: str, key: SigningKey) -> bytes:
    own = own_frames(job.id, job.idempotency_key, job.payload, job.limit_key)
    return key.mac(shared_frames(job, space, key.id) + own)
