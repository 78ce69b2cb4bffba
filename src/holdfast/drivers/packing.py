"""Conversions between values and table columns that the SQL drivers share."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from typing import Any

import msgspec

from holdfast.drivers.answers import Inspection, QueueCounts
from holdfast.drivers.requests import FIND_BYTES
from holdfast.drivers.unreadable import UnreadableJob, make_job_reader
from holdfast.model import bounds
from holdfast.model.columns import JOB_COLUMNS, LEDGER_COLUMNS, Kind, names_of
from holdfast.model.filters import JobFilter
from holdfast.model.job import JobRecord, State
from holdfast.model.lease import Note
from holdfast.model.ledger import LedgerRow
from holdfast.model.queue_settings import Gaps, LimitOrigin, OnExhausted, QueueSettings
from holdfast.model.registry import Change, Entry

Row = tuple[Any, ...]

DIGEST_BYTES = 16
MAX_INLINE_BYTES = 8 << 10  # of a payload in the row of its job; ADR 0050 has the measurements

_encode = msgspec.json.Encoder().encode
_STATES = {state.value: state for state in State}


def to_json(values: Iterable[object]) -> str:
    """Return a list of any length as one JSON parameter."""
    return _encode(list(values)).decode()


def pack_meta(meta: Mapping[str, object]) -> bytes | None:
    """Return ``meta`` as JSON, None if it is empty: most jobs have no meta, and NULL takes no space."""
    return _encode(meta) if meta else None


def digest_of(payload: bytes) -> bytes:
    """Return a digest that tells payloads apart after the row of the job has been removed."""
    return hashlib.blake2b(payload, digest_size=DIGEST_BYTES).digest()


_read_strictly = make_job_reader(names_of(JOB_COLUMNS))


def read_job(row: Sequence[Any]) -> JobRecord:
    """Return the job, in any state, in a row of ``{job_columns}``.

    Of a row that cannot be read it returns what can be read; see ``unreadable``.
    """
    try:
        return _read_strictly(row)
    except UnreadableJob as unreadable:
        return unreadable.job


def without_unreadable(job_ids: Sequence[str], rows: Iterable[Sequence[Any]]) -> list[str]:
    """Return the ids without those of the rows that cannot be read. The rows are of ``{payloadless_columns}``."""
    unreadable = set()
    for row in rows:
        try:
            _read_strictly(row)
        except UnreadableJob as one:
            unreadable.add(one.job.id)
    return [job_id for job_id in job_ids if job_id not in unreadable] if unreadable else list(job_ids)


def read_ledger_row(row: Sequence[Any]) -> LedgerRow:
    """Return the ledger row in a row of ``{ledger_columns}``, which other columns may follow.

    An instant or a count that is none is shown as the nearest one: the row of a job that somebody has changed by hand
    must not hide the rows beside it.
    """
    values = row[: len(LEDGER_COLUMNS)]
    try:
        return msgspec.convert(values, LedgerRow)
    except msgspec.ValidationError:
        return msgspec.convert(_repair_ledger_row(values), LedgerRow)


def _repair_ledger_row(values: Sequence[Any]) -> list[Any]:
    repaired = []
    for column, value in zip(LEDGER_COLUMNS, values, strict=True):
        if column.name == "state":
            repaired.append(_STATES.get(value))
        elif column.kind in (Kind.INSTANT, Kind.INTEGER) and value is not None:
            repaired.append(max(0, min(value, bounds.LAST_INSTANT) if column.kind is Kind.INSTANT else value))
        else:
            repaired.append(value)
    return repaired


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
    "limits_from",
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
    if values["limits_from"] is not None:
        values["limits_from"] = LimitOrigin(values["limits_from"])
    if "gaps" in values:
        values["gaps"] = Gaps(values["gaps"])
    return QueueSettings(**values)


_INSPECTION_COLUMNS = 12  # of admin/inspect.sql, in front of the job


def read_inspection(row: Sequence[Any]) -> Inspection:
    """Return the inspection of a job, from a row of ``admin/inspect``. Invalid instants are left out."""
    available_at, worker, fence, *instants, cancel, arrival, noted, progress, checkpoint = row[:_INSPECTION_COLUMNS]
    reserved_at, started_at, expires_at, ended_at = map(_instant_in, instants)
    return Inspection(
        job=read_job(row[_INSPECTION_COLUMNS:]),
        available_at=_instant_in(available_at) or 0,
        worker=worker,
        fence=fence,
        reserved_at=reserved_at,
        expires_at=expires_at,
        ended_at=ended_at,
        cancel_requested=bool(cancel),
        note=Note(started_at=started_at or None, progress=progress, checkpoint=checkpoint)
        if noted or started_at
        else None,
        arrival=arrival,
    )


def _instant_in(stored: int | None) -> int | None:
    return None if stored is None or not 0 <= stored <= bounds.LAST_INSTANT else stored


def read_entry(row: Sequence[Any]) -> Entry:
    """Return the registry entry in a row of key, value, version and ``expires_at``."""
    key, value, version, expires_at = row
    return Entry(key=key, value=value, version=version, expires_at=expires_at)


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


_PAYLOAD, _RESULT = (names_of(JOB_COLUMNS).index(name) for name in ("payload", "result"))


def take_bytes(rows: Iterable[Row], most: int) -> tuple[list[Row], bool]:
    """Return the rows of ``{job_columns}`` up to the one whose payload reaches ``most`` bytes, and whether one does."""
    taken: list[Row] = []
    size = 0
    for row in rows:
        taken.append(row)
        size += len(row[_PAYLOAD] or b"") + len(row[_RESULT] or b"")
        if size >= most:
            return taken, True
    return taken, False


def read_whole_page(
    read: Callable[[int, int], tuple[list[Row], bool, str | None]], limit: int
) -> tuple[list[Row], str | None]:
    """Return the rows of a page of ``find`` and its cursor.

    ``read`` reads so many rows, and fewer if these have so many bytes of payloads and results; it returns whether they
    have, and to which id it has come.

    A page ends at a row whose id can be a cursor: an id that somebody has written by hand may be none. So it has fewer
    rows than that, and more only if no row up to there has such an id.
    """
    wanted, most = limit, FIND_BYTES
    while True:
        rows, is_cut, upto = read(wanted + 1, most)
        if len(rows) <= wanted and not is_cut:
            return rows, upto
        last = min(len(rows), wanted)
        count = next((end for end in range(last, 0, -1) if bounds.match_name(rows[end - 1][0])), 0)
        if count:
            return rows[:count], rows[count - 1][0]
        wanted, most = wanted * 2, most * 2


def mark_first_occurrences(job_ids: Sequence[str], changed: Collection[str]) -> list[bool]:
    """Return, for each id, whether the call changed its job; if an id occurs twice, only the first is True."""
    unanswered = set(changed)
    answers = []
    for job_id in job_ids:
        answers.append(job_id in unanswered)
        unanswered.discard(job_id)
    return answers
