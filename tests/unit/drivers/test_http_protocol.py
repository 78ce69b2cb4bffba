"""The messages of the HTTP driver: they are strict, they carry every error, and a change makes a new version."""

from __future__ import annotations

import hashlib
from dataclasses import fields, is_dataclass
from types import UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

import msgspec
import pytest

from holdfast.drivers import requests as r
from holdfast.drivers.http import protocol
from holdfast.drivers.http.errors import pack_error, read_error
from holdfast.drivers.http.protocol import PROTOCOL_VERSION, VERBS, decode_answer, decode_request, encode_request
from holdfast.errors import (
    CallerClockRefused,
    InvalidInput,
    JobNotInflight,
    LeaseExpired,
    LeaseMismatch,
    LedgerTrimmed,
    PayloadError,
    SpaceInUse,
    StoreBusy,
    StoreFull,
    StoreUnavailable,
    Unsupported,
    WriteRefused,
)
from holdfast.model.job import JobRecord
from holdfast.model.job_batch import JobBatch
from holdfast.model.lease import Lease
from holdfast.model.settlement import Ack, Fail, Release, Retry

VERSION = 3  # of the messages with these checksums
CHECKSUMS = {
    "any_open": "67095d23",
    "cancel": "7b427772",
    "configure": "0e48bf9e",
    "counts": "4438e49a",
    "diagnose": "279e248b",
    "domains": "b6e41d19",
    "enqueue": "96fcb6d4",
    "extend": "eef5efa9",
    "find": "61fcc34a",
    "forget_domain": "32efdc47",
    "inspect": "c4c285e7",
    "ledger": "23518433",
    "ledger_end": "65165541",
    "ledger_marks": "33c3f751",
    "ledger_tail": "7a57c3d0",
    "purge": "10697540",
    "read": "62325255",
    "read_tuples": "a9dc37ea",
    "reap": "648daab8",
    "remove_space": "b26e26f6",
    "requeue": "441aef10",
    "reserve": "b395e0cc",
    "resume": "dddbc064",
    "scan": "da2bbe8c",
    "settings": "4fe2dc5f",
    "settle": "486ef9cb",
    "spaces": "b0a40c74",
    "trim": "08658840",
    "wait": "dc3b4609",
    "wait_for_cancel": "bad878b4",
    "write": "03eb260f",
}

JOB = JobRecord(id="j", type="t", queue="q", payload=b"1", created_at=1)
ROW = msgspec.structs.astuple(JOB)


def shown(kind: Any) -> str:
    """Return a type as text that is the same in every version of Python."""
    arguments = [shown(argument) for argument in get_args(kind)]
    if get_origin(kind) in {Union, UnionType}:
        return " or ".join(sorted(arguments))
    name = getattr(get_origin(kind) or kind, "__name__", str(kind))
    return f"{name}[{', '.join(arguments)}]" if arguments else name


def describe(kind: Any, seen: set[Any]) -> list[str]:
    """Return the fields of every type that a type consists of."""
    parts = [part for argument in get_args(kind) for part in describe(argument, seen)]
    kind = get_origin(kind) or kind
    is_struct = isinstance(kind, type) and issubclass(kind, msgspec.Struct)
    if kind in seen or not (is_struct or is_dataclass(kind)):
        return parts
    seen.add(kind)
    names = [one.name for one in (msgspec.structs.fields(kind) if is_struct else fields(kind))]
    hints = get_type_hints(kind)
    layout = "array" if is_struct and kind.__struct_config__.array_like else "object"
    parts.append(f"{kind.__name__} {layout}: {', '.join(f'{name} {shown(hints[name])}' for name in names)}")
    return parts + [part for name in names for part in describe(hints[name], seen)]


def checksum(verb):
    """A number for the request, the answer, and every type that they consist of."""
    kinds = (protocol._message_type(VERBS[verb]), protocol._answer_type(VERBS[verb]))
    seen: set[Any] = set()
    lines = [shown(kind) for kind in kinds] + [line for kind in kinds for line in describe(kind, seen)]
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:8]


def test_a_changed_message_has_another_version():
    """Two versions that differ in a field would not understand one another, or would lose the field silently.

    A new verb needs no new version: a service that does not know it says so.
    """
    assert PROTOCOL_VERSION == VERSION
    assert {verb: checksum(verb) for verb in sorted(VERBS)} == CHECKSUMS, "raise PROTOCOL_VERSION, and note these"


