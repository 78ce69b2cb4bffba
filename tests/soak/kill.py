"""Workers that are killed and stopped at any moment: nothing is lost, nothing ends twice, nothing stale is believed."""

from __future__ import annotations

import random
import signal
import sqlite3
import time
from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import holdfast
from holdfast.drivers.contract import Store
from holdfast.model.job import State
from holdfast.model.ledger import Ending, LedgerRow
from tests.soak.crew import Hand, crew, left, naps, until

LEASE = 1.0  # seconds
STOPPED = (1.2, 1.5)  # seconds: longer than a lease; and whoever is stopped inside a commit holds up all the others
MOST_STOPPED = 3  # at a time, or nobody would work
EVERY = 0.1  # seconds between two faults

ENDINGS = {"ack": Ending.ACKED, "retry": Ending.RETRIED, "fail": Ending.FAILED, "release": Ending.RELEASED}


def kill(folder: Path, *, workers: int, jobs: int, seconds: float) -> str:
    """Jobs come in evenly while workers are killed (and replaced) or stopped for a while; then all of it is checked."""
    path = folder / "kill.db"
    url = f"sqlite:///{path}"
    store = holdfast.connect(url)
    dice = random.Random(jobs)
    accepted: set[str] = set()
    done: Counter[str] = Counter()
    killed: list[Hand] = []
    rounds = max(1, int(seconds / EVERY))

    with crew(url, folder) as start:

        def another() -> Hand:
            return start(lease=LEASE, processes=dice.randint(1, 2), grace=0.5)

        hands = [another() for _ in range(workers)]
        began = time.monotonic()
        for number in range(1, rounds + 1):
            new = naps([_nap(dice) for _ in range(jobs * number // rounds - len(accepted))], **ENDLESS)
            accepted |= {answer.id for answer in store.enqueue(new)} if new else set()
            victim = dice.choice(hands)
            everyone = dice.random() < 0.5
            stopped = sum(hand.is_stopped for hand in hands)
            if dice.random() < 0.35 and not victim.is_stopped and stopped < MOST_STOPPED:
                victim.stop_for(dice.uniform(*STOPPED), everyone=everyone)
                done["SIGSTOPs"] += 1
            else:
                victim.signal(signal.SIGKILL, everyone=everyone)
                victim.signal(signal.SIGCONT, everyone=True)  # its children may be stopped, and are to find out
                killed.append(victim)
                hands[hands.index(victim)] = another()
                done["SIGKILLs"] += 1
            time.sleep(max(0.0, began + number * EVERY - time.monotonic()))
        storm = time.monotonic() - began
        waiting = left(store)
        until(
            lambda: left(store) == 0,
            timeout=60 + jobs / 50,
            otherwise=lambda: f"{left(store)} jobs have not ended: {store.counts()}",
        )
        until(lambda: all(hand.is_up() for hand in hands), timeout=30, otherwise=lambda: "somebody does not start")
        for hand in hands:
            hand.signal(signal.SIGTERM)
        for hand in hands:
            code = hand.end(60)
            assert code == 0, hand.errors()
        until(
            lambda: all(hand.is_gone() for hand in (*hands, *killed)),
            timeout=10,
            otherwise=lambda: (
                f"children outlive their worker: {[hand.remains() for hand in killed if not hand.is_gone()]}"
            ),
        )
    proof = check(store, folder, accepted)
    assert proof.refused or rounds < 600, "no settlement was stale: that it is refused was not shown"
    store.close()
    with sqlite3.connect(path) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    connection.close()
    faults = ", ".join(f"{count:,} {name}" for name, count in sorted(done.items()))
    return (
        f"{workers} workers on one SQLite file, {jobs:,} jobs, {faults} in {storm:.0f} s ({waiting:,} jobs left then): "
        f"none lost, none ended twice, no overlap; {proof.told}"
    )


ENDLESS = {"max_attempts": 100_000, "max_crashes": None}


def _nap(dice: random.Random) -> float:
    """Most end at once, some take a while, a few take longer than a lease."""
    chance = dice.random()
    return 0 if chance < 0.7 else dice.uniform(0.005, 0.05) if chance < 0.99 else dice.uniform(0.5, 1.5)


# The proof --------------------------------------------------------------------------------------------------


class Proof(NamedTuple):
    """What was found, and how many settlements came too late."""

    told: str
    refused: int


def check(store: Store, folder: Path, accepted: set[str]) -> Proof:
    """From the ledger, and from what workers and handlers have written down themselves."""
    rows = ledger(store)
    final = Counter(row.job_id for row in rows if row.state is not None and row.state.has_ended)
    assert set(final) == accepted, f"lost: {len(accepted - set(final))}"
    assert max(final.values()) == 1, "a job has ended twice"
    assert {row.state for row in rows if row.state is not None and row.state.has_ended} == {State.DONE}
    assert sum(count.done for count in store.counts()) == len(accepted)
    by_fence = {row.fence: row for row in rows}
    assert len(by_fence) == len(rows), "a lease has two endings"
    no_overlap(rows)

    runs = Counter(_facts(folder, "runs"))
    assert all(count == 1 for count in runs.values()), "a handler was started twice under one lease"
    for row in rows:
        if row.ending is Ending.ACKED:
            assert runs[f"ended {row.job_id} {row.fence}"] == 1, f"an ack without a run: {row}"

    taken = refused = 0
    for line in _facts(folder, "settled"):
        what, job_id, fence, verb = line.split()
        row = by_fence[int(fence)]
        assert row.job_id == job_id
        if what == "taken":
            taken += 1
            assert row.ending is ENDINGS[verb], f"{line} is {row.ending} in the ledger"
        elif what == "refused":
            refused += 1
            assert row.ending is Ending.EXPIRED, f"{line} is {row.ending} in the ledger"
    endings = Counter(row.ending for row in rows)
    told = ", ".join(f"{count:,} {ending}" for ending, count in sorted(endings.items()))
    told = f"{len(rows):,} leases ({told}), {taken:,} settlements taken, {refused:,} stale ones refused"
    return Proof(told, refused)


def ledger(store: Store) -> list[LedgerRow]:
    """All of it."""
    rows: list[LedgerRow] = []
    cursor = None
    while (page := store.ledger(after=cursor)).items:
        rows += page.items
        cursor = page.cursor
    return rows


def no_overlap(rows: list[LedgerRow]) -> None:
    """Each lease of a job begins when the one before it has ended."""
    by_job: dict[str, list[LedgerRow]] = {}
    for row in sorted(rows, key=lambda row: row.fence or 0):
        by_job.setdefault(row.job_id, []).append(row)
    for leases in by_job.values():
        for earlier, later in pairwise(leases):
            assert later.reserved_at is not None
            assert later.reserved_at >= earlier.ended_at, f"{later} overlaps {earlier}"


def _facts(folder: Path, kind: str) -> list[str]:
    """Whole lines only: whoever is killed while writing may leave half of one, which says nothing."""
    lines = [line for path in folder.glob(f"{kind}.*") for line in path.read_text().splitlines(keepends=True)]
    return [line.rstrip("\n") for line in lines if line.endswith("\n")]
