"""Workers while their PostgreSQL server crashes: no worker is restarted, and each continues when the server is back."""

from __future__ import annotations

import random
import threading
import time
from pathlib import Path

import holdfast
from holdfast.driver import JobRecord, Store
from holdfast.errors import StoreError
from holdfast.testing.servers.postgres import PostgresServer
from tests.soak.ledger_checks import check_history
from tests.soak.random_kills import NEVER_DEAD
from tests.soak.worker_group import (
    WorkerProcess,
    count_unfinished,
    sleep_jobs,
    stop_all,
    wait_until,
    wait_until_started,
    worker_group,
)

LEASE_SECONDS = 2.0
BACKLOG_JOBS = 200  # enough to keep every worker busy whenever the server dies
BATCH = 50
UP_SECONDS = (0.5, 2.0)  # from a restart to the next crash
DOWN_SECONDS = (0.0, 1.0)  # from a crash to the restart


def run_server_crashes(folder: Path, *, workers: int, count: int) -> str:
    """Enqueue jobs all the time while the server is killed and restarted; then check everything."""
    generator = random.Random(count)
    with PostgresServer() as server:
        url = server.create_database("crashes")
        store = holdfast.connect(url)
        with worker_group(url, folder) as start:
            running = [start(lease=LEASE_SECONDS, processes=2, grace=0.5) for _ in range(workers)]
            wait_until_started(running, timeout=60)
            producer = Producer(store)
            producer.start()
            try:
                for _ in range(count):
                    time.sleep(generator.uniform(*UP_SECONDS))
                    server.kill()
                    time.sleep(generator.uniform(*DOWN_SECONDS))
                    server.start()
                before = {worker: _logged_bytes(folder, worker) for worker in running}
                wait_until(
                    lambda: all(_logged_bytes(folder, worker) > before[worker] for worker in running),
                    timeout=60,
                    otherwise=lambda: f"a worker does not continue: {[worker.errors() for worker in running]}",
                )
            finally:
                producer.stop()
            wait_until(
                lambda: count_unfinished(store) == 0,
                timeout=120,
                otherwise=lambda: f"jobs have not ended: {store.counts()}",
            )
            stop_all(running, timeout=60)
        proof = check_history(store, folder, producer.accepted)
        store.close()
    return (
        f"{workers} workers during {count} crashes of a durable PostgreSQL, {len(producer.accepted):,} jobs: "
        f"none lost, none ended twice, no overlap, no worker restarted; {proof.summary}"
    )


class Producer:
    """A thread that keeps the workers busy and records the accepted jobs."""

    def __init__(self, store: Store) -> None:
        self.accepted: set[str] = set()
        self._store = store
        self._generator = random.Random(1)
        self._stop = threading.Event()
        self._errors: list[BaseException] = []
        self._thread = threading.Thread(target=self._run, name="producer")

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        self._thread.join()
        if self._errors:
            raise self._errors[0]

    def _run(self) -> None:
        try:
            while not self._stop.wait(0.01):
                batch = sleep_jobs([self._sleep_seconds() for _ in range(BATCH)], **NEVER_DEAD)
                while not self._try_enqueue(batch):  # repeating is safe: a stored job is reported as existing
                    time.sleep(0.05)
        except BaseException as error:
            self._errors.append(error)

    def _try_enqueue(self, batch: list[JobRecord]) -> bool:
        try:
            if count_unfinished(self._store) < BACKLOG_JOBS:
                self.accepted |= {answer.id for answer in self._store.enqueue(batch)}
        except StoreError:
            return False
        return True

    def _sleep_seconds(self) -> float:
        """Most jobs end at once, some take a while."""
        return 0.0 if self._generator.random() < 0.7 else self._generator.uniform(0.005, 0.05)


def _logged_bytes(folder: Path, worker: WorkerProcess) -> int:
    """The size of a worker's settlement log, which grows while the worker makes progress."""
    return sum(path.stat().st_size for path in folder.glob(f"settled.{worker.pid}.*"))
