"""Rows of jobs that cannot be read: bytes that are no text, no JSON, or no value that Holdfast stores (L9).

Somebody else has changed such a row, or a disk has. ``reserve`` makes it a dead letter. All other verbs show what can
be read, and name in ``last_error`` the columns that cannot. The row keeps its bytes, so that it can be looked at and
repaired. Only an id that is no id is replaced: a dead letter must have one.

A row is readable if ``model.job.check_stored`` accepts it. That takes as long as a whole reserve of a job, so msgspec
checks the types, and ``is_sound`` the values: nearly every row passes, and only the others are checked one by one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from hashlib import blake2b
from operator import itemgetter
from typing import Any

import msgspec
from msgspec.structs import replace

from holdfast.errors import InvalidInput
from holdfast.model import bounds
from holdfast.model.job import JobRecord, State, check_stored, convert_fields, is_sound
from holdfast.model.transition import UNREADABLE

MAX_SHOWN_CHARACTERS = 200  # of a value that cannot be read
UNREADABLE_ROUNDS = 10  # how often a reserve picks jobs, if none of those that it picked can be read
SUBSTITUTE = "\x1a"  # what ASCII has for characters that cannot be read

_decode_meta = msgspec.json.Decoder(dict[str, Any]).decode
_STATES = {state.value: state for state in State}
_NO_VALUES = (ValueError, TypeError, KeyError, AttributeError, RecursionError, msgspec.MsgspecError)

_SUBSTITUTES = {"type": UNREADABLE, "queue": UNREADABLE, "payload": b"", "created_at": 0}
_DEFAULTS = {field.name: field.default for field in msgspec.structs.fields(JobRecord)}
_FIELDS = JobRecord.__struct_fields__


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


def make_job_reader(
    columns: Sequence[str],
    *,
    arguments: Sequence[str] = (),
    constants: Mapping[str, object] | None = None,
) -> Callable[..., JobRecord]:
    """Return a function that reads the job in a row. It raises only ``UnreadableJob``.

    ``columns`` name the field for each column of the row; a column named ``_`` is ignored. ``arguments`` are fields
    that the caller passes after the row, ``constants`` fields that are the same in every job. Raises ``ValueError`` for
    a field that comes from none of the three.
    """
    constants = constants or {}
    packed_meta = columns.index("meta")
    given = ("meta", *("_" if name == "meta" else name for name in columns), *arguments, *constants)
    in_order = itemgetter(*(given.index(name) for name in _FIELDS))
    shared = tuple(constants.values())

    def read(row: Sequence[Any], *values: Any) -> JobRecord:
        meta = row[packed_meta]
        try:
            job = convert_fields(in_order((unpack_meta(meta), *row, *values, *shared)))
            if job is not None and is_sound(job):
                return job
        except _NO_VALUES:
            pass
        fields = in_order((meta, *row, *values, *shared))
        job, problems = _repair(dict(zip(_FIELDS, fields, strict=True)))
        if problems:
            raise UnreadableJob(job, problems)
        return job

    return read


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
