"""Maintenance of the store, which every worker does besides its jobs: reap expired leases, trim old rows.

It repairs all spaces of a store, so that a space without a worker is repaired, too. Beside that it reports domains that
have stopped.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from datetime import timedelta

from holdfast.artifacts.blobs import BlobStore
from holdfast.artifacts.collector import ArtifactCollector
from holdfast.clock import monotonic
from holdfast.drivers.capabilities import Feature
from holdfast.drivers.requests import Read, Spaces, Trim, Write
from holdfast.drivers.store import Store
from holdfast.errors import Unsupported
from holdfast.log import events
from holdfast.log.records import log_event
from holdfast.model import retention
from holdfast.model.retention import Retention, choose_retention, read_retention, store_retention
from holdfast.worker.dead_retention import DeadLetterRetention
from holdfast.worker.expired_leases import ExpiredLease, take_expired
from holdfast.worker.stopped_domains import StoppedDomainLog
from holdfast.worker.timing import MaintenanceTiming

TRIM_LIMIT_ROWS = 1000  # of each kind in one call: retention never delays a reserve for long
STEP_SPACES = 10  # that one call repairs: maintenance of many spaces never delays a reserve for long

OnReaped = Callable[[str, int, Sequence[ExpiredLease]], None]


class Maintenance:
    """Reaps and trims at intervals that differ between workers, so that they do not all do it at once.

    Each space has one retention, which every trim follows. The one of the settings is stored in the space of the driver
    if that has none, or with ``owns_all_spaces`` in all spaces.
    """

    def __init__(
        self,
        driver: Store,
        *,
        keep_ended: timedelta | None,
        keep_ledger: timedelta | None,
        keep_dead: timedelta | None = None,
        queues: Sequence[str] = (),
        on_reaped: OnReaped = lambda _space, _leases, _expired: None,
        owns_all_spaces: bool = False,
        blobs: BlobStore | None = None,
        timing: MaintenanceTiming = MaintenanceTiming(),
    ) -> None:
        """``on_reaped`` gets the name of a space, how many leases were ended in it, and those that the store tells of.

        It also gets the leases of ``report_expired``. ``blobs`` has the artifacts of a service.
        """
        self._driver = driver
        self._blobs = blobs
        self._timing = timing
        self._on_reaped = on_reaped
        self._wanted = choose_retention(keep_ended, keep_ledger, keep_dead)
        self._owns_all_spaces = owns_all_spaces
        self._has_registry = driver.capabilities.has(Feature.REGISTRY)
        self._has_spaces = driver.capabilities.has(Feature.SPACES)
        self._proposed: set[str] = set()  # spaces
        self._dead_letters: dict[str, DeadLetterRetention] = {}  # by space
        self._collectors: dict[str, ArtifactCollector] = {}  # by space
        self._random = random.Random()  # noqa: S311 - jitter
        self._reap_at = self._after_about(self._timing.reap_seconds)
        self._trim_at = self._after_about(self._timing.trim_seconds)
        self._reap_after = ""  # the last space of the walk that is under way
        self._trim_after = ""
        self._leaves_rows = False  # a trim of this walk has stopped at its limit
        self._stopped_domains = StoppedDomainLog(driver, queues)
        self._domains_at = self._after_about(self._timing.domains_seconds)

    def run_due(self) -> None:
        """Do each part if it is time. Never raises: a failure is logged, and the part is tried again when next due."""
        self.report_expired(self._driver)
        if monotonic() >= self._reap_at:
            self._reap_at = self._after_about(self._timing.reap_seconds)
            with _logged("reap"):
                self._reap()
        if monotonic() >= self._trim_at:
            self._trim_at = self._after_about(self._timing.trim_seconds)
            with _logged("trim"):
                self._trim()
        if monotonic() >= self._domains_at:
            self._domains_at = self._after_about(self._timing.domains_seconds)
            with _logged("domains"):
                self._stopped_domains.look()

    def report_expired(self, store: Store) -> None:
        """Report the expired leases that calls of this object have ended since the last time, such as a reserve.

        Never raises. Costs nothing if there are none.
        """
        with _logged("report expired leases"):
            expired = take_expired(store)
            if expired:
                self._on_reaped(store.space_name, len(expired), expired)

    def _reap(self) -> None:
        """End expired leases in the next few spaces that have some."""
        if not self._has_spaces:
            self._reap_space(self._driver, self._driver.space_name)
            return
        page = self._driver.do(Spaces(after=self._reap_after, limit=STEP_SPACES, has_expired_leases=True))
        self._reap_after = page.cursor or ""
        if page.cursor is not None:
            self._reap_at = min(self._reap_at, self._after_about(self._timing.step_seconds))
        for name in page:
            with _logged("reap", space=name):
                self._reap_space(self._driver.space(name), name)

    def _reap_space(self, space: Store, name: str) -> None:
        leases = space.reap()
        if leases:
            self._on_reaped(name, leases, take_expired(space))

    def _trim(self) -> None:
        """Remove old rows in the next few spaces. If one of them has more, the next walk begins at once."""
        if not self._driver.capabilities.has(Feature.JOBS):
            return
        if not self._has_spaces:
            if self._trim_space(self._driver, self._driver.space_name):
                self._trim_at = monotonic()
            return
        page = self._driver.do(Spaces(after=self._trim_after, limit=STEP_SPACES))
        self._trim_after = page.cursor or ""
        for name in page:
            with _logged("trim", space=name):
                self._leaves_rows |= self._trim_space(self._driver.space(name), name)
        if page.cursor is not None:
            self._trim_at = min(self._trim_at, self._after_about(self._timing.step_seconds))
        elif self._leaves_rows:
            self._trim_at, self._leaves_rows = monotonic(), False

    def _trim_space(self, space: Store, name: str) -> bool:
        """Remove old rows of one space, then the artifacts of tasks that are gone; return whether there may be more."""
        if not self._has_registry:
            kept = self._wanted or Retention()
            return space.do(Trim(ended_for=kept.ended_for, ledger_for=kept.ledger_for, limit=TRIM_LIMIT_ROWS)).more
        self._propose_retention(space, name)
        more = space.do(Trim(limit=TRIM_LIMIT_ROWS)).more
        more |= self._purge_dead_letters(space, name)
        return more | self._collect_artifacts(space, name)

    def _purge_dead_letters(self, space: Store, name: str) -> bool:
        kept = read_retention(space.do(Read(kind=retention.KIND, keys=[retention.KEY]))[0])
        if kept is None or kept.dead_for is None:
            return False
        dead_letters = self._dead_letters.setdefault(name, DeadLetterRetention(space))
        try:
            return dead_letters.step(kept.dead_for, limit=TRIM_LIMIT_ROWS)[1]
        except Unsupported:  # the token of a service does not allow it; the service removes them itself
            return False

    def _collect_artifacts(self, space: Store, name: str) -> bool:
        if self._blobs is None:
            return False
        if name not in self._collectors:
            self._collectors[name] = ArtifactCollector(space, self._blobs, space=name)
        return self._collectors[name].step() > 0  # where some were to be removed, there may be more

    def _propose_retention(self, space: Store, name: str) -> None:
        """Store the retention of the settings if the space has none; log once if the space has another one."""
        is_ours = self._owns_all_spaces or name == self._driver.space_name
        if self._wanted is None or not is_ours or name in self._proposed:
            return
        try:
            space.do(Write(changes=[store_retention(self._wanted, version=0)]))
        except Unsupported:  # the token of a service does not allow it
            self._proposed.add(name)
            return
        [entry] = space.do(Read(kind=retention.KIND, keys=[retention.KEY]))
        stored = read_retention(entry)
        self._proposed.add(name)
        if stored is not None and stored != self._wanted:
            log_event(events.RETENTION_DIFFERS, settings=asdict(self._wanted), store=asdict(stored), space=name)

    def _after_about(self, seconds: float) -> float:
        return monotonic() + self._random.uniform(0.5, 1.5) * seconds


@contextmanager
def _logged(task: str, **fields: object) -> Iterator[None]:
    """Log any failure of a task: jobs can be done without it, and one unreadable row must not end every worker."""
    try:
        yield
    except Exception as error:  # noqa: BLE001 - also those of a driver that are no StoreError
        reason = f"{type(error).__name__}: {error}"
        log_event(events.MAINTENANCE_FAILED, task=task, reason=reason, **fields)
