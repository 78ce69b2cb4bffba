"""``StoreGauges``: how many jobs of which state a store has, and how old the oldest ready one is.

Numbers of a large space are estimated. The store is asked in the background, at an interval that grows with the time
that the count took; a scrape only reads the last answer. Every worker asks for its own queues, so the workers of a
queue export the same numbers.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from holdfast.clock import SECOND, monotonic
from holdfast.drivers.answers import QueueCounts
from holdfast.drivers.capabilities import Feature
from holdfast.drivers.requests import Counts
from holdfast.drivers.store import Store
from holdfast.errors import StoreError
from holdfast.log import events
from holdfast.log.failures import FailureLog
from holdfast.model.job import State
from holdfast.observability import metric_table as table
from holdfast.observability.labels import BoundedNames, JobNames, job_labels
from holdfast.observability.metrics import Metrics
from holdfast.worker.observer import WorkerObserver
from holdfast.worker.stopped_domains import read_stopped_domains
from holdfast.worker.type_holds import read_breakers

REST_FACTOR = 100  # a count that took a second is repeated after 100 seconds: at most 1 % of the time is counting
COUNTED = (State.READY, State.INFLIGHT, State.DEAD)
STATES = ("ready", "scheduled", "inflight", "dead")


@dataclass(frozen=True, slots=True, kw_only=True)
class GaugesTiming:
    """The time constants of the thread that counts."""

    first_seconds: float = 1.0  # before the first count: a worker that starts has other things to do
    interval_seconds: float = 15.0  # between two counts, at least
    stop_seconds: float = 2.0  # that a worker waits for a running count when it ends


class StoreGauges:
    """Reads the numbers of a store. A pair of queue and type that has no jobs any more is exported with 0."""

    def __init__(self, store: Store, metrics: Metrics, queues: Sequence[str] | None = None) -> None:
        self._store = store
        self._metrics = metrics
        self._queues = queues
        self._bounded = BoundedNames()
        self._exported: set[JobNames] = set()
        self._breakers: set[JobNames] = set()  # that were open once
        self._stopped: dict[str, set[str]] = {}  # by metric: queues that had a stopped domain once

    def update(self) -> None:
        """Count the jobs and set the gauges. Raises ``StoreError``. A store that counts no jobs has no such gauges."""
        has_jobs = self._store.capabilities.has(Feature.JOBS)
        request = Counts(queues=self._queues, states=COUNTED, estimate=True)
        rows = self._store.do(request) if has_jobs else []
        numbers: Counter[tuple[JobNames, str]] = Counter()
        ages: dict[JobNames, int] = {}
        for row in rows:
            names = self._bounded((row.queue, row.type))
            self._exported.add(names)
            for state in STATES:
                numbers[names, state] += _number(row, state)
            ages[names] = max(ages.get(names, 0), row.oldest_ready_age or 0)
        for names in self._exported:
            labels = job_labels(names)
            for state in STATES:
                self._metrics.gauge(table.JOBS.name, numbers[names, state], {**labels, "state": state})
            self._metrics.gauge(table.OLDEST_READY.name, ages.get(names, 0) / SECOND, labels)
        self._update_breakers()
        self._update_domains()

    def _update_breakers(self) -> None:
        found = [(one.queue, one.type) for one in read_breakers(self._store)]
        is_open = {self._bounded(job) for job in found if self._queues is None or job[0] in self._queues}
        self._breakers |= is_open
        for names in self._breakers:
            self._metrics.gauge(table.BREAKER_OPEN.name, int(names in is_open), job_labels(names))

    def _update_domains(self) -> None:
        stopped = read_stopped_domains(self._store)
        for metric, domains in ((table.DOMAINS_HALTED, stopped.halted), (table.DOMAIN_GAPS, stopped.overdue)):
            queues = (one.queue for one in domains if self._queues is None or one.queue in self._queues)
            numbers = Counter(self._bounded((queue, ""))[0] for queue in queues)
            exported = self._stopped.setdefault(metric.name, set())
            exported |= set(numbers)
            for queue in exported:
                self._metrics.gauge(metric.name, numbers[queue], {"queue": queue})


def _number(row: QueueCounts, state: str) -> int:
    number: int = getattr(row, state)
    return number


class StoreGaugesObserver(WorkerObserver):
    """Updates the gauges of a store while a worker runs, in one thread."""

    def __init__(
        self,
        gauges: StoreGauges,
        metrics: Metrics,
        on_answer: Callable[[], None] = lambda: None,
        *,
        timing: GaugesTiming = GaugesTiming(),
    ) -> None:
        self._timing = timing
        self._gauges = gauges
        self._metrics = metrics
        self._on_answer = on_answer
        self._failures = FailureLog(events.OBSERVER_FAILED, observer=type(self).__name__)
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def started(self, worker: str, queues: Sequence[str]) -> None:
        """Start the thread."""
        del worker, queues
        self._stop = threading.Event()  # of this run: the thread of an earlier one may still wait for the store
        self._thread = threading.Thread(
            target=self._update_until, args=(self._stop,), name="holdfast-metrics", daemon=True
        )
        self._thread.start()

    def stopped(self, worker: str, statuses: object) -> None:
        """End the thread. A count that the store does not answer is left behind."""
        del worker, statuses
        self._stop.set()
        if self._thread is not None:
            self._thread.join(self._timing.stop_seconds)

    def _update_until(self, stop: threading.Event) -> None:
        pause = self._timing.first_seconds
        while not stop.wait(pause):
            pause = max(self._timing.interval_seconds, REST_FACTOR * self._update())

    def _update(self) -> float:
        """Update once; return how many seconds it took."""
        began = monotonic()
        try:
            self._update_gauges()
        except Exception as error:  # noqa: BLE001 - of the collector: the next update is tried
            self._failures.add(error)
        return monotonic() - began

    def _update_gauges(self) -> None:
        try:
            self._gauges.update()
            self._on_answer()
        except StoreError:  # the worker logs an outage; here it is one more failed call
            if not self._stop.is_set():
                self._metrics.count(table.STORE_FAILURES.name, 1, {"task": "counts"})
