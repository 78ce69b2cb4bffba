"""Counting the jobs of a large space in bounded time; see ``drivers.estimates``. Tables are sampled by their pages."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from holdfast.drivers import estimates
from holdfast.drivers.answers import QueueCounts
from holdfast.drivers.estimates import FEW, OPEN, Counted, Estimate, Pair, join_counts, merge, open_words
from holdfast.drivers.postgres import admin
from holdfast.drivers.postgres.database import INDEX_ORDER, Database, Execute
from holdfast.model.job import State

ROWS_PER_PAGE = 10  # about, of jobs with small payloads: what SAMPLE_ROWS means in pages


def estimate_counts(
    database: Database, queues: Sequence[str] | None, states: Collection[State], caller_now: int | None
) -> list[QueueCounts]:
    """Return what ``counts`` returns, and read a bounded number of rows, whatever the space contains."""
    [(many_open, many_ended, many_few, open_pages, ended_pages)] = database.query_page(
        "estimate/sizes", {"rows": estimates.COUNT_LIMIT}
    )
    large = {
        *(OPEN if many_open else ()),
        *((State.DONE,) if many_ended else ()),
        *(FEW if many_few else ()),
    } & set(states)
    exact = set(states) - large
    counted = admin.counts(database, queues, exact, caller_now) if exact else []
    if not large:
        return counted

    def read(execute: Execute) -> list[QueueCounts]:
        open_jobs, ages = _estimate_open(database, execute, large & OPEN, open_pages, caller_now)
        ended = _estimate_ended(database, execute, large - OPEN, ended_pages)
        return join_counts(open_jobs, ended, ages)

    found = database.run_in_snapshot(read)
    return merge(counted, [one for one in found if queues is None or one.queue in queues])


def _percent(pages: int) -> float:
    return min(100.0, 100.0 * estimates.SAMPLE_ROWS / ROWS_PER_PAGE / max(1, pages))


def _estimate_open(
    database: Database, execute: Execute, states: Collection[State], pages: int, caller_now: int | None
) -> tuple[list[Counted], dict[Pair, int]]:
    if not states:
        return [], {}
    percent = _percent(pages)
    estimate = Estimate(scale=100.0 / percent)
    estimate.add_sample(
        execute(database.statements.query("estimate/sample_open"), {"percent": percent, "now": caller_now})
    )
    execute(INDEX_ORDER, {})
    limit = {"limit": estimates.LANE_LIMIT + 1, "now": caller_now}
    for queue, type_, due, age, later, parked, is_due_cut, is_later_cut in execute(
        database.statements.query("estimate/lanes"), limit
    ):
        estimate.add_lane(
            (queue, type_), due, age, later=later, parked=parked, is_due_cut=is_due_cut, is_later_cut=is_later_cut
        )
    for queue, type_, number, is_cut in execute(database.statements.query("estimate/leases"), limit):
        estimate.add_counted((queue, type_), State.INFLIGHT, number, is_cut=is_cut)
    return list(estimate.rows(open_words(states))), estimate.ages


def _estimate_ended(database: Database, execute: Execute, states: Collection[State], pages: int) -> list[Counted]:
    if not states:
        return []
    percent = _percent(pages)
    estimate = Estimate(scale=100.0 / percent)
    estimate.add_sample(execute(database.statements.query("estimate/sample_ended"), {"percent": percent}))
    return list(estimate.sampled_rows(states))
