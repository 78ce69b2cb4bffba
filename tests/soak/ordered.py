"""Ordered domains while workers are killed and stopped: exact order, one lease at a time, no domain left idle.

Offsets arrive shuffled and duplicated, and the queue waits for gaps. One attempt of ten fails.
"""

from __future__ import annotations

import json
import random
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import uuid_utils

import holdfast
from holdfast.clock import SECOND, SystemClock
from holdfast.driver import Enqueued, Gaps, JobRecord, QueueSettings, Store
from holdfast.drivers.requests import Configure, Domains
from holdfast.testing.servers.postgres import PostgresServer
from tests.soak.ledger_checks import read_ledger
from tests.soak.ordered_checks import EFFECTS, check_effects, check_idle, check_order, read_effects
from tests.soak.outages import Outages
from tests.soak.random_kills import NEVER_DEAD
from tests.soak.worker_group import WorkerProcess, count_unfinished, stop_all, wait_until, worker_group
from tests.soak.worker_program import ORDERED, QUEUE

LEASE_SECONDS = 2.0
STOP_LEASES = (1.1, 1.5)  # how long a worker is stopped: longer than its lease
SOAK_LEASE_SECONDS = 4.0
FAULT_INTERVAL_SECONDS = 0.1
MAX_STOPPED = 0.5  # of the workers at a time, so that the others can make progress
WINDOW = 20  # an offset arrives at most about so many places too early or too late
DUPLICATES = 0.1  # of all submissions


class Submission(NamedTuple):
    """One call of the producer."""

    domain: str
    offset: int


def make_submissions(generator: random.Random, *, domains: int, offsets: int) -> list[Submission]:
    """Return every offset of every domain, out of order within a window, some of them twice."""
    places = []
    for number in range(domains):
        for offset in range(offsets):
            times = 2 if generator.random() < DUPLICATES else 1
            places += [(offset + generator.uniform(0, WINDOW), Submission(f"d{number}", offset)) for _ in range(times)]
    return [submission for _, submission in sorted(places)]


def run_ordered(
    folder: Path,
    url: str,
    *,
    domains: int,
    offsets: int,
    workers: int,
    seconds: float,
    lease: float = LEASE_SECONDS,
    idle_leases: float = 2,
) -> str:
    """Run the workers, submit the offsets while faults happen for so many seconds, and check everything.

    No domain with a runnable job may be without a lease for more than ``idle_leases`` leases: see ``check_idle``.
    """
    generator = random.Random(domains * offsets)
    store = holdfast.connect(url)
    store.do(Configure(queue=QUEUE, settings=QueueSettings(gaps=Gaps.WAIT)))
    submissions = make_submissions(generator, domains=domains, offsets=offsets)
    answers: list[Enqueued] = []
    with worker_group(url, folder) as start:
        faults = _Faults(generator, workers, lease, lambda: start(lease=lease, processes=1, grace=0.5))
        with Outages(store, faults.any_ready) as outages:
            began = time.monotonic()
            rounds = max(1, int(seconds / FAULT_INTERVAL_SECONDS))
            for number, batch in enumerate(split(submissions, rounds), start=1):
                answers += submit(store, batch)
                faults.make_one()
                time.sleep(max(0.0, began + number * FAULT_INTERVAL_SECONDS - time.monotonic()))
            unfinished = count_unfinished(store)
            wait_until(
                lambda: count_unfinished(store) == 0,
                timeout=120 + domains * offsets / 20,
                otherwise=lambda: (
                    f"{count_unfinished(store)} jobs have not ended: {list(store.do(Domains(queue=QUEUE)))[:5]}"
                ),
            )
        faults.end()
    _check_answers(submissions, answers)
    rows = read_ledger(store)
    check_order(rows, dict.fromkeys((f"d{number}" for number in range(domains)), offsets))
    refused = check_effects(read_effects(folder / EFFECTS), rows)
    idle_text = check_idle(rows, outages.intervals, most=int(idle_leases * lease * SECOND))
    store.close()
    endings = Counter(row.ending.value for row in rows)
    return (
        f"{domains} domains x {offsets} offsets, {workers} workers, {faults.text}, {len(submissions):,} submissions "
        f"({sum(one.past for one in answers):,} of them past): order exact, one lease at a time, "
        f"{idle_text} ({outages.text}); {len(rows):,} leases ({_join(endings)}), "
        f"{refused} stale effects fenced, {unfinished:,} jobs left when the faults ended"
    )


