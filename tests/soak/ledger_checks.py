"""The proof after a soak: the ledger and the action logs of the workers must agree, and no guarantee may be broken."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from holdfast.driver import Ending, LedgerRow, State, Store

ENDING_OF_VERB = {"ack": Ending.ACKED, "retry": Ending.RETRIED, "fail": Ending.FAILED, "release": Ending.RELEASED}


class Proof(NamedTuple):
    """A summary for people, and the number of settlements that came too late."""

    summary: str
    refused: int


def check_history(store: Store, folder: Path, accepted: set[str]) -> Proof:
    """Check the ledger against the accepted jobs and against the action logs of workers and handlers."""
    rows = read_ledger(store)
    final = Counter(row.job_id for row in rows if row.state is not None and row.state.has_ended)
    assert set(final) == accepted, f"lost: {len(accepted - set(final))}"
    assert max(final.values()) == 1, "a job has ended twice"
    assert {row.state for row in rows if row.state is not None and row.state.has_ended} == {State.DONE}
    assert sum(count.done for count in store.counts()) == len(accepted)
    by_fence = {row.fence: row for row in rows}
    assert len(by_fence) == len(rows), "a lease has two endings"
    check_no_overlap(rows)

    runs = Counter(_read_log(folder, "runs"))
    assert all(count == 1 for count in runs.values()), "a handler was started twice under one lease"
    for row in rows:
        if row.ending is Ending.ACKED:
            assert runs[f"ended {row.job_id} {row.fence}"] == 1, f"an ack without a run: {row}"

    taken = refused = 0
    for line in _read_log(folder, "settled"):
        event, job_id, fence, verb = line.split()
        row = by_fence[int(fence)]
        assert row.job_id == job_id
        if event == "taken":
            taken += 1
            assert row.ending is ENDING_OF_VERB[verb], f"{line} is {row.ending} in the ledger"
        elif event == "refused":
            refused += 1
            assert row.ending is Ending.EXPIRED, f"{line} is {row.ending} in the ledger"
    endings = Counter(row.ending for row in rows)
    by_ending = ", ".join(f"{count:,} {ending}" for ending, count in sorted(endings.items()))
    summary = (
        f"{len(rows):,} leases ({by_ending}), {taken:,} settlements accepted, {refused:,} stale settlements refused"
    )
    return Proof(summary, refused)


def read_ledger(store: Store) -> list[LedgerRow]:
    """Every row of the ledger."""
    rows: list[LedgerRow] = []
    cursor = None
    while (page := store.ledger(after=cursor)).items:
        rows += page.items
        cursor = page.cursor
    return rows


def check_no_overlap(rows: list[LedgerRow]) -> None:
    """Check that each lease of a job begins after the lease before it has ended."""
    by_job: dict[str, list[LedgerRow]] = {}
    for row in sorted(rows, key=lambda row: row.fence or 0):
        by_job.setdefault(row.job_id, []).append(row)
    for leases in by_job.values():
        for earlier, later in pairwise(leases):
            assert later.reserved_at is not None
            assert later.reserved_at >= earlier.ended_at, f"{later} overlaps {earlier}"


def _read_log(folder: Path, kind: str) -> list[str]:
    """The complete lines of a log; a process that is killed while it writes may leave an incomplete last line."""
    lines = [line for path in folder.glob(f"{kind}.*") for line in path.read_text().splitlines(keepends=True)]
    return [line.rstrip("\n") for line in lines if line.endswith("\n")]
