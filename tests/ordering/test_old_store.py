"""A domain as an older version stored it (format 1): read as it is, and written in the new format by the first change.

The entries are made here as that version made them. Its sets and its backlog were lists of pages
``[lowest, highest, count, chunk, skipped, ranges]``. The last page was in the head, as was a page of one range.
"""

from __future__ import annotations

import hashlib
from datetime import timedelta
from itertools import chain

import msgspec
import pytest

import holdfast
from holdfast.clock import SECOND, ManualClock
from holdfast.drivers.requests import Read, Write
from holdfast.model.interval_set import IntervalSet
from holdfast.model.registry import Change
from holdfast.ordering import AlreadyFailed, AlreadyProcessed, Busy, Enqueued, NextHint, WorkLease, overflow
from holdfast.ordering.domain_entries import FORMAT, KIND
from tests.ordering.test_stored_domains import Killed, Registry, entries

DOMAIN, TOKEN, LEASE = "A", "7.00112233445566778899aabbccddeeff", timedelta(seconds=10)
KEY = hashlib.blake2b(DOMAIN.encode(), digest_size=32).hexdigest()
HOLDER = f"{KEY}.holder.{hashlib.blake2b(TOKEN.encode(), digest_size=32).hexdigest()}"

PROCESSED = [*range(1000, 4000, 3), *range(200_000, 200_300), *range(700_001, 701_001, 2)]
FAILED = [5, 900, *range(1001, 2001, 30), 2**62]
BACKLOG = [*range(9000, 8000, -2), *range(9001, 9600), *range(10**9, 10**9 + 2000, 20)]
WAITING = BACKLOG[40:]  # the others had left it


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def store(request, open_space):
    return open_space(request.param)


def runs_of(offsets: list[int]) -> list[tuple[int, int]]:
    runs: list[tuple[int, int]] = []
    for offset in offsets:
        if runs and runs[-1][1] + 1 == offset:
            runs[-1] = (runs[-1][0], offset)
        else:
            runs.append((offset, offset))
    return runs


def write_old(store, clock: ManualClock, *, with_owner: bool) -> None:
    """Store the domain: 7 leases were granted, and the last one is held."""
    values: dict[str, bytes] = {}

    def pages(offsets: list[int], size: int, skipped: int = 0) -> list[list[object]]:
        made: list[list[object]] = []
        runs = runs_of(offsets)
        for start in range(0, len(runs), size):
            part = runs[start : start + size]
            lowest, highest = min(first for first, _ in part), max(last for _, last in part)
            numbers = list(chain.from_iterable(part))
            page = [lowest, highest, len(part), None, 0, None]
            if start + size >= len(runs):
                page[5] = numbers
            elif len(part) > 1:
                page[3:5] = [f"{start + 3}.{len(values)}", 0 if start else skipped]
                values[f"{KEY}.{page[3]}"] = msgspec.msgpack.encode(numbers)
            made.append(page)
        return made

    lease = {"offset": 77, "token": TOKEN, "fence": 7, "acquired_at": clock.now() - SECOND, "retry_count": 1}
    lease |= {"owner": "w1" if with_owner else None, "lease_for": 10 * SECOND if with_owner else None}
    head = {
        "format": 1,
        "domain": DOMAIN,
        "fence": 7,
        "lease": {**lease, "renewed_at": clock.now(), "renewals": 0},
        "processed": pages(PROCESSED, 300),
        "failed": pages(FAILED, 20),
        "backlog": pages(BACKLOG, 64, skipped=40),
        "retired": ["1.0", "1.1"],
    }
    values |= {f"{KEY}.1.0": b"retired", f"{KEY}.99.0": b"of a process that died"}
    changes = [
        Change(kind=KIND, key=KEY, value=msgspec.msgpack.encode(head)),
        *(Change(kind=KIND, key=key, value=value) for key, value in values.items()),
        *([Change(kind=KIND, key=HOLDER, value=b"", ttl=10 * SECOND)] if with_owner else []),
    ]
    store.do(Write(changes=changes, now=clock.now()))


def format_of(store, clock: ManualClock) -> int:
    [entry] = store.do(Read(kind=KIND, keys=[KEY], now=clock.now()))
    return msgspec.msgpack.decode(entry.value)["format"]


def pages_of(store, clock: ManualClock) -> list[str]:
    """The keys of the entries that only the old format has."""
    return [key for key in entries(store, clock) if key.removeprefix(KEY)[1:2].isdecimal()]


def check(state, *, processed=(), backlog=WAITING) -> None:
    assert state.processed == {*PROCESSED, *processed}
    assert state.failed == set(FAILED)
    assert list(state.backlog) == backlog


