"""The offsets of ended jobs: an exact set of ranges per domain, which stays when the jobs are removed (L11)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from holdfast.drivers.packing import Row, to_json
from holdfast.drivers.sqlite.domains import Place
from holdfast.drivers.sqlite.transaction import Transaction
from holdfast.model.interval_set import IntervalSet
from holdfast.model.job import JobRecord
from holdfast.model.job_batch import representatives

Offset = tuple[str, str, int]  # queue, domain, offset


class KnownOffset(NamedTuple):
    """An offset that was enqueued before; ``past`` if its job has ended. The row of an ended job may be removed."""

    job_id: str | None
    payload: bytes | None
    past: bool


def find(tx: Transaction, jobs: Sequence[JobRecord]) -> dict[Offset, KnownOffset]:
    """Return the offsets of this batch that are known."""
    if all(job.offset is None for job in representatives(jobs)):
        return {}
    offsets = {(job.queue, job.domain, job.offset) for job in jobs if job.offset is not None}
    known: dict[Offset, KnownOffset] = {}
    rows = tx.run("enqueue/find_offsets", {"space": tx.space, "offsets": to_json(offsets)})
    for queue, domain, offset, job_id, payload, past in rows:
        if not past or (queue, domain, offset) not in known:  # a requeued job is open, and its offset has ended before
            known[queue, domain, offset] = KnownOffset(job_id, payload, bool(past))
    return known


def end(tx: Transaction, ended: Iterable[tuple[str, str | None, int | None]]) -> None:
    """Add the offsets of jobs that have ended to their domains; None is no offset.

    Reads the ranges around them and writes those that have changed. Consecutive offsets are one row, however many.
    """
    offsets = [offset for offset in ended if offset[2] is not None]
    if not offsets:
        return
    before: defaultdict[Place, dict[int, int]] = defaultdict(dict)
    for queue, domain, first, last in tx.run("offsets/find_ranges", {"space": tx.space, "offsets": to_json(offsets)}):
        before[queue, domain][first] = last
    after: defaultdict[Place, IntervalSet] = defaultdict(IntervalSet)
    for queue, domain, offset in offsets:
        assert domain is not None
        assert offset is not None
        after[queue, domain].add(offset)
    removed: list[Row] = []
    stored: list[Row] = []
    for place, ranges in after.items():
        known = before[place]
        for first, last in known.items():
            ranges.add_range(first, last)
        merged = dict(ranges.ranges())
        removed += [(tx.space, *place, first) for first in known if first not in merged]
        stored += [(tx.space, *place, *one) for one in merged.items() if known.get(one[0]) != one[1]]
    if removed:
        tx.run_many("offsets/remove_range", removed)
    if stored:
        tx.run_many("offsets/store_range", stored)
