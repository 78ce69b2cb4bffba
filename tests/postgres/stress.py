"""All verbs at random, from several threads, over a few domains and keys: what one locks, another one wants, too."""

from __future__ import annotations

import itertools
import random
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import psycopg

import holdfast
from holdfast.clock import DAY
from holdfast.drivers.requests import AnyOpen, Cancel, Configure, Domains, Enqueue, Purge, Reap, Requeue, Resume, Trim
from holdfast.drivers.store import Store
from holdfast.model.domain import DomainStatus, ResumeAction
from holdfast.model.job import JobRecord
from holdfast.model.lease import Lease
from holdfast.model.queue_settings import Gaps, OnExhausted, QueueSettings
from holdfast.model.registry import Change
from holdfast.model.settlement import Ack, Fail, Release, Retry, Settlement

QUEUES = ("p", "q")
DOMAINS = tuple(f"d{number}" for number in range(12))
JOBS_PER_OFFSET = 8  # jobs of all domains: so many have been stored when the next offset is drawn
MAX_DISORDER = 6  # offsets
KEYS = ("a", "b", "c", None)
ENTRIES = ("x", "y", "z")  # of the registry
KEY_MAX_INFLIGHT = 2  # of the first queue; the limits of the second one change
LEASE = 20_000  # microseconds: some leases expire while the verbs run
HOLD = 5_000  # microseconds
GAP = 2_000  # microseconds: how long a domain waits for a missing offset
MAX_BATCH = 12
MAX_RECENT_IDS = 150
STATISTICS_TIMEOUT_SECONDS = 30


COUNT_BY_KEY = """
SELECT limit_key, count(*) FROM holdfast.jobs
 WHERE space = 'main' AND queue = %s AND state = 'inflight' AND limit_key IS NOT NULL GROUP BY limit_key
"""


class _Worker:
    """One thread: chooses verbs by its own random numbers."""

    def __init__(
        self, url: str, seed: int, ids: list[str], numbers: Iterator[int], *, keyed: bool, ordered: bool
    ) -> None:
        self._url = url
        self._keyed = keyed
        self._ordered = ordered
        self._random = random.Random(seed)
        self._ids = ids  # of all workers, newest last
        self._numbers = numbers
        self._leases: list[Lease] = []
        self._name = f"worker {seed}"

    def run(self, steps: int) -> None:
        verbs = (
            [self._enqueue] * 4 + [self._reserve] * 6 + [self._ack] * 3 + [self._settle] * 3 + [self._cancel] * 4
        ) + [self._extend, self._requeue, self._purge, self._reap, self._trim]
        if self._keyed:
            verbs += [self._configure, self._report_outage, self._check_limit]
        if self._ordered:
            verbs += [self._resume] * 3 + [self._configure_gaps, self._report_outage]
        with holdfast.connect(f"{self._url}?connections=1&listen=off&patience=60") as store:
            for _ in range(steps):
                self._random.choice(verbs)(store)

    def _enqueue(self, store: Store) -> None:
        jobs = [self._make_job(next(self._numbers)) for _ in range(self._random.randint(1, MAX_BATCH))]
        store.do(Enqueue(jobs=jobs, writes=self._random.choice(((), self._some_changes()))))
        self._ids.extend(job.id for job in jobs)

    def _make_job(self, number: int) -> JobRecord:
        """Make a job; the offsets of all workers are shuffled and repeated."""
        domain = None if self._keyed and self._random.random() < 0.5 else self._random.choice(DOMAINS)
        place = number % 100_000 // JOBS_PER_OFFSET + self._random.randint(0, MAX_DISORDER)
        return JobRecord(
            id=f"job-{number:08}",
            type="t",
            queue=self._random.choice(QUEUES),
            payload=b"{}",
            created_at=1,
            domain=domain,
            offset=place if self._ordered and domain is not None and self._random.random() < 0.8 else None,
            limit_key=self._random.choice(KEYS) if self._keyed else None,
            max_attempts=2,
        )

    def _reserve(self, store: Store) -> None:
        queues = self._random.sample(QUEUES, 2)
        held = store.reserve(queues, limit=MAX_BATCH, lease_for=LEASE, worker=self._name)
        self._leases = [*self._leases, *(one.lease for one in held)][-4 * MAX_BATCH :]

    def _take_leases(self) -> list[Lease]:
        self._random.shuffle(self._leases)
        taken, self._leases = self._leases[:MAX_BATCH], self._leases[MAX_BATCH:]
        return taken

    def _some_changes(self) -> list[Change]:
        """Write or remove some entries, in any order."""
        return [
            Change(kind="stress", key=key, value=self._random.choice((b"1", None)))
            for key in self._random.sample(ENTRIES, self._random.randint(1, len(ENTRIES)))
        ]

    def _ack(self, store: Store) -> None:
        changes = self._random.choice(([], self._some_changes()))
        acks = itertools.zip_longest(self._take_leases(), changes)
        store.settle([Ack(lease, writes=(change,) if change else ()) for lease, change in acks if lease is not None])

    def _settle(self, store: Store) -> None:
        """Settle with any mix of verbs; repeated items make several runs in the function."""
        settlements: list[Settlement] = []
        for lease in self._take_leases():
            retry = Retry(lease, delay=HOLD, hold_key=True) if self._keyed else Retry(lease)
            choices = (Ack(lease), retry, Release(lease), Fail(lease, reason="stress"))
            settlements += [self._random.choice(choices)] * self._random.choice((1, 1, 1, 2))
        self._random.shuffle(settlements)
        store.settle(settlements)

    def _resume(self, store: Store) -> None:
        queue, domain = self._random.choice(QUEUES), self._random.choice(DOMAINS)
        store.do(Resume(queue=queue, domain=domain, action=self._random.choice(tuple(ResumeAction))))

    def _configure_gaps(self, store: Store) -> None:
        gaps = QueueSettings(gaps=self._random.choice(tuple(Gaps)), gap_pass_after=GAP)
        store.do(Configure(queue=QUEUES[1], settings=gaps, only=("gaps", "gap_pass_after")))

    def _some_ids(self) -> list[str]:
        recent = list(dict.fromkeys(self._ids[-MAX_RECENT_IDS:]))
        return self._random.sample(recent, min(len(recent), MAX_BATCH))

    def _cancel(self, store: Store) -> None:
        store.do(Cancel(job_ids=self._some_ids()))

    def _requeue(self, store: Store) -> None:
        store.do(Requeue(job_ids=self._some_ids()))

    def _purge(self, store: Store) -> None:
        store.do(Purge(job_ids=self._some_ids()))

    def _extend(self, store: Store) -> None:
        store.extend(self._random.sample(self._leases, len(self._leases)), lease_for=LEASE)

    def _reap(self, store: Store) -> None:
        store.do(Reap(worker=self._random.choice((None, self._name))))

    def _trim(self, store: Store) -> None:
        store.do(Trim(ended_for=DAY, ledger_for=1))

    def _report_outage(self, store: Store) -> None:
        store.do(Reap(leases=self._take_leases()))

    def _configure(self, store: Store) -> None:
        limits = QueueSettings(
            key_max_inflight=self._random.choice((None, 1, 3)), key_rate=self._random.choice((None, 200.0, 2000.0))
        )
        store.do(Configure(queue=QUEUES[1], settings=limits))

    def _check_limit(self, _: Store) -> None:
        with psycopg.connect(self._url, autocommit=True) as session:
            found = session.execute(COUNT_BY_KEY, [QUEUES[0]]).fetchall()
        assert all(count <= KEY_MAX_INFLIGHT for _, count in found), f"too many jobs in flight: {found}"


