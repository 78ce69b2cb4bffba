"""The heartbeat: one thread extends all leases of a worker, in one batch every third of the lease time."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable

from holdfast.clock import SECOND, boot_time, monotonic
from holdfast.drivers.contract import Driver
from holdfast.errors import LeaseError, StoreError
from holdfast.model import bounds
from holdfast.model.lease import Lease, Note
from holdfast.worker.event_log import log_failure
from holdfast.worker.observer import WorkerObserver
from holdfast.worker.processes.running import Run

RETRY_SECONDS = 0.2  # pause after a heartbeat that failed in the store; shorter if the lease is short


class Heartbeat:
    """Extends the leases of its runs until they are removed."""

    def __init__(
        self,
        driver: Driver,
        *,
        lease_for: int,
        on_lost: Callable[[Run, LeaseError], None],
        on_cancel: Callable[[Run], None],
        on_lock_lost: Callable[[Run], None] = lambda _: None,
        observer: WorkerObserver | None = None,
        extend_locks: Callable[[Iterable[Run]], list[Run]] = lambda _: [],
    ) -> None:
        """``extend_locks`` keeps the locks of the runs that hold some, and returns the runs whose lock is lost."""
        self._driver = driver
        self._lease_for = lease_for
        self._on_lost = on_lost
        self._on_cancel = on_cancel
        self._on_lock_lost = on_lock_lost
        self._observer = observer or WorkerObserver()
        self._extend_locks = extend_locks
        self._leases: dict[Run, Lease] = {}  # the latest lease of each run
        self._extending = threading.Lock()  # held during an extend: no lease is settled while it is being extended
        self._guard = threading.Lock()  # of _leases
        self._stop = threading.Event()
        self._is_due = threading.Event()  # the thread extends now, and does not wait for its interval
        self._thread = threading.Thread(target=self._beat_until_stopped, name="holdfast-heartbeat", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def add(self, runs: Iterable[Run]) -> None:
        """Extend the leases of these runs from now on."""
        with self._guard:
            self._leases.update((run, run.reservation.lease) for run in runs)

    def remove(self, runs: Iterable[Run]) -> list[Lease]:
        """Stop extending these runs, and return their latest leases, also lost ones. Waits for a running extend."""
        with self._extending, self._guard:
            return [self._leases.pop(run, run.reservation.lease) for run in runs]

    def running_jobs(self, *, longer_than_seconds: float) -> list[str]:
        """Return the ids of the jobs whose handlers have been running for this long, and were not asked to stop."""
        before = monotonic() - longer_than_seconds
        with self._guard:
            runs = list(self._leases)
        return [
            run.reservation.job.id
            for run in runs
            if run.began_at is not None and run.began_at <= before and run.stop_reason is None
        ]

    def beat_now(self) -> None:
        """Extend all leases now, in the thread: the answers say which jobs have to be cancelled."""
        self._is_due.set()

    def stop(self, timeout: float | None = None) -> None:
        """End the thread. After ``timeout`` seconds it is left behind, in a call that the store does not answer."""
        self._stop.set()
        self._is_due.set()
        self._thread.join(timeout)

    def _beat_until_stopped(self) -> None:
        interval = self._lease_for / SECOND / 3
        retry_after = min(RETRY_SECONDS, interval / 5)
        pause = interval
        while True:
            due_at = monotonic() + pause
            self._is_due.wait(pause)
            self._is_due.clear()
            if self._stop.is_set():
                return
            try:
                late_seconds = max(0.0, monotonic() - due_at)
                extended = self.beat()
                if extended or pause != interval:  # a heartbeat that succeeds ends an outage
                    self._observer.extended(extended, late_seconds)
                pause = interval
            except StoreError as error:  # the store may be back before the leases expire
                self._observer.store_failed("extend", error)
                pause = retry_after
            except Exception as error:  # noqa: BLE001 - without a heartbeat every lease would be lost: a bug must not end this thread
                log_failure("heartbeat.failed", error)
                pause = retry_after

    def beat(self) -> int:
        """Extend all leases and send the notes of their runs; report the lost leases and the requested cancels.

        Returns how many leases the call was for.
        """
        with self._extending:
            with self._guard:
                leases = list(self._leases.items())
            if not leases:
                return 0
            sent = {run: run.note for run, _ in leases}
            began = boot_time()
            without_lock = self._extend_locks(sent)  # first: a lock must not end before its lease
            answers = self._extend([lease for _, lease in leases], sent)
        for run in without_lock:
            self._on_lock_lost(run)
        for run, note in sent.items():
            if run.note is note:  # a note that came meanwhile is for the next beat
                run.note = None
        for (run, _), answer in zip(leases, answers, strict=True):
            if isinstance(answer, Lease):
                run.set_lease(began, self._lease_for / SECOND)
                with self._guard:
                    if run in self._leases:
                        self._leases[run] = answer
                if answer.cancel_requested:
                    self._on_cancel(run)
            else:
                with self._guard:
                    is_lost = self._leases.pop(run, None) is not None
                if is_lost:
                    self._on_lost(run, answer)
        return len(leases)

    def _extend(self, leases: list[Lease], sent: dict[Run, Note | None]) -> list[Lease | LeaseError]:
        notes = {run.reservation.job.id: _with_start(run, note) for run, note in sent.items()}
        answers: list[Lease | LeaseError] = []
        for start in range(0, len(leases), bounds.MAX_BATCH_ITEMS):
            batch = leases[start : start + bounds.MAX_BATCH_ITEMS]
            batch_notes = {lease.job_id: notes[lease.job_id] for lease in batch}
            answers += self._driver.extend(batch, lease_for=self._lease_for, notes=batch_notes)
        return answers


def _with_start(run: Run, note: Note | None) -> Note:
    note = note or Note()
    return Note(started_at=run.started_at, progress=note.progress, checkpoint=note.checkpoint)
