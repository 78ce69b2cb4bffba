"""Everything that is done with a lease once it is granted: extend, settle, reap, report an outage.

``model.transition`` decides, from narrow rows, what becomes of each job (valid acks: see ``ack``). A few statements
apply the decisions to the whole batch, so that payloads never leave SQLite.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from msgspec.structs import replace

from holdfast.drivers.packing import Row, to_json
from holdfast.drivers.requests import Extend
from holdfast.drivers.sqlite import domains, offsets, registry
from holdfast.drivers.sqlite.ack import settle_valid_acks
from holdfast.drivers.sqlite.domains import assign_turns
from holdfast.drivers.sqlite.limit_keys import hold, wake
from holdfast.drivers.sqlite.transaction import Transaction
from holdfast.drivers.unreadable import UnreadableJob, substitute_id
from holdfast.errors import JobNotInflight, LeaseError, LeaseExpired, WriteRefused
from holdfast.model import transition
from holdfast.model.job import State
from holdfast.model.lease import Lease, Note
from holdfast.model.settlement import Ack, Fail, Retry, Settlement
from holdfast.model.transition import UNCOUNTED_VERB, HeldJob, Transition


class StoredJob(NamedTuple):
    """A job in a table: what names it, its domain, its offset, its limit key, and what decides about its lease."""

    id: str
    seq: int
    queue: str
    domain: str | None
    offset: int | None
    limit_key: str | None
    held: HeldJob


class EndedLease(NamedTuple):
    """A lease that ends in this call. ``item`` is its position in the batch, from 1."""

    item: int
    job: StoredJob
    verb: str
    started_at: int | None
    transition: Transition


def extend(tx: Transaction, request: Extend) -> list[Lease | LeaseError]:
    """Move the ends of valid leases, and store the notes."""
    jobs = find_jobs(tx, (lease.job_id for lease in request.leases))
    expires_at = tx.now + request.lease_for
    answers: list[Lease | LeaseError] = []
    moved_rows: list[Row] = []
    note_rows: list[Row] = []
    for lease in request.leases:
        job = jobs.get(lease.job_id)
        refusal = transition.refusal(None if job is None else job.held, lease, tx.now)
        if job is None or refusal is not None:
            answers.append(refusal or JobNotInflight(lease.job_id, None))
            continue
        note = request.notes.get(lease.job_id) or Note()
        has_note = note.progress is not None or note.checkpoint is not None
        moved_rows.append((expires_at, note.started_at, int(has_note), job.seq))
        if has_note:
            note_rows.append((tx.space, lease.job_id, note.progress, note.checkpoint))
        answers.append(
            Lease(
                job_id=lease.job_id,
                token=lease.token,
                fence=lease.fence,
                expires_at=expires_at,
                cancel_requested=bool(job.held.cancel_requested),
            )
        )
    if moved_rows:
        tx.run_many("extend/move_expiry", moved_rows)
    if note_rows:
        tx.run_many("extend/store_note", note_rows)
    return answers


def settle(tx: Transaction, settlements: Sequence[Settlement]) -> list[LeaseError | None]:
    """Decide on the settlements, and apply them."""
    written = tx.ledger_end()
    left = settle_valid_acks(tx, settlements, written)
    return _settle_items(tx, settlements, left, written) if left else [None] * len(settlements)


def _settle_items(
    tx: Transaction, settlements: Sequence[Settlement], items: list[int], written: int
) -> list[LeaseError | None]:
    """Decide on these items in order, then apply the decisions; return the answers for the whole batch."""
    answers: list[LeaseError | None] = [None] * len(settlements)
    jobs = find_jobs(tx, (settlements[item - 1].lease.job_id for item in items))
    ended: list[EndedLease] = []
    for item in items:
        settlement = settlements[item - 1]
        job_id, token = settlement.lease.job_id, settlement.lease.token
        job = jobs.get(job_id)
        held = None if job is None else job.held
        if transition.is_repeat(held, settlement):
            continue
        refusal = transition.refusal(held, settlement.lease, tx.now) or _apply_writes(tx, settlement)
        answers[item - 1] = refusal
        if job is not None and refusal is None:
            _hold_key(tx, job, settlement)
            decided = transition.after_settlement(job.held, settlement, tx.now)
            ended.append(EndedLease(item, job, settlement.verb, settlement.started_at, decided))
            # A later item of this batch must see the job without its lease, and the settlement that ended it.
            held_after = job.held._replace(state=decided.state, last_verb=settlement.verb, last_token=token)
            jobs[job_id] = job._replace(held=held_after)
    _apply_transitions(tx, ended, written)
    return answers


def _hold_key(tx: Transaction, job: StoredJob, settlement: Settlement) -> None:
    if isinstance(settlement, Retry) and job.limit_key is not None:
        until = settlement.held_until(tx.now)
        if until is not None:
            hold(tx, (job.queue, job.limit_key), until)


def _apply_writes(tx: Transaction, settlement: Settlement) -> WriteRefused | None:
    """Make all registry writes of an ack, or none of them if one has a conflict."""
    if not isinstance(settlement, Ack) or not settlement.writes:
        return None
    return registry.write_all(tx, settlement.writes, job_id=settlement.lease.job_id)


def reap(tx: Transaction, queues: Iterable[str] | None, *, worker: str | None, limit: int) -> int:
    """End expired leases, or those of a dead worker; return how many."""
    if queues is None:
        queues = [queue for (queue,) in tx.run("reap/find_queues", {"space": tx.space}).fetchall()]
    rows: list[Row] = []
    for queue in dict.fromkeys(queues):
        parameters = {"space": tx.space, "queue": queue, "limit": limit}
        if worker is None:
            rows += tx.run("reap/find_expired", {**parameters, "now": tx.now}).fetchall()
        else:
            rows += tx.run("reap/find_of_worker", {**parameters, "worker": worker}).fetchall()
    if not rows:
        return 0
    jobs = sorted((_read_job(row) for row in rows), key=lambda job: (job.held.expires_at, job.seq))[:limit]
    _end_expired(tx, [_expire(item, job, tx.now) for item, job in enumerate(jobs, 1)])
    return len(jobs)


def bury(tx: Transaction, unreadable: Sequence[tuple[int, int, UnreadableJob]]) -> None:
    """Make jobs that were just leased, and cannot be read, dead letters: seq, fence and what can be read of each."""
    ended = []
    for item, (seq, fence, one) in enumerate(unreadable, 1):
        held = _read_job(tx.run("settle/find_leased", (seq,)).fetchone()).held
        job = one.job
        if one.has_no_id:
            job = replace(job, id=substitute_id(fence))
            tx.run("settle/replace_id", (job.id, seq))
        stored = StoredJob(job.id, seq, job.queue, job.domain, job.offset, job.limit_key, held)
        ended.append(EndedLease(item, stored, Fail.verb, None, transition.after_failed_read(held, one.problem, tx.now)))
    written = tx.ledger_end()
    _apply_transitions(tx, ended, written)
    first, count = tx.expired or (written, 0)
    tx.expired = (first, count + len(ended))


def report_outage(tx: Transaction, leases: Sequence[Lease]) -> list[bool]:
    """End these leases without a crash, or take the crash of their end back; return whether either."""
    jobs = find_jobs(tx, (lease.job_id for lease in leases))
    ended: list[EndedLease] = []
    with_crash: list[StoredJob] = []
    answers: list[bool] = []
    for item, lease in enumerate(leases, 1):
        job = jobs.get(lease.job_id)
        if job is not None and isinstance(transition.refusal(job.held, lease, tx.now), LeaseExpired):
            end = _expire(item, job, tx.now, in_outage=True)
            ended.append(end)
            held = job.held._replace(state=end.transition.state, last_verb=end.verb, last_token=lease.token)
        elif job is not None and transition.has_counted_crash(job.held, lease):
            with_crash.append(job)
            held = job.held._replace(crashes=max(0, job.held.crashes - 1), last_verb=UNCOUNTED_VERB)
        else:
            answers.append(False)
            continue
        answers.append(True)
        jobs[lease.job_id] = job._replace(held=held)  # a later item of this batch must see the change
    if with_crash:  # first: a transition of the same job was decided with the crashes that this leaves
        jobs_of_crashes = to_json(job.seq for job in with_crash)
        tx.run("outage/take_crashes_back", {"jobs": jobs_of_crashes, "verb": UNCOUNTED_VERB})
        wake(tx, {(job.queue, job.limit_key) for job in with_crash})
    _end_expired(tx, ended)
    return answers


def _end_expired(tx: Transaction, ended: list[EndedLease]) -> None:
    if ended:
        written = tx.ledger_end()
        _apply_transitions(tx, ended, written)
        tx.expired = (written, len(ended))


def _expire(item: int, job: StoredJob, now: int, *, in_outage: bool = False) -> EndedLease:
    verb = transition.expiry_verb(job.held, in_outage=in_outage)
    return EndedLease(item, job, verb, None, transition.after_expiry(job.held, now, in_outage=in_outage))


def find_jobs(tx: Transaction, job_ids: Iterable[str]) -> dict[str, StoredJob]:
    """Return the jobs by id. Ended jobs are read only for the ids that are not live."""
    unique_ids = dict.fromkeys(job_ids)
    jobs: dict[str, StoredJob] = {}
    for query in ("settle/find_live", "settle/find_ended"):
        missing = [job_id for job_id in unique_ids if job_id not in jobs]
        if missing:
            rows = tx.run(query, {"space": tx.space, "ids": to_json(missing)}).fetchall()
            jobs.update((row[0], _read_job(row)) for row in rows)
    return jobs


def _read_job(row: Row) -> StoredJob:
    return StoredJob._make((*row[:6], HeldJob._make(row[6:])))


def _apply_transitions(tx: Transaction, ended: list[EndedLease], written: int) -> None:
    """Write the ledger, then change the jobs, then pass the turns: a few statements for a batch of any size."""
    if not ended:
        return
    rows = [(end.item, end.job.seq, end.verb, end.started_at, *end.transition) for end in ended]
    tx.run_many("settle/insert", rows)
    parameters = {"space": tx.space, "now": tx.now, "written": written}
    tx.run("settle/insert_ledger", parameters)
    tx.run("settle/update_ready")
    tx.run("settle/insert_ended", parameters)
    tx.run("settle/delete_jobs")
    tx.run("settle/clear")
    final = [end.job for end in ended if end.transition.state.has_ended]
    offsets.end(tx, [(job.queue, job.domain, job.offset) for job in final])
    dead = [end.job for end in ended if end.transition.state is State.DEAD]
    domains.halt(tx, [(job.queue, job.domain, job.id) for job in dead])
    # Also for jobs that are ready again: an offset that arrived during their attempt may be smaller.
    assign_turns(tx, {(end.job.queue, end.job.domain) for end in ended})
    wake(tx, {(end.job.queue, end.job.limit_key) for end in ended})
