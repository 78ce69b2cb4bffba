"""The identity of a job as bytes: every field that never changes, which is what a signature covers.

The fields are framed: four bytes of length, then the value. So no two jobs have the same bytes, wherever one field ends
and the next begins. The last frame is missing if the job has no limit key: such a job has the bytes that it had before
there were limit keys, and its signature stays valid. docs/reference/envelope.md has the order of the fields and test
vectors.

The payload is signed as it is stored, not as the value that it encodes. A canonical form would have to be parsed and
written for every job, twice: that took longer than the rest of signing, and every language would need the same rules
for numbers.
"""

from __future__ import annotations

import struct
from functools import lru_cache

import msgspec

from holdfast.model.job import JobRecord

IDENTITY_VERSION = 1
_NULL = b"\xff\xff\xff\xff"  # longer than any value
_EMPTY_META = b"{}"

_pack_length = struct.Struct(">I").pack
_canonical = msgspec.json.Encoder(order="sorted").encode


def identity_bytes(record: JobRecord, *, space: str = "main", key_id: str | None = None) -> bytes:
    """Return the bytes that a signature covers: every field of the job that never changes, and the id of the key.

    The counters, the status and the signature itself are not included. ``key_id`` is the id of the key that is about
    to sign; None means the key that has signed.
    """
    return b"".join(
        (
            shared_frames(record, space, key_id or split_signature(record.signature)[0]),
            own_frames(record.id, record.idempotency_key, record.payload, record.limit_key),
        )
    )


def shared_frames(record: JobRecord, space: str, key_id: str | None) -> bytes:
    """Return the frames of the fields that the jobs of a batch share."""
    meta = _canonical(record.meta) if record.meta else _EMPTY_META
    return _join_shared(
        key_id,
        space,
        record.type,
        record.name,
        record.queue,
        record.priority,
        record.domain,
        record.offset,
        record.created_at,
        record.requested_run_at,
        record.timeout,
        record.max_attempts - 1,
        record.webhook,
        meta.decode(),
    )


def own_frames(job_id: str, key: str | None, payload: bytes, limit_key: str | None = None) -> bytes:
    """Return the frames of the fields in which the jobs of a batch differ."""
    last = b"" if limit_key is None else _frame(limit_key)
    return b"".join((_frame(job_id), _frame(key), _pack_length(len(payload)), payload, last))


def split_signature(signature: str | None) -> tuple[str | None, str | None]:
    """Split ``"<key id>:<signature>"``. A key id may hold colons, a signature may not."""
    if signature is None:
        return None, None
    key_id, colon, sig = signature.rpartition(":")
    return key_id if colon else None, sig


@lru_cache(maxsize=256, typed=True)  # the jobs of one enqueue_many share these fields: one lookup instead of 16 frames
def _join_shared(*fields: str | int | None) -> bytes:
    return b"".join(map(_frame, ("holdfast job", IDENTITY_VERSION, *fields)))


def _frame(value: str | int | None) -> bytes:
    if value is None:
        return _NULL
    data = str(value).encode(errors="surrogatepass")  # a store refuses such a text with a better error
    return _pack_length(len(data)) + data
