"""The verbs of ``Admin``: reading jobs, requeue, cancel, purge, settings, retention."""

from __future__ import annotations

import heapq
from collections.abc import Collection, Sequence
from dataclasses import asdict
from itertools import islice
from typing import Any

from holdfast.drivers.answers import Inspection, Page, QueueCounts, Trimmed
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
    to_json,
    without_unreadable,
)
from holdfast.drivers.requests import FIND_LIMIT, Find, Inspect
from holdfast.drivers.sqlite import domains, ledger, limit_keys, offsets
from holdfast.drivers.sqlite.domains import assign_turns, end_halts, find_halts
from holdfast.drivers.sqlite.limit_keys import wake
from holdfast.drivers.sqlite.rows import STORED_SETTINGS
from holdfast.drivers.sqlite.settle import StoredJob, find_jobs
from holdfast.drivers.sqlite.transaction import Transaction
from holdfast.drivers.statements import NEWEST
from holdfast.model.job import JobRecord, State
from holdfast.model.ledger_reader import unread_since
from holdfast.model.queue_settings import QueueSettings
from holdfast.model.retention import Retention

_FIND = {  # state -> the page of its jobs, and the id up to which one call reads
    State.READY: ("find/live", "find/end_live"),
    State.INFLIGHT: ("find/live", "find/end_live"),
    State.DONE: ("find/done", "find/end_done"),
    State.DEAD: ("find/dead_or_cancelled", "find/end_dead_or_cancelled"),
    State.CANCELLED: ("find/dead_or_cancelled", "find/end_dead_or_cancelled"),
}
_COUNT = {
    State.READY: "admin/count_open",
    State.INFLIGHT: "admin/count_open",
    State.DONE: "admin/count_done",
    State.DEAD: "admin/count_dead_or_cancelled",
    State.CANCELLED: "admin/count_dead_or_cancelled",
}
_BEFORE_ALL = ""
_BEHIND_ALL = b""  # SQLite sorts every blob behind every text

# Reading jobs -----------------------------------------------------------------------------------------------------


def inspect(tx: Transaction, request: Inspect) -> dict[str, Inspection]:
    """Return jobs with their leases and notes, by id."""
    parameters = {"space": tx.space, "ids": to_json(dict.fromkeys(request.job_ids)), "payloads": request.payloads}
    found = map(read_inspection, tx.run("admin/inspect", parameters))
    return {one.job.id: one for one in found}


def find(tx: Transaction, request: Find) -> Page[JobRecord]:
    """Return a page of jobs: one ordered page per state, merged."""
    where, newest = request.where, request.newest
    start, end = (_BEHIND_ALL, _BEFORE_ALL) if newest else (_BEFORE_ALL, _BEHIND_ALL)
    parameters = {**asdict(where), "states": None, "space": tx.space, "after": request.after or start}
    states = states_of(where)
    upto = _find_end(tx, states, parameters, newest=newest) if reads_past_rows(where) else None
    parameters["upto"] = end if upto is None else upto
    order = NEWEST if newest else ""

    def read(count: int, most: int) -> tuple[list[Row], bool, str | None]:
        page = {**parameters, "limit": count}
        pages = [tx.run(_FIND[state][0] + order, {**page, "state": state}) for state in states]
        rows = islice(heapq.merge(*pages, key=lambda row: row[0], reverse=newest), count)
        return *take_bytes(rows, most), upto

    rows, cursor = read_whole_page(read, request.limit)
    return Page([read_job(row) for row in rows], cursor)


def _find_end(tx: Transaction, states: set[State], parameters: dict[str, Any], *, newest: bool) -> str | None:
    """Return the id up to which one call of ``find`` reads; None if it can read all rows."""
    order, nearest = (NEWEST, max) if newest else ("", min)
    rows = [
        tx.run(_FIND[state][1] + order, {**parameters, "state": state, "rows": FIND_LIMIT}).fetchone()
        for state in states
    ]
    ends: list[str] = [row[0] for row in rows if row is not None]
    return nearest(ends, default=None)


def counts(tx: Transaction, queues: Sequence[str] | None, states: Collection[State]) -> list[QueueCounts]:
    """Return one row per queue and type that has jobs, ordered by both."""
    rows: list[tuple[str, str, str, int]] = []
    for statement in sorted({_COUNT[state] for state in states}):
        rows += tx.run(statement, {"space": tx.space, "now": tx.now, "states": to_json(sorted(states))})
    return tally_counts(row for row in rows if queues is None or row[0] in queues)


# Changing jobs ----------------------------------------------------------------------------------------------------


