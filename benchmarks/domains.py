"""How much of its rate does a worker keep with jobs in order, over 1, 1,000 and 100,000 domains?

The jobs of a domain are in the order of their arrival, and for 1,000 domains also in that of explicit offsets, of which
a store keeps those that have ended. Every side is a worker with one process in a child process, on a store of its own
with the same number of no-op jobs. In one domain the jobs run one after another, so a part of them is drained there.
"""

from __future__ import annotations

import itertools
import sys
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path

from msgspec.structs import replace

from benchmarks import domain_history
from benchmarks.comparison import Comparison, compare_throughput
from benchmarks.holdfast_process import LastAck
from benchmarks.jobs import FILL_BATCH, QUEUE, TYPE, fill, make_records
from benchmarks.processes import run_timed
from holdfast import Holdfast, Worker, WorkerOptions, connect
from holdfast.driver import Gaps, JobRecord, QueueSettings, Store
from holdfast.drivers.requests import Configure
from holdfast.retry import Fixed
from holdfast.testing.servers.postgres import PostgresServer

JOBS = 1_000_000
SERIAL_SHARE = 50  # in one domain, one job of so many is drained
UNORDERED = 0  # the number of domains of jobs without one
FAILING = "failing"  # the type of the jobs that always fail
FAILING_JOBS = 1_000  # in one domain: all of them wait behind the first
ROUNDS = 3  # of the comparisons of two drains
SHARE = 20  # these drain one job of so many
RETRY_DELAY = timedelta(milliseconds=1)

MakeUrl = Callable[[], str]


def measure(folder: Path, scale: float = 1.0) -> Iterator[Comparison]:
    numbers = itertools.count()
    jobs = max(2_000, int(JOBS * scale))
    yield from _measure("SQLite", lambda: f"sqlite:///{folder}/{next(numbers)}.db", jobs)
    with PostgresServer() as server:
        yield from _measure("PostgreSQL", lambda: server.create_database(f"domains_{next(numbers)}"), jobs)


def _measure(store: str, make_url: MakeUrl, jobs: int) -> Iterator[Comparison]:
    yield from _compare_domains(store, make_url, jobs)
    yield _compare_failing_domain(store, make_url, jobs // SHARE)
    yield _compare_beside_domains(store, make_url, jobs // SHARE)
    yield from domain_history.measure(store, make_url, jobs)


def _compare_domains(store: str, make_url: MakeUrl, jobs: int) -> Iterator[Comparison]:
    unordered = _drain_rate(make_url(), jobs, UNORDERED)
    for domains, offsets in ((1, False), (1_000, False), (1_000, True), (100_000, False)):
        rate = _drain_rate(make_url(), jobs, domains, offsets=offsets)
        name = f"{domains:,} domain{'' if domains == 1 else 's'}{' with offsets' if offsets else ''}"
        yield Comparison(
            question=f"{store}: worker, {jobs:,} jobs in {name} / without domains",
            ratio=rate / unordered,
            target=0.0 if domains == 1 else 0.45 if offsets else 0.5,
            at_least=True,
            ours=f"{rate:,.0f} jobs/s",
            other=f"{unordered:,.0f} jobs/s",
            rates={f"{store}, {name}": rate, f"{store}, no domain": unordered},
        )


def _drain_rate(url: str, jobs: int, domains: int, *, offsets: bool = False) -> float:
    """Return the jobs per second of a worker that drains ``jobs`` jobs in so many domains."""
    with connect(url) as store:
        fill_domains(store, jobs, domains, offsets=offsets)
    drained = jobs // SERIAL_SHARE if domains == 1 else jobs
    return drained / run_timed("domains", "drain", url, drained)


def fill_domains(store: Store, jobs: int, domains: int, *, offsets: bool = True) -> None:
    """Enqueue jobs in turn in each of so many domains; without a domain if there are none."""
    if domains == UNORDERED:
        fill(store, jobs)
        return
    for start in range(0, jobs, FILL_BATCH):
        records = make_records(min(FILL_BATCH, jobs - start))
        store.enqueue([_in_domain(one, place, domains, offsets=offsets) for place, one in enumerate(records, start)])


def _in_domain(record: JobRecord, place: int, domains: int, *, offsets: bool) -> JobRecord:
    return replace(record, domain=f"domain {place % domains}", offset=place // domains if offsets else None)


def _compare_failing_domain(store: str, make_url: MakeUrl, jobs: int) -> Comparison:
    """Drain 1,000 domains beside one whose first job fails again and again, and without it."""

    def drain(*, failing: bool) -> float:
        url = make_url()
        with connect(url) as opened:
            if failing:
                opened.enqueue(make_records(FAILING_JOBS, type=FAILING, domain="failing", max_attempts=10**6))
            fill_domains(opened, jobs, 1_000)
        return run_timed("domains", "drain", url, jobs)

    return compare_throughput(
        f"{store}: worker, 1,000 domains beside one that always fails / without it",
        jobs=jobs,
        rounds=ROUNDS,
        ours=lambda: drain(failing=True),
        other=lambda: drain(failing=False),
        target=0.9,
    )


def _compare_beside_domains(store: str, make_url: MakeUrl, jobs: int) -> Comparison:
    """Drain jobs without a domain beside domains that wait for an offset, and in a store without domains."""

    def drain(*, domains: bool) -> float:
        url = make_url()
        with connect(url) as opened:
            if domains:
                opened.do(Configure(queue="waiting", settings=QueueSettings(gaps=Gaps.WAIT)))
                records = make_records(10_000, queue="waiting")
                opened.enqueue([replace(one, domain=f"d{place}", offset=1) for place, one in enumerate(records)])
            fill(opened, jobs)
        return run_timed("domains", "drain", url, jobs)

    return compare_throughput(
        f"{store}: worker, jobs without a domain beside 10,000 domains that wait / in a store without domains",
        jobs=jobs,
        rounds=ROUNDS,
        ours=lambda: drain(domains=True),
        other=lambda: drain(domains=False),
        target=0.95,
    )


class AckedJobs(LastAck):
    """When the last of so many acks was answered; then it stops the worker."""

    def __init__(self, count: int) -> None:
        self.worker: Worker | None = None
        self._left = count

    def settled(self, settled: object) -> None:
        """See ``WorkerObserver.settled``."""
        if self._left <= 0:
            return
        self._left -= sum(one.status == "acked" for one in settled)  # type: ignore[attr-defined]
        super().settled(())
        if self._left <= 0 and self.worker is not None:
            self.worker.stop()


def drain(url: str, count: str) -> None:
    """Print the seconds of a worker from its start, with its process ready, to the ack of so many jobs."""
    app = Holdfast(url)
    app.handler(TYPE, queue=QUEUE)(lambda _payload: None)

    @app.handler(FAILING, queue=QUEUE, retry=Fixed(RETRY_DELAY))
    def fail(_payload: object) -> None:
        raise RuntimeError("always")

    acked = AckedJobs(int(count))
    options = WorkerOptions(queues=(QUEUE,), processes=1)
    acked.worker = Worker(app.driver, options, catalogue=app.catalogue, observers=[acked])
    acked.worker.prepare()
    started = time.perf_counter()
    acked.worker.run()
    print(acked.at - started)
    app.close()


if __name__ == "__main__":
    {"drain": drain}[sys.argv[1]](*sys.argv[2:])
