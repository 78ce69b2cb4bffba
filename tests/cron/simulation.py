"""Three schedulers over many days, interleaved and killed by a seed: every fire has exactly one job.

What must fire is found by ``enumeration``, which knows no cron code. Time is the clock of the store, which the
simulation moves by seconds to hours; now and then it steps back.
"""

from __future__ import annotations

import random
import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import cast

from holdfast import Holdfast, connect
from holdfast.clock import HOUR, SECOND, ManualClock, from_datetime
from holdfast.cron.fire import META_FIRE, META_SCHEDULE
from holdfast.cron.runner import CronRunner
from holdfast.driver import JobFilter, Store
from tests.cron.enumeration import Rule, enumerate_fires, wall_times
from tests.cron.stepped_store import Fate, SteppedStore, Turns

ZONES = ("Europe/Berlin", "America/New_York", "Australia/Lord_Howe")
SCHEDULERS = ("one", "two", "three")
RULES = {
    "half-hourly": Rule(text="*/30 * * * *", minutes=frozenset({0, 30})),
    "three-hourly": Rule(text="0 */3 * * *", minutes=frozenset({0}), hours=frozenset(range(0, 24, 3))),
    "at-night": Rule(text="15 1,2,3 * * *", minutes=frozenset({15}), hours=frozenset({1, 2, 3})),
    "at-half-two": Rule(text="30 2 * * *", minutes=frozenset({30}), hours=frozenset({2})),
    "sundays": Rule(
        text="0,20,40 0-3 * * 0",
        minutes=frozenset({0, 20, 40}),
        hours=frozenset(range(4)),
        weekdays=frozenset({0}),
    ),
    "quarter-to": Rule(text="45 * * * 0", minutes=frozenset({45}), weekdays=frozenset({0})),
    "monthly": Rule(text="5 0 1 * *", minutes=frozenset({5}), hours=frozenset({0}), days=frozenset({1})),
}


LONGEST_STEP_BACK_SECONDS = 50 * 60
PAGE_JOBS = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What a simulation has done."""

    fires: int
    ticks: int
    kills: int
    calls: int
    steps_back: int


def simulate(
    seed: int,
    *,
    start: datetime,
    days: int,
    url: str = "memory://",
    kill_chance: float = 0.02,
    step_minutes: int = 40,
    outage_chance: float = 0.0,
    wrap: Callable[[Store], SteppedStore] = SteppedStore,
) -> Report:
    """Run the schedulers for so many days; in an outage none of them runs for hours.

    Raises ``AssertionError`` if the jobs are not exactly the fires.
    """
    random_ = random.Random(seed)
    clock = ManualClock(from_datetime(start))
    store = wrap(connect(url, clock=clock))
    turns = Turns(random_, kill_chance=kill_chance)
    runners = {name: _new_runner(store, clock) for name in SCHEDULERS}
    runners["one"].run()  # declares the schedules: all of them start now
    end, ticks, steps_back = from_datetime(start + timedelta(days=days)), 0, 0
    while clock.now() < end:
        hours = random_.randrange(2, 30) if random_.random() < outage_chance else 0
        step = hours * HOUR + random_.randrange(1, step_minutes * 60) * SECOND
        clock.advance(min(step, end - clock.now()))
        if random_.random() < 0.02:
            steps_back += 1
            clock.advance(-random_.randrange(LONGEST_STEP_BACK_SECONDS) * SECOND)
        chosen = random_.sample(SCHEDULERS, random_.randint(1, len(SCHEDULERS)))
        for name in turns.run({name: _tick(store, runners[name]) for name in chosen}):
            runners[name] = _new_runner(store, clock)
        ticks += len(chosen)
    _new_runner(store, clock).run()  # what the last kills left over
    expected = _expected(start, start + timedelta(days=days))
    found = _jobs(store)
    missing, extra = expected - found, found - expected
    assert not missing, f"seed {seed}: {len(missing)} fires without a job, such as {min(missing)}"
    assert not extra, f"seed {seed}: {len(extra)} jobs too many, such as {min(extra)}"
    assert store.existed == 0, f"seed {seed}: {store.existed} fires were sent twice, and found by their key"
    store.close()
    return Report(fires=found.total(), ticks=ticks, kills=turns.kills, calls=store.calls, steps_back=steps_back)


def _new_runner(store: SteppedStore, clock: ManualClock) -> CronRunner:
    """A scheduler as it is after its process has started: it knows its code only."""
    app = Holdfast(driver=cast("Store", store), clock=clock)
    for zone in ZONES:
        for name, rule in RULES.items():
            cron = app.cron(_schedule_name(name, zone)).expression(rule.text).timezone(zone)
            cron.queue("fires").missed("all", cap=10_000).run("fire")
    return CronRunner(app)


def _tick(store: SteppedStore, runner: CronRunner) -> Callable[[Callable[[], Fate]], None]:
    def tick(step: Callable[[], Fate]) -> None:
        store.step_of[threading.get_ident()] = step
        try:
            runner.run()
        finally:
            del store.step_of[threading.get_ident()]

    return tick


def _schedule_name(name: str, zone: str) -> str:
    return f"{name}:{zone.rpartition('/')[2]}"


def _expected(start: datetime, end: datetime) -> Counter[tuple[str, str]]:
    """Every fire after ``start``, up to and including ``end``: the schedule and the instant."""
    fires: Counter[tuple[str, str]] = Counter()
    for zone in ZONES:
        minutes = wall_times(zone, start - timedelta(hours=3), end + timedelta(minutes=1))
        for name, rule in RULES.items():
            fires.update(
                (_schedule_name(name, zone), f"{fire:%Y-%m-%dT%H:%M:%SZ}")
                for fire in enumerate_fires(rule, minutes)
                if start <= fire <= end
            )
    return fires


def _jobs(store: SteppedStore) -> Counter[tuple[str, str]]:
    """The same of every job in the store."""
    found: Counter[tuple[str, str]] = Counter()
    cursor: str | None = None
    while True:
        page = store.inner.find(JobFilter(queue="fires"), after=cursor, limit=PAGE_JOBS)
        found.update((str(job.meta[META_SCHEDULE]), str(job.meta[META_FIRE])) for job in page.items)
        cursor = page.cursor
        if cursor is None:
            return found
