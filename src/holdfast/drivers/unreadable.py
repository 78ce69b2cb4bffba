"""Rows of jobs that cannot be read: bytes that are no text, no JSON, or no value that Holdfast stores (L9).

Somebody else has changed such a row, or a disk has. ``reserve`` makes it a dead letter. All other verbs show what can
be read, and name in ``last_error`` the columns that cannot. The row keeps its bytes, so that it can be looked at and
repaired. Only an id that is no id is replaced: a dead letter must have one.

A row is readable if ``model.job.check_stored`` accepts it. That takes as long as a whole reserve of a job, so
``compile_job_reader`` writes conditions into its function that are enough for nearly every job. They take a twentieth.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import MISSING, fields, replace
from hashlib import blake2b
from typing import Any

import msgspec

from holdfast.errors import InvalidInput
from holdfast.model import bounds
from holdfast.model.columns import JOB_COLUMNS, Column, Kind
from holdfast.model.fast_construction import Checks, compile_reader
from holdfast.model.job import JobRecord, State, check_stored
from holdfast.model.transition import UNREADABLE
from holdfast.model.unique import WHILE_QUEUED

MAX_SHOWN_CHARACTERS = 200  # of a value that cannot be read
UNREADABLE_ROUNDS = 10  # how often a reserve picks jobs, if none of those that it picked can be read
SUBSTITUTE = "\x1a"  # what ASCII has for characters that cannot be read

_decode_meta = msgspec.json.Decoder(dict[str, Any]).decode
_STATES = {state.value: state for state in State}
_NO_VALUES = (ValueError, TypeError, KeyError, AttributeError, RecursionError, msgspec.MsgspecError)

_RANGES = {
    "priority": (0, bounds.PRIORITIES[-1]),
    "run_at": (0, bounds.LAST_INSTANT),
    "timeout": (1, bounds.MAX_DURATION),
    "max_attempts": (1, bounds.MAX_COUNT),
    "max_crashes": (1, bounds.MAX_COUNT),
    "offset": (0, bounds.MAX_OFFSET),
    "unique_for": (WHILE_QUEUED, bounds.MAX_DURATION),
}
_CHECKS = {
    "match_name": bounds.match_name,
    "is_name": bounds.is_name,
    "check_text": bounds.check_text,
    "check_webhook": bounds.check_webhook,
    "truncate": bounds.truncate_text,
}
_SUBSTITUTES = {"type": UNREADABLE, "queue": UNREADABLE, "payload": b"", "created_at": 0}
_DEFAULTS = {field.name: field.default for field in fields(JobRecord) if field.default is not MISSING}


class UnreadableJob(Exception):
    """A row that cannot be read. ``job`` is what can be read of it, ``problem`` names the columns that cannot."""

    def __init__(self, job: JobRecord, problems: Mapping[str, str]) -> None:
        """``problems`` are by column."""
        self.job = job
        self.problem = "; ".join(problems.values())
        self.has_no_id = "id" in problems  # ``job`` has another one
        super().__init__(self.problem)


def unpack_meta(meta: bytes | None) -> dict[str, Any]:
    """Return what ``pack_meta`` packed."""
    return {} if meta is None else _decode_meta(meta)


def read_any_meta(meta: bytes | None) -> dict[str, Any]:
    """Return what ``pack_meta`` packed; {} if that cannot be read."""
    try:
        return unpack_meta(meta)
    except _NO_VALUES:
        return {}


def compile_job_reader(
    columns: Sequence[str],
    *,
    arguments: Sequence[str] = (),
    constants: Mapping[str, object] | None = None,
) -> Callable[..., JobRecord]:
    """Return a function that reads the job in a row; see ``compile_reader``. It raises only ``UnreadableJob``."""
    constants = constants or {}
    convert_state: dict[str, Callable[[Any], object]] = {"state": _STATES.__getitem__} if "state" in columns else {}

    def tell(row: Sequence[Any], *values: Any) -> JobRecord:
        named = {name: value for name, value in zip(columns, row, strict=True) if name != "_"}
        job, problems = _repair({**named, **dict(zip(arguments, values, strict=True)), **constants})
        if problems:
            raise UnreadableJob(job, problems)
        return job

    return compile_reader(
        JobRecord,
        columns,
        arguments=arguments,
        constants=constants,
        converters={"meta": unpack_meta, **convert_state},
        checks=Checks(list(_conditions(columns, arguments)), _CHECKS, _NO_VALUES, tell),
    )


def _conditions(columns: Sequence[str], arguments: Sequence[str]) -> Iterator[str]:
    """Yield what is enough for ``check_stored``, as expressions. One that is not met is false or raises."""
    for column in JOB_COLUMNS:
        condition = _condition(column)
        if condition is not None and column.name in (*columns, *arguments):
            variable = column.name if column.name in arguments else f"_{column.name}"
            yield (f"{variable} is None or {condition}" if column.nullable else condition).replace("VALUE", variable)
    yield "_offset is None or _domain is not None"


def _condition(column: Column) -> str | None:
    match column.kind:
        case Kind.INTEGER | Kind.INSTANT | Kind.DURATION:
            most = bounds.MAX_INSTANT if column.kind is Kind.INSTANT else bounds.MAX_COUNT
            first, last = _RANGES.get(column.name, (0, most))
            return f"{first} <= VALUE <= {last}"
        case Kind.BYTES:
            return f"VALUE.__class__ is bytes and len(VALUE) <= {bounds.MAX_STORED_PAYLOAD_BYTES}"
        case Kind.JSON:  # decoded
            return None
        case Kind.TEXT:
            match column.name:
                case "state":
                    return None
                case "id":
                    return "match_name(VALUE)"
                case "type" | "queue":
                    return "is_name(VALUE)"
                case "webhook":
                    return "check_webhook('', VALUE)"
                case "last_error" | "dead_reason":
                    return "VALUE == '' or VALUE == truncate(VALUE)"
            plain = f"0 < len(VALUE) <= {bounds.MAX_TEXT_BYTES} and VALUE.isascii() and VALUE.isprintable()"
            return f"{plain} or check_text('', VALUE)"


def _repair(values: dict[str, Any]) -> tuple[JobRecord, dict[str, str]]:
    """Return what can be read of a job, as a record that every caller accepts, and by column why the rest cannot."""
    problems: dict[str, str] = {}
    if values["state"] not in _STATES:
        problems["state"] = _problem("state", f"one of {', '.join(State)}", values["state"])
    values = {**values, "state": _STATES.get(values["state"], State.READY)}
    try:
        values["meta"] = unpack_meta(values["meta"])
    except _NO_VALUES as error:
        problems["meta"] = _problem("meta", f"a JSON object ({error})", values["meta"])
        values["meta"] = {}
    job = JobRecord(**values)
    while True:
        try:
            check_stored(job)
            break
        except InvalidInput as refused:
            name, value = refused.field, getattr(job, refused.field)
            problems[name] = _problem(name, refused.wanted, value)
            job = replace(job, **{name: _substitute(name, value)})
    if problems:
        found = f"{UNREADABLE}: {'; '.join(problems.values())}"
        job = replace(job, last_error=bounds.truncate_text(f"{found}\n{job.last_error}".rstrip()))
    return job, problems


def _substitute(name: str, value: object) -> Any:
    """Return what stands for a value that cannot be read."""
    if name == "id":
        return substitute_id(blake2b(repr(value).encode(), digest_size=8).hexdigest())
    return _SUBSTITUTES[name] if name in _SUBSTITUTES else _DEFAULTS[name]


def substitute_id(unique: object) -> str:
    """Return an id for a job whose id is no id."""
    return f"{UNREADABLE}:{unique}"


def read_any_text(stored: bytes) -> str:
    """Return a stored text. One that is not UTF-8 is escaped, and marked by a character that no stored name has."""
    try:
        return stored.decode()
    except UnicodeDecodeError:
        return SUBSTITUTE + stored.decode(errors="backslashreplace")


def _problem(name: str, wanted: str, value: object) -> str:
    shown = repr(value) if not isinstance(value, str) else repr(value.removeprefix(SUBSTITUTE))
    size = f"… ({len(value)} long)" if isinstance(value, str | bytes) and len(shown) > MAX_SHOWN_CHARACTERS else ""
    return f"{name}: wanted {wanted}, got {shown[:MAX_SHOWN_CHARACTERS]}{size}"
