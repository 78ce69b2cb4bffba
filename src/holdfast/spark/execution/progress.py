"""The progress of a run, from the store's counts and the status that slots report. Runs on the Spark driver."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from holdfast.clock import monotonic
from holdfast.drivers.answers import QueueCounts
from holdfast.drivers.requests import Scan
from holdfast.drivers.store import Store
from holdfast.spark.execution.run_spec import SLOT_STATUS_KIND, RunSpec, SlotStatus

COUNT_PAUSE_FACTOR = 20  # counting reads every job, so the next count waits 20 times as long as the last one took
RATE_WINDOW_SECONDS = 5.0
MIN_ESTIMATE_SECONDS = 3.0  # the time that is left is not estimated before jobs have ended for so long,
MIN_ESTIMATE_JOBS = 10  # nor before so many jobs have ended in that time
PAGE_ENTRIES = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """The state of a run and of its queues.

    ``done``, ``dead`` and ``cancelled`` count jobs that ended since the start of the run, in any slot or worker.
    """

    ready: int  # including jobs that are scheduled for later
    inflight: int
    done: int
    dead: int
    cancelled: int = 0
    rate: float  # jobs ended in one second, over the last seconds
    slots: tuple[SlotStatus, ...]  # the slots that are alive, ordered by name
    settled: Counter[str]  # attempts by status, as the slots report
    elapsed: float  # seconds
    left: float | None = None  # seconds until the queues are empty; None until it can be estimated

    @property
    def ended(self) -> int:
        """Jobs that need no more work."""
        return self.done + self.dead + self.cancelled

    @property
    def total(self) -> int:
        """All jobs of the run that are known."""
        return self.ready + self.inflight + self.ended

    @property
    def busy(self) -> int:
        """Slots that hold jobs."""
        return sum(slot.held > 0 for slot in self.slots)


OnProgress = Callable[[Progress], None]


def slot_statuses(store: Store, run: str) -> list[SlotStatus]:
    """Return what the slots of a run have reported, ordered by name."""
    statuses: list[SlotStatus] = []
    prefix, after = f"{run}/", ""
    while entries := store.do(Scan(kind=SLOT_STATUS_KIND, prefix=prefix, after=after, limit=PAGE_ENTRIES)):
        statuses += map(SlotStatus.of, entries)
        after = entries[-1].key
    return statuses


class ProgressMonitor:
    """Reads the progress of one run. The slots are read at every call; the store counts jobs less often."""

    def __init__(self, store: Store, spec: RunSpec, *, rows: int = 0) -> None:
        """Count what has ended before the run.

        ``rows`` is the size of a DataFrame whose rows the slots store during the run: rows that are not stored yet
        count as ready.
        """
        self._store = store
        self._spec = spec
        self._rows = rows
        self._began = monotonic()
        self._next_count_at = 0.0
        self._counts = self._counts_before = self._count()
        self._ended: deque[tuple[float, int]] = deque([(self._began, 0)])  # (when, jobs ended by then)
        self._first_ended: tuple[float, int] | None = None  # the first of these that is not zero

    def read(self, *, final: bool = False) -> Progress:
        """Return the progress now. The final one is exact: the store counts again."""
        statuses = slot_statuses(self._store, self._spec.run)
        settled: Counter[str] = Counter()
        for status in statuses:
            settled.update(status.settled)
        if final or monotonic() >= self._next_count_at:
            self._counts = self._count()
        counts, before = self._counts, self._counts_before
        # Both numbers may be too low, never too high: a count is old, and a report is late or lost with its slot.
        counted = counts.done - before.done, counts.dead - before.dead, counts.cancelled - before.cancelled
        reported = settled["acked"] + settled["skipped"], settled["dead"] + settled["rejected"], settled["cancelled"]
        done, dead, cancelled = (max(0, *numbers) for numbers in zip(counted, reported, strict=True))
        ended = done + dead + cancelled
        waiting = max(0, counts.waiting - (ended - sum(counted)))
        inflight = min(counts.inflight, waiting)
        stored = waiting + ended + before.ended
        ready = waiting - inflight + (0 if final else max(0, self._rows - stored))
        return Progress(
            ready=ready,
            inflight=inflight,
            done=done,
            dead=dead,
            cancelled=cancelled,
            rate=self._rate(ended),
            slots=tuple(status for status in statuses if status.alive),
            settled=settled,
            elapsed=monotonic() - self._began,
            left=self._estimate_left(ready + inflight, ended),
        )

    def _count(self) -> _Counts:
        began = monotonic()
        rows = self._store.counts(self._spec.options.queues)
        self._next_count_at = monotonic() + COUNT_PAUSE_FACTOR * (monotonic() - began)
        types = self._spec.catalogue.types
        return _Counts.of([row for row in rows if row.type in types])

    def _rate(self, ended: int) -> float:
        now = monotonic()
        while len(self._ended) > 1 and self._ended[1][0] <= now - RATE_WINDOW_SECONDS:
            self._ended.popleft()
        since, ended_then = self._ended[0]
        self._ended.append((now, ended))
        return max(0, ended - ended_then) / (now - since) if now > since else 0.0

    def _estimate_left(self, open_jobs: int, ended: int) -> float | None:
        """Return the seconds until no job is open, at the rate since the first job ended.

        The time before does not count: Spark starts executors, and slots import the handlers. If many jobs ended within
        the last seconds, only these count, because the rate changes.
        """
        now = monotonic()
        if self._first_ended is None:
            self._first_ended = (now, ended) if ended else None
            return None
        since, ended_then = self._first_ended
        recent_since, recent_ended_then = self._ended[0]
        if recent_since >= since and ended - recent_ended_then >= MIN_ESTIMATE_JOBS:
            since, ended_then = recent_since, recent_ended_then
        if now - since < MIN_ESTIMATE_SECONDS or ended - ended_then < MIN_ESTIMATE_JOBS:
            return None
        return open_jobs * (now - since) / (ended - ended_then)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Counts:
    """The store's counts, over all queues and types of the run."""

    waiting: int
    inflight: int
    done: int
    dead: int
    cancelled: int

    @property
    def ended(self) -> int:
        return self.done + self.dead + self.cancelled

    @classmethod
    def of(cls, rows: Sequence[QueueCounts]) -> _Counts:
        return cls(
            waiting=sum(row.ready + row.scheduled + row.inflight for row in rows),
            inflight=sum(row.inflight for row in rows),
            done=sum(row.done for row in rows),
            dead=sum(row.dead for row in rows),
            cancelled=sum(row.cancelled for row in rows),
        )
