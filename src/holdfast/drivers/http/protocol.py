"""What travels between the HTTP engine and a service: a request as it is, its answer, and refusals as data (ADR 0042).

Both sides encode and decode here. The path has the name of the verb, and the body is the request.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any, TypeAlias, TypeVar, cast, get_args

import msgspec
from msgspec.structs import replace

from holdfast.drivers import requests as r
from holdfast.drivers.http.errors import ErrorFacts, pack_error, read_error
from holdfast.errors import LeaseError
from holdfast.model.job import JobRecord
from holdfast.model.job_batch import JobBatch
from holdfast.model.lease import Lease

A = TypeVar("A")

PROTOCOL_VERSION = 3  # of all messages; a changed field makes another one
CONTENT_TYPE = f"application/vnd.holdfast.driver.v{PROTOCOL_VERSION}+msgpack"
CALL_ID_HEADER = "idempotency-key"  # a repeated call with the same one gets the first answer
MAX_CALL_BYTES = 80 << 20  # of the request: one payload of the largest size, and the rest of its job
MAX_ANSWER_BYTES = 160 << 20
MAX_RESERVED_BYTES = 64 << 20  # of the payloads of one reserve: more jobs come with the next one
MAX_WAIT_SECONDS = 20.0  # of one request that waits; a longer wait is several requests

_KINDS = [kind for kind in map(vars(r).get, r.__all__) if isinstance(kind, type) and issubclass(kind, r.Request)]
VERBS: Mapping[str, type[r.Request[Any]]] = {
    kind.verb: kind
    for kind in _KINDS
    if kind not in (r.Request, r.ReadColumns)  # columns are made from the pages of ``Find``
}


class Group(StrEnum):
    """A path of the service. The groups differ in the token that they need, and in when they are refused."""

    CALLS = "calls"  # producers and workers
    LEASES = "leases"  # extends and ends leases: refused last when the service is busy
    ADMIN = "admin"  # changes by operators only


def group_of(request: r.Request[Any]) -> Group:
    """Return the group that a request is sent to."""
    match request:
        case r.Extend() | r.Settle():
            return Group.LEASES
        case r.Reap(leases=leases) if leases is not None:
            return Group.LEASES
        case r.Requeue() | r.Purge() | r.Resume() | r.ForgetDomain() | r.RemoveSpace():
            return Group.ADMIN
        case _:
            return Group.CALLS


def is_repeatable(request: r.Request[Any]) -> bool:
    """Whether a second call answers as the first one, or changes nothing: it is sent again after a lost answer."""
    match request:
        case r.Enqueue(writes=writes):
            return not writes
        case r.Reap(leases=leases):
            return leases is None
        case r.Requeue() | r.Purge() | r.Resume() | r.ForgetDomain() | r.Write():
            return False
        case _:
            return True


def grants_leases(request: r.Request[Any]) -> bool:
    """Whether a repeated call would lease more jobs: it has an id, by which the service knows its first answer."""
    return isinstance(request, r.Reserve) or (isinstance(request, r.Enqueue) and request.lease is not None)


# Messages that differ from the requests ---------------------------------------------------------------------


class _BatchMessage(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """A ``JobBatch``, by columns: a store works on whole columns, too, and leases only such batches quickly."""

    template: JobRecord
    ids: list[str]
    payloads: list[bytes]
    keys: list[str | None] | None
    signatures: list[str | None] | None
    limit_keys: list[str | None] | None

    def batch(self) -> JobBatch:
        """Return the jobs. Raises ``InvalidInput`` for columns of different lengths."""
        return JobBatch(self.template, self.ids, self.payloads, self.keys, self.signatures, limit_keys=self.limit_keys)


class _EnqueueMessage(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """An ``Enqueue``: its jobs, and the request without them."""

    jobs: list[JobRecord] | _BatchMessage
    request: r.Enqueue


def _pack_jobs(jobs: Sequence[JobRecord]) -> list[JobRecord] | _BatchMessage:
    if not isinstance(jobs, JobBatch):
        return list(jobs)
    return _BatchMessage(
        template=jobs.template,
        ids=list(jobs.ids),
        payloads=list(jobs.payloads),
        keys=None if jobs.keys is None else list(jobs.keys),
        signatures=None if jobs.signatures is None else list(jobs.signatures),
        limit_keys=None if jobs.limit_keys is None else list(jobs.limit_keys),
    )


def _message_type(kind: type[r.Request[Any]]) -> Any:
    return _EnqueueMessage if kind is r.Enqueue else kind


_ExtendAnswers: TypeAlias = list[Lease | ErrorFacts]
_SettleAnswers: TypeAlias = list[ErrorFacts | None]


def _answer_type(kind: type[r.Request[Any]]) -> Any:
    """Return the type of an answer on the wire: an error is sent as its facts."""
    if kind is r.Extend:
        return _ExtendAnswers
    if kind is r.Settle:
        return _SettleAnswers
    [base] = (base for base in kind.__orig_bases__ if get_args(base))  # type: ignore[attr-defined] # a generic class
    [answer] = get_args(base)
    return answer


# Encoding ---------------------------------------------------------------------------------------------------


def _pack_unknown(value: object) -> object:
    """Encode what msgspec does not know: refusals, and sequences of a caller's own."""
    if isinstance(value, LeaseError) and (facts := pack_error(value)) is not None:
        return facts
    if isinstance(value, Sequence):
        return list(value)
    raise TypeError(f"wanted a value of the contract, got {type(value).__name__}")


def _read_refusal(facts: ErrorFacts) -> LeaseError:
    error = read_error(facts)
    if not isinstance(error, LeaseError):
        raise msgspec.ValidationError(f"wanted a refusal, got {facts.error}")
    return error


_encode = msgspec.msgpack.Encoder(enc_hook=_pack_unknown).encode
_REQUESTS = {verb: msgspec.msgpack.Decoder(_message_type(kind)) for verb, kind in VERBS.items()}
_ANSWERS = {verb: msgspec.msgpack.Decoder(_answer_type(kind)) for verb, kind in VERBS.items()}


def encode_request(request: r.Request[Any]) -> bytes:
    """Return a request as bytes. Raises ``ValueError`` for text that UTF-8 cannot encode."""
    if isinstance(request, r.Enqueue):
        return _encode(_EnqueueMessage(jobs=_pack_jobs(request.jobs), request=replace(request, jobs=())))
    return _encode(request)


def decode_request(verb: str, data: bytes) -> r.Request[Any]:
    """Return the request in a message. Raises ``msgspec.MsgspecError``, ``ValueError`` or ``InvalidInput``."""
    message = _REQUESTS[verb].decode(data)
    if not isinstance(message, _EnqueueMessage):
        return cast("r.Request[Any]", message)
    if message.request.connection is not None:
        raise ValueError("a connection does not travel")
    jobs = message.jobs.batch() if isinstance(message.jobs, _BatchMessage) else message.jobs
    return replace(message.request, jobs=jobs)


def encode_answer(answer: object) -> bytes:
    """Return the answer of a store as bytes."""
    return _encode(answer)


def decode_answer(request: r.Request[A], data: bytes) -> A:
    """Return the answer as the store gave it. Raises ``msgspec.MsgspecError``."""
    answer = _ANSWERS[request.verb].decode(data)
    if isinstance(request, r.Extend | r.Settle):
        answer = [_read_refusal(each) if isinstance(each, ErrorFacts) else each for each in answer]
    return cast("A", answer)
