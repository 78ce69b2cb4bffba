"""Many processes, one file: no errors, nothing lost, nothing twice; also when they are killed, or fork."""

import os
import random
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections import Counter
from itertools import pairwise
from pathlib import Path

import pytest

import holdfast
from holdfast.clock import SECOND
from holdfast.model.ledger import Ending
from holdfast.model.settlement import Ack

FIGHT = Path(__file__).with_name("fight.py")


class Fighter:
    """A process of ``fight.py`` and everything it has said."""

    def __init__(self, *arguments: object) -> None:
        self.process = subprocess.Popen(
            [sys.executable, str(FIGHT), *map(str, arguments)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.said: list[list[str]] = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        for line in self.process.stdout:
            if line.endswith("\n"):  # a killed process may leave half a line, which promises nothing
                self.said.append(line.split())

    def end(self, timeout: float = 120) -> str:
        """Wait for it; gives what it wrote to stderr."""
        errors = self.process.stderr.read()
        self.process.wait(timeout)
        self._reader.join(timeout)
        self.process.stdout.close()
        self.process.stderr.close()
        return errors


def fight(path: Path, *, producers: int, consumers: int, jobs: int, kills: int = 0) -> None:
    """Over one file, which is whole afterwards."""
    fight_over(f"sqlite:///{path}", producers=producers, consumers=consumers, jobs=jobs, kills=kills)
    with sqlite3.connect(path) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    connection.close()


def fight_over(url: str, *, producers: int, consumers: int, jobs: int, kills: int = 0) -> None:
    """Let them fight, killing consumers (and replacing them) on the way; then check every promise they were given."""
    store = holdfast.connect(url)
    dice = random.Random(jobs + kills)
    makers = [Fighter("produce", url, jobs) for _ in range(producers)]
    makers[0].end()  # or consumers would find nothing and leave
    takers = [Fighter("consume", url) for _ in range(consumers)]
    killed = []
    for _ in range(kills):
        time.sleep(dice.uniform(0.02, 0.3))
        victim = dice.choice(takers)
        victim.process.send_signal(signal.SIGKILL)
        takers.remove(victim)
        killed.append(victim)
        takers.append(Fighter("consume", url))
    for fighter in makers[1:]:
        assert fighter.end() == ""
    takers.append(Fighter("consume", url))  # one that comes when all is enqueued, and leaves when all is done
    for fighter in takers:
        assert fighter.end() == ""
        assert fighter.process.returncode == 0
    for fighter in killed:
        fighter.end()
    check(store, [fact for fighter in (*makers, *takers, *killed) for fact in fighter.said])
    store.close()


def check(store: holdfast.connect, said: list[list[str]]) -> None:
    """All that was taken has ended, once; what was said to have ended did; leases never overlapped."""
    taken = {job_id for word, job_id, *_ in said if word == "took"}
    said_ended = Counter((job_id, int(fence)) for word, job_id, *rest in said if word == "ended" for fence in rest)
    rows, cursor = [], None
    while (page := store.ledger(after=cursor)).items:
        rows += page.items
        cursor = page.cursor
    final = [row for row in rows if row.ending in (Ending.ACKED, Ending.FAILED)]
    assert len(final) == len({row.job_id for row in final}) == len(taken)
    assert {row.job_id for row in final} == taken
    assert set(said_ended) <= {(row.job_id, row.fence) for row in final}
    assert max(said_ended.values()) == 1
    assert sum(count.done + count.dead for count in store.counts()) == len(taken)
    fences = [row.fence for row in rows]
    assert len(fences) == len(set(fences))
    by_job: dict[str, list] = {}
    by_domain: dict[tuple, list] = {}
    for row in sorted(rows, key=lambda row: row.fence):
        by_job.setdefault(row.job_id, []).append(row)
        if row.domain is not None:
            by_domain.setdefault((row.queue, row.domain), []).append(row)
    for leases in (*by_job.values(), *by_domain.values()):
        for earlier, later in pairwise(leases):
            assert later.reserved_at >= earlier.ended_at


def test_eight_processes_fight_over_one_file_without_an_error(path):
    fight(path, producers=3, consumers=5, jobs=400)


def test_killed_consumers_lose_and_repeat_nothing(path):
    fight(path, producers=2, consumers=3, jobs=400, kills=6)


def test_what_was_accepted_survives_the_death_of_the_producer(path):
    """The ids it was told are all there, whatever it was doing when it died."""
    dice = random.Random(7)
    taken = set()
    for _ in range(5):
        fighter = Fighter("produce", f"sqlite:///{path}", 100_000)
        while len(fighter.said) < 50:
            assert fighter.process.poll() is None
            time.sleep(0.005)
        time.sleep(dice.uniform(0, 0.05))
        fighter.process.kill()
        fighter.end()
        taken |= {job_id for _, job_id in fighter.said}
    store = holdfast.connect(f"sqlite:///{path}")
    assert len(taken) > 250
    assert all(store.get(job_id) is not None for job_id in taken)
    store.close()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
@pytest.mark.filterwarnings("ignore:This process.*is multi-threaded:DeprecationWarning")
def test_a_forked_child_opens_connections_of_its_own(path, job):
    store = holdfast.connect(f"sqlite:///{path}")
    store.enqueue([job(), job()])
    [mine] = store.reserve(["q"], limit=1, lease_for=60 * SECOND)
    child = os.fork()
    if child == 0:
        try:
            [its] = store.reserve(["q"], limit=1, lease_for=60 * SECOND)
            done = store.settle([Ack(its.lease)]) == [None]
            store.close()
        finally:
            os._exit(0 if done else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert store.settle([Ack(mine.lease)]) == [None]
    assert store.counts()[0].done == 2
    store.close()
