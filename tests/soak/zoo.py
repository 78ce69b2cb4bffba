"""Stubborn handlers, again and again in one worker: each is stopped in time, and nothing piles up."""

from __future__ import annotations

import random
import signal
import time
from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path

import holdfast
from holdfast.clock import SECOND
from holdfast.drivers.contract import Store
from holdfast.model.job import State
from tests.soak.crew import Hand, crew, descendants, left, naps, until
from tests.soak.kill import ledger
from tests.worker.zoo import ZOO

TIMEOUTS = (50, 75, 100)  # milliseconds
GRACE = 0.15  # seconds
MARGIN = 1.5  # seconds, beside timeout and grace: settling is batched, and the machine may be busy
PROCESSES = 4
GROWTH = 16 << 20  # bytes that a worker may grow by after its first rounds


@dataclass(frozen=True)
class Weight:
    """What a worker and its nursery hold."""

    processes: int
    descriptors: int
    memory: int

    @classmethod
    def of(cls, pid: int) -> Weight:
        below = descendants(pid)
        return cls(
            processes=len(below),
            descriptors=sum(len(list(Path(f"/proc/{one}/fd").iterdir())) for one in (pid, below[0])),
            memory=sum(_memory(one) for one in (pid, below[0])),
        )


def zoo(folder: Path, *, rounds: int) -> str:
    """Some rounds to warm up, then the rounds; the worker is weighed before and after."""
    url = f"sqlite:///{folder / 'zoo.db'}"
    store = holdfast.connect(url)
    dice = random.Random(rounds)
    with crew(url, folder) as start:
        hand = start(zoo=True, processes=PROCESSES, grace=GRACE)
        _round(store, hand, [handler.__name__ for handler in ZOO] * 2, dice)
        before = _weigh(hand)
        _round(store, hand, [ZOO[number % len(ZOO)].__name__ for number in range(rounds)], dice)
        after = _weigh(hand)
        below = descendants(hand.pid)
        hand.signal(signal.SIGTERM)
        code = hand.end(30)
        assert code == 0, hand.errors()
        until(hand.is_gone, timeout=10, otherwise=lambda: f"some of {below} outlive their worker")
    assert after.processes == before.processes == 1 + PROCESSES, (before, after)
    assert after.descriptors <= before.descriptors, (before, after)
    assert after.memory <= before.memory + GROWTH, (before, after)
    late = _lateness(store, rounds + 2 * len(ZOO))
    worst, longest = max(late.items(), key=lambda item: item[1])
    store.close()
    return (
        f"{len(ZOO)} stubborn handlers, {rounds:,} rounds in one worker: all stopped, at the latest "
        f"{longest * 1000:.0f} ms after timeout and grace ({worst}); {after.processes} processes and "
        f"{after.descriptors} descriptors before and after, {(after.memory - before.memory) / (1 << 20):+.1f} MiB"
    )


def _round(store: Store, hand: Hand, handlers: list[str], dice: random.Random) -> None:
    dice.shuffle(handlers)
    records = naps([0] * len(handlers), max_attempts=1)
    timeouts = [dice.choice(TIMEOUTS) * SECOND // 1000 for _ in handlers]
    store.enqueue(
        [
            replace(record, type=handler, timeout=timeout)
            for record, handler, timeout in zip(records, handlers, timeouts, strict=True)
        ]
    )
    until(lambda: left(store) == 0, timeout=60 + len(handlers), otherwise=lambda: f"{store.counts()} {hand.errors()}")


def _weigh(hand: Hand) -> Weight:
    """Once the children that were killed last have been replaced."""
    deadline = time.monotonic() + 5
    while len(descendants(hand.pid)) != 1 + PROCESSES and time.monotonic() < deadline:
        time.sleep(0.05)
    time.sleep(0.2)
    return Weight.of(hand.pid)


def _memory(pid: int) -> int:
    [line] = [line for line in Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith("VmRSS")]
    return int(line.split()[1]) * 1024


def _lateness(store: Store, jobs: int) -> Counter[str]:
    """By handler: the most seconds between timeout plus grace and the end, as the ledger has it."""
    rows = ledger(store)
    assert len(rows) == jobs
    found: Counter[str] = Counter()
    for row in rows:
        record = store.get(row.job_id)
        assert record is not None
        assert (row.state, row.detail) == (State.DEAD, "timed out"), row
        assert record.timeout is not None
        assert row.started_at is not None
        late = (row.ended_at - row.started_at - record.timeout) / SECOND - GRACE
        assert late < MARGIN, f"{row.type} went on for {late:.2f} s after its grace"
        found[row.type] = max(found[row.type], late)
    return found
