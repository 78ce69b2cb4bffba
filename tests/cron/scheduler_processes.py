"""Real processes of ``holdfast cron run --loop`` that are killed with SIGKILL: each second has exactly one job."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from datetime import datetime, timedelta
from itertools import pairwise
from pathlib import Path

import holdfast
from holdfast.cron.fire import META_FIRE
from holdfast.driver import JobFilter, Store
from tests.interrupts import default_interrupt
from tests.waiting import wait_until

STOP_SECONDS = 60
FIRES_PER_KILL = 2  # that the schedulers have enqueued since the last kill
PAGE_JOBS = 1_000
MODULE = """
from holdfast import Holdfast

app = Holdfast()


@app.handler("tick", queue="ticks")
def tick(payload):
    pass


app.cron("tick").expression("* * * * * *").queue("ticks").missed("all", cap=10_000).run(tick)
"""


def run_killed_schedulers(folder: Path, url: str, *, schedulers: int, kills: int, seed: int) -> int:
    """Kill schedulers at random and start others; return the number of fires.

    Raises ``AssertionError`` if a second between the first and the last fire has no job, or two.
    """
    (folder / "ticking.py").write_text(MODULE, encoding="utf-8")
    random_ = random.Random(seed)
    processes = [_start(folder, url) for _ in range(schedulers)]
    try:
        with holdfast.connect(url) as store:
            for _ in range(kills):
                before = _count(store)
                wait_until(lambda before=before: _count(store) >= before + FIRES_PER_KILL)
                victim = processes.pop(random_.randrange(len(processes)))
                victim.kill()
                victim.wait(STOP_SECONDS)
                processes.append(_start(folder, url))
            before = _count(store)
            wait_until(lambda: _count(store) >= before + FIRES_PER_KILL)
            for process in processes:
                process.send_signal(signal.SIGTERM)
            codes = [process.wait(STOP_SECONDS) for process in processes]
            assert codes == [0] * len(codes), codes
            fires = sorted(_fires(store))
    finally:
        for process in processes:
            process.kill()
            process.wait()
    wrong = [pair for pair in pairwise(fires) if pair[1] - pair[0] != timedelta(seconds=1)]
    assert not wrong, f"{len(wrong)} gaps or repetitions, such as {wrong[0]}"
    return len(fires)


def _start(folder: Path, url: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "holdfast", "cron", "run", "ticking:app", "--loop"]
    environment = {**os.environ, "HOLDFAST_URL": url, "HOLDFAST_LOG_LEVEL": "error"}
    return subprocess.Popen(
        command,
        cwd=folder,
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        preexec_fn=default_interrupt,  # noqa: PLW1509 - calls one function of the C library
    )


def _count(store: Store) -> int:
    return sum(row.ready for row in store.counts(["ticks"]))


def _fires(store: Store) -> list[datetime]:
    fires: list[datetime] = []
    cursor: str | None = None
    while True:
        page = store.find(JobFilter(queue="ticks"), after=cursor, limit=PAGE_JOBS)
        fires += [datetime.fromisoformat(str(job.meta[META_FIRE])) for job in page.items]
        cursor = page.cursor
        if cursor is None:
            return fires
