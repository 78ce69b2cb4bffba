"""Keeping leases alive: one thread, one batched call every third of the lease, whatever the handlers do."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable

from holdfast.clock import SECOND
from holdfast.drivers.contract import Driver
from holdfast.errors import LeaseError, StoreError
from holdfast.model import bounds
from holdfast.model.lease import Lease, Note
from holdfast.worker.running import Run

log = logging.getLogger("holdfast.worker")

AGAIN = 0.2  # seconds until a heartbeat is tried again that the store could not take; sooner if the lease is short


class Heart:
    """Extends every lease it was given, until the lease is taken away from it."""

    def __init__(
        self,
        driver: Driver,
        *,
        lease_for: int,
        on_lost: Callable[[Run, LeaseError], None],
        on_cancel: Callable[[Run], None],
    ) -> None:
        self._driver = driver
        self._lease_for = lease_for
        self._on_lost = on_lost
        self._on_cancel = on_cancel
        self._held: dict[Run, Lease] = {}
        self._beating = threading.Lock()  # held during an extend: nothing is settled while one is under way
        self._guard = threading.Lock()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._beat_on, name="holdfast-heart", daemon=True)

    def start(self) -> None:
        """Begin to beat."""
        self._thread.start()

    def add(self, runs: Iterable[Run]) -> None:
        """Keep these leases alive from now on."""
        with self._guard:
            self._held.update((run, run.reservation.lease) for run in runs)

    def remove(self, runs: Iterable[Run]) -> list[Lease]:
        """Stop keeping these; gives their latest leases, lost or not, once no extend of theirs is under way."""
        with self._beating, self._guard:
            return [self._held.pop(run, run.reservation.lease) for run in runs]

    def stop(self) -> None:
        """Beat no more."""
        self._stop.set()
        self._thread.join()

    def _beat_on(self) -> None:
        third = self._lease_for / SECOND / 3
        again = min(AGAIN, third / 5)
        pause = third
        while not self._stop.wait(pause):
            try:
                self.beat()
                pause = third
            except StoreError as error:  # the store may be back before the leases end
                log.warning("heartbeat.failed", extra={"error": str(error)})
                pause = again
            except Exception:  # a heart that stops because of a bug would cost every lease
                log.exception("heartbeat.failed")
                pause = again

    def beat(self) -> None:
        """One round: extend all, keep their notes, find out which are lost and which are to stop."""
        with self._beating:
            with self._guard:
                held = list(self._held.items())
            if not held:
                return
            told = {run: run.note for run, _ in held}
            notes = {run.reservation.job.id: _with_start(run, note) for run, note in told.items()}
            leases = [lease for _, lease in held]
            answers: list[Lease | LeaseError] = []
            for start in range(0, len(leases), bounds.MAX_BATCH_ITEMS):
                part = leases[start : start + bounds.MAX_BATCH_ITEMS]
                told_now = {lease.job_id: notes[lease.job_id] for lease in part}
                answers += self._driver.extend(part, lease_for=self._lease_for, notes=told_now)
        for run, note in told.items():
            if run.note is note:  # told once; what has come meanwhile is for the next time
                run.note = None
        for (run, _), answer in zip(held, answers, strict=True):
            if isinstance(answer, Lease):
                with self._guard:
                    if run in self._held:
                        self._held[run] = answer
                if answer.cancel_requested:
                    self._on_cancel(run)
            else:
                with self._guard:
                    lost = self._held.pop(run, None) is not None
                if lost:
                    self._on_lost(run, answer)


def _with_start(run: Run, note: Note | None) -> Note:
    left = note or Note()
    return Note(started_at=run.started_at, progress=left.progress, checkpoint=left.checkpoint)