class _Faults:
    """The workers, of which one is killed and replaced, or stopped for longer than its lease, at every call."""

    def __init__(
        self, generator: random.Random, workers: int, lease: float, start: Callable[[], WorkerProcess]
    ) -> None:
        self._generator = generator
        self._lease = lease
        self._start = start
        self._counts: Counter[str] = Counter()
        self._running: list[WorkerProcess] = [start() for _ in range(workers)]

    def make_one(self) -> None:
        """Kill or stop a worker that has reserved: one that is still starting would be replaced for ever."""
        victims = [worker for worker in self._running if worker.has_reserved() and not worker.is_stopped]
        if not victims:
            return
        victim = self._generator.choice(victims)
        whole_group = self._generator.random() < 0.5
        stopped = sum(worker.is_stopped for worker in self._running)
        if self._generator.random() < 0.5 and stopped < MAX_STOPPED * len(self._running):
            victim.stop_for(self._lease * self._generator.uniform(*STOP_LEASES), whole_group=whole_group)
            self._counts["SIGSTOPs"] += 1
        elif len(victims) > 1 or self._generator.random() < 0.1:  # the last one may work for about a second
            victim.signal(signal.SIGKILL, whole_group=whole_group)
            victim.signal(signal.SIGCONT, whole_group=True)  # stopped children must notice that their parent died
            self._running[self._running.index(victim)] = self._start()
            self._counts["SIGKILLs"] += 1

    def any_ready(self) -> bool:
        """Whether a worker has begun to reserve, and is not stopped."""
        return any(worker.has_reserved() and not worker.is_stopped for worker in self._running)

    def end(self) -> None:
        """Stop all workers; each must exit with 0."""
        wait_until(
            lambda: all(worker.has_reserved() and not worker.is_stopped for worker in self._running),
            timeout=60,
            otherwise=lambda: f"a worker does not start: {[worker.errors() for worker in self._running]}",
        )
        stop_all(self._running, timeout=60)

    @property
    def text(self) -> str:
        """The faults so far."""
        return _join(self._counts) or "no faults"


def split(submissions: list[Submission], count: int) -> Iterator[list[Submission]]:
    """Return the submissions in so many parts, in order."""
    for number in range(count):
        yield submissions[len(submissions) * number // count : len(submissions) * (number + 1) // count]


def submit(store: Store, batch: list[Submission]) -> list[Enqueued]:
    """Enqueue a job for each submission. However often it is killed, no job dies."""
    common = {"type": ORDERED, "queue": QUEUE, "created_at": SystemClock().now(), **NEVER_DEAD}
    records = [
        JobRecord(  # type: ignore[arg-type]
            id=str(uuid_utils.uuid7()),
            payload=json.dumps([*one]).encode(),
            domain=one.domain,
            offset=one.offset,
            **common,
        )
        for one in batch
    ]
    return store.enqueue(records) if records else []


def _check_answers(submissions: list[Submission], answers: list[Enqueued]) -> None:
    """Check that each offset was stored once, and that every duplicate was told so."""
    stored = [one for one, answer in zip(submissions, answers, strict=True) if not answer.existed]
    assert len(stored) == len(set(stored)) == len(set(submissions)), "an offset was stored twice, or not at all"
    assert not any(answer.conflict for answer in answers)
    assert not any(answer.past and not answer.existed for answer in answers)


def _join(counts: Counter[str]) -> str:
    return ", ".join(f"{count:,} {name}" for name, count in sorted(counts.items()))


def run_ordered_soak(folder: Path, scale: float) -> str:
    """Run it on SQLite and on PostgreSQL."""

    def run(name: str, url: str) -> str:
        (folder / name).mkdir()
        return run_ordered(
            folder / name,
            url,
            domains=50,
            offsets=max(10, int(200 * scale)),
            workers=6,
            seconds=max(5.0, 120 * scale),
            lease=SOAK_LEASE_SECONDS,
        )

    on_sqlite = run("sqlite", f"sqlite:///{folder}/jobs.db")
    with PostgresServer() as server:
        return f"SQLite: {on_sqlite}. PostgreSQL: {run('postgres', server.url)}"
