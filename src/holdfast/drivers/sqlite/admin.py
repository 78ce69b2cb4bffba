"""The tools of the SQLite driver: looking, acting on ended and waiting jobs, retention."""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import asdict
from itertools import islice, takewhile
from typing import Any

from holdfast.drivers import validation
from holdfast.drivers.contract import Inspection, JobFilter, Page, QueueCounts, Trimmed
from holdfast.drivers.sqlite import rows
from holdfast.drivers.sqlite.call import Call
from holdfast.drivers.sqlite.settle import Found, find_jobs, pass_turns
from holdfast.errors import LedgerTrimmed
from holdfast.model.job import JobRecord, State
from holdfast.model.lease import Note
from holdfast.model.ledger import LedgerRow

_FIND = {
    State.READY: "find_hot",
    State.INFLIGHT: "find_hot",
    State.DONE: "find_done",
    State.DEAD: "find_ended",
    State.CANCELLED: "find_ended",
}


def get(call: Call, job_id: str) -> JobRecord | None:
    """See ``Admin.get``."""
    row = call.run("get", {"space": call.space, "id": job_id}).fetchone()
    return None if row is None else rows.record(row)


def inspect(call: Call, job_id: str) -> Inspection | None:
    """See ``Admin.inspect``."""
    job = get(call, job_id)
    if job is None:
        return None
    row = call.run("inspect", {"space": call.space, "id": job_id}).fetchone()
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


def find(call: Call, where: JobFilter, *, limit: int, after: str | None) -> Page[JobRecord]:
    """See ``Admin.find``: one ordered read per asked state, merged."""
    asked = {**asdict(where), "space": call.space, "after": after or "", "limit": limit + 1}
    states = tuple(State) if where.states is None else where.states
    pages = [call.run(_FIND[state], {**asked, "states": None, "state": state}).fetchall() for state in set(states)]
    found = list(islice(heapq.merge(*pages, key=lambda row: row[0]), limit + 1))
    jobs = [rows.record(row) for row in found[:limit]]
    return Page(jobs, jobs[-1].id if len(found) > limit else None)


def counts(call: Call, queues: Sequence[str] | None) -> list[QueueCounts]:
    """See ``Admin.counts``."""
    counted: dict[tuple[str, str], dict[str, int]] = {}
    for queue, type_, word, count in call.run("counts", {"space": call.space, "now": call.now}):
        if queues is None or queue in queues:
            counted.setdefault((queue, type_), {})[word] = count
    return [QueueCounts(queue=queue, type=type_, **tally) for (queue, type_), tally in sorted(counted.items())]


def requeue(call: Call, job_ids: Sequence[str]) -> list[bool]:
    """See ``Admin.requeue``."""
    chosen = _chosen(call, job_ids, (State.DEAD, State.CANCELLED))
    if chosen:
        asked = _with_ledger(call, "requeue_ledger", chosen)
        call.run("requeue_jobs", asked)
        call.run("delete_ended", asked)
        pass_turns(call, {(job.queue, job.domain) for job in chosen.values()})
    return _first_time(job_ids, chosen)


def purge(call: Call, job_ids: Sequence[str]) -> list[bool]:
    """See ``Admin.purge``."""
    chosen = _chosen(call, job_ids, (State.DONE, State.DEAD, State.CANCELLED))
    if chosen:
        asked = _with_ledger(call, "purge_ledger", chosen)
        call.run("delete_notes", asked)
        call.run("delete_ended", asked)
    return _first_time(job_ids, chosen)


def cancel(call: Call, job_ids: Sequence[str]) -> list[State | None]:
    """See ``Admin.cancel``."""
    known = find_jobs(call, job_ids)
    ready = {job_id: job for job_id, job in known.items() if job.held.state == State.READY}
    running = [job.seq for job in known.values() if job.held.state == State.INFLIGHT]
    if running:
        call.run("request_cancel", {"jobs": rows.as_json(running)})
    if ready:
        asked = _with_ledger(call, "cancel_ledger", ready)
        call.run("cancel_ended", asked)
        call.run("delete_jobs", asked)
        pass_turns(call, {(job.queue, job.domain) for job in ready.values()})
    states = {job_id: State.CANCELLED if job_id in ready else State(job.held.state) for job_id, job in known.items()}
    return [states.get(job_id) for job_id in job_ids]


