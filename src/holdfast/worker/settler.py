"""The settler: one thread that settles ended attempts in batches. An ended attempt waits a short time for others."""

from __future__ import annotations

import heapq
import threading
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress

from holdfast.clock import SECOND, monotonic
from holdfast.drivers.capabilities import Feature
from holdfast.drivers.requests import Extend, Reap
from holdfast.drivers.store import Store
from holdfast.errors import LeaseError, StoreError
from holdfast.log import events
from holdfast.log.records import log_event, log_failure
from holdfast.model.lease import Lease
from holdfast.model.settlement import Retry, Settlement
from holdfast.worker.heartbeat import Heartbeat
from holdfast.worker.lost_fields import delay_of
from holdfast.worker.observer import WorkerObserver
from holdfast.worker.outcome import Outcome, Snoozed
from holdfast.worker.processes.running import Run

MAX_BATCH_SETTLEMENTS = 1000  # in one call
MAX_BATCH_BYTES = 16 << 20  # of the results and outputs in one call, unless one alone has more
MAX_DELAYED_RUNS = 1000  # whose leases are kept for a store without delays
MAX_UNREPORTED_LEASES = 10_000  # leases that expired while the store was out of reach; more are not kept
MAX_UNSETTLED_RUNS = 4 * MAX_BATCH_SETTLEMENTS  # the worker reserves nothing while more ended attempts wait
MAX_DELAY_SECONDS = 0.050  # longest time that an ended attempt waits for others
STOP_POLL_SECONDS = 0.25  # between two looks at the time that is left
RETRY_SECONDS = 0.1  # pause after the store failed to settle a batch

SettlementOf = Callable[[Run, Outcome, Lease], Settlement]
AddWrites = Callable[[Sequence[Run], list[Settlement]], list[Settlement]]
Settle = Callable[[Sequence[Run], list[Settlement]], list[LeaseError | None]]
OnSettled = Callable[[Sequence[Run], Sequence[Settlement], Sequence[LeaseError | StoreError | None]], None]


