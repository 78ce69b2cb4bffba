"""How a run stands: what the store counts, and what the slots tell in the registry. Nobody asks about single jobs."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import msgspec

from holdfast.clock import monotonic
from holdfast.drivers.contract import QueueCounts, Store
from holdfast.spark.execution.slot import PRESENCE, Order, Standing

RESTS = 20  # counting reads every row of the queues: it rests for so many times as long as it took
WINDOW = 5.0  # seconds over which the rate is taken


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """How a run and its queues stand. ``done`` and ``dead`` are those since the run began, whoever ended them."""

    ready: int  # also those that are scheduled for later
    inflight: int
    done: int
    dead: int
    rate: float  # jobs ended a second, lately
    slots: tuple[Standing, ...]  # that are alive, in the order of their names
    settled: Counter[str]  # how many attempts ended how, as the slots tell
    elapsed: float  # seconds

    @property
    def ended(self) -> int:
        """Jobs that need no more work."""
        return self.done + self.dead

    @property
    def total(self) -> int:
        """All jobs that are known."""
        return self.ready + self.inflight + self.ended

    @property
    def busy(self) -> int:
        """Slots that hold jobs."""
        return sum(slot.held > 0 for slot in self.slots)

    @property
    def left(self) -> float | None:
        """Seconds until nothing is left to do, if it goes on like this."""
        return (self.ready + self.inflight) / self.rate if self.rate > 0 else None


OnProgress = Callable[[Progress], None]


class Gauge:
    """Looks at a run, as often as it is asked to; the store counts less often, the more it has to count."""

    def __init__(self, store: Store, order: Order, *, rows: int = 0) -> None:
        """``rows`` are those of a frame that slots store as they go; what is not stored yet is as good as ready."""
        self._store = store
        self._order = order
        self._rows = rows
        self._began = monotonic()
        self._count_at = 0.0
        self._counted = self._first = self._count()
        self._ends: deque[tuple[float, int]] = deque([(self._began, 0)])  # (when, jobs ended by then)

    def look(self, *, last: bool = False) -> Progress:
        """How it stands now; the last look is exact."""
        standings = self._standings()
        settled: Counter[str] = Counter()
        for standing in standings:
            settled.update(standing.settled)
        if last or monotonic() >= self._count_at:
            self._counted = self._count()
        # Neither says more than is true: a count grows old, slots tell late, and one that dies takes its own with it.
        counted_done, counted_dead = self._counted.done - self._first.done, self._counted.dead - self._first.dead
        done = max(0, counted_done, settled["acked"])
        dead = max(0, counted_dead, settled["dead"] + settled["rejected"])
        waiting = max(0, self._counted.waiting - (done - counted_done) - (dead - counted_dead))
        inflight = min(self._counted.inflight, waiting)
        stored = waiting + done + dead + self._first.done + self._first.dead
        return Progress(
            ready=waiting - inflight + (0 if last else max(0, self._rows - stored)),
            inflight=inflight,
            done=done,
            dead=dead,
            rate=self._rate(done + dead),
            slots=tuple(standing for standing in standings if standing.alive),
            settled=settled,
            elapsed=monotonic() - self._began,
        )

    def _count(self) -> _Count:
        began = monotonic()
        rows = self._store.counts(self._order.options.queues)
        self._count_at = monotonic() + RESTS * (monotonic() - began)
        types = self._order.catalogue.types
        return _Count.of([row for row in rows if row.type in types])

    def _standings(self) -> list[Standing]:
        found: list[Standing] = []
        after = ""
        while entries := self._store.scan(PRESENCE, prefix=f"{self._order.run}/", after=after, limit=100):
            found += (msgspec.json.decode(entry.value or b"{}", type=Standing) for entry in entries)
            after = entries[-1].key
        return found

    def _rate(self, ended: int) -> float:
        now = monotonic()
        while len(self._ends) > 1 and self._ends[1][0] <= now - WINDOW:
            self._ends.popleft()
        since, before = self._ends[0]
        self._ends.append((now, ended))
        return max(0, ended - before) / (now - since) if now > since else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class _Count:
    """What the store counted, of all queues and types of the run."""

    waiting: int
    inflight: int
    done: int
    dead: int

    @classmethod
    def of(cls, rows: Sequence[QueueCounts]) -> _Count:
        return cls(
            waiting=sum(row.ready + row.scheduled + row.inflight for row in rows),
            inflight=sum(row.inflight for row in rows),
            done=sum(row.done for row in rows),
            dead=sum(row.dead + row.cancelled for row in rows),
        )
