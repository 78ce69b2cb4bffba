"""Settling in batches: finished work waits for others at most a moment, and no refusal is dropped."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Sequence

from holdfast.clock import SECOND, monotonic
from holdfast.drivers.contract import Driver
from holdfast.errors import LeaseError, StoreError
from holdfast.model.lease import Lease
from holdfast.model.settlement import Settlement
from holdfast.worker.heartbeat import Heart
from holdfast.worker.outcome import Outcome
from holdfast.worker.running import Run

log = logging.getLogger("holdfast.worker")

MOST = 1000  # settlements in a batch
BEHIND = 4 * MOST  # settlements that may wait, before no more work is begun
LONGEST = 0.050  # seconds that finished work may wait for its batch
AGAIN = 0.1  # seconds until a batch is tried again that the store could not take

Decide = Callable[[Run, Outcome, Lease], Settlement]
OnSettled = Callable[[Sequence[Run], Sequence[Settlement], Sequence[LeaseError | StoreError | None]], None]


class Settler:
    """One thread that ends leases. What becomes of a job is decided here, from its latest lease."""

    def __init__(
        self,
        driver: Driver,
        heart: Heart,
        *,
        lease_for: int,
        decide: Decide,
        on_settled: OnSettled,
    ) -> None:
        self._driver = driver
        self._heart = heart
        self._lease_for = lease_for
        self._decide = decide
        self._on_settled = on_settled
        self._hurry = False
        self._waiting: list[tuple[Run, Outcome]] = []
        self._since = 0.0  # when the oldest of them came
        self._under_way = 0
        self._changed = threading.Condition()
        self._stopping = False
        self._thread = threading.Thread(target=self._settle_on, name="holdfast-settler", daemon=True)

    def start(self) -> None:
        """Begin to settle."""
        self._thread.start()

    def add(self, endings: Iterable[tuple[Run, Outcome]], *, more_soon: bool) -> None:
        """These runs have ended. They wait for others a moment if there will be any, else they are settled now."""
        with self._changed:
            alone = not self._waiting
            if alone:
                self._since = monotonic()
            self._waiting += endings
            self._hurry = self._hurry or not more_soon
            if alone or self._hurry or len(self._waiting) >= MOST:
                self._changed.notify_all()

    def wait_until_idle(self, timeout: float) -> bool:
        """Until nothing waits to be settled, or for a while; gives whether nothing does."""
        return self._wait(0, timeout)

    def wait_until_abreast(self, timeout: float) -> bool:
        """The same, until no more waits than may: a store that settles slower than it reserves sets the pace."""
        return self._wait(BEHIND, timeout)

    def _wait(self, most: int, timeout: float) -> bool:
        with self._changed:
            return self._changed.wait_for(lambda: len(self._waiting) + self._under_way <= most, timeout)

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

    def _next_batch(self) -> list[tuple[Run, Outcome]]:
        """Wait until there is a full batch, or one has waited long enough; empty at the end."""
        with self._changed:
            while not self._waiting and not self._stopping:
                self._changed.wait()
            while self._waiting and len(self._waiting) < MOST and not self._hurry and not self._stopping:
                left = self._since + LONGEST - monotonic()
                if left <= 0:
                    break
                self._changed.wait(left)
            batch, self._waiting = self._waiting[:MOST], self._waiting[MOST:]
            self._since = monotonic()  # those that are left came while there were more than enough: not long ago
            self._under_way = len(batch)
            self._hurry = self._hurry and bool(self._waiting)
            return batch

    def _settle(self, batch: list[tuple[Run, Outcome]]) -> None:
        """A lease that was lost meanwhile is settled all the same: the store says what it thinks of that."""
        runs = [run for run, _ in batch]
        leases = self._heart.remove(runs)
        settlements = [self._decide(run, outcome, lease) for (run, outcome), lease in zip(batch, leases, strict=True)]
        deadline = monotonic() + self._lease_for / SECOND
        while True:
            try:
                keep_last_notes(self._driver, runs, leases, self._lease_for)
                answers: Sequence[LeaseError | StoreError | None] = self._driver.settle(settlements)
            except StoreError as error:
                if monotonic() < deadline:
                    threading.Event().wait(AGAIN)
                    continue
                log.error("settle.failed", extra={"count": len(batch), "error": str(error)})  # noqa: TRY400
                answers = [error] * len(batch)
            self._on_settled(runs, settlements, answers)
            return


def keep_last_notes(driver: Driver, runs: list[Run], leases: list[Lease], lease_for: int) -> None:
    """A checkpoint that no heartbeat has carried yet must not end with the lease."""
    left = [(run, lease, run.note) for run, lease in zip(runs, leases, strict=True) if run.note is not None]
    if left:
        notes = {run.reservation.job.id: note for run, _, note in left if note is not None}
        driver.extend([lease for _, lease, _ in left], lease_for=lease_for, notes=notes)
        for run, _, _ in left:
            run.note = None