def requeue(tx: Transaction, job_ids: Sequence[str]) -> list[bool]:
    """Make dead or cancelled jobs ready again, attempts and crashes set to 0, as the last of their lanes (L9)."""
    rows = tx.run("requeue/read", {"space": tx.space, "ids": to_json(job_ids)})
    left = without_unreadable(job_ids, rows)
    jobs = _without_taken_offsets(tx, _find_in_states(tx, left, (State.DEAD, State.CANCELLED)))
    if jobs:
        halting = _end_halts(tx, jobs)
        parameters = _write_ledger(tx, "requeue/insert_ledger", jobs)
        tx.run("requeue/insert_jobs", {**parameters, "kept": to_json(job.seq for job in halting)})
        tx.run("ended/delete", parameters)
        assign_turns(tx, {(job.queue, job.domain) for job in jobs.values()}, on_arrival=True)
    return mark_first_occurrences(job_ids, jobs)


def _without_taken_offsets(tx: Transaction, jobs: dict[str, StoredJob]) -> dict[str, StoredJob]:
    """Leave out the jobs whose offsets other jobs have: a forgotten domain has accepted the offset again."""
    with_offset = [(job.queue, job.domain, job.offset) for job in jobs.values() if job.offset is not None]
    if not with_offset:
        return jobs
    taken = set(tx.run("requeue/find_taken", {"space": tx.space, "offsets": to_json(with_offset)}))
    left = {}
    for job_id, job in jobs.items():
        offset = (job.queue, job.domain, job.offset)
        if offset not in taken:
            left[job_id] = job
        if job.offset is not None:
            taken.add(offset)
    return left


def _end_halts(tx: Transaction, jobs: dict[str, StoredJob]) -> list[StoredJob]:
    """Let the domains go on that these jobs have halted; return those jobs."""
    halting = find_halts(tx, [(job.queue, job.domain, job.id) for job in jobs.values()])
    ended = [jobs[job_id] for job_id in halting]
    end_halts(tx, [(job.queue, job.domain) for job in ended])
    return ended


def purge(tx: Transaction, job_ids: Sequence[str], cursors: Collection[str | None]) -> list[bool]:
    """Remove ended jobs, each with a ``purged`` ledger row. ``cursors`` are those of the readers of the ledger."""
    unread = _find_unread(tx, job_ids, cursors)
    ended = _find_in_states(tx, job_ids, (State.DONE, State.DEAD, State.CANCELLED))
    jobs = {job_id: job for job_id, job in ended.items() if job_id not in unread}
    if jobs:
        parameters = _write_ledger(tx, "purge/insert_ledger", jobs)
        _delete_for_good(tx, parameters)
        assign_turns(tx, [(job.queue, job.domain) for job in _end_halts(tx, jobs)])
    return mark_first_occurrences(job_ids, jobs)


def _find_unread(tx: Transaction, job_ids: Sequence[str], cursors: Collection[str | None]) -> set[str]:
    """Return the jobs with rows that a reader may not have read. Reads at most ``FIND_LIMIT`` rows of the ledger."""
    position = ledger.read_position(tx, cursors)
    if position is None:
        return set()
    rows = tx.run("ledger/unread", (tx.space, position, FIND_LIMIT)).fetchall()
    unread = {job_id for job_id, _ in rows}
    if len(rows) == FIND_LIMIT:
        since = unread_since(rows[-1][1], tx.now)
        late = tx.run("purge/find_late", {"space": tx.space, "ids": to_json(job_ids), "since": since})
        unread.update(job_id for (job_id,) in late)
    return unread


def cancel(tx: Transaction, job_ids: Sequence[str]) -> list[State | None]:
    """Cancel ready jobs at once, and request cancellation of running jobs."""
    jobs = find_jobs(tx, job_ids)
    ready = {job_id: job for job_id, job in jobs.items() if job.held.state == State.READY}
    running = [job.seq for job in jobs.values() if job.held.state == State.INFLIGHT]
    if running:
        tx.run("cancel/request", {"jobs": to_json(running)})
    if ready:
        parameters = _write_ledger(tx, "cancel/insert_ledger", ready)
        tx.run("cancel/insert_ended", parameters)
        tx.run("cancel/delete_jobs", parameters)
        offsets.end(tx, [(job.queue, job.domain, job.offset) for job in ready.values()])
        assign_turns(tx, {(job.queue, job.domain) for job in ready.values()})
        wake(tx, {(job.queue, job.limit_key) for job in ready.values()})
    states = {job_id: State.CANCELLED if job_id in ready else State(job.held.state) for job_id, job in jobs.items()}
    return [states.get(job_id) for job_id in job_ids]


