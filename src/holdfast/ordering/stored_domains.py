"""Domains in the registry of a store: every change is a compare-and-set of the head of the domain.

A change reads the head, computes, and writes all entries that it touches together, the head with the version that was
read. So a change is made as a whole or not at all, whoever changes the domain at the same time and whoever dies. What
is read after the head counts only if the head is still the same when it is written.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping
from itertools import chain
from typing import TypeVar

import msgspec
from msgspec.structs import replace

from holdfast.clock import Clock, monotonic
from holdfast.drivers.store import Store
from holdfast.errors import DomainFull, StoreBusy
from holdfast.model import bounds
from holdfast.model.interval_set import IntervalSet
from holdfast.model.registry import Entry
from holdfast.ordering import chunks
from holdfast.ordering.backlog import Backlog
from holdfast.ordering.chunks import join_ranges, unpack_chunk
from holdfast.ordering.domain_entries import (
    CHUNK,
    FORMAT,
    HEAD,
    DomainEntries,
    Head,
    Overtaken,
    Values,
    chunk_name,
    chunk_number,
    decode_head,
    decode_part,
    holder_name,
    is_paged,
    part_name,
)
from holdfast.ordering.machine import Domain, LeaseRecord
from holdfast.ordering.overflow import move_out
from holdfast.ordering.paged_head import read_paged_head
from holdfast.ordering.state import DomainState, domain_state

MAX_HEAD_BYTES = bounds.MAX_NOTE_BYTES
RESERVED_BYTES = 16 << 10  # of a head: a backlog does not grow into them, so that a full one can still be processed
MAX_TRIES = 200  # of one call; each lost try means that another call has changed the domain
MAX_PAUSE_SECONDS = 0.05  # between two tries
MAX_REMOVED_PAGES = 5000  # of a domain in the old format

T = TypeVar("T")


class StoredDomains:
    """All domains of a ``WorkLease`` with a store. Many processes may use them at once; no lock is held."""

    def __init__(self, store: Store, clock: Clock | None) -> None:
        """With ``clock``, the store must allow a caller's clock (L1)."""
        self._store = store
        self._clock = clock
        self._random = random.Random()  # noqa: S311 - jitter

    def change(self, name: str, action: Callable[[Domain], T], offset: int | None = None) -> T:
        """Let the action change the domain. It may be called several times; the last call counts.

        Raises ``DomainFull``, or ``StoreBusy`` if others have changed the domain at every try.
        """
        return self._repeat(lambda: self._change(name, action, offset))

    def read(self, name: str) -> DomainState:
        """Return the domain as it was at one instant."""
        return self._repeat(lambda: _read(self._entries(name).read_all()))

    def _change(self, name: str, action: Callable[[Domain], T], offset: int | None) -> T:
        entries = self._entries(name)
        stored, *chunk = entries.read([HEAD] if offset is None else [HEAD, chunk_name(offset // chunks.SPAN)])
        if stored is not None and is_paged(stored):
            _upgrade(entries, stored)
            raise Overtaken
        head = Head(domain=name, format=FORMAT) if stored is None else decode_head(stored)
        domain = _open(head, entries.has_lapsed)
        if offset is not None:
            for ended, bits in zip((domain.processed, domain.failed), unpack_chunk(chunk[0]), strict=True):
                if bits >> offset % chunks.SPAN & 1:
                    ended.add(offset)
            near = [number for number, (low, high) in enumerate(head.parts, head.first_part) if low <= offset <= high]
            if any(first <= offset <= last for part in entries.read_parts(near) for first, last in part):
                domain.backlog.note(offset)
        before, waiting = _close(domain, head), len(domain.backlog)
        result = action(domain)
        after = _close(domain, head)
        if after != before:
            values = move_out(after, entries) | _holders(head.lease, after.lease)
            values[HEAD] = _encode(after, MAX_HEAD_BYTES - (RESERVED_BYTES if len(domain.backlog) > waiting else 0))
            lease_for = None if after.lease is None else after.lease.lease_for
            entries.write(values, version=0 if stored is None else stored.version, holder_for=lease_for)
        return result

    def _entries(self, name: str) -> DomainEntries:
        return DomainEntries(self._store, name, None if self._clock is None else self._clock.now())

    def _repeat(self, attempt: Callable[[], T]) -> T:
        """Return the result of the first try that was not overtaken by another call."""
        started = monotonic()
        for tries in range(MAX_TRIES):
            try:
                return attempt()
            except Overtaken:
                time.sleep(self._random.uniform(0, min(MAX_PAUSE_SECONDS, 0.001 * 2 ** min(tries, 10))))
        raise StoreBusy(monotonic() - started)


def _open(head: Head, has_lapsed: Callable[[LeaseRecord], bool]) -> Domain:
    """Return a domain with all that its head has."""
    backlog = Backlog(head.backlog_runs, closed=head.closed)
    for lowest, _ in head.parts:
        backlog.note(lowest)
    return Domain(
        name=head.domain,
        has_lapsed=has_lapsed,
        lease=head.lease,
        halt=head.halt,
        fence=head.fence,
        processed=IntervalSet.of_ranges(head.processed_ranges),
        failed=IntervalSet.of_ranges(head.failed_ranges),
        backlog=backlog,
    )


def _close(domain: Domain, head: Head) -> Head:
    """Return a head that has all that the domain has."""
    return replace(
        head,
        lease=domain.lease,
        halt=domain.halt,
        fence=domain.fence,
        processed_ranges=domain.processed.ranges(),
        failed_ranges=domain.failed.ranges(),
        backlog_runs=domain.backlog.runs(),
        closed=domain.backlog.closed,
    )


def _holders(before: LeaseRecord | None, after: LeaseRecord | None) -> Values:
    """Return the holders of leases that ended, began or were renewed."""
    leases = ((before, None), (after, b"")) if before != after else ()
    return {holder_name(one.token): value for one, value in leases if one is not None and one.lease_for is not None}


def _encode(head: Head, most: int) -> bytes:
    value = msgspec.msgpack.encode(head)
    if len(value) > most:
        raise DomainFull(head.domain, size=len(value), most=most)
    return value


def _upgrade(entries: DomainEntries, stored: Entry) -> None:
    """Write a domain of the old format in the new one. Raises ``Overtaken``."""
    found = entries.read_all()
    if found.get(HEAD) != stored:
        raise Overtaken
    head, version = read_paged_head(found), stored.version
    while values := move_out(head, entries):  # the old head is written again: so another upgrade is overtaken
        version = entries.write(values | {HEAD: stored.value}, version=version)
    pages = [name for name in found if name[1:2].isdecimal()][:MAX_REMOVED_PAGES]  # the version of a head, a number
    entries.write({HEAD: _encode(head, MAX_HEAD_BYTES)} | dict.fromkeys(pages), version=version)


def _read(entries: Mapping[str, Entry]) -> DomainState:
    """Return the state of a domain with these entries."""
    if HEAD not in entries:
        return DomainState()
    head, holder = _whole_head(entries), None
    if head.lease is not None:
        holder = entries.get(holder_name(head.lease.token))
    domain = _open(head, lambda lease: lease.lease_for is not None and holder is None)
    domain.failed.discard_below(domain.processed.first_missing(0))  # a chunk may still have them
    return domain_state(domain, expires_at=None if holder is None else holder.expires_at)


def _whole_head(entries: Mapping[str, Entry]) -> Head:
    """Return a head that has all offsets of the domain with these entries."""
    if is_paged(entries[HEAD]):
        return read_paged_head(entries)
    head = decode_head(entries[HEAD])
    ended = [(chunk_number(one), unpack_chunk(entry)) for one, entry in entries.items() if one.startswith(CHUNK)]
    processed = chain.from_iterable(join_ranges(number, bits) for number, (bits, _) in ended)
    failed = chain.from_iterable(join_ranges(number, bits) for number, (_, bits) in ended)
    parts = [decode_part(entries[part_name(head.first_part + place)]) for place in range(len(head.parts))]
    return replace(
        head,
        processed_ranges=[*processed, *head.processed_ranges],
        failed_ranges=[*failed, *head.failed_ranges],
        backlog_runs=[
            *head.backlog_runs[: head.closed],
            *chain.from_iterable(parts),
            *head.backlog_runs[head.closed :],
        ],
        parts=[],
    )