@pytest.mark.parametrize(
    "error",
    [
        InvalidInput("after", wanted="a cursor", got="x"),
        PayloadError("meta", wanted="JSON", got="y"),
        Unsupported("http", "find", "no"),
        WriteRefused("j", kind="k", key="key"),
        JobNotInflight("j", "done"),
        JobNotInflight("j", None),
        LeaseMismatch("j"),
        LeaseExpired("j", expires_at=1, now=2),
        StoreBusy(1.5),
        StoreFull(free=1 << 20, floor=2 << 20),
        SpaceInUse("s", leases=2),
        LedgerTrimmed("7"),
        CallerClockRefused(),
    ],
    ids=lambda error: type(error).__name__,
)
def test_an_error_has_the_same_facts_on_the_other_side(error):
    packed = pack_error(error)
    again = read_error(msgspec.json.decode(msgspec.json.encode(packed), type=type(packed)))
    assert (type(again), str(again), again.__dict__) == (type(error), str(error), error.__dict__)


def test_a_text_of_the_store_does_not_travel():
    assert pack_error(StoreUnavailable("user me at host db.example")) is None


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\xc1",
        msgspec.msgpack.encode({}),
        *(
            msgspec.msgpack.encode({"jobs": jobs, "request": request})
            for jobs, request in (
                ([], {"jobs": [], "unknown": 1}),
                ([ROW[:4]], {"jobs": []}),
                ([(*ROW, None)], {"jobs": []}),
                ([["j"] * len(ROW)], {"jobs": []}),
                ([ROW], {"jobs": [], "now": "1"}),
            )
        ),
    ],
)
def test_a_message_that_is_not_exact_is_refused(data):
    with pytest.raises(msgspec.MsgspecError):
        decode_request("enqueue", data)


def test_a_connection_does_not_travel():
    message = encode_request(r.Enqueue(jobs=[JOB], connection="mine"))
    with pytest.raises(ValueError, match="a connection does not travel"):
        decode_request("enqueue", message)


def test_a_batch_stays_a_batch():
    """A store leases a batch while it stores it, and stores it faster."""
    batch = JobBatch(JOB, ["a", "b"], [b"1", b"2"], ["k", None], limit_keys=["l", None])
    read = decode_request("enqueue", encode_request(r.Enqueue(jobs=batch, replace_dead_before=7)))
    assert isinstance(read.jobs, JobBatch)
    assert (list(read.jobs), read.replace_dead_before) == (list(batch), 7)
    message = msgspec.msgpack.decode(encode_request(r.Enqueue(jobs=batch)))
    message["jobs"]["payloads"].pop()
    with pytest.raises(InvalidInput, match="payloads: wanted as many as ids, 2, got 1"):
        decode_request("enqueue", msgspec.msgpack.encode(message))


LEASE = Lease(job_id="j", token="1.0", fence=1, expires_at=2)


@pytest.mark.parametrize(
    "request_",
    [
        r.Enqueue(jobs=[JOB], lease=r.LeaseTerms(lease_for=5), now=5),
        r.Reserve(queues=["q"], limit=1, lease_for=5, types=["t"]),
        r.Settle(settlements=[Ack(LEASE), Retry(LEASE, delay=5), Fail(LEASE, reason="no"), Release(LEASE)]),
        r.Reap(leases=[LEASE]),
        r.LedgerEnd(),
    ],
    ids=lambda request: request.verb,
)
def test_a_request_travels_as_it_is(request_):
    assert decode_request(request_.verb, encode_request(request_)) == request_


def test_refusals_come_back_as_errors():
    refused = [LeaseMismatch("j"), None]
    [error, nothing] = decode_answer(r.Settle(settlements=[]), protocol.encode_answer(refused))
    assert (type(error), str(error), nothing) == (LeaseMismatch, str(refused[0]), None)
    lease, error = decode_answer(r.Extend(leases=[], lease_for=1), protocol.encode_answer([LEASE, refused[0]]))
    assert (lease, type(error)) == (LEASE, LeaseMismatch)


def test_a_message_is_small():
    assert len(encode_request(r.Enqueue(jobs=[JOB]))) < 160
    assert encode_request(r.LedgerEnd()) == b"\x80"
