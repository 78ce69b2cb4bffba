"""A history whose syncs and compactions are killed at any moment: it has every row of the ledger exactly once."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from datetime import timedelta
from pathlib import Path

from holdfast import Client, JobRequest, ack, fail
from holdfast.clock import MINUTE
from holdfast.connect import connect
from holdfast.drivers.contract import Store
from holdfast.spark import History, compact, session, sync
from holdfast.spark.history import compaction

SECONDS = 8.0  # that a child lives, at the most, once it has begun


def history(folder: Path, *, kills: int) -> str:
    url, place = f"sqlite:///{folder}/jobs.db", str(folder / "history")
    dice = random.Random(kills)
    with connect(url) as store:
        for _ in range(kills):
            _one_life(store, url, place, dice)
        spark = session("local[2]")
        try:
            sync(store, place, spark=spark)
            compact(place, spark=spark)
            rows = _rows(store)
            kept = History(spark, place)
            found = sorted(kept.leases.select("position", "job_id", "fence").collect())
            assert [tuple(row) for row in found] == [(number, *row) for number, row in enumerate(rows)]
            assert kept.payloads.count() == kept.jobs.count() == len({job_id for job_id, _ in rows})
            assert kept.audit().holds
            parts = {str(path.relative_to(place)) for path in Path(place).glob("*/day=*/part=*")}
            named = {part.path for part in kept.commit.parts}
            assert named <= parts, named - parts
        finally:
            spark.stop()
    return f"{kills} SIGKILLs of syncs and compactions: {len(rows):,} ledger rows, each there once; {len(parts)} parts"


def _one_life(store: Store, url: str, place: str, dice: random.Random) -> None:
    """A child that syncs and compacts until it is killed, while jobs come and end."""
    command = [sys.executable, "-m", "tests.soak.history", url, place]
    child = subprocess.Popen(command, stdout=subprocess.PIPE, start_new_session=True)
    try:
        assert child.stdout is not None
        assert child.stdout.readline() == b"ready\n"
        ends = time.monotonic() + dice.uniform(0.0, SECONDS)
        while time.monotonic() < ends:
            _work(store, dice)
            time.sleep(0.05)
        assert child.poll() is None, "the child has failed by itself"
    finally:
        os.killpg(child.pid, signal.SIGKILL)
        child.communicate()


def _work(store: Store, dice: random.Random) -> None:
    Client(store).enqueue([JobRequest(type="t", queue="q", payload=number) for number in range(dice.randrange(20))])
    for one in store.reserve(["q"], limit=100, lease_for=MINUTE, worker="soak"):
        if dice.random() < 0.1:
            fail(store, one.lease, reason="bad luck")
        else:
            ack(store, one.lease)


def _rows(store: Store) -> list[tuple[str, int | None]]:
    rows, cursor = [], None
    while True:
        page = store.ledger(cursor)
        rows += [(row.job_id, row.fence) for row in page.items]
        cursor = page.cursor
        if not page.items:
            return rows


def main() -> None:
    url, place = sys.argv[1:]
    compaction.UNUSED_PART_AGE = 0  # removes whatever a killed one has left, at once
    spark = session("local[2]")
    with connect(url) as store:
        print("ready", flush=True)
        while True:
            sync(store, place, spark=spark, size=200)
            compact(place, spark=spark, keep=timedelta(days=30))


if __name__ == "__main__":
    main()
