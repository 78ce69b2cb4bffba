"""Workers across crashes of their PostgreSQL: nobody restarts them, and they go on whenever it is back."""

from __future__ import annotations

import random
import signal
import threading
import time
from pathlib import Path

import holdfast
from holdfast.drivers.contract import Store
from holdfast.errors import StoreError
from holdfast.model.job import JobRecord
from holdfast.testing.servers.postgres import PostgresServer
from tests.soak.crew import Hand, crew, left, naps, until
from tests.soak.kill import ENDLESS, check

LEASE = 2.0  # seconds
BACKLOG = 200  # jobs that wait at any time: whenever the server dies, everybody is busy
BATCH = 50
BETWEEN = (0.5, 2.0)  # seconds from one crash to the next
AWAY = (0.0, 1.0)  # seconds until it is started again


def crashes(folder: Path, *, workers: int, count: int) -> str:
    """Jobs come in all the time while the server is killed and started again; then all of it is checked."""
    dice = random.Random(count)
    with PostgresServer() as server:
        url = server.create_database("crashes")
        store = holdfast.connect(url)
        with crew(url, folder) as start:
            hands = [start(lease=LEASE, processes=2, grace=0.5) for _ in range(workers)]
            until(lambda: all(hand.is_up() for hand in hands), timeout=60, otherwise=lambda: "somebody does not start")
            producer = Producer(store)
            producer.start()
            try:
                for _ in range(count):
                    time.sleep(dice.uniform(*BETWEEN))
                    server.kill()
                    time.sleep(dice.uniform(*AWAY))
                    server.start()
                before = {hand: _written(folder, hand) for hand in hands}
                until(
                    lambda: all(_written(folder, hand) > before[hand] for hand in hands),
                    timeout=60,
                    otherwise=lambda: f"somebody does not go on: {[hand.errors() for hand in hands]}",
                )
            finally:
                producer.stop()
            until(lambda: left(store) == 0, timeout=120, otherwise=lambda: f"jobs have not ended: {store.counts()}")
            for hand in hands:
                hand.signal(signal.SIGTERM)
            codes = [hand.end(60) for hand in hands]
            assert codes == [0] * workers, (codes, [hand.errors() for hand in hands])
        proof = check(store, folder, producer.accepted)
        store.close()
    return (
        f"{workers} workers across {count} crashes of a durable PostgreSQL, {len(producer.accepted):,} jobs: "
        f"none lost, none ended twice, no overlap, nobody restarted; {proof.told}"
    )


class Producer:
    """A thread that keeps everybody busy; knows what was accepted."""

    def __init__(self, store: Store) -> None:
        self.accepted: set[str] = set()
        self._store = store
        self._dice = random.Random(1)
        self._stop = threading.Event()
        self._wrong: list[BaseException] = []
        self._thread = threading.Thread(target=self._run, name="producer")

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        self._thread.join()
        if self._wrong:
            raise self._wrong[0]

    def _run(self) -> None:
        try:
            while not self._stop.wait(0.01):
                batch = naps([self._nap() for _ in range(BATCH)], **ENDLESS)
                while not self._took(batch):  # again: what was stored the first time is answered as existing
                    time.sleep(0.05)
        except BaseException as error:
            self._wrong.append(error)

    def _took(self, batch: list[JobRecord]) -> bool:
        try:
            if left(self._store) < BACKLOG:
                self.accepted |= {answer.id for answer in self._store.enqueue(batch)}
        except StoreError:
            return False
        return True

    def _nap(self) -> float:
        """Most end at once, some take a while."""
        return 0.0 if self._dice.random() < 0.7 else self._dice.uniform(0.005, 0.05)


def _written(folder: Path, hand: Hand) -> int:
    """How much a worker has written about its settlements: more means that it works."""
    return sum(path.stat().st_size for path in folder.glob(f"settled.{hand.pid}.*"))
