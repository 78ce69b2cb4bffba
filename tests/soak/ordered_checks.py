"""The proof that domains ran in order: from the ledger, and from a log of effects that handlers wrote.

Every domain has the offsets 0, 1, 2 ... and its queue waits for gaps. The checks take the rows of a
ledger and the lines of a log, whoever ran the jobs: workers or Spark slots.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path

from holdfast.clock import SECOND
from holdfast.driver import Ending, LedgerRow
from tests.soak.outages import Interval, time_inside

EFFECTS = "effects"  # the file of effects


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


def check_idle(rows: Sequence[LedgerRow], outages: Sequence[Interval], *, most: int) -> str:
    """Check that no domain with a runnable job was without a lease for more than ``most`` microseconds.

    A job is runnable from the latest of these instants on: it was enqueued, or its backoff or its own last lease has
    expired (``available_at``); the lease before it in its domain has ended. The queue waits for gaps, so the offset
    before it has ended, too. All the time from there to its lease counts: the wait behind older jobs of other domains,
    the wait of a job that runs alone (L7), the time until somebody reaps an expired lease. Only the ``outages`` do not:
    while no worker is there, or a process that was stopped inside a transaction holds the lock of a SQLite file, nobody
    can lease a job.
    """
    longest, longest_with_outages, last = 0, 0, None
    for leases in leases_by_domain(rows).values():
        for runnable_at, row in zip(_runnable_instants(leases), leases, strict=True):
            assert row.reserved_at is not None
            waited = row.reserved_at - runnable_at
            idle = waited - time_inside(outages, runnable_at, row.reserved_at)
            longest_with_outages = max(longest_with_outages, waited)
            longest, last = (idle, row) if idle > longest else (longest, last)
    assert longest <= most, f"a domain with work had no lease for {longest / SECOND:.1f} s, until {last}"
    return (
        f"longest time of a domain with work and without a lease {longest / SECOND:.2f} s, "
        f"{longest_with_outages / SECOND:.2f} s with outages"
    )


def _runnable_instants(leases: Sequence[LedgerRow]) -> Iterator[int]:
    """Return for each lease of a domain since when its job was runnable."""
    ended_at = 0
    for row in leases:
        yield max(row.available_at, ended_at)
        # An expired lease has ended at its expiry, which is when its job became available: its reap comes later.
        ended_at = 0 if row.ending is Ending.EXPIRED else row.ended_at
