"""What the demo knows while it runs: the ledger, followed by one cursor, and what the store counts."""

from __future__ import annotations

import statistics
import time
from collections import Counter, defaultdict
from collections.abc import Iterator

from _demo_crew import Crew
from _demo_jobs import KINDS
from _demo_screen import Counts, Kind, Letters

from holdfast import JobRecord, State
from holdfast.clock import SECOND
from holdfast.drivers.contract import JobFilter, Store
from holdfast.model.ledger import Ending, LedgerRow

COUNT_EVERY = 0.2  # seconds between two counts: they read every job
SLICE = SECOND // 4  # of time, in which endings are counted for the picture of the throughput


class Watch:
    """Looks again whenever it is told to."""

    def __init__(self, store: Store, crew: Crew) -> None:
        self._store = store
        self._crew = crew
        self._cursor: str | None = None
        self._counts = Counts(total=0)
        self._counted_at = 0.0
        self._slices: Counter[int] = Counter()
        self.ledger: list[LedgerRow] = []
        self.endings: Counter[str] = Counter()
        self.written: Counter[str] = Counter()  # rows, by the name of their worker
        self.expired: defaultdict[str, set[str]] = defaultdict(set)  # jobs whose leases a worker lost, by its name
        self.ended: set[str] = set()  # jobs that need no more work
        self.poison: list[LedgerRow] = []  # the last row of jobs that took their processes down too often
        self.accepted = 0

    def look(self) -> None:
        """Read the ledger on to its end. Raises ``WorkerLost``."""
        self._crew.check()
        while (page := self._store.ledger(self._cursor)).items:
            self._cursor = page.cursor
            for row in page.items:
                self._learn(row)

    def run_again(self, worker: str) -> int:
        """How many jobs, lost by this worker, have ended since."""
        return len(self.expired[worker] & self.ended)

    def held_by(self, worker: str) -> int:
        """How many leases this worker has now."""
        held = (self._store.inspect(job.id) for job in self.jobs(JobFilter(states=(State.INFLIGHT,))))
        return sum(one is not None and self._crew.author(one.worker) == worker for one in held)

    def jobs(self, where: JobFilter) -> Iterator[JobRecord]:
        """All that fit, page by page."""
        page = self._store.find(where, limit=1000)
        yield from page
        while page.cursor is not None:
            page = self._store.find(where, limit=1000, after=page.cursor)
            yield from page

    def counts(self) -> Counts:
        """Where the jobs stand; at most a moment old."""
        if time.monotonic() - self._counted_at > COUNT_EVERY:
            found = self._store.counts()
            self._counts = Counts(
                total=self.accepted,
                waiting=sum(row.ready + row.scheduled for row in found),
                inflight=sum(row.inflight for row in found),
                done=sum(row.done for row in found),
                dead=sum(row.dead for row in found),
                retried=self.endings[Ending.RETRIED],
                expired=self.endings[Ending.EXPIRED],
                rates=self._rates(),
            )
            self._counted_at = time.monotonic()
        return self._counts

    def last_counts(self) -> Counts:
        """Where the jobs stand now."""
        self._counted_at = 0.0
        return self.counts()

    def kinds(self) -> Iterator[Kind]:
        """The jobs by type: counted by the store; runs and waits are from the ledger."""
        runs: Counter[str] = Counter()
        waits: defaultdict[str, list[int]] = defaultdict(list)
        for row in self.ledger:
            if row.reserved_at is not None:
                runs[row.type] += 1
                if row.attempt == 1:
                    waits[row.type].append(row.reserved_at - row.available_at)
        for found in sorted(self._store.counts(), key=lambda found: list(KINDS).index(found.type)):
            yield Kind(
                type=found.type,
                about=KINDS[found.type][1],
                jobs=found.done + found.dead,
                runs=runs[found.type],
                done=found.done,
                dead=found.dead,
                waited=statistics.median(waits[found.type]) / SECOND,
            )

    def letters(self) -> list[Letters]:
        """The dead letters by reason, most first."""
        found: defaultdict[tuple[str, str], list[JobRecord]] = defaultdict(list)
        for job in self.jobs(JobFilter(states=(State.DEAD,))):
            found[job.type, job.dead_reason or ""].append(job)
        return sorted(
            (
                Letters(type=type, reason=reason, jobs=len(jobs), error=jobs[0].last_error)
                for (type, reason), jobs in found.items()
            ),
            key=lambda letters: -letters.jobs,
        )

    def _rates(self) -> list[int]:
        """Jobs ended in each slice of time that is over, from the first one."""
        if not self._slices:
            return []
        return [self._slices[number] for number in range(min(self._slices), max(self._slices))]

    def _learn(self, row: LedgerRow) -> None:
        author = self._crew.author(row.worker)
        self.ledger.append(row)
        self.written[author] += 1
        self.endings[row.ending] += 1
        if row.ending is Ending.EXPIRED:
            self.expired[author].add(row.job_id)
        if row.ending is Ending.REQUEUED:
            self.ended.remove(row.job_id)
        elif row.state is not None and row.state.ended:
            self.ended.add(row.job_id)
            self._slices[row.ended_at // SLICE] += 1
            if row.detail == "crashed":
                self.poison.append(row)
