"""Domains: one job of a domain has the turn, and only a job with the turn can be reserved (L11).

``assign_turns`` runs in every verb that may change which job of a domain has the turn: enqueue, the end of a lease,
cancel, requeue, a change of the settings, and what an operator does with the domain.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import takewhile
from typing import NamedTuple

from holdfast.drivers.packing import Row, to_json
from holdfast.drivers.sqlite.limit_keys import wake
from holdfast.drivers.sqlite.transaction import Transaction
from holdfast.drivers.unreadable import SUBSTITUTE
from holdfast.model import bounds
from holdfast.model.job import State
from holdfast.model.queue_settings import Gaps, QueueSettings

GAP_LIMIT = 1_000  # gaps of a queue that one reserve begins at most, and that it passes at most

Place = tuple[str, str]  # queue, domain


class _Head(NamedTuple):
    """A row of ``domains/heads.sql``. ``first`` comes first in the domain; ``holder`` has the turn."""

    queue: str
    domain: str
    first: int | None
    offset: int | None
    holder: int | None
    holder_state: str | None
    holder_key: str | None
    halted_by: str | None
    waits_for: int | None
    gaps: str | None
    start: int
    ended_upto: int | None

    @property
    def missing(self) -> int | None:
        """The offset for which the domain waits; None if it waits for none."""
        if self.gaps != Gaps.WAIT or self.holder_state == State.INFLIGHT or self.halted_by is not None:
            return None
        return missing_before(self.offset, position_of(self.start, self.ended_upto))

    @property
    def wanted(self) -> int | None:
        """The job that should have the turn; None if the domain is empty, halted or waits."""
        if self.holder_state == State.INFLIGHT:
            return self.holder
        return None if self.halted_by is not None or self.missing is not None else self.first


def position_of(start: int, ended_upto: int | None) -> int:
    """Return the smallest offset from ``start`` on that has not ended.

    ``ended_upto`` is the last offset of the range of ended offsets that begins at or before ``start``.
    """
    return start if ended_upto is None else min(max(start, ended_upto + 1), bounds.MAX_OFFSET)


def missing_before(offset: int | None, position: int) -> int | None:
    """Return the position if the first offset of a domain is behind it; None if there is no gap."""
    return position if offset is not None and offset > position else None


def assign_turns(tx: Transaction, domains: Iterable[tuple[str, str | None]], *, on_arrival: bool = False) -> None:
    """Give the turn in each (queue, domain) to the job that should have it now; None is no domain.

    A job in flight keeps the turn; a ready job that is not the first any more loses it. Stores also which domains wait
    for an offset. ``on_arrival`` leaves that to the next reserve: a gap between jobs that have only arrived begins
    there.
    """
    named = [domain for domain in domains if domain[1] is not None]
    if not named:
        return
    rows = tx.run("domains/heads", {"space": tx.space, "domains": to_json(named)})
    heads = [_Head._make(row) for row in rows]
    _move_turns(tx, [head for head in heads if head.wanted != head.holder])
    changed = [head for head in heads if head.missing != head.waits_for]
    if changed and on_arrival:
        tx.run_many("gaps/set_arrived", [(tx.space, head.queue, head.domain) for head in changed])
    elif changed:
        _store_waits(tx, changed)


def _move_turns(tx: Transaction, heads: list[_Head]) -> None:
    """Take turns, then give turns: at most one job of a domain has the turn at any time."""
    taken = [head for head in heads if head.holder is not None]
    if taken:
        tx.run("domains/take_turn", {"jobs": to_json(head.holder for head in taken)})
        wake(tx, {(head.queue, head.holder_key) for head in taken})
    given = [head.wanted for head in heads if head.wanted is not None]
    if given:
        tx.run("domains/give_turn", {"jobs": to_json(given)})


def _store_waits(tx: Transaction, heads: Iterable[_Head]) -> None:
    """Begin and end the waits of these domains."""
    begun: list[Row] = []
    ended: list[Row] = []
    for head in heads:
        row, missing = (tx.space, head.queue, head.domain), head.missing
        if missing is None:
            ended.append(row)
        else:
            begun.append((*row, missing, tx.now))
    tx.run_many("gaps/begin_wait", begun)
    tx.run_many("gaps/end_wait", ended)
    tx.run_many("domains/remove_plain", ended)


def begin_gaps(tx: Transaction, queue: str) -> None:
    """Store which domains of a queue wait for an offset, or wait no longer, because of jobs that have arrived."""
    parameters = {"space": tx.space, "queue": queue, "limit": GAP_LIMIT}
    rows = [(tx.space, *place) for place in tx.run("gaps/find_arrived", parameters)]
    tx.run_many("gaps/clear_arrived", rows)
    assign_turns(tx, [(queue, domain) for _, _, domain in rows])
    tx.run_many("domains/remove_plain", rows)


def pass_gaps(tx: Transaction, queue: str, waited_for: int) -> None:
    """Let the domains of a queue go on that have waited for so long."""
    parameters = {"space": tx.space, "queue": queue, "since": tx.now - waited_for, "limit": GAP_LIMIT}
    places: list[Place] = tx.run("gaps/find_waiting", parameters).fetchall()
    if places:
        tx.run_many("gaps/pass", [(tx.space, *place) for place in places])
        assign_turns(tx, places)


def halt(tx: Transaction, dead: Iterable[tuple[str, str | None, str]]) -> None:
    """Halt the domains of jobs (queue, domain, id) that failed for good, if their queues say so; None is no domain."""
    named = [job for job in dead if job[1] is not None]
    if named:
        tx.run("domains/halt", {"space": tx.space, "now": tx.now, "jobs": to_json(named)})


def find_halts(tx: Transaction, jobs: Iterable[tuple[str, str | None, str]]) -> set[str]:
    """Return the ids of the jobs (queue, domain, id) that halt their domains; None is no domain."""
    named = [job for job in jobs if job[1] is not None]
    if not named:
        return set()
    return {job_id for (job_id,) in tx.run("domains/find_halts", {"space": tx.space, "jobs": to_json(named)})}


def end_halts(tx: Transaction, places: Iterable[tuple[str, str | None]]) -> None:
    """Let halted domains go on; the caller assigns the turns."""
    rows = [(tx.space, *place) for place in places]
    tx.run_many("domains/end_halt", rows)
    tx.run_many("domains/remove_plain", rows)


def open_domains(tx: Transaction, after: Place) -> Iterator[Place]:
    """Return the domains that have an open job, in the order of queues and names, after one of them.

    Leaves out those whose queue or name is not UTF-8: nobody could name them.
    """
    stored: tuple[object, object] = after
    while row := tx.run("domains/next_open", (tx.space, *stored)).fetchone():
        queue, domain, *stored = row
        if SUBSTITUTE not in queue + domain:
            yield queue, domain


def after_configure(tx: Transaction, queue: str, before: QueueSettings, after: QueueSettings) -> None:
    """Apply a change of ``gaps`` to the domains of a queue."""
    if after.gaps is not before.gaps:
        places = takewhile(lambda place: place[0] == queue, open_domains(tx, (queue, "")))
        assign_turns(tx, list(places), on_arrival=True)
