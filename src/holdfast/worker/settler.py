"""Settling in batches: finished work waits for others at most a moment, and no refusal is dropped."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import NamedTuple

from holdfast.clock import SECOND, monotonic
from holdfast.drivers.contract import Driver
from holdfast.errors import LeaseError, StoreError
from holdfast.model.lease import Lease
from holdfast.model.settlement import Settlement
from holdfast.worker.heartbeat import Heart
from holdfast.worker.run import Run

log = logging.getLogger("holdfast.worker")

MOST = 500  # settlements in a batch
LONGEST = 0.050  # seconds that finished work may wait for its batch
AGAIN = 0.1  # seconds until a batch is tried again that the store could not take

MakeSettlement = Callable[[Lease], Settlement]


class Finished(NamedTuple):
    """A run that has ended, and what is to become of its job."""

    run: Run
    settle: MakeSettlement
    at: float


class Settler:
    """One thread that ends leases."""

    def __init__(
        self,
        driver: Driver,
        heart: Heart,
        *,
        lease_for: int,
        on_settled: Callable[[Run, Settlement, LeaseError | StoreError | None], None],
    ) -> None:
        self._driver = driver
        self._heart = heart
        self._lease_for = lease_for
        self._on_settled = on_settled
        self._waiting: list[Finished] = []
        self._under_way = 0
        self._changed = threading.Condition()
        self._stopping = False
        self._thread = threading.Thread(target=self._settle_on, name="holdfast-settler", daemon=True)

    def start(self) -> None:
        """Begin to settle."""
        self._thread.start()

    def add(self, run: Run, settle: MakeSettlement) -> None:
        """A run has ended; ``settle`` makes the settlement from its latest lease."""
        with self._changed:
            self._waiting.append(Finished(run, settle, monotonic()))
            self._changed.notify_all()

    def idle(self) -> bool:
        """Whether nothing waits to be settled."""
        with self._changed:
            return not self._waiting and not self._under_way

    def stop(self) -> None:
        """Settle what is there, then no more."""
        with self._changed:
            self._stopping = True
            self._changed.notify_all()
        self._thread.join()

    def _settle_on(self) -> None:
        while batch := self._next_batch():
            try:
                self._settle(batch)
            except Exception:  # the leases of this batch will expire; those of later ones should not
                log.exception("settle.failed", extra={"count": len(batch)})
            with self._changed:
                self._under_way = 0
                self._changed.notify_all()

    def _next_batch(self) -> list[Finished]:
        """Wait until there is a full batch, or one has waited long enough; empty at the end."""
        with self._changed:
            while not self._waiting and not self._stopping:
                self._changed.wait()
            while self._waiting and len(self._waiting) < MOST and not self._stopping:
                left = self._waiting[0].at + LONGEST - monotonic()
                if left <= 0:
                    break
                self._changed.wait(left)
            batch, self._waiting = self._waiting[:MOST], self._waiting[MOST:]
            self._under_way = len(batch)
            return batch

    def _settle(self, batch: list[Finished]) -> None:
        """A lease that was lost meanwhile is settled all the same: the store says what it thinks of that."""
        leases = self._heart.remove(finished.run for finished in batch)
        settlements = [finished.settle(leases.get(finished.run, finished.run.reservation.lease)) for finished in batch]
        deadline = monotonic() + self._lease_for / SECOND
        while True:
            try:
                self._keep_last_notes(batch, settlements)
                answers = self._driver.settle(settlements)
            except StoreError as error:
                if monotonic() >= deadline:
                    log.error("settle.failed", extra={"count": len(batch), "error": str(error)})  # noqa: TRY400
                    for finished, settlement in zip(batch, settlements, strict=True):
                        self._on_settled(finished.run, settlement, error)
                    return
                threading.Event().wait(AGAIN)
                continue
            for finished, settlement, refused in zip(batch, settlements, answers, strict=True):
                self._on_settled(finished.run, settlement, refused)
            return

    def _keep_last_notes(self, batch: list[Finished], settlements: list[Settlement]) -> None:
        leases = [settlement.lease for settlement in settlements]
        keep_last_notes(self._driver, [finished.run for finished in batch], leases, self._lease_for)


def keep_last_notes(driver: Driver, runs: list[Run], leases: list[Lease], lease_for: int) -> None:
    """A checkpoint that no heartbeat has carried yet must not end with the lease."""
    left = [(run, lease, run.note) for run, lease in zip(runs, leases, strict=True) if run.note is not None]
    if left:
        notes = {run.reservation.job.id: note for run, _, note in left if note is not None}
        driver.extend([lease for _, lease, _ in left], lease_for=lease_for, notes=notes)
        for run, _, _ in left:
            run.note = None
