"""Reading jobs, changing them by id, settings and retention: one statement or one function call each."""

from __future__ import annotations

import operator
from collections.abc import Collection, Sequence
from dataclasses import asdict
from functools import partial

from holdfast.drivers.answers import Inspection, JobColumns, Page, QueueCounts, Trimmed
from holdfast.drivers.packing import (
    Row,
    mark_first_occurrences,
    pack_settings,
    read_inspection,
    read_job,
    read_settings,
    read_whole_page,
    reads_past_rows,
    states_of,
    take_bytes,
    tally_counts,
    without_unreadable,
)
from holdfast.drivers.postgres import ledger
from holdfast.drivers.postgres.arrays import pack_texts
from holdfast.drivers.postgres.columns import STORED_SETTINGS
from holdfast.drivers.postgres.database import INDEX_ORDER, Database, Execute
from holdfast.drivers.postgres.rows import NO_VALUE
from holdfast.drivers.requests import FIND_LIMIT, Find, Inspect, ReadColumns
from holdfast.drivers.statements import NEWEST
from holdfast.drivers.unreadable import read_any_meta
from holdfast.model.columns import JOB_COLUMNS, names_of
from holdfast.model.filters import JobFilter
from holdfast.model.job import JobRecord, State
from holdfast.model.queue_settings import QueueSettings, changed_fields, is_proposal, replaces_key_limits
from holdfast.model.retention import Retention

BEHIND_ALL_IDS = "\U0010ffff"  # all other characters sort before it, also those that no id has

GAP_SETTINGS = frozenset({"gaps", "gap_pass_after"})  # a change of them may let domains run, or stop them

_JOB_FIELDS = names_of(JOB_COLUMNS)


def inspect(database: Database, request: Inspect) -> dict[str, Inspection]:
    """Return jobs with their leases and notes, by id."""
    ids = [job_id for job_id in request.job_ids if not _has_nul(job_id)]
    found = map(read_inspection, database.query("admin/inspect", {"ids": ids, "payloads": request.payloads}))
    return {one.job.id: one for one in found}


def find(database: Database, request: Find) -> Page[JobRecord]:
    """Return a page of jobs."""
    statement = database.statements.select_bytes("admin/find", _JOB_FIELDS, newest=request.newest)
    rows, cursor = _read_page(database, statement, request, newest=request.newest, in_bytes=True)
    return Page([read_job(row) for row in rows], cursor)


def read_columns(database: Database, request: ReadColumns) -> JobColumns:
    """Return a page of jobs as columns."""
    names = request.names
    statement = database.statements.select_from("admin/find", _JOB_FIELDS, ["id", *names])
    rows, cursor = _read_page(database, statement, request)
    if not rows:
        return JobColumns([()] * len(names), cursor)
    _, *columns = zip(*rows, strict=True)
    values = [
        [read_any_meta(meta) for meta in column] if name == "meta" else column
        for name, column in zip(names, columns, strict=True)
    ]
    return JobColumns(values, cursor)


def _read_page(
    database: Database,
    statement: str,
    request: Find | ReadColumns,
    *,
    newest: bool = False,
    in_bytes: bool = False,
) -> tuple[list[Row], str | None]:
    """Return the rows of a page, and its cursor. With ``in_bytes`` they are whole jobs, and bounded by their bytes.

    The first column of a row is its id. Both statements see the same rows, because they share a snapshot.
    """
    where = request.where
    is_bounded = reads_past_rows(where)
    start = request.after or (BEHIND_ALL_IDS if newest else "")
    common = {**_find_parameters(where, start), "rows": FIND_LIMIT if is_bounded else None}
    find_end = database.statements.query("admin/find_end" + (NEWEST if newest else ""))
    is_up_to = operator.ge if newest else operator.le

    def read(execute: Execute, count: int, most: int) -> tuple[list[Row], bool, str | None]:
        parameters = {**common, "limit": count}
        rows = execute(statement, {**parameters, "most": most} if in_bytes else parameters)
        is_cut = in_bytes and take_bytes(rows, most)[1]
        if not is_bounded:
            return rows, is_cut, None
        last = rows[-2][0] if len(rows) == count else None
        [(upto,)] = execute(find_end, {**parameters, "last": last})
        return rows if upto is None else [row for row in rows if is_up_to(row[0], upto)], is_cut, upto

    return database.run_in_index_order(lambda execute: read_whole_page(partial(read, execute), request.limit))


def _find_parameters(where: JobFilter, after: str) -> dict[str, object]:
    """Return the parameters of ``admin/find``, but for the limit."""
    states = states_of(where)
    return {
        **{name: NO_VALUE if _has_nul(value) else value for name, value in asdict(where).items()},
        "after": after,
        "states": [str(state) for state in states],
        "live": bool(states & {State.READY, State.INFLIGHT}),
        "done": State.DONE in states,
        "dead": State.DEAD in states,
        "cancelled": State.CANCELLED in states,
    }


