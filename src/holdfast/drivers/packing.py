"""Conversions between values and table columns that the SQL drivers share."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from typing import Any

import msgspec

from holdfast.drivers.contract import Inspection, JobFilter, QueueCounts
from holdfast.model.columns import JOB_COLUMNS, LEDGER_COLUMNS, names_of
from holdfast.model.fast_construction import compile_reader
from holdfast.model.job import JobRecord, State
from holdfast.model.lease import Note
from holdfast.model.ledger import Ending, LedgerRow
from holdfast.model.queue_settings import Gaps, OnExhausted, QueueSettings
from holdfast.model.registry import Change, Entry

Row = tuple[Any, ...]

DIGEST_BYTES = 16

_encode = msgspec.json.Encoder().encode
_decode_meta = msgspec.json.Decoder(dict[str, Any]).decode
_STATES = {state.value: state for state in State}
_ENDINGS = {ending.value: ending for ending in Ending}


def to_json(values: Iterable[object]) -> str:
    """Return a list of any length as one JSON parameter."""
    return _encode(list(values)).decode()


def pack_meta(meta: Mapping[str, object]) -> bytes | None:
    """Return ``meta`` as JSON, None if it is empty: most jobs have no meta, and NULL takes no space."""
    return _encode(meta) if meta else None


def unpack_meta(meta: bytes | None) -> dict[str, Any]:
    """Return what ``pack_meta`` packed."""
    return {} if meta is None else _decode_meta(meta)


def digest_of(payload: bytes) -> bytes:
    """Return a digest that tells payloads apart after the row of the job has been removed."""
    return hashlib.blake2b(payload, digest_size=DIGEST_BYTES).digest()


def job_reader(*, before: int = 0, after: int = 0) -> Callable[[Sequence[Any]], JobRecord]:
    """Return a function that reads the job, in any state, in a row of ``{job_columns}``.

    The row has ``before`` further columns before these columns, and ``after`` further columns after them.
    """
    return compile_reader(
        JobRecord,
        ["_"] * before + [*names_of(JOB_COLUMNS)] + ["_"] * after,
        converters={"meta": unpack_meta, "state": _STATES.__getitem__},
    )


def ledger_row_reader(*, before: int = 0, after: int = 0) -> Callable[[Sequence[Any]], LedgerRow]:
    """Return a function that reads the ledger row in a row of ``{ledger_columns}``; see ``job_reader``."""
    return compile_reader(
        LedgerRow,
        ["_"] * before + [*names_of(LEDGER_COLUMNS)] + ["_"] * after,
        converters={"ending": _ENDINGS.__getitem__, "state": _STATES.get},
    )


SETTINGS_COLUMNS = (
    "paused_until",
    "max_inflight",
    "rate",
    "burst",
    "on_exhausted",
    "dedupe_window",
    "held_until",
    "probing",
    "key_max_inflight",
    "key_rate",
    "key_burst",
)
GAP_COLUMNS = ("gaps", "gap_report_after", "gap_pass_after")  # after SETTINGS_COLUMNS, in stores that have GAPS


def pack_settings(settings: QueueSettings, columns: Sequence[str] = SETTINGS_COLUMNS) -> Row:
    """Return the values of these columns."""
    values = {name: getattr(settings, name) for name in columns}
    for name in ("rate", "key_rate"):
        if values.get(name) is not None:
            values[name] = float(values[name])
    return tuple(value.value if isinstance(value, StrEnum) else value for value in values.values())


def read_settings(row: Sequence[Any]) -> QueueSettings:
    """Return the settings in a row of ``SETTINGS_COLUMNS``, which ``GAP_COLUMNS`` may follow."""
    values = dict(zip((*SETTINGS_COLUMNS, *GAP_COLUMNS), row, strict=False))
    values["on_exhausted"] = OnExhausted(values["on_exhausted"])
    values["probing"] = bool(values["probing"])
    if "gaps" in values:
        values["gaps"] = Gaps(values["gaps"])
    return QueueSettings(**values)


def read_inspection(job: JobRecord, row: Sequence[Any]) -> Inspection:
    """Return the inspection of a job, from a row of what is stored beside its record."""
    available_at, worker, fence, reserved_at, started_at, expires_at, ended_at, cancel, noted, progress, checkpoint = (
        row
    )
    return Inspection(
        job=job,
        available_at=available_at,
        worker=worker,
        fence=fence,
        reserved_at=reserved_at,
        expires_at=expires_at,
        ended_at=ended_at,
        cancel_requested=bool(cancel),
        note=Note(started_at=started_at, progress=progress, checkpoint=checkpoint) if noted or started_at else None,
    )


read_entry: Callable[[Sequence[Any]], Entry] = compile_reader(Entry, ("key", "value", "version", "expires_at"))
"""Return the registry entry in a row of these columns."""


def split_repeated_entries(changes: Sequence[Change]) -> Iterator[list[Change]]:
    """Split changes into runs that name every entry once (nearly always one run); a later run sees the earlier ones."""
    run: dict[tuple[str, str], Change] = {}
    for change in changes:
        if (change.kind, change.key) in run:
            yield list(run.values())
            run = {}
        run[change.kind, change.key] = change
    if run:
        yield list(run.values())


def end_of_prefix(prefix: str) -> str | None:
    """Return a key that sorts after every key with this prefix; None for the empty prefix, which every key has."""
    return prefix + chr(0x10FFFF) if prefix else None


def tally_counts(rows: Iterable[Sequence[Any]]) -> list[QueueCounts]:
    """Group rows of (queue, type, word, count) by queue and type; the word is a field of ``QueueCounts``.

    Rows of open jobs have a fifth value: the time for which the oldest one has been available.
    """
    counted: dict[tuple[str, str], dict[str, Any]] = {}
    for queue, type_, word, count, *age in rows:
        tally = counted.setdefault((queue, type_), {})
        tally[word] = count
        if word == State.READY and age:
            tally["oldest_ready_age"] = age[0]
    return [QueueCounts(queue=queue, type=type_, **tally) for (queue, type_), tally in sorted(counted.items())]


def states_of(where: JobFilter) -> set[State]:
    """Return the states that a job of this filter can have: only a dead letter has a reason."""
    states = set(State if where.states is None else where.states)
    return states if where.reason is None else states & {State.DEAD}


def reads_past_rows(where: JobFilter) -> bool:
    """Whether ``find`` must read rows that do not match: an index has the ids of one state, but no other condition."""
    states = states_of(where)
    return (
        where != JobFilter(states=where.states)
        or (State.READY in states) != (State.INFLIGHT in states)
        or (State.DONE in states and not states >= {State.DEAD, State.CANCELLED})
    )


def mark_first_occurrences(job_ids: Sequence[str], changed: Collection[str]) -> list[bool]:
    """Return, for each id, whether the call changed its job; if an id occurs twice, only the first is True."""
    unanswered = set(changed)
    answers = []
    for job_id in job_ids:
        answers.append(job_id in unanswered)
        unanswered.discard(job_id)
    return answers
