"""The messages of the HTTP driver: they are strict, they carry every error, and a change makes a new version."""

from __future__ import annotations

import hashlib
import inspect
from dataclasses import fields, is_dataclass
from types import UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

import msgspec
import pytest

from holdfast.drivers import contract, optional
from holdfast.drivers.remote.arguments import Arguments, EnqueueArguments
from holdfast.drivers.remote.description import OPTIONAL
from holdfast.drivers.remote.errors import pack_error, read_error
from holdfast.drivers.remote.rows import pack_jobs, read_jobs
from holdfast.drivers.remote.verbs import PROTOCOL_VERSION, VERBS, encode_arguments
from holdfast.errors import (
    CallerClockRefused,
    InvalidInput,
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

CHECKSUMS = {
    1: "ada9f7f94c07ffed",
    2: "3473a73492ef0205",
}  # by PROTOCOL_VERSION; a released version never gets another checksum

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


def test_a_changed_message_has_another_version():
    """Two versions that differ in a field would not understand one another, or would lose the field silently."""
    seen: set[Any] = set()
    lines = [f"{verb.path} {verb.arguments.__name__} {shown(verb.answer)}" for verb in VERBS.values()]
    lines += [
        line for verb in VERBS.values() for kind in (verb.arguments, verb.answer) for line in describe(kind, seen)
    ]
    checksum = hashlib.sha256("\n".join(lines).encode()).hexdigest()[:16]
    assert CHECKSUMS[PROTOCOL_VERSION] == checksum, "raise PROTOCOL_VERSION, and note its checksum"


def test_every_verb_of_the_contract_travels():
    """``space`` and ``close`` are of the driver itself, and ``joined`` has no meaning over HTTP."""
    protocols = [contract.Driver, contract.Admin, contract.Registry, *OPTIONAL]
    verbs = {name for one in protocols for name in vars(one) if inspect.isfunction(vars(one)[name]) and name[0] != "_"}
    assert verbs - set(VERBS) == {"space", "joined", "close"}
    assert set(VERBS) <= verbs


def test_every_optional_protocol_travels_or_is_left_out_on_purpose():
    """Without ``JobScan``, readers use ``find``; all have ``NamedSpace``; the service logs ``ExpiredLeases`` itself."""
    defined = {
        value
        for value in vars(optional).values()
        if getattr(value, "_is_runtime_protocol", False) and value.__module__ == optional.__name__
    }
    assert defined - set(OPTIONAL) == {optional.ExpiredLeases, optional.JobScan, optional.NamedSpace}


@pytest.mark.parametrize(
    "error",
    [
        InvalidInput("after", wanted="a cursor", got="x"),
        PayloadError("meta", wanted="JSON", got="y"),
        Unsupported("http", "find", "no"),
        WriteRefused("j", kind="k", key="key"),
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
        msgspec.msgpack.encode({"jobs": [], "unknown": 1}),
        msgspec.msgpack.encode({"jobs": [ROW[:4]]}),
        msgspec.msgpack.encode({"jobs": [(*ROW, None)]}),
        msgspec.msgpack.encode({"jobs": [["j"] * len(ROW)]}),
        msgspec.msgpack.encode({"jobs": [ROW], "now": "1"}),
    ],
)
def test_a_message_that_is_not_exact_is_refused(data):
    with pytest.raises(msgspec.MsgspecError):
        VERBS["enqueue"].decode_arguments(data)


def test_a_batch_stays_a_batch():
    """A store leases a batch while it stores it, and stores it faster."""
    batch = JobBatch(JOB, ["a", "b"], [b"1", b"2"], ["k", None], limit_keys=["l", None])
    read = VERBS["enqueue"].decode_arguments(encode_arguments(EnqueueArguments(jobs=pack_jobs(batch)))).for_call()
    assert isinstance(read["jobs"], JobBatch)
    assert list(read["jobs"]) == list(batch)
    message = pack_jobs(batch)
    message.payloads.pop()
    with pytest.raises(InvalidInput, match="payloads: wanted as many as ids, 2, got 1"):
        read_jobs(message)


def test_a_job_travels_as_it_is():
    arguments = EnqueueArguments(jobs=[JOB], now=5)
    read = VERBS["enqueue"].decode_arguments(encode_arguments(arguments))
    assert read.for_call() == {"jobs": [JOB], "writes": [], "replace_dead_before": None, "now": 5}
    assert len(encode_arguments(arguments)) < 80
    assert encode_arguments(Arguments()) == b"\x80"
