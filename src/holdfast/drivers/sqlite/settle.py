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
from holdfast.model import transition
from holdfast.model.lease import Lease, Note
from holdfast.model.settlement import Ack, Settlement
from holdfast.model.transition import HeldJob, Transition

FIELD = 64  # bytes of a field in the blobs that ``ack.sql`` reads; a token has at most 52
NO_FIELD = " " * FIELD
EXPIRED = "expired"  # the last verb of a reaped lease: no settlement can be a replay of it


class Found(NamedTuple):
    """A job that a call is about: where it is, and the facts to judge by."""

    seq: int
    queue: str
    domain: str | None
    held: HeldJob


class Ended(NamedTuple):
    """A lease that ends in this call; items of a batch count from 1."""

    item: int
    job: Found
    verb: str
    started_at: int | None
    outcome: Transition


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
        refused = transition.refusal(None if job is None else job.held, lease, call.now)
        if job is None or refused is not None:
            answers.append(refused or JobNotInflight(lease.job_id, None))
            continue
        note = (notes or {}).get(lease.job_id) or Note()
        has_note = note.progress is not None or note.checkpoint is not None
        moved.append((expires_at, note.started_at, int(has_note), job.seq))
        if has_note:
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
    """See ``Driver.settle``. Plain acks are judged by SQLite, everything else in Python."""
    before = call.ledger_end()
    left = _ack(call, settlements, before)
    return _decide(call, settlements, left, before) if left else [None] * len(settlements)


def _ack(call: Call, settlements: Sequence[Settlement], before: int) -> list[int]:
    """End the leases whose plain ack is valid; gives the items that are left to be judged.

    Only in a batch that names every job once: otherwise the order of its items matters.
    """
    items = list(range(1, len(settlements) + 1))
    batch = _plain_acks(settlements)
    if len({settlement.lease.job_id for settlement in settlements}) < len(items):
        return items
    parameters = {
        "space": call.space,
        "now": call.now,
        "ids": as_json(batch.ids),
        "tokens": "".join(batch.tokens).encode(),
        "starts": "".join(batch.starts).encode(),
        "width": FIELD,
    }
    entered = call.run("ack", parameters).rowcount
    if not entered:
        return items
    if batch.results:
        call.run_many("ack_result", batch.results)
    left = [] if entered == len(items) else _without(items, call.run("acked_items").fetchall())
    parameters = {"now": call.now, "written": before}
    call.run("ack_ledger", parameters)
    call.run("ack_ended", parameters)
    call.run("ack_delete")
    pass_turns(call, call.run("ack_domains").fetchall())
    call.run("acking_clear")
    return left


class _Acks(NamedTuple):
    """The columns of a batch, one field per item; an item that is no plain ack has the id of no job."""

    ids: list[str]
    tokens: list[str]
    starts: list[str]
    results: list[Row]


def _plain_acks(settlements: Sequence[Settlement]) -> _Acks:
    """Acks without writes whose token fits its field (a token that does not could not be valid either)."""
    return _all_plain(settlements) or _those_plain(settlements)


def _all_plain(settlements: Sequence[Settlement]) -> _Acks | None:
    """Most batches, column by column."""
    acks = [one for one in settlements if isinstance(one, Ack) and not one.writes]
    tokens = [one.lease.token for one in acks]
    text = "".join(tokens)
    if len(acks) < len(settlements) or not text.isascii() or " " in text or max(map(len, tokens), default=0) > FIELD:
        return None
    return _Acks(
        [one.lease.job_id for one in acks],
        [token.ljust(FIELD) for token in tokens],
        [NO_FIELD if one.started_at is None else str(one.started_at).ljust(FIELD) for one in acks],
        [(one.result, one.detail, item) for item, one in enumerate(acks, 1) if one.result is not None or one.detail],
    )


