"""Schedulers in processes that are killed at random: ``python killed_schedulers.py URL KILLS SEED SECONDS``.

Each process is a scheduler with a virtual clock of its own, so that nothing depends on how fast the machine is. A new
process starts with an earlier instant: its clock is behind, and must fire nothing twice. Prints a summary, and
exits with 1 if a fire is missing or there twice.
"""

from __future__ import annotations

import os
import random
import signal
import sys
import time
from collections import Counter
from datetime import UTC, datetime, timedelta

from holdfast import Holdfast, connect
from holdfast.cron.runner import CronRunner
from holdfast.drivers.store import Store
from holdfast.model.filters import JobFilter
from holdfast.model.settlement import Ack

SCHEDULERS = 3
START = datetime(2026, 5, 4, 6, tzinfo=UTC)  # in the past: every job is due by the clock of the store
TICK = timedelta(milliseconds=700)
BEHIND = timedelta(seconds=10)  # the clock of a new process, compared with the part of the kills that were made


def make_app(store: Store) -> Holdfast:
    """Return an app with a schedule that fires every second, and another one that comes after it."""
    app = Holdfast(driver=store)
    app.cron("load").expression("* * * * * *").missed("all", cap=10_000).queue("loads").run("load", None)
    app.cron("publish").expression("*/2 * * * * *").missed("all", cap=10_000).queue("publications").depends_on(
        "load"
    ).run("publish", None)
    return app


def run_scheduler(url: str, begin: datetime, end: datetime) -> None:
    """Tick from one instant to the other, and end the jobs that are due: as a scheduler and a worker in one process."""
    with connect(url) as store:
        runner = CronRunner(make_app(store))
        now = begin
        while now < end + timedelta(seconds=60):
            runner.run(now=now)
            end_jobs(store)
            now += TICK


def end_jobs(store: Store) -> int:
    """End the jobs that are due; return how many."""
    reserved = store.reserve(["loads", "publications", "default"], limit=100, lease_for=1_000_000)
    store.settle([Ack(lease=one.lease) for one in reserved])
    return len(reserved)


def fork_scheduler(url: str, begin: datetime, end: datetime) -> int:
    """Start a scheduler in a process; return its id."""
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            run_scheduler(url, begin, end)
            code = 0
        finally:
            os._exit(code)
    return pid


def check(url: str, end: datetime) -> str:
    """Let one more scheduler do what is left; compare all fires with those of the calendar."""
    with connect(url) as store:
        runner = CronRunner(make_app(store))
        runner.run(now=end)
        found: Counter[tuple[str, str]] = Counter()
        after = None
        while True:
            page = store.find(JobFilter(), limit=1000, after=after)
            found.update(
                (str(job.meta["holdfast.schedule"]), str(job.meta["holdfast.fire"]))
                for job in page
                if "holdfast.schedule" in job.meta
            )
            after = page.cursor
            if after is None:
                break
    return compare(found, end)


def compare(found: Counter[tuple[str, str]], end: datetime) -> str:
    """Return a summary; raise ``AssertionError`` for a fire that is missing or there twice."""
    wanted = {
        (name, f"{START + timedelta(seconds=second):%Y-%m-%dT%H:%M:%SZ}")
        for name, step in (("load", 1), ("publish", 2))
        for second in range(0, int((end - START).total_seconds()), step)
    }
    counts = {fire: count for fire, count in found.items() if fire[1] < f"{end:%Y-%m-%dT%H:%M:%SZ}"}
    assert counts.keys() == wanted, f"differ: {sorted(counts.keys() ^ wanted)}"
    assert set(counts.values()) == {1}, f"twice: {[fire for fire, count in counts.items() if count > 1]}"
    return f"{len(wanted)} fires, each once"


def main(url: str, kills: str, seed: str, seconds: str) -> None:
    """Kill schedulers at random instants of so many seconds of virtual time, and check."""
    end = START + timedelta(seconds=int(seconds))
    rng = random.Random(int(seed))
    with connect(url) as store:  # declares the schedules: the first process may be killed before it does
        CronRunner(make_app(store)).run(now=START - TICK)
    pids = [fork_scheduler(url, START, end) for _ in range(SCHEDULERS)]
    for done in range(int(kills)):
        time.sleep(rng.uniform(0.01, 0.2))
        place = rng.randrange(SCHEDULERS)
        os.kill(pids[place], signal.SIGKILL)
        os.waitpid(pids[place], 0)
        begin = START + max(timedelta(0), (end - START) * done / int(kills) - BEHIND)
        pids[place] = fork_scheduler(url, begin, end)
    for pid in pids:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    print(check(url, end))


if __name__ == "__main__":
    main(*sys.argv[1:])
