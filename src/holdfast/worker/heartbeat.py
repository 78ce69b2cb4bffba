"""The heartbeat: extends all leases of a worker, in one batch every third of the lease time, and sooner if need be.

A beat does not wait for the answer to the one before it. A store that answers late would otherwise get the next extend
so late that its answer comes after the local deadline of the leases, although the store grants every extend.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Collection, Iterable

from holdfast.clock import SECOND, boot_time, monotonic, wall_clock
from holdfast.drivers.capabilities import Feature
from holdfast.drivers.requests import Extend
from holdfast.drivers.store import Store
from holdfast.errors import LeaseError, StoreError
from holdfast.log import events
from holdfast.log.records import log_failure
from holdfast.model import bounds
from holdfast.model.lease import Lease, Note
from holdfast.worker.observer import WorkerObserver
from holdfast.worker.processes.running import LEASE_MARGIN, Run

RETRY_SECONDS = 0.2  # pause after a heartbeat that failed in the store; shorter if the lease is short
MAX_BEATS = 3  # that wait for their answers at a time
LATENCY_FACTOR = 1.5  # an answer may take so many times as long as the recent ones
LATENCY_DECAY = 0.9  # with each answer: about ten of them are recent


class BeatSchedule:
    """When the next beat is due. Seconds are those of any clock that does not step."""

    def __init__(self, lease_seconds: float, now: float) -> None:
        self.interval = lease_seconds / 3
        self._retry_after = min(RETRY_SECONDS, self.interval / 5)
        self.usable_seconds = (1 - LEASE_MARGIN) * lease_seconds  # from a grant to the local deadline
        self._latency = 0.0  # of the slowest recent answer
        self.due_at = now + self.interval

    def add(self, now: float, granted_after: float) -> bool:
        """Add leases that a call from ``granted_after`` to ``now`` granted. Returns whether a beat is due sooner."""
        self._latency = max(self._latency, now - granted_after)
        due_at = granted_after + self._pause()
        is_sooner = due_at < self.due_at
        self.due_at = min(self.due_at, due_at)
        return is_sooner

    def begin(self, now: float) -> None:
        """Begin a beat. The next one does not wait for its end."""
        self.due_at = now + self._pause()

    def end(self, seconds: float) -> None:
        """End a beat that the store has answered after so many seconds."""
        self._latency = max(seconds, LATENCY_DECAY * self._latency)

    def _pause(self) -> float:
        """Return how long after the call that granted leases they are extended: the answer may be late, too."""
        return max(self._retry_after, min(self.interval, self.usable_seconds - LATENCY_FACTOR * self._latency))

    def fail(self, now: float) -> None:
        """Repeat a beat that the store has not answered."""
        self.due_at = min(self.due_at, now + self._retry_after)


class Heartbeat:
    """Extends the leases of its runs until they are removed."""

    def __init__(
        self,
        driver: Store,
        *,
        lease_for: int,
        on_lost: Callable[[Run, LeaseError], None],
        on_cancel: Callable[[Run], None],
        on_lock_lost: Callable[[Run], None] = lambda _: None,
        observer: WorkerObserver | None = None,
        extend_locks: Callable[[Iterable[Run]], list[Run]] = lambda _: [],
        publish_deadline: Callable[[float], None] = lambda _: None,
    ) -> None:
        """``extend_locks`` keeps the locks of the runs that hold some, and returns the runs whose lock is lost.

        ``publish_deadline`` gets the earliest local deadline of all leases whenever it changes.
        """
        self._driver = driver
        self._lease_for = lease_for
        self._on_lost = on_lost
        self._on_cancel = on_cancel
        self._on_lock_lost = on_lock_lost
        self._observer = observer or WorkerObserver()
        self._extend_locks = extend_locks
        self._publish_deadline = publish_deadline
        self._deadline = math.inf  # that was published last
        self._leases: dict[Run, Lease] = {}  # the latest lease of each run
        self._changed = threading.Condition()  # of all below, and of _leases
        self._beats: set[object] = set()  # that the store has not answered yet
        self._schedule = BeatSchedule(lease_for / SECOND, boot_time())
        self._is_out = False  # the last answer was an error
        self._is_stopping = False
        self._extending_locks = threading.Lock()  # two beats at a time would take the locks from one another
        self._threads = [
            threading.Thread(target=self._beat_until_stopped, name=f"holdfast-heartbeat-{number}", daemon=True)
            for number in range(MAX_BEATS)
        ]

    def start(self) -> None:
        """Start the threads. One beats; the others go on if the store takes long to answer."""
        for thread in self._threads:
            thread.start()

    def add(self, runs: Collection[Run]) -> None:
        """Extend the leases of these runs from now on."""
        if not runs:
            return
        deadline = min(run.lease_deadline for run in runs)
        with self._changed:
            self._publish(min(self._deadline, deadline) if self._leases else deadline)
            self._leases.update((run, run.reservation.lease) for run in runs)
            if self._schedule.add(boot_time(), deadline - self._schedule.usable_seconds):
                self._changed.notify_all()  # not for every reserve: that would wake three threads each time

    def _publish(self, deadline: float) -> None:
        self._deadline = deadline
        self._publish_deadline(deadline)

    def remove(self, runs: Iterable[Run]) -> list[Lease]:
        """Stop extending these runs, and return their latest leases, also lost ones.

        Waits for the answers to the beats under way: no lease is settled while it is being extended.
        """
        with self._changed:
            leases = [self._leases.pop(run, run.reservation.lease) for run in runs]
            beats = set(self._beats)
            self._changed.wait_for(lambda: not beats & self._beats)
            return leases

    def running_jobs(self, *, longer_than_seconds: float) -> list[str]:
        """Return the ids of the jobs whose handlers have been running for this long, and were not asked to stop."""
        before = monotonic() - longer_than_seconds
        with self._changed:
            runs = list(self._leases)
        return [
            run.reservation.job.id
            for run in runs
            if run.began_at is not None and run.began_at <= before and run.stop_reason is None
        ]

    def beat_now(self) -> None:
        """Extend all leases now, in a thread: the answers say which jobs have to be cancelled."""
        with self._changed:
            self._schedule.due_at = boot_time()
            self._changed.notify_all()

    def stop(self, timeout: float | None = None) -> None:
        """End the threads. After ``timeout`` seconds those are left behind whose call the store does not answer."""
        with self._changed:
            self._is_stopping = True
            self._changed.notify_all()
        deadline = None if timeout is None else monotonic() + timeout
        for thread in self._threads:
            thread.join(None if deadline is None else max(0.0, deadline - monotonic()))

    def _beat_until_stopped(self) -> None:
        while (late_seconds := self._wait_until_due()) is not None:
            began = monotonic()
            try:
                extended = self.beat()
                with self._changed:
                    self._schedule.end(monotonic() - began)
                    was_out, self._is_out = self._is_out, False
                if extended or was_out:  # a heartbeat that succeeds ends an outage
                    self._observer.extended(extended, late_seconds)
            except StoreError as error:  # the store may be back before the leases expire
                self._observer.store_failed("extend", error)
                self._repeat_soon()
            except Exception as error:  # noqa: BLE001 - without a heartbeat every lease would be lost: a bug must not end this thread
                log_failure(events.HEARTBEAT_FAILED, error)
                self._repeat_soon()

    def _wait_until_due(self) -> float | None:
        """Wait until a beat is due, and return how many seconds late this thread is; None: stop."""
        with self._changed:
            while not self._is_stopping and (left := self._schedule.due_at - boot_time()) > 0:
                self._changed.wait(left)
            if self._is_stopping:
                return None
            now = boot_time()
            late_seconds = now - self._schedule.due_at
            self._schedule.begin(now)
            return late_seconds

    def _repeat_soon(self) -> None:
        with self._changed:
            self._is_out = True
            self._schedule.fail(boot_time())
            self._changed.notify_all()

    def report_starts(self, runs: Iterable[Run]) -> None:
        """Tell the store that these runs begin now, before they do."""
        now = wall_clock()
        for run in runs:
            run.started_at = now
        self.beat(runs)

    def beat(self, runs: Iterable[Run] | None = None) -> int:
        """Extend the leases of these runs, or all leases, and send the notes of the runs.

        Reports the lost leases and the requested cancels. Returns how many leases the call was for.
        """
        beat = object()
        with self._changed:
            chosen = self._leases if runs is None else runs
            leases = [(run, self._leases[run]) for run in chosen if run in self._leases]
            if not leases:
                return 0
            is_only_one = not self._beats  # else a note could overtake the one before it
            self._beats.add(beat)
        sent = {run: run.note if is_only_one else None for run, _ in leases}
        try:
            with self._extending_locks:
                without_lock = self._extend_locks(sent)  # first: a lock must not end before its lease
            answers = self._extend([lease for _, lease in leases], sent)
        finally:
            with self._changed:
                self._beats.discard(beat)
                self._changed.notify_all()
        for run in without_lock:
            self._on_lock_lost(run)
        for run, note in sent.items():
            if run.note is note:  # a note that came meanwhile is for the next beat
                run.note = None
        self._apply([run for run, _ in leases], answers)
        return len(leases)

    def _apply(self, runs: list[Run], answers: list[tuple[Lease | LeaseError, float]]) -> None:
        for run, (answer, began) in zip(runs, answers, strict=True):
            if isinstance(answer, Lease):
                run.set_lease(began, self._lease_for / SECOND)
                with self._changed:
                    if run in self._leases:
                        self._leases[run] = answer
                if answer.cancel_requested:
                    self._on_cancel(run)
            else:
                with self._changed:
                    is_lost = self._leases.pop(run, None) is not None
                if is_lost:
                    self._on_lost(run, answer)
        with self._changed:
            if self._leases:
                self._publish(min(run.lease_deadline for run in self._leases))

    def _extend(self, leases: list[Lease], sent: dict[Run, Note | None]) -> list[tuple[Lease | LeaseError, float]]:
        """Return the answer for each lease, and when the call began, by ``boot_time``."""
        notes: dict[str, Note] = {}
        if self._driver.capabilities.has(Feature.NOTES):
            notes = {run.reservation.job.id: _with_start(run, note) for run, note in sent.items()}
        answers: list[tuple[Lease | LeaseError, float]] = []
        for start in range(0, len(leases), bounds.MAX_BATCH_ITEMS):
            batch = leases[start : start + bounds.MAX_BATCH_ITEMS]
            batch_notes = {lease.job_id: notes[lease.job_id] for lease in batch if notes}
            began = boot_time()
            extended = self._driver.do(Extend(leases=batch, lease_for=self._lease_for, notes=batch_notes))
            answers += [(answer, began) for answer in extended]
        return answers


def _with_start(run: Run, note: Note | None) -> Note:
    note = note or Note()
    return Note(started_at=run.started_at, progress=note.progress, checkpoint=note.checkpoint)