class Settler:
    """Settles ended attempts. The settlement of an attempt uses its latest lease."""

    def __init__(
        self,
        driver: Store,
        heartbeat: Heartbeat,
        *,
        lease_for: int,
        settlement_of: SettlementOf,
        add_writes: AddWrites = lambda _, settlements: settlements,
        settle: Settle | None = None,
        on_settled: OnSettled,
        observer: WorkerObserver | None = None,
        max_delay_seconds: float = MAX_DELAY_SECONDS,
    ) -> None:
        """``add_writes`` and ``settle`` are those of a guard, which commits writes of its own with the settlements."""
        self._driver = driver
        self._max_delay_seconds = max_delay_seconds
        self._add_writes = add_writes
        self._settle_batch = settle or (lambda _, settlements: driver.settle(settlements))
        self._heartbeat = heartbeat
        self._lease_for = lease_for
        self._settlement_of = settlement_of
        self._on_settled = on_settled
        self._observer = observer or WorkerObserver()
        self._is_urgent = False  # no more attempts are expected soon: settle without waiting for them
        self._is_hurried = False  # see ``hurry``
        self.settled_batches = 0  # so far
        self._waiting: list[tuple[Run, Outcome]] = []
        self._waiting_since = 0.0  # monotonic seconds: when the oldest of them was added
        self._settling = 0  # attempts in the batch that is being settled
        self._is_store_out = False  # the last call to the store failed
        self._unreported: list[Lease] = []  # of attempts that could not be settled
        self._delays = not driver.capabilities.has(Feature.SCHEDULE)
        self._delayed: list[tuple[float, int, Run, Outcome]] = []  # a heap: until when the store must not get them back
        self._changed = threading.Condition()
        self._is_stopping = False
        self._thread = threading.Thread(target=self._settle_until_stopped, name="holdfast-settler", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def add(self, ended: Iterable[tuple[Run, Outcome]], *, more_soon: bool) -> None:
        """Settle these runs: in a batch with others if more will end soon, else now."""
        with self._changed:
            if self._delays:
                ended = [one for one in ended if not self._delay(*one)]
            is_first = not self._waiting
            if is_first:
                self._waiting_since = monotonic()
            self._waiting += ended
            self._is_urgent = self._is_urgent or not more_soon
            if is_first or self._is_urgent or len(self._waiting) >= MAX_BATCH_SETTLEMENTS:
                self._changed.notify_all()

    def _delay(self, run: Run, outcome: Outcome) -> bool:
        """Keep the lease of a run until the delay of its release is over, at most that of ``MAX_DELAYED_RUNS`` runs."""
        delay = delay_of(outcome)
        if delay <= 0:
            return False
        heapq.heappush(self._delayed, (monotonic() + delay / SECOND, run.number, run, outcome))
        self._changed.notify_all()
        return True

    def _take_delayed(self) -> float | None:
        """Add the runs whose delay is over to those that wait; return how long the next delay takes."""
        while self._delayed:
            left = self._delayed[0][0] - monotonic()
            if left > 0 and not self._is_stopping and len(self._delayed) <= MAX_DELAYED_RUNS:
                return left
            self._waiting.append(heapq.heappop(self._delayed)[2:])
        return None

    def hurry(self, *, hurried: bool) -> None:
        """Settle what has ended as soon as the last batch is settled, and wait for no others; or wait again.

        For jobs whose settlement lets other jobs run. The batches are as large as the store is slow.
        """
        if hurried is not self._is_hurried:
            with self._changed:
                self._is_hurried = hurried
                self._changed.notify_all()

    def wait_for_batch(self, after: int, timeout: float) -> None:
        """Wait until more than ``after`` batches are settled, at most ``timeout`` seconds."""
        with self._changed:
            self._changed.wait_for(lambda: self.settled_batches > after, timeout)

    def wait_until_idle(self, timeout: float) -> bool:
        """Wait until every added run is settled, at most ``timeout`` seconds; return whether all are settled."""
        return self._wait(0, timeout)

    def wait_for_capacity(self, timeout: float) -> bool:
        """Wait until at most ``MAX_UNSETTLED_RUNS`` runs are not settled: a slow store sets the pace of the worker."""
        return self._wait(MAX_UNSETTLED_RUNS, timeout)

    def _wait(self, most: int, timeout: float) -> bool:
        with self._changed:
            return self._changed.wait_for(
                lambda: len(self._waiting) + self._snoozed() + self._settling <= most and not self._is_store_out,
                timeout,
            )

    def _snoozed(self) -> int:
        """Count the delayed runs of jobs that run again in this worker; one of an unknown type does not."""
        return sum(isinstance(outcome, Snoozed) for *_, outcome in self._delayed)

    def report_outages(self) -> None:
        """Tell the store which leases ended although this worker lived: no crash is counted for them (L7).

        Call it before a reserve, which ends expired leases and counts their crashes.
        """
        with self._changed:
            leases, self._unreported = self._unreported, []
        try:
            if leases:
                self._driver.do(Reap(leases=leases))
        except StoreError:
            with self._changed:
                self._unreported = [*leases, *self._unreported][:MAX_UNREPORTED_LEASES]
            raise

    def stop(self, seconds_left: Callable[[], float]) -> None:
        """Settle all added runs, and end the thread. If the store does not answer in time, their leases will expire.

        ``seconds_left`` is called again and again: the time may become shorter meanwhile.
        """
        began = monotonic()
        with self._changed:
            self._is_stopping = True
            self._changed.notify_all()
        while self._thread.is_alive() and (left := seconds_left()) > 0:
            self._thread.join(min(left, STOP_POLL_SECONDS))
        if self._thread.is_alive():
            unsettled, seconds = len(self._waiting) + self._settling, monotonic() - began
            reason = f"no answer of the store in {seconds:.1f} s"
            log_event(events.SETTLE_FAILED, count=unsettled, reason=reason)

    def _settle_until_stopped(self) -> None:
        while batch := self._next_batch():
            try:
                self._settle(batch)
            except Exception as error:  # noqa: BLE001 - the leases of this batch will expire; the later batches are settled
                log_failure(events.SETTLE_FAILED, error, count=len(batch))
            with self._changed:
                self._settling = 0
                self.settled_batches += 1
                self._changed.notify_all()
        with suppress(StoreError):
            self.report_outages()

    def _next_batch(self) -> list[tuple[Run, Outcome]]:
        """Wait until a batch is full or its first run has waited long enough, and return it; empty at the end."""
        with self._changed:
            left = self._take_delayed()
            while not self._waiting and not self._is_stopping:
                self._changed.wait(left)
                left = self._take_delayed()
            while (
                self._waiting
                and len(self._waiting) < MAX_BATCH_SETTLEMENTS
                and not self._is_urgent
                and not self._is_hurried
                and not self._is_stopping
            ):
                left = self._waiting_since + self._max_delay_seconds - monotonic()
                if left <= 0:
                    break
                self._changed.wait(left)
            count = _batch_size(self._waiting)
            batch, self._waiting = self._waiting[:count], self._waiting[count:]
            self._waiting_since = monotonic()  # the rest was added a moment ago, when the batch was full already
            self._settling = len(batch)
            self._is_urgent = self._is_urgent and bool(self._waiting)
            return batch

    def _settle(self, batch: list[tuple[Run, Outcome]]) -> None:
        """Settle a batch. A lost lease is settled too: the store answers with a refusal, which is reported."""
        runs = [run for run, _ in batch]
        leases = self._heartbeat.remove(runs)
        settlements = self._add_writes(
            runs,
            [self._settlement_of(run, outcome, lease) for (run, outcome), lease in zip(batch, leases, strict=True)],
        )
        deadline = monotonic() + self._lease_for / SECOND
        while True:
            try:
                send_last_notes(self._driver, runs, leases, self._lease_for)
                answers: Sequence[LeaseError | StoreError | None] = self._settle_batch(runs, settlements)
            except StoreError as error:
                self._is_store_out = True
                self._observer.store_failed("settle", error)
                if monotonic() < deadline:
                    threading.Event().wait(RETRY_SECONDS)
                    continue
                log_event(events.SETTLE_FAILED, count=len(batch), reason=str(error))
                answers = [error] * len(batch)
            self._is_store_out = False
            self._keep_unreported(settlements, answers)
            self._on_settled(runs, settlements, answers)
            return

    def _keep_unreported(
        self, settlements: Sequence[Settlement], answers: Sequence[LeaseError | StoreError | None]
    ) -> None:
        """Keep the leases that could not be settled, except those of jobs that did crash."""
        leases = [
            settlement.lease
            for settlement, answer in zip(settlements, answers, strict=True)
            if answer is not None and not (isinstance(settlement, Retry) and settlement.crashed)
        ]
        if leases:
            with self._changed:
                self._unreported = [*self._unreported, *leases][:MAX_UNREPORTED_LEASES]


def _batch_size(ended: Sequence[tuple[Run, Outcome]]) -> int:
    """Return how many of these runs make one batch."""
    total = 0
    for count, (run, outcome) in enumerate(ended[:MAX_BATCH_SETTLEMENTS]):
        total += len(getattr(outcome, "result", None) or b"")
        if run.output is not None:
            total += len(run.output.text)
        if total > MAX_BATCH_BYTES and count:
            return count
    return min(len(ended), MAX_BATCH_SETTLEMENTS)


def send_last_notes(driver: Store, runs: list[Run], leases: list[Lease], lease_for: int) -> None:
    """Send the notes that no heartbeat has sent yet: a checkpoint must not be lost with the lease."""
    with_notes = [(run, lease, run.note) for run, lease in zip(runs, leases, strict=True) if run.note is not None]
    if with_notes and driver.capabilities.has(Feature.NOTES):
        notes = {run.reservation.job.id: note for run, _, note in with_notes if note is not None}
        driver.do(Extend(leases=[lease for _, lease, _ in with_notes], lease_for=lease_for, notes=notes))
        for run, _, _ in with_notes:
            run.note = None