def is_cancel_requested(tx: Transaction, job_ids: Collection[str]) -> bool:
    """Whether a cancel was requested for one of these jobs, and the job is in flight."""
    return bool(tx.run("cancel/is_requested", {"space": tx.space, "ids": to_json(job_ids)}).fetchone()[0])


def _find_in_states(tx: Transaction, job_ids: Sequence[str], states: tuple[State, ...]) -> dict[str, StoredJob]:
    """Return the jobs that are in one of the states, each once, in the order of their ids in the call."""
    jobs = find_jobs(tx, job_ids)
    return {
        job_id: jobs[job_id]
        for job_id in dict.fromkeys(job_ids)
        if job_id in jobs and jobs[job_id].held.state in states
    }


def _write_ledger(tx: Transaction, statement: str, jobs: dict[str, StoredJob]) -> dict[str, object]:
    """Write the ledger rows of these jobs and return the parameters of the statements that move the jobs."""
    parameters: dict[str, object] = {"jobs": to_json(job.seq for job in jobs.values()), "now": tx.now}
    tx.run(statement, {**parameters, "written": tx.ledger_end()})
    return parameters


# Settings, retention ----------------------------------------------------------------------------------------------


def configure(
    tx: Transaction, queue: str, type_: str | None, changed: QueueSettings, only: Collection[str] | None
) -> None:
    """Replace the settings of a queue, or of one type in it."""
    before = settings(tx, queue, type_)
    if not before.accepts(changed, only):
        return
    merged = before.merge(changed, only)
    tx.run("admin/configure", (tx.space, queue, type_ or "", *pack_settings(merged, STORED_SETTINGS)))
    if type_ is None:
        limit_keys.after_configure(tx, queue, merged, only)
        domains.after_configure(tx, queue, before, merged)


def settings(tx: Transaction, queue: str, type_: str | None) -> QueueSettings:
    """Return the settings of a queue, or of one type in it; the defaults if none were configured."""
    row = tx.run("admin/settings", (tx.space, queue, type_ or "")).fetchone()
    return QueueSettings() if row is None else read_settings(row)


def trim(tx: Transaction, keep: Retention, cursors: Collection[str | None], *, limit: int) -> Trimmed:
    """Remove old rows: done and cancelled jobs, ledger rows, idempotency keys and registry entries.

    ``cursors`` are those of the readers of the ledger.
    """
    parameters = {"space": tx.space, "now": tx.now, "limit": limit}
    position = ledger.read_position(tx, cursors)
    before = tx.now - keep.ended_for
    if position is not None:
        unread = tx.run("ledger/unread", (tx.space, position, 1)).fetchone()
        before = min(before, unread_since(None if unread is None else unread[1], tx.now) - 1)
    jobs = _trim_ended(tx, before, limit)
    ledger_rows = ledger.trim(tx, tx.now - keep.ledger_for, limit, upto=position)
    dedupe, looked_at = _trim_keys(tx, limit)
    registry = tx.run("trim/registry", parameters).rowcount
    limit_keys.trim(tx)
    return Trimmed(
        jobs=jobs,
        ledger=ledger_rows,
        dedupe=dedupe,
        registry=registry,
        more=limit in (jobs, ledger_rows, looked_at, registry),
    )


def _trim_ended(tx: Transaction, before: int, limit: int) -> int:
    seqs: list[int] = []
    for state in (State.DONE, State.CANCELLED):
        parameters = {"space": tx.space, "state": state, "before": before, "limit": limit - len(seqs)}
        seqs += [seq for (seq,) in tx.run("trim/find_ended", parameters)]
    _delete_for_good(tx, {"jobs": to_json(seqs)})
    return len(seqs)


def _delete_for_good(tx: Transaction, jobs: dict[str, object]) -> None:
    """Delete ended jobs with what belongs to them."""
    tx.run("ended/delete_notes", jobs)
    tx.run("ended/delete_payloads", jobs)
    tx.run("ended/delete", jobs)


def _trim_keys(tx: Transaction, limit: int) -> tuple[int, int]:
    """Remove or postpone the keys that are due, at most ``limit``; return how many were removed and looked at."""
    due = tx.run("trim/find_keys", {"space": tx.space, "now": tx.now, "limit": limit}).fetchall()
    for queue, key, stays in due:
        if stays:
            tx.run("trim/postpone_key", {"space": tx.space, "queue": queue, "key": key, "now": tx.now})
    removed = [(tx.space, queue, key) for queue, key, stays in due if not stays]
    tx.run_many("trim/delete_key", removed)
    return len(removed), len(due)