def _those_plain(settlements: Sequence[Settlement]) -> _Acks:
    acks = _Acks([], [], [], [])
    for item, settlement in enumerate(settlements, 1):
        token = settlement.lease.token
        fits = len(token) <= FIELD and token.isascii() and token[-1:] != " "
        if fits and isinstance(settlement, Ack) and not settlement.writes:
            acks.ids.append(settlement.lease.job_id)
            acks.tokens.append(token.ljust(FIELD))
            acks.starts.append(str(settlement.started_at or "").ljust(FIELD))
            if settlement.result is not None or settlement.detail:
                acks.results.append((settlement.result, settlement.detail, item))
        else:
            acks.ids.append("")
            acks.tokens.append(NO_FIELD)
            acks.starts.append(NO_FIELD)
    return acks


def _without(items: list[int], rows: list[Row]) -> list[int]:
    gone = {item for (item,) in rows}
    return [item for item in items if item not in gone]


def _decide(call: Call, settlements: Sequence[Settlement], items: list[int], before: int) -> list[LeaseError | None]:
    """Judge these items one after the other, then apply what they decide; gives the answers of the whole batch."""
    answers: list[LeaseError | None] = [None] * len(settlements)
    found = find_jobs(call, (settlements[item - 1].lease.job_id for item in items))
    ended: list[Ended] = []
    for item in items:
        settlement = settlements[item - 1]
        job_id, token = settlement.lease.job_id, settlement.lease.token
        job = found.get(job_id)
        held = None if job is None else job.held
        if transition.is_repeat(held, settlement):
            continue
        refused = transition.refusal(held, settlement.lease, call.now) or _refused_writes(call, settlement)
        answers[item - 1] = refused
        if job is not None and refused is None:
            outcome = transition.after_settlement(job.held, settlement, call.now)
            ended.append(Ended(item, job, settlement.verb, settlement.started_at, outcome))
            # What a later item of this batch finds: the job without its lease, and what ended it.
            after = job.held._replace(state=outcome.state, last_verb=settlement.verb, last_token=token)
            found[job_id] = job._replace(held=after)
    _apply(call, ended, before)
    return answers


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
    ended = [
        Ended(item, job, EXPIRED, None, transition.after_expiry(job.held, call.now))
        for item, job in enumerate(found, 1)
    ]
    _apply(call, ended, call.ledger_end())
    return len(ended)


def find_jobs(call: Call, ids: Iterable[str]) -> dict[str, Found]:
    """The jobs by id; ended ones are looked up only for ids that are not hot."""
    asked = dict.fromkeys(ids)
    found: dict[str, Found] = {}
    for query in ("held", "held_ended"):
        missing = [job_id for job_id in asked if job_id not in found]
        if missing:
            rows = call.run(query, {"space": call.space, "ids": as_json(missing)}).fetchall()
            found.update((row[0], _found(row)) for row in rows)
    return found


def _found(row: Row) -> Found:
    return Found(row[1], row[2], row[3], HeldJob._make(row[4:]))


def _apply(call: Call, ended: list[Ended], before: int) -> None:
    """Ledger rows, then the jobs themselves, then the turns: a few statements for a batch of any size."""
    if not ended:
        return
    rows = [(end.item, end.job.seq, end.verb, end.started_at, *end.outcome) for end in ended]
    call.run_many("settle_item", rows)
    parameters = {"space": call.space, "now": call.now, "written": before}
    call.run("settle_ledger", parameters)
    call.run("settle_ready")
    call.run("settle_ended", parameters)
    call.run("settle_delete")
    call.run("settling_clear")
    pass_turns(call, {(end.job.queue, end.job.domain) for end in ended if end.outcome.state.ended})


def pass_turns(call: Call, domains: Iterable[tuple[str, str | None]]) -> None:
    """Give the turn to the first job of every (queue, domain) that one has left, or has come to."""
    named = [domain for domain in domains if domain[1] is not None]
    if named:
        call.run("pass_turn", {"space": call.space, "domains": as_json(named)})
