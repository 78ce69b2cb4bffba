"""The proof that domains ran in order: from the ledger, and from a log of effects that handlers wrote.

Every domain has the offsets 0, 1, 2 ... and its queue waits for gaps. The checks take the rows of a
ledger and the lines of a log, whoever ran the jobs: workers or Spark slots.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from holdfast.clock import SECOND
from holdfast.driver import Ending, LedgerRow
from holdfast.model.bounds import MAX_INSTANT

EFFECTS = "effects"  # the file of effects
SILENCE = SECOND  # microseconds without a lease in any domain


class Idle(NamedTuple):
    """How long a domain with a runnable job had none in flight before this lease."""

    microseconds: int
    row: LedgerRow | None


class IdleTimes(NamedTuple):
    """The longest idle times: before ordinary jobs, and before jobs that run alone because their lease had expired.

    A busy worker passes over isolated jobs for a while (``holdfast.worker.isolation``), so these wait longer.
    """

    ordinary: Idle
    isolated: Idle


def effect_line(event: str, domain: str, offset: int, fence: int) -> str:
    """Return one line of the log. ``event`` is ``began`` or ``ended``."""
    return f"{event} {domain} {offset} {fence}\n"


def read_effects(path: Path) -> list[tuple[str, str, int, int]]:
    """Return event, domain, offset and fence of each whole line, in the order of the writes."""
    if not path.exists():
        return []
    lines = [line.split() for line in path.read_text().splitlines(keepends=True) if line.endswith("\n")]
    return [(event, domain, int(offset), int(fence)) for event, domain, offset, fence in lines]


def leases_by_domain(rows: Iterable[LedgerRow]) -> dict[str, list[LedgerRow]]:
    """Return the leases of each domain in the order in which they were given."""
    found: dict[str, list[LedgerRow]] = defaultdict(list)
    for row in sorted((row for row in rows if row.fence is not None), key=lambda row: row.fence or 0):
        assert row.domain is not None
        found[row.domain].append(row)
    return found


def check_order(rows: Sequence[LedgerRow], offsets: Mapping[str, int]) -> None:
    """Check that each domain ran its offsets exactly in order, one lease at a time; ``offsets`` has their numbers."""
    domains = leases_by_domain(rows)
    assert set(domains) == set(offsets), f"domains without a lease: {set(offsets) - set(domains)}"
    for domain, leases in domains.items():
        acked = [row.offset for row in leases if row.ending is Ending.ACKED]
        assert acked == list(range(offsets[domain])), f"{domain} was acked in the order {acked}"
        for earlier, later in pairwise(leases):
            assert later.reserved_at is not None
            assert later.reserved_at >= earlier.ended_at, f"two leases of {domain} at once: {earlier} and {later}"
        position = 0
        for row in leases:  # also those that were not acked: nothing began before its turn
            assert row.offset == position, f"{domain}: offset {row.offset} was leased at position {position}"
            position += row.ending is Ending.ACKED


def check_effects(effects: Sequence[tuple[str, str, int, int]], rows: Sequence[LedgerRow]) -> int:
    """Check the effects against the leases, and their order behind a fence; return how many the fence refused."""
    by_fence = {row.fence: row for row in rows if row.fence is not None}
    seen = set()
    for effect in effects:
        _, domain, offset, fence = effect
        row = by_fence[fence]
        assert (row.domain, row.offset) == (domain, offset), f"{effect} under the lease {row}"
        assert effect not in seen, f"{effect} happened twice under one lease"
        seen.add(effect)
    for row in by_fence.values():
        if row.ending is Ending.ACKED:
            assert ("ended", row.domain, row.offset, row.fence) in seen, f"an ack without its effect: {row}"
    refused = 0
    largest: dict[str, int] = defaultdict(int)
    last: dict[str, int] = defaultdict(int)
    for _, domain, offset, fence in effects:
        if fence < largest[domain]:
            refused += 1  # what a stopped process wrote after it was resumed
            continue
        largest[domain] = fence
        assert offset in (last[domain], last[domain] + 1), f"{domain}: effect of {offset} after {last[domain]}"
        last[domain] = offset
    return refused


def longest_idle(rows: Sequence[LedgerRow]) -> IdleTimes:
    """Return the longest times that a domain with a runnable job had none in flight, while younger jobs were leased.

    A domain whose job comes later in the order of its queue (L10) than a backlog of others is not left idle. Times
    without any lease for ``SILENCE`` do not count: no worker was there, or a process that was stopped inside a
    transaction held the lock of a SQLite file.
    """
    taken = sorted((row.reserved_at, row.available_at) for row in rows if row.reserved_at is not None)
    longest = {False: Idle(0, None), True: Idle(0, None)}  # by whether the job was isolated
    for leases in leases_by_domain(rows).values():
        ended_at = 0
        expired_offset = None
        for row in leases:
            assert row.reserved_at is not None
            began = max(row.available_at, ended_at)
            idle = Idle(_passed_over(taken, began, row), row)
            is_isolated = row.offset == expired_offset
            longest[is_isolated] = max(longest[is_isolated], idle, key=lambda one: one.microseconds)
            # An expired lease has ended at its expiry, which is when its job became available: its reap comes later.
            ended_at = 0 if row.ending is Ending.EXPIRED else row.ended_at
            expired_offset = row.offset if row.ending is Ending.EXPIRED else expired_offset
    return IdleTimes(longest[False], longest[True])


def _passed_over(taken: Sequence[tuple[int, int]], began: int, row: LedgerRow) -> int:
    """Return the time from the first lease of a younger job after ``began`` to this lease, without silent times."""
    assert row.reserved_at is not None
    meanwhile = taken[bisect_right(taken, (began, MAX_INSTANT)) : bisect_left(taken, (row.reserved_at, 0))]
    passed_at = next((at for at, available_at in meanwhile if available_at > row.available_at), None)
    if passed_at is None:
        return 0
    instants = [*(at for at, _ in meanwhile if at >= passed_at), row.reserved_at]
    return sum(later - earlier for earlier, later in pairwise(instants) if later - earlier <= SILENCE)
