"""``CronRunner``: a scheduler. Any number of them may run at the same time: each fire happens once.

A tick that finds nothing due is one scan of a few entries. One that finds something due is the scan, one read of the
states of these schedules, and one enqueue that also stores their next fires.
"""

from __future__ import annotations

import os
import random
import secrets
import socket
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING

from holdfast.clock import MINUTE, SECOND
from holdfast.cron.entries import STATE_KIND, DueKey, Stored
from holdfast.cron.firing import Firing
from holdfast.cron.ownership import UNREADABLE, Ownership
from holdfast.cron.reports import Fired, Reports
from holdfast.cron.signature import Definitions
from holdfast.cron.store import ScheduleStore
from holdfast.cron.walk import DueSchedule, Walk
from holdfast.errors import StoreError
from holdfast.log import events
from holdfast.log.records import log_failure
from holdfast.model import bounds

if TYPE_CHECKING:
    from holdfast.app import Holdfast


from holdfast.clock import boot_time

REFRESH_SECONDS = 60.0
MAX_DUE_KEYS = 2_000  # of one round; a tick has as many rounds as it needs
MAX_FRUITLESS_ROUNDS = 10  # of one tick, while other schedulers are faster
RETRY_AFTER = MINUTE  # a schedule that could not be enqueued
DEFER_DELAY = SECOND  # until a schedule whose dependency another scheduler fires is looked at again


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


@dataclass(frozen=True, slots=True, kw_only=True)
class CronTiming:
    """The time constants of the loop of a scheduler."""

    max_sleep_seconds: float = 5.0  # another process may put a schedule that is due soon
    spread_seconds: float = 0.05  # schedulers wake up one after another: the first fires, the others find it done
    failure_seconds: float = 1.0  # that the loop waits after a failure of the store


@dataclass(slots=True)
class _Tick:
    """What one tick has done so far."""

    now: int
    inline: bool
    is_own_time: bool
    fired: list[Fired] = field(default_factory=list)
    next_instants: list[int] = field(default_factory=list)  # at which something is due after this tick
    has_more: bool = False  # more is due now
    is_fruitful: bool = False  # the last round has changed something


