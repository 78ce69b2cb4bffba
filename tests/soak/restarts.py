"""Rolling restarts under load: who is asked to go goes in time, and what it had taken is done by others."""

from __future__ import annotations

import random
import signal
import time
from collections.abc import Callable
from pathlib import Path

import holdfast
from holdfast.clock import SECOND, SystemClock
from holdfast.model.job import State
from holdfast.model.ledger import Ending, LedgerRow
from tests.soak.crew import Hand, crew, left, naps, until
from tests.soak.kill import check, ledger

WORKERS = 3
BACKLOG = 60  # jobs that wait at any time: everybody is busy, and nobody has to wait for long
DRAIN = 0.02  # seconds, for every other worker: some jobs are interrupted while they run
IN_TIME = 5.0  # seconds from the signal to the exit
LAST_RESERVE = SECOND // 2  # after the signal: one may be under way, and has to wait for others' commits
AT_ONCE = 1.0  # seconds until half of all released jobs were taken again


def restarts(folder: Path, *, count: int) -> str:
    """No job fails, so each has one attempt in the end, however often it was given back."""
    url = f"sqlite:///{folder / 'restarts.db'}"
    store = holdfast.connect(url)
    dice = random.Random(count)
    accepted: set[str] = set()
    took: list[float] = []
    asked_at: dict[int, int] = {}  # when each was asked to go, by process id

    def feed() -> None:
        new = naps([dice.uniform(0.01, 0.05) for _ in range(max(0, BACKLOG - left(store)))])
        accepted.update(answer.id for answer in (store.enqueue(new) if new else ()))

    with crew(url, folder) as start:

        def another(number: int) -> Hand:
            return start(processes=2, grace=1, **({"drain": DRAIN} if number % 2 else {}))

        hands = [another(number) for number in range(WORKERS)]
        feed()
        until(lambda: any(count.done for count in store.counts()), timeout=30, otherwise=lambda: "nobody has begun")
        for number in range(count):
            _keep_busy(feed, dice.uniform(0.2, 0.5))
            leaver = hands.pop(0)
            until(leaver.is_up, timeout=30, otherwise=lambda: "somebody does not start")
            hands.append(another(WORKERS + number))
            asked, asked_at[leaver.pid] = time.monotonic(), SystemClock().now()
            leaver.signal(signal.SIGTERM)
            while leaver.process.poll() is None and time.monotonic() < asked + 2 * IN_TIME:
                feed()
                time.sleep(0.005)
            took.append(time.monotonic() - asked)
            assert leaver.end(1) == 0, leaver.errors()
            until(leaver.is_gone, timeout=5, otherwise=lambda: "children outlive their worker")
        until(lambda: left(store) == 0, timeout=60, otherwise=lambda: f"{store.counts()}")
        until(lambda: all(hand.is_up() for hand in hands), timeout=30, otherwise=lambda: "somebody does not start")
        for hand in hands:
            hand.signal(signal.SIGTERM)
        codes = [hand.end(30) for hand in hands]
        assert codes == [0] * WORKERS, (codes, [hand.errors() for hand in hands])
    assert max(took) < IN_TIME, f"{max(took):.1f} s until one has gone"
    rows = ledger(store)
    assert {row.ending for row in rows} <= {Ending.ACKED, Ending.RELEASED}, "a lease was left to expire"
    assert {row.attempt for row in rows if row.state is State.DONE} == {1}, "an attempt was not refunded"
    for row in rows:  # the name of a worker has its process id
        asked_to_go = asked_at.get(int(row.worker.split(":")[1]))
        assert asked_to_go is None or (row.reserved_at or 0) < asked_to_go + LAST_RESERVE, (
            f"reserved while going: {row}"
        )
    check(store, folder, accepted)
    waits = _until_taken_again(rows)
    assert waits, "nothing was released: there was no load"
    half = waits[len(waits) // 2]
    assert half < AT_ONCE, waits
    store.close()
    return (
        f"{count} rolling restarts of {WORKERS} workers, {len(accepted):,} jobs: exit 0 after {max(took):.2f} s at the "
        f"most, {len(waits):,} jobs released and taken again after {half * 1000:.0f} ms (half of them; "
        f"the last {waits[-1] * 1000:.0f} ms), each done at its first attempt"
    )


def _keep_busy(feed: Callable[[], None], seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        feed()
        time.sleep(0.02)


def _until_taken_again(rows: list[LedgerRow]) -> list[float]:
    """Seconds from each release to the next lease of that job, in order."""
    waits = []
    released: dict[str, int] = {}
    for row in sorted(rows, key=lambda row: row.fence or 0):
        if row.job_id in released:
            assert row.reserved_at is not None
            waits.append((row.reserved_at - released.pop(row.job_id)) / SECOND)
        if row.ending is Ending.RELEASED:
            released[row.job_id] = row.ended_at
    return sorted(waits)
