"""What does a driver gain that takes the next job of a domain in the call that settles?"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import replace

from benchmarks.comparison import Comparison, compare_throughput
from benchmarks.jobs import FILL_BATCH, QUEUE, make_records
from holdfast import connect
from holdfast.driver import MINUTE, Ack, Feature, Reservation, SettleAndReserve, Store

FOLLOWED_DOMAINS = 1_000
FOLLOWED_JOBS = 20_000
BATCH = 100  # jobs in flight
ROUNDS = 5


def measure(store: str, make_url: Callable[[], str]) -> Iterator[Comparison]:
    with connect(make_url()) as opened:
        if isinstance(opened, SettleAndReserve) and opened.capabilities.has(Feature.SETTLE_AND_RESERVE):
            for domains in (1, FOLLOWED_DOMAINS):
                yield _compare_hints(store, opened, opened, domains)


def _compare_hints(name: str, store: Store, hinted: SettleAndReserve, domains: int) -> Comparison:
    """Drain domains with the next job of the same domain in the answer of the settlement, and with a reserve."""
    jobs = FOLLOWED_JOBS if domains > 1 else FOLLOWED_JOBS // 20
    rounds = iter(range(10**6))

    def fill() -> None:
        number = next(rounds)
        records = make_records(jobs)
        for start in range(0, jobs, FILL_BATCH):
            store.enqueue(
                [
                    replace(one, domain=f"{domains} {number} {place % domains}", offset=place // domains)
                    for place, one in enumerate(records[start : start + FILL_BATCH], start)
                ]
            )

    def timed(drain: Callable[[], int]) -> float:
        fill()
        started = time.perf_counter()
        assert drain() == jobs
        return time.perf_counter() - started

    return compare_throughput(
        f"{name}: settle with the next job of {domains:,} domain{'' if domains == 1 else 's'} / settle, then reserve",
        jobs=jobs,
        rounds=ROUNDS,
        ours=lambda: timed(lambda: _drain_hinted(store, hinted)),
        other=lambda: timed(lambda: _drain_plain(store)),
        target=1.1,
    )


def _drain_plain(store: Store) -> int:
    drained = 0
    while held := store.reserve([QUEUE], limit=BATCH, lease_for=MINUTE):
        store.settle([Ack(one.lease) for one in held])
        drained += len(held)
    return drained


def _drain_hinted(store: Store, hinted: SettleAndReserve) -> int:
    drained = 0
    held: list[Reservation] = []
    while True:
        if len(held) < BATCH:
            held += store.reserve([QUEUE], limit=BATCH - len(held), lease_for=MINUTE)
        if not held:
            return drained
        follow = [one.job.id for one in held]
        drained += len(held)
        _, held = hinted.settle_and_reserve(
            [Ack(one.lease) for one in held], follow=follow, queues=[QUEUE], lease_for=MINUTE
        )