class CronRunner:
    """Fires the schedules of an app, and the dynamic schedules of its space. Use it in one thread at a time."""

    def __init__(
        self, app: Holdfast, *, environment: str | None = None, name: str = "", timing: CronTiming = CronTiming()
    ) -> None:
        """``environment`` replaces the setting; ``name`` is the one of this scheduler in logs.

        Raises ``InvalidInput`` if the schedules of the app are wrong, and ``Unsupported`` for a store without registry.
        """
        app.declared_schedules()
        self.name = name or f"{socket.gethostname()}:{os.getpid()}:{secrets.token_hex(3)}"
        self._app = app
        self._timing = timing
        self._store = ScheduleStore(app.driver)
        self._reports = Reports(app.metrics, scheduler=self.name)
        self._definitions = Definitions(app.client.signer)
        self._firing = Firing(app, self._store, self._note_failure)
        self._ownership = Ownership(
            app,
            self._store,
            self._definitions,
            self._reports,
            environment=app.settings.environment if environment is None else environment,
            on_failed=self._note_failure,
        )
        self._retry_at: dict[str, int] = {}  # schedules that could not be fired, by name
        self._now = 0
        self._random = random.Random()  # noqa: S311 - jitter

    def run(self, now: datetime | None = None) -> list[Fired]:
        """Fire what is due, and return it. Never sleeps.

        A schedule with a queue is enqueued. One without a queue runs inline, as one attempt in a child process, before
        the schedules that depend on it. ``now`` replaces the clock of the store. The first call declares the schedules
        of the app: a new one fires from now on, at the earliest at this very instant.
        """
        at = self._store.now() if now is None else bounds.instant_from("now", now)
        fired, _ = self._tick(_Tick(at, inline=True, is_own_time=now is None))
        return fired

    def run_loop(self, stop: threading.Event) -> None:
        """Fire what is due until ``stop`` is set. A schedule without a queue is enqueued, too.

        Sleeps until the next fire, for at most a few seconds. A failure of the store is logged, and ends nothing.
        """
        clock = StoreClock(self._store)
        has_failed = False
        while not stop.is_set():
            seconds = self._timing.max_sleep_seconds
            try:
                _, next_instant = self._tick(_Tick(clock.now(), inline=False, is_own_time=True), stop)
                if next_instant is not None:
                    left = (next_instant - clock.now()) / SECOND
                    seconds = max(0.0, min(seconds, left)) + self._random.uniform(0, self._timing.spread_seconds)
                has_failed = False
            except StoreError as error:
                seconds = self._timing.failure_seconds
                if not has_failed:  # once for each outage
                    self._reports.store_failed(error)
                has_failed = True
            except Exception as error:  # noqa: BLE001 - a scheduler must not end because of one schedule
                log_failure(events.SCHEDULER_FAILED, error, scheduler=self.name)
            stop.wait(seconds)

    # One tick ---------------------------------------------------------------------------------------------------

    def _tick(self, tick: _Tick, stop: threading.Event | None = None) -> tuple[list[Fired], int | None]:
        """Fire what is due; return it, and the instant at which something is due next, as far as that is known."""
        self._now = tick.now
        self._ownership.refresh(tick.now)
        fruitless = 0
        while fruitless < MAX_FRUITLESS_ROUNDS and (stop is None or not stop.is_set()):
            due = self._store.due(tick.now, MAX_DUE_KEYS)
            tick.next_instants = [] if due.next_instant is None else [due.next_instant]
            tick.has_more, tick.is_fruitful = due.is_cut, False
            if due.keys:
                self._round(tick, due.keys)
            if not tick.has_more:
                break
            fruitless = 0 if tick.is_fruitful else fruitless + 1
        self._reports.ticked()
        return tick.fired, tick.now if tick.has_more else min(tick.next_instants, default=None)

    def _round(self, tick: _Tick, keys: Sequence[DueKey]) -> None:
        """Do what these keys of the index say."""
        ready, elsewhere = self._split(tick, self._read_live(keys))
        walk = Walk(
            self._app,
            self._store,
            definitions=self._definitions,
            firing=self._firing,
            reports=self._reports,
            inline=tick.inline,
            now=tick.now,
        )
        result = walk.run(ready, due_elsewhere=elsewhere)
        tick.fired += result.fired
        next_fires = [step.after.next_fire for step in result.committed if step.after.next_fire is not None]
        tick.next_instants += next_fires
        if result.deferred:
            tick.next_instants.append(tick.now + DEFER_DELAY)
        tick.has_more |= result.refused > 0 or any(fire <= tick.now for fire in next_fires)
        tick.is_fruitful |= bool(result.committed)
        if result.is_stopped:
            tick.has_more = False

    def _read_live(self, keys: Sequence[DueKey]) -> list[Stored]:
        """Return the states that these keys name, and remove the keys that do not count any more."""
        states = self._store.states(dict.fromkeys(key.key for key in keys if key.kind == STATE_KIND))
        live: list[Stored] = []
        stale: list[DueKey] = []
        for key in keys:
            state = states.get(key.key)
            if state is not None and state.value.due == key.text:
                live.append(state)
            elif state is None and key.key in states:
                self._note_failure(key.key, UNREADABLE)
            else:
                stale.append(key)
        self._store.remove_due(stale)
        return live

    def _split(self, tick: _Tick, states: Sequence[Stored]) -> tuple[list[DueSchedule], list[str]]:
        """Return the schedules that are fired now, and the names of those that others fire, or a later tick."""
        ready: list[DueSchedule] = []
        elsewhere: list[str] = []
        for stored in states:
            schedule = self._ownership.find_own(stored)
            if schedule is not None and self._retry_at.get(stored.key, 0) <= tick.now:
                self._retry_at.pop(stored.key, None)
                ready.append(DueSchedule(schedule=schedule, stored=stored))
                continue
            elsewhere.append(stored.key)
            if schedule is None and tick.is_own_time and self._ownership.give_up(stored, tick.now):
                tick.has_more = tick.is_fruitful = True
        return ready, elsewhere

    def _note_failure(self, name: str, error: Exception | str) -> None:
        """Report a schedule that cannot be fired, and leave it alone for a while."""
        if self._retry_at.get(name, 0) <= self._now:
            self._retry_at[name] = self._now + RETRY_AFTER
            self._reports.failed(name, error)
