"""Everything that is done with a lease once it is held: extend, settle, reap.

Decisions are made from narrow rows by ``model.decide`` (plain acks: by SQLite itself); their effect is applied by a few
statements over the whole batch, so that payloads never leave SQLite.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from holdfast.drivers.sqlite import registry
from holdfast.drivers.sqlite.call import Call
from holdfast.drivers.sqlite.rows import Row, as_json
from holdfast.errors import JobNotInflight, LeaseError, WriteRefused
from holdfast.model import decide
from holdfast.model.decide import Held, Outcome
from holdfast.model.lease import Lease, Note
from holdfast.model.settlement import Ack, Settlement

EXPIRED = "expired"  # the last verb of a reaped lease: no settlement can be a replay of it


class Found(NamedTuple):
    """A job that a call is about: where it is, and the facts to judge by."""

    seq: int
    queue: str
    domain: str | None
    held: Held


def extend(
    call: Call, leases: Sequence[Lease], *, lease_for: int, notes: Mapping[str, Note] | None
) -> list[Lease | LeaseError]:
    """See ``Driver.extend``."""
    found = find_jobs(call, (lease.job_id for lease in leases))
    expires_at = call.now + lease_for
    answers: list[Lease | LeaseError] = []
    moved: list[Row] = []
    kept: list[Row] = []
    for lease in leases:
        job = found.get(lease.job_id)
        refused = decide.refusal(None if job is None else job.held, lease, call.now)
        if job is None or refused is not None:
            answers.append(refused or JobNotInflight(lease.job_id, None))
            continue
        note = notes.get(lease.job_id) if notes else None
        has_note = note is not None and (note.progress is not None or note.checkpoint is not None)
        moved.append((expires_at, None if note is None else note.started_at, int(has_note), job.seq))
        if note is not None and has_note:
            kept.append((call.space, lease.job_id, note.progress, note.checkpoint))
        answers.append(
            Lease(
                job_id=lease.job_id,
                token=lease.token,
                fence=lease.fence,
                expires_at=expires_at,
                cancel_requested=bool(job.held.cancel_requested),
            )
        )
    if moved:
        call.run_many("extend", moved)
    if kept:
        call.run_many("note", kept)
    return answers


def settle(call: Call, settlements: Sequence[Settlement]) -> list[LeaseError | None]:
    """See ``Driver.settle``."""
    answers: list[LeaseError | None] = [None] * len(settlements)
    left = _enter_acks(call, settlements)
    entered = len(settlements) - len(left)
    if left:
        found = find_jobs(call, (settlements[item].lease.job_id for item in left))
        decided: list[Row] = []
        for item in left:
            settlement = settlements[item]
            job = found.get(settlement.lease.job_id)
            held = None if job is None else job.held
            if decide.is_replay(held, settlement):
                continue
            refused = decide.refusal(held, settlement.lease, call.now) or _refused_writes(call, settlement)
            answers[item] = refused
            if job is not None and refused is None:
                outcome = decide.settled(job.held, settlement, call.now)
                decided.append(_item(item, job, settlement.verb, settlement.started_at, outcome))
                # What a later item of this batch finds: the job without its lease, and what ended it.
                after = job.held._replace(
                    state=outcome.state, last_verb=settlement.verb, last_token=settlement.lease.token
                )
                found[settlement.lease.job_id] = job._replace(held=after)
        entered += call.run_many("settle_item", decided) if decided else 0
    _apply(call, entered)
    return answers


def _enter_acks(call: Call, settlements: Sequence[Settlement]) -> list[int]:
    """Let SQLite judge the plain acks and enter the valid ones; gives the items that are left to be judged in Python.

    Only in a batch that names every job once: otherwise the order of the items matters.
    """
    everything = list(range(len(settlements)))
    if len({settlement.lease.job_id for settlement in settlements}) < len(settlements):
        return everything
    space, now = call.space, call.now
    acks = [
        (item, ack.started_at, ack.result, ack.detail, space, ack.lease.job_id, ack.lease.token, now)
        for item, ack in enumerate(settlements)
        if isinstance(ack, Ack) and not ack.writes
    ]
    if not acks:
        return everything
    if call.run_many("settle_ack", acks) == len(settlements):
        return []
    entered = {item for (item,) in call.run("settle_items")}
    return [item for item in everything if item not in entered]


def _refused_writes(call: Call, settlement: Settlement) -> WriteRefused | None:
    """Make the writes an ack carries, or none of them and say which one could not be made."""
    if not isinstance(settlement, Ack) or not settlement.writes:
        return None
    conflict = registry.conflict(call, settlement.writes)
    if conflict is not None:
        return WriteRefused(settlement.lease.job_id, kind=conflict.kind, key=conflict.key)
    for change in settlement.writes:
        registry.change(call, change)
    return None


def reap(call: Call, queues: Iterable[str] | None, *, worker: str | None, limit: int) -> int:
    """End leases that have expired, or all of a dead worker's: oldest first over all these queues."""
    if queues is None:
        queues = [queue for (queue,) in call.run("leased_queues", {"space": call.space}).fetchall()]
    rows: list[Row] = []
    for queue in queues:
        parameters = {"space": call.space, "queue": queue, "limit": limit}
        if worker is None:
            rows += call.run("held_expired", {**parameters, "now": call.now}).fetchall()
        else:
            rows += call.run("held_of_worker", {**parameters, "worker": worker}).fetchall()
    if not rows:
        return 0
    found = sorted((_found(row) for row in rows), key=lambda job: (job.held.expires_at, job.seq))[:limit]
    expired = [_item(item, job, EXPIRED, None, decide.expired(job.held, call.now)) for item, job in enumerate(found)]
    _apply(call, call.run_many("settle_item", expired))
    return len(found)


def find_jobs(call: Call, ids: Iterable[str]) -> dict[str, Found]:
    """The jobs by id; ended ones are looked up only for ids that are not hot."""
    asked = dict.fromkeys(ids)
    found: dict[str, Found] = {}
    for query in ("held", "held_ended"):
        missing = as_json(job_id for job_id in asked if job_id not in found)
        if missing != "[]":
            rows = call.run(query, {"space": call.space, "ids": missing}).fetchall()
            found.update((row[0], _found(row)) for row in rows)
    return found


def _found(row: Row) -> Found:
    return Found(row[1], row[2], row[3], Held._make(row[4:]))


def _apply(call: Call, entered: int) -> None:
    """Ledger rows, then the jobs themselves, then the turns: six statements for a batch of any size."""
    if not entered:
        return
    parameters = {"space": call.space, "now": call.now, "written": call.ledger_rows(entered)}
    call.run("settle_ledger", parameters)
    call.run("settle_ready")
    call.run("settle_ended", parameters)
    call.run("settle_delete")
    call.run("settle_turns", parameters)
    call.run("settling_clear")


def pass_turns(call: Call, jobs: Iterable[Found]) -> None:
    """Give the turn to the first job of every domain that one of these has left, or has come to."""
    domains = {(job.queue, job.domain) for job in jobs if job.domain is not None}
    if domains:
        call.run("pass_turn", {"space": call.space, "domains": as_json(domains)})


def _item(item: int, job: Found, verb: str, started_at: int | None, outcome: Outcome) -> Row:
    return (item, job.seq, job.queue, job.domain, verb, started_at, *outcome)
