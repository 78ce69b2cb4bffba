"""Counting the jobs of a large space in bounded time; see ``drivers.estimates``.

A table is sampled in strata: the range of its numbers is divided into equal parts, and a few rows are read from a
random place in each. How far apart their numbers are says how many rows the part has.
"""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Collection, Sequence

from holdfast.drivers import estimates
from holdfast.drivers.answers import QueueCounts
from holdfast.drivers.estimates import (
    FEW,
    OPEN,
    SCHEDULED,
    WAITING,
    Counted,
    Estimate,
    Pair,
    join_counts,
    merge,
    open_words,
)
from holdfast.drivers.sqlite import admin
from holdfast.drivers.sqlite.transaction import Transaction
from holdfast.model.job import State

STRATA = 200
_HAS_MANY = {  # whether there are many jobs in these states
    "estimate/has_many_open": OPEN,
    "estimate/has_many_ended": frozenset({State.DONE}),
    "estimate/has_many_few": FEW,
}
_SAMPLE_OPEN = ("estimate/range_open", "estimate/sample_open")
_SAMPLE_ENDED = ("estimate/range_ended", "estimate/sample_ended")
_random = random.Random()  # noqa: S311 - no secret


def estimate_counts(tx: Transaction, queues: Sequence[str] | None, states: Collection[State]) -> list[QueueCounts]:
    """Return what ``counts`` returns, and read a bounded number of rows, whatever the space contains."""
    large = {state for name, group in _HAS_MANY.items() for state in group & set(states) if _has_many(tx, name)}
    exact = set(states) - large
    counted = admin.counts(tx, queues, exact) if exact else []
    open_jobs, ages = _estimate_open(tx, large & OPEN)
    found = join_counts(open_jobs, _estimate_ended(tx, large - OPEN), ages)
    return merge(counted, [one for one in found if queues is None or one.queue in queues])


def _has_many(tx: Transaction, statement: str) -> bool:
    return tx.run(statement, {"space": tx.space, "rows": estimates.COUNT_LIMIT}).fetchone() is not None


def _estimate_open(tx: Transaction, states: Collection[State]) -> tuple[list[Counted], dict[Pair, int]]:
    if not states:
        return [], {}
    estimate = Estimate(scale=1.0)
    estimate.add_sample(_sample(tx, *_SAMPLE_OPEN))
    limit = estimates.LANE_LIMIT
    for queue, type_, priority, isolated in tx.run("estimate/lanes", {"space": tx.space}).fetchall():
        lane = {"space": tx.space, "queue": queue, "type": type_, "priority": priority, "isolated": isolated}
        due, oldest = tx.run("estimate/due", {**lane, "now": tx.now, "limit": limit + 1}).fetchone()
        later, parked = tx.run("estimate/later", {**lane, "now": tx.now, "limit": limit + 1}).fetchone()
        age = None if oldest is None else tx.now - oldest
        estimate.add_lane(
            (queue, type_), due, age, later=later, parked=parked, is_due_cut=due > limit, is_later_cut=later > limit
        )
    for (queue,) in tx.run("reap/find_queues", {"space": tx.space}).fetchall():
        types = tx.run("estimate/leases", {"space": tx.space, "queue": queue, "limit": limit + 1}).fetchall()
        for type_, number in Counter(type_ for (type_,) in types).items():
            estimate.add_counted((queue, type_), State.INFLIGHT, number, is_cut=len(types) > limit)
    return list(estimate.rows(open_words(states))), estimate.ages


def _estimate_ended(tx: Transaction, states: Collection[State]) -> list[Counted]:
    if not states:
        return []
    estimate = Estimate(scale=1.0)
    estimate.add_sample(_sample(tx, *_SAMPLE_ENDED))
    return list(estimate.sampled_rows(states))


def _sample(tx: Transaction, find_range: str, read: str) -> list[tuple[str, str, str, int, int]]:
    """Return the estimated numbers of jobs by queue, type and word, and the age of the oldest one that was read."""
    first, last = tx.run(find_range).fetchone()
    if first is None:
        return []
    width = (last - first) // STRATA + 1
    each = max(1, estimates.SAMPLE_ROWS // STRATA)
    jobs: defaultdict[tuple[str, str, str], float] = defaultdict(float)
    ages: dict[tuple[str, str, str], int] = {}
    for start in range(first, last + 1, width):
        end = min(start + width - 1, last)
        place = start + int(_random.random() * max(1, width - each))
        rows = tx.run(read, {"first": place, "last": end, "limit": each}).fetchall()
        read_until = rows[-1][0] if len(rows) == each else end
        weight = (end - start + 1) / max(1, read_until - place + 1)
        for _, space, queue, type_, state, turn, available_at in rows:
            if space == tx.space:
                key = queue, type_, _word(state, turn, available_at, tx.now)
                jobs[key] += weight
                ages[key] = max(ages.get(key, 0), tx.now - available_at)
    return [(*key, round(number), ages[key]) for key, number in jobs.items()]


def _word(state: str, turn: int, available_at: int, now: int) -> str:
    if state != State.READY:
        return state
    if available_at > now:
        return SCHEDULED
    return State.READY if turn else WAITING
