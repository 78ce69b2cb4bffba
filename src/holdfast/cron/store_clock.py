"""``StoreClock``: the clock of the store without a call for each reading."""

from __future__ import annotations

from holdfast.clock import SECOND, boot_time
from holdfast.cron.store import ScheduleStore

REFRESH_SECONDS = 60.0


class StoreClock:
    """A local clock that never steps, and its distance from the clock of the store: one call a minute.

    The result is at most as much behind the clock of the store as a call takes, and never ahead of it while both run at
    the same pace: a wrong clock of a host makes nothing fire early.
    """

    def __init__(self, store: ScheduleStore) -> None:
        self._store = store
        self._read_at: float | None = None
        self._distance = 0

    def now(self) -> int:
        """Return the present instant of the store, in microseconds."""
        if self._read_at is None or boot_time() - self._read_at >= REFRESH_SECONDS:
            at_store = self._store.now()
            self._read_at = boot_time()
            self._distance = at_store - int(self._read_at * SECOND)
        return int(boot_time() * SECOND) + self._distance