@pytest.mark.parametrize("in_many_writes", [False, True])
def test_a_domain_of_the_old_format_goes_on(store, clock, in_many_writes, monkeypatch):
    if in_many_writes:
        monkeypatch.setattr(overflow, "MAX_RANGES", 8)
        monkeypatch.setattr(overflow, "MAX_MOVED_CHUNKS", 1)
    write_old(store, clock, with_owner=False)
    lease = WorkLease(max_retries=2, store=store, clock=clock)
    before = entries(store, clock)
    state = lease.state(DOMAIN)
    check(state)
    assert (state.lease.offset, state.lease.token, state.lease.fence, state.lease.retry_count) == (77, TOKEN, 7, 1)
    assert entries(store, clock) == before  # to read writes nothing
    assert len(pages_of(store, clock)) > 10

    assert lease.succeed(DOMAIN, TOKEN) == NextHint(WAITING[0])
    assert (format_of(store, clock), pages_of(store, clock)) == (FORMAT, [])
    check(lease.state(DOMAIN), processed=[77])
    for offset in (PROCESSED[0], PROCESSED[500], PROCESSED[-1], 77):
        assert lease.try_acquire(DOMAIN, offset) == AlreadyProcessed()
    assert all(lease.try_acquire(DOMAIN, offset) == AlreadyFailed() for offset in FAILED)
    assert lease.try_acquire(DOMAIN, WAITING[0]).fence == 8
    assert all(lease.try_acquire(DOMAIN, offset) == Enqueued() for offset in (*WAITING[1::50], WAITING[-1]))
    check(lease.state(DOMAIN), processed=[77], backlog=WAITING[1:])


def test_an_owner_keeps_its_lease_and_loses_it_when_it_lapses(store, clock):
    write_old(store, clock, with_owner=True)
    lease = WorkLease(max_retries=2, store=store, clock=clock, owner="w2", lease_for=LEASE)
    assert lease.try_acquire(DOMAIN, 77) == Busy()
    assert lease.try_acquire(DOMAIN, 78) == Enqueued()  # the first change
    assert format_of(store, clock) == FORMAT
    assert lease.try_acquire(DOMAIN, 77) == Busy()
    clock.advance(LEASE)
    assert lease.state(DOMAIN).lease.has_lapsed
    taken = lease.try_acquire(DOMAIN, 77)
    assert (taken.fence, lease.state(DOMAIN).lease.retry_count) == (8, 2)
    check(lease.state(DOMAIN), backlog=[*WAITING, 78])


def test_of_processes_that_meet_at_an_old_domain_none_undoes_the_other(clock, monkeypatch):
    """Another process upgrades and changes the domain, before each write of this one."""
    monkeypatch.setattr(overflow, "MAX_RANGES", 8)
    monkeypatch.setattr(overflow, "MAX_MOVED_CHUNKS", 2)
    writes = 1
    while True:
        store = holdfast.connect("memory://", caller_clock=True)
        write_old(store, clock, with_owner=False)
        other, registry = WorkLease(max_retries=2, store=store, clock=clock), Registry(store)
        place = 0

        def intrude(name: str, number: int, other: WorkLease = other, at: int = writes) -> None:
            nonlocal place
            place += name == "write"
            if name == "write" and place == at:
                for offset in range(2**40, 2**40 + 40, 2):
                    assert other.try_acquire(DOMAIN, offset) == Enqueued()

        registry.before = intrude
        assert WorkLease(max_retries=2, store=registry, clock=clock).succeed(DOMAIN, TOKEN) == NextHint(WAITING[0])
        if place < writes:
            break
        check(other.state(DOMAIN), processed=[77], backlog=[*WAITING, *range(2**40, 2**40 + 40, 2)])
        writes += 1
    assert writes > 4


def test_a_process_that_dies_at_any_call_leaves_an_old_domain_as_it_was(clock, monkeypatch):
    monkeypatch.setattr(overflow, "MAX_RANGES", 8)
    monkeypatch.setattr(overflow, "MAX_MOVED_CHUNKS", 2)
    store = holdfast.connect("memory://", caller_clock=True)
    write_old(store, clock, with_owner=False)
    calls = 0
    while format_of(store, clock) != FORMAT:
        registry = Registry(store)

        def die(_: str, number: int, fatal: int = calls) -> None:
            if number == fatal:
                raise Killed

        registry.before = die
        with pytest.raises(Killed):
            WorkLease(max_retries=2, store=registry, clock=clock).succeed(DOMAIN, TOKEN)
        check(WorkLease(max_retries=2, store=store, clock=clock).state(DOMAIN))
        calls += 1
    assert calls > 4
    lease = WorkLease(max_retries=2, store=store, clock=clock)
    assert lease.succeed(DOMAIN, TOKEN) == NextHint(WAITING[0])
    check(lease.state(DOMAIN), processed=[77])
    lease.set_watermark(DOMAIN, 2**62)
    assert lease.state(DOMAIN).processed == IntervalSet.of_ranges(
        [(0, min(WAITING) - 1), *runs_of([p for p in PROCESSED if p > 8000])]
    )