def _has_nul(value: object) -> bool:
    """Whether PostgreSQL would refuse the value of a filter; no row has it."""
    return isinstance(value, str) and "\0" in value


def counts(
    database: Database, queues: Sequence[str] | None, states: Collection[State], caller_now: int | None
) -> list[QueueCounts]:
    """Return one row per queue and type that has jobs, ordered by both.

    All statements share a snapshot, so that no job is counted in two states.
    """
    names = [str(state) for state in states]
    parameters = {"queues": None if queues is None else list(queues), "states": names, "now": caller_now}

    def read(execute: Execute) -> list[Row]:
        rows: list[Row] = []
        if not {State.READY, State.INFLIGHT}.isdisjoint(states):
            rows += execute(database.statements.query("admin/count_open"), parameters)
        if State.DONE in states:
            rows += execute(database.statements.query("admin/count_done"), parameters)
        if not {State.DEAD, State.CANCELLED}.isdisjoint(states):
            execute(INDEX_ORDER, {})
            rows += execute(database.statements.query("admin/count_dead_or_cancelled"), parameters)
        return rows

    return tally_counts(database.run_in_snapshot(read))


def requeue(database: Database, job_ids: Sequence[str], caller_now: int | None) -> list[bool]:
    """Make dead or cancelled jobs ready again, attempts and crashes set to 0, as the last of their lanes (L9)."""
    rows = database.query_page("admin/read_to_requeue", {"ids": list(job_ids)})
    changed = _call_by_ids(database, "requeue", caller_now, without_unreadable(job_ids, rows))
    return mark_first_occurrences(job_ids, changed)


def purge(
    database: Database, job_ids: Sequence[str], cursors: Collection[str | None], caller_now: int | None
) -> list[bool]:
    """Remove ended jobs, each with a ``purged`` ledger row. ``cursors`` are those of the readers of the ledger."""
    purged = _call_by_ids(database, "purge", caller_now, job_ids, *ledger.read_position(cursors))
    return mark_first_occurrences(job_ids, purged)


def _call_by_ids(
    database: Database, function: str, caller_now: int | None, job_ids: Collection[str], *arguments: object
) -> list[str]:
    """Return the ids that the function changed. Not repeated when the reply is lost: it would change none again."""
    ids = pack_texts(list(dict.fromkeys(job_ids)))
    [(changed,)] = database.call(function, caller_now, ids, *arguments, is_repeatable=False)
    return list(changed)


def cancel(database: Database, job_ids: Sequence[str], caller_now: int | None) -> list[State | None]:
    """Cancel ready jobs at once, and request cancellation of running jobs."""
    ids = pack_texts(list(dict.fromkeys(job_ids)))
    states: dict[str, str] = dict(database.call("cancel", caller_now, ids, database.channel))
    return [State(states[job_id]) if job_id in states else None for job_id in job_ids]


def is_cancel_requested(database: Database, job_ids: Collection[str]) -> bool:
    """Whether a cancel was requested for one of these jobs, and the job is in flight."""
    [(is_requested,)] = database.query("admin/is_cancel_requested", {"ids": list(job_ids)})
    return bool(is_requested)


def configure(
    database: Database, queue: str, type_: str | None, settings: QueueSettings, only: Collection[str] | None
) -> None:
    """Replace the settings of a queue, or of one type in it."""
    new_row = QueueSettings().merge(settings, only)
    values = dict(zip(STORED_SETTINGS, pack_settings(new_row, STORED_SETTINGS), strict=True))
    changed = list(changed_fields(only))
    effects = {
        "keyed": new_row.has_key_limits,
        "proposes": is_proposal(settings, only),
        "wakes_keys": type_ is None and replaces_key_limits(only),
        "wakes_domains": type_ is None and not GAP_SETTINGS.isdisjoint(changed),
    }
    database.query("admin/configure", {"queue": queue, "type": type_ or "", "only": changed, **values, **effects})


def settings(database: Database, queue: str, type_: str | None) -> QueueSettings:
    """Return the settings of a queue, or of one type in it; the defaults if none were configured."""
    rows = database.query("admin/settings", {"queue": queue, "type": type_ or ""})
    return read_settings(rows[0]) if rows else QueueSettings()


def trim(
    database: Database, caller_now: int | None, keep: Retention, cursors: Collection[str | None], *, limit: int
) -> Trimmed:
    """Remove old rows: done and cancelled jobs, ledger rows, idempotency keys and registry entries.

    ``cursors`` are those of the readers of the ledger.
    """
    position = ledger.read_position(cursors)
    [removed] = database.call("trim_expired", caller_now, keep.ended_for, keep.ledger_for, limit, *position)
    jobs, rows, dedupe, registry = removed
    return Trimmed(jobs=jobs, ledger=rows, dedupe=dedupe, registry=registry, more=limit in removed)
