"""Calls of a driver in domains: after 1,000,000 processed offsets, and with the next job in the same call."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import replace

from benchmarks.comparison import Comparison, compare_throughput
from benchmarks.jobs import FILL_BATCH, QUEUE, make_records
from holdfast import connect
from holdfast.driver import MINUTE, Ack, Feature, Reservation, SettleAndReserve, Store

FEW = 100
OFFSETS = 300  # of one round, each with an enqueue, a reserve and an ack
FOLLOWED_DOMAINS = 1_000
FOLLOWED_JOBS = 20_000
BATCH = 100  # jobs in flight
ROUNDS = 5


def measure(store: str, make_url: Callable[[], str], many: int) -> Iterator[Comparison]:
    with connect(make_url()) as opened:
        yield _compare_history(store, opened, many)
    with connect(make_url()) as opened:
        if isinstance(opened, SettleAndReserve) and opened.capabilities.has(Feature.SETTLE_AND_RESERVE):
            for domains in (1, FOLLOWED_DOMAINS):
                yield _compare_hints(store, opened, opened, domains)


def _compare_history(name: str, store: Store, many: int) -> Comparison:
    """Process the next offsets of a domain that has processed many, and of one that has processed few, in turn."""
    position = {"few": FEW, "many": many}
    for domain, count in position.items():
        _end_offsets(store, domain, count)

    def process(domain: str) -> float:
        started = time.perf_counter()
        for _ in range(OFFSETS):
            [record] = make_records(1)
            store.enqueue([replace(record, domain=domain, offset=position[domain])])
            [reservation] = store.reserve([QUEUE], limit=1, lease_for=MINUTE)
            store.settle([Ack(reservation.lease)])
            position[domain] += 1
        return time.perf_counter() - started

    return compare_throughput(
        f"{name}: enqueue, reserve and ack in a domain after {many:,} processed offsets / after {FEW}",
        jobs=OFFSETS,
        rounds=ROUNDS,
        ours=lambda: process("many"),
        other=lambda: process("few"),
        target=0.9,
    )


def _end_offsets(store: Store, domain: str, count: int) -> None:
    """End the offsets from 0 on. Cancelled jobs have ended, too, and by the thousand in one call."""
    for start in range(0, count, FILL_BATCH):
        records = make_records(min(FILL_BATCH, count - start))
        store.enqueue([replace(one, domain=domain, offset=offset) for offset, one in enumerate(records, start)])
        store.cancel([one.id for one in records])


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
        f"{name}: settle with the next job of {domains:,} domains / settle, then reserve",
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