def _chosen(call: Call, job_ids: Sequence[str], states: tuple[State, ...]) -> dict[str, Found]:
    """The jobs among these that are in one of the states, each once, in the order asked."""
    known = find_jobs(call, job_ids)
    return {
        job_id: known[job_id]
        for job_id in dict.fromkeys(job_ids)
        if job_id in known and known[job_id].held.state in states
    }


def _with_ledger(call: Call, statement: str, chosen: dict[str, Found]) -> dict[str, object]:
    """Write the ledger rows of these jobs; gives the parameters with which the next statements move them."""
    asked: dict[str, object] = {"jobs": rows.as_json(job.seq for job in chosen.values()), "now": call.now}
    call.run(statement, {**asked, "written": call.ledger_end()})
    return asked


def _first_time(job_ids: Sequence[str], chosen: dict[str, Found]) -> list[bool]:
    """True where a job was acted on: for an id that was given twice, the first time only."""
    first = {job_id: place for place, job_id in reversed(list(enumerate(job_ids)))}
    return [job_id in chosen and first[job_id] == place for place, job_id in enumerate(job_ids)]


def ledger(call: Call, after: str | None, limit: int) -> Page[LedgerRow]:
    """See ``Admin.ledger``. A cursor is the number of the last row read."""
    position = _ledger_position(call, after)
    found = call.run("ledger", (call.space, position, limit)).fetchall()
    return Page([rows.ledger_row(row) for row in found], str(found[-1][-1] if found else position))


def ledger_tuples(call: Call, after: str | None, limit: int) -> tuple[Sequence[Sequence[Any]], str]:
    """See ``LedgerScan.ledger_tuples``."""
    position = _ledger_position(call, after)
    found = call.run("ledger", (call.space, position, limit)).fetchall()
    return found, str(found[-1][-1] if found else position)


def ledger_marks(call: Call, after: str | None, every: int, most: int) -> list[tuple[str, int]]:
    """See ``LedgerScan.ledger_marks``."""
    position = _ledger_position(call, after)
    marks: list[tuple[str, int]] = []
    while most > 0:
        asked = min(every, most)
        row = call.run("ledger_mark", (call.space, position, asked - 1)).fetchone()
        if row is None:
            end, rest = call.run("ledger_rest", (call.space, position)).fetchone()
            return [*marks, (str(end), rest)] if rest else marks
        position = row[0]
        marks.append((str(position), asked))
        most -= asked
    return marks


def _ledger_position(call: Call, after: str | None) -> int:
    position = call.ledger_trimmed if after is None else validation.ledger_position(after, call.ledger_end())
    if position < call.ledger_trimmed:
        raise LedgerTrimmed(str(after))
    return position


def trim(call: Call, *, ended_for: int, ledger_for: int, limit: int) -> Trimmed:
    """See ``Admin.trim``."""
    asked = {"space": call.space, "now": call.now, "limit": limit}
    jobs = _trim_ended(call, call.now - ended_for, limit)
    ledger_rows = _trim_ledger(call, call.now - ledger_for, limit)
    dedupe = call.run("trim_dedupe", asked).rowcount
    registry = call.run("trim_registry", asked).rowcount
    return Trimmed(
        jobs=jobs,
        ledger=ledger_rows,
        dedupe=dedupe,
        registry=registry,
        more=limit in (jobs, ledger_rows, dedupe, registry),
    )


def _trim_ended(call: Call, before: int, limit: int) -> int:
    seqs: list[int] = []
    for state in (State.DONE, State.CANCELLED):
        asked = {"space": call.space, "state": state, "before": before, "limit": limit - len(seqs)}
        seqs += [seq for (seq,) in call.run("trim_ended", asked)]
    jobs = {"jobs": rows.as_json(seqs)}
    call.run("delete_notes", jobs)
    call.run("delete_ended", jobs)
    return len(seqs)


def _trim_ledger(call: Call, before: int, limit: int) -> int:
    """From its front, up to the first row that is too young: what is left has no gap."""
    asked = {"space": call.space, "trimmed": call.ledger_trimmed, "limit": limit}
    oldest = call.run("trim_ledger_end", asked).fetchall()
    old = [seq for seq, _ in takewhile(lambda row: row[1] <= before, oldest)]
    if old:
        trimmed = {"space": call.space, "upto": old[-1]}
        call.run("trim_ledger", trimmed)
        call.run("trim_ledger_mark", trimmed)
    return len(old)
