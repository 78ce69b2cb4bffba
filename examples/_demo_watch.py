"""What the demo knows while it runs: the ledger, followed by one cursor, and what the workers say."""

from __future__ import annotations

import statistics
import time
from collections import Counter, defaultdict
from collections.abc import Iterator

from _demo_crew import Crew
from _demo_jobs import KINDS
from _demo_screen import Counts, Kind

from holdfast.clock import SECOND
from holdfast.drivers.contract import Store
from holdfast.model.ledger import Ending, LedgerRow

COUNT_EVERY = 0.2  # seconds between two counts: they read every job


class Watch:
    """Looks again whenever it is told to."""

    def __init__(self, store: Store, crew: Crew) -> None:
        self._store = store
        self._crew = crew
        self._cursor: str | None = None
        self._counts = Counts(total=0)
        self._counted_at = 0.0
        self.ledger: list[LedgerRow] = []
        self.endings: Counter[str] = Counter()
        self.expired: defaultdict[str, set[str]] = defaultdict(set)  # jobs whose leases a worker lost, by its name
        self.ended: set[str] = set()  # jobs that need no more work
        self.holding: Counter[str] = Counter()
        self.told: list[tuple[str, int, str]] = []  # job id, fence, ending
        self.refused: list[tuple[str, int, str]] = []  # job id, fence, error
        self.accepted = 0

    def look(self) -> None:
        """Hear the workers, read the ledger on to its end. Raises ``WorkerLost``."""
        self._crew.check()
        self._hear()
        while (page := self._store.ledger(self._cursor)).items:
            self._cursor = page.cursor
            for row in page.items:
                self._learn(row)

    def run_again(self, worker: str) -> int:
        """How many jobs, lost by this worker, others have ended."""
        return len(self.expired[worker] & self.ended)

    def counts(self) -> Counts:
        """Where the jobs stand; at most a moment old."""
        if time.monotonic() - self._counted_at > COUNT_EVERY:
            found = self._store.counts()
            self._counts = Counts(
                total=self.accepted,
                ready=sum(row.ready + row.scheduled for row in found),
                inflight=sum(row.inflight for row in found),
                done=sum(row.done for row in found),
                dead=sum(row.dead for row in found),
                retried=self.endings[Ending.RETRIED],
                expired=self.endings[Ending.EXPIRED],
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

    def _hear(self) -> None:
        for said in self._crew.heard():
            self.holding[said.worker.name] += said.holding
            self.told += said.settled
            self.refused += said.refused

    def _learn(self, row: LedgerRow) -> None:
        self.ledger.append(row)
        self.endings[row.ending] += 1
        if row.ending is Ending.EXPIRED:
            self.expired[row.worker].add(row.job_id)
        if row.ending is Ending.REQUEUED:
            self.ended.remove(row.job_id)
        elif row.state is not None and row.state.ended:
            self.ended.add(row.job_id)
