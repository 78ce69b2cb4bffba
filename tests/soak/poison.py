"""One job that takes down whatever process runs it, among many that do no harm."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import holdfast
from holdfast.model.job import State
from tests.soak.crew import crew, left, naps, until
from tests.soak.hand import SEGFAULT
from tests.soak.kill import ledger


def poison(folder: Path, *, jobs: int) -> str:
    """It ends alone in the dead letters, and no other job is the worse for it."""
    url = f"sqlite:///{folder / 'poison.db'}"
    store = holdfast.connect(url)
    records = naps([0.001] * jobs)
    place = random.Random(jobs).randrange(jobs // 4, jobs // 2)
    records[place] = replace(records[place], type=SEGFAULT, max_crashes=3)
    store.enqueue(records)
    with crew(url, folder) as start:
        hand = start(processes=2, lease=5, until_drained=True)
        until(lambda: left(store) == 0, timeout=60 + jobs / 20, otherwise=lambda: f"{store.counts()} {hand.errors()}")
        code = hand.end(30)
        assert code == 0, hand.errors()
    bad = store.get(records[place].id)
    assert bad is not None
    assert (bad.state, bad.dead_reason, bad.attempts, bad.crashes) == (State.DEAD, "poison", 3, 3)
    others = [row for row in ledger(store) if row.job_id != bad.id]
    assert len(others) == jobs - 1, "somebody else's attempt ended with it"
    assert {(row.state, row.attempt) for row in others} == {(State.DONE, 1)}
    store.close()
    return (
        f"one segfaulting job among {jobs:,}: dead after 3 crashes, {len(others):,} others done at their first attempt"
    )