def count_deadlocks_of_random_verbs(
    url: str, *, threads: int, steps: int, seed: int, keyed: bool = False, ordered: bool = False
) -> int:
    """Run ``steps`` random verbs in each thread, then drain the store; return how many deadlocks PostgreSQL broke.

    With ``keyed``, jobs have limit keys, and the queues limits for each key, which are not exceeded. With ``ordered``,
    jobs have offsets, which several workers store, and domains halt, and wait for missing offsets. Asserts that the
    drain ends every job: no domain has lost its turn, and no job is parked for ever.
    """
    with holdfast.connect(url) as store:
        if keyed:
            store.do(Configure(queue=QUEUES[0], settings=QueueSettings(key_max_inflight=KEY_MAX_INFLIGHT)))
        if ordered:
            for queue in QUEUES:
                store.do(
                    Configure(
                        queue=queue, settings=QueueSettings(on_exhausted=OnExhausted.HALT), only=("on_exhausted",)
                    )
                )
    ids: list[str] = []
    numbers = itertools.count(seed * 100_000)  # other ids with every seed
    with psycopg.connect(url, autocommit=True) as session:
        session.execute(
            "DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET deadlock_timeout = ''20ms''', "
            "current_database()); END $$"
        )
    with ThreadPoolExecutor(threads) as pool:
        workers = [
            _Worker(url, seed * 1000 + number, ids, numbers, keyed=keyed, ordered=ordered) for number in range(threads)
        ]
        for future in [pool.submit(worker.run, steps) for worker in workers]:
            future.result()
    _drain(url)
    return _read_deadlocks(url)


def _drain(url: str) -> None:
    with holdfast.connect(f"{url}?listen=off") as store:
        deadline = time.monotonic() + 60
        while store.do(AnyOpen(queues=QUEUES, types=["t"])):
            assert time.monotonic() < deadline, "jobs that cannot be reserved: a domain has no turn, or a job is parked"
            for halted in store.do(Domains(status=DomainStatus.HALTED)):
                store.do(Resume(queue=halted.queue, domain=halted.domain))
            held = store.reserve(QUEUES, limit=1000, lease_for=DAY)
            store.settle([Ack(one.lease) for one in held])


def _read_deadlocks(url: str) -> int:
    """Return the deadlocks of the database, once every session that reports its statistics has ended."""
    deadline = time.monotonic() + STATISTICS_TIMEOUT_SECONDS
    others = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
    with psycopg.connect(url, autocommit=True) as session:
        while session.execute(others).fetchone() != (0,):
            assert time.monotonic() < deadline, "sessions are still open"
            time.sleep(0.01)
        row = session.execute("SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()").fetchone()
        assert row is not None
        return int(row[0])
