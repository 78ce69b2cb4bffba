"""Syncs and compactions of a history are killed at random: the history has every ledger row exactly once."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from datetime import timedelta
from pathlib import Path

from holdfast import Client, JobRequest
from holdfast.connect import connect
from holdfast.driver import MINUTE, Store, ack, fail
from holdfast.spark import History, compact, session, sync
from holdfast.spark.history import compaction
from tests.soak.ledger_checks import read_ledger

MAX_CHILD_SECONDS = 8.0  # from the child's first sync to its kill


def run_history_kills(folder: Path, *, kills: int) -> str:
    url, history_folder = f"sqlite:///{folder}/jobs.db", str(folder / "history")
    generator = random.Random(kills)
    with connect(url) as store:
        for _ in range(kills):
            _sync_until_killed(store, url, history_folder, generator)
        spark = session("local[2]")
        try:
            sync(store, history_folder, spark=spark)
            compact(history_folder, spark=spark)
            rows = [(row.job_id, row.fence) for row in read_ledger(store)]
            history = History(spark, history_folder)
            leases = sorted(history.leases.select("position", "job_id", "fence").collect())
            assert [tuple(row) for row in leases] == [(number, *row) for number, row in enumerate(rows)]
            assert history.payloads.count() == history.jobs.count() == len({job_id for job_id, _ in rows})
            assert history.audit().holds
            parts = {str(path.relative_to(history_folder)) for path in Path(history_folder).glob("*/day=*/part=*")}
            committed = {part.path for part in history.commit.parts}
            assert committed <= parts, committed - parts
        finally:
            spark.stop()
    return (
        f"{kills} SIGKILLs of syncs and compactions: {len(rows):,} ledger rows, each exactly once; {len(parts)} parts"
    )


def _sync_until_killed(store: Store, url: str, history_folder: str, generator: random.Random) -> None:
    """Run a child that syncs and compacts until it is killed, while jobs are enqueued and end."""
    command = [sys.executable, "-m", "tests.soak.history_kills", url, history_folder]
    child = subprocess.Popen(command, stdout=subprocess.PIPE, start_new_session=True)
    try:
        assert child.stdout is not None
        assert child.stdout.readline() == b"ready\n"
        deadline = time.monotonic() + generator.uniform(0.0, MAX_CHILD_SECONDS)
        while time.monotonic() < deadline:
            _run_jobs(store, generator)
            time.sleep(0.05)
        assert child.poll() is None, "the child failed before it was killed"
    finally:
        os.killpg(child.pid, signal.SIGKILL)
        child.communicate()


def _run_jobs(store: Store, generator: random.Random) -> None:
    count = generator.randrange(20)
    Client(store).enqueue([JobRequest(type="t", queue="q", payload=number) for number in range(count)])
    for one in store.reserve(["q"], limit=100, lease_for=MINUTE, worker="soak"):
        if generator.random() < 0.1:
            fail(store, one.lease, reason="bad luck")
        else:
            ack(store, one.lease)


def main() -> None:
    url, history_folder = sys.argv[1:]
    compaction.UNUSED_PART_AGE = 0  # remove the files of killed syncs at once, not a day later
    spark = session("local[2]")
    with connect(url) as store:
        print("ready", flush=True)
        while True:
            sync(store, history_folder, spark=spark, size=200)
            compact(history_folder, spark=spark, keep=timedelta(days=30))


if __name__ == "__main__":
    main()
