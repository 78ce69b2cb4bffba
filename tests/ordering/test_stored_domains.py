"""A domain in the registry: what a call costs, calls that race, and processes that die."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from datetime import timedelta

import msgspec
import pytest

import holdfast
from holdfast.clock import ManualClock
from holdfast.drivers.requests import Read, Scan, Write
from holdfast.errors import DomainFull, SchemaMismatch, StoreBusy
from holdfast.model.registry import Change
from holdfast.ordering import (
    Acquired,
    AlreadyProcessed,
    Busy,
    DomainState,
    Enqueued,
    IntervalSet,
    WorkLease,
    chunks,
    domain_entries,
    overflow,
    stored_domains,
)
from holdfast.ordering.domain_entries import (
    CHUNK,
    KIND,
    Head,
    chunk_number,
    decode_head,
    head_key,
    holder_name,
    part_name,
)

LEASE = timedelta(seconds=10)


class Killed(BaseException):
    """The process ends here."""


class Registry:
    """A store whose calls are counted, and may be preceded by something else."""

    def __init__(self, store) -> None:
        self.store = store
        self.capabilities = store.capabilities
        self.calls: list[str] = []
        self.before: Callable[[str, int], None] = lambda _name, _number: None

    def do(self, request):
        self.before(request.verb, len(self.calls))
        self.calls.append(request.verb)
        return self.store.do(request)


@pytest.fixture
def store(request, open_space):
    """In memory, unless the test asks for other stores: tests/acceptance/test_seed_003.py runs on all of them."""
    return open_space(getattr(request, "param", "memory"))


@pytest.fixture
def registry(store):
    return Registry(store)


@pytest.fixture
def small_pages(monkeypatch):
    monkeypatch.setattr(overflow, "MAX_RANGES", 4)
    monkeypatch.setattr(chunks, "SPAN", 16)


def entries(store, clock) -> dict[str, int]:
    """The keys of all entries, and their sizes."""
    return {entry.key: len(entry.value) for entry in store.do(Scan(kind=KIND, limit=10_000, now=clock.now()))}


def process(lease: WorkLease, offset: int, domain: str = "A") -> None:
    answer = lease.try_acquire(domain, offset)
    assert isinstance(answer, Acquired), answer
    lease.succeed(domain, answer.token)


# Cost ---------------------------------------------------------------------------------------------------------


def cost(lease: WorkLease, registry: Registry, clock: ManualClock, offset: int) -> tuple[list[str], dict[str, int]]:
    registry.calls.clear()
    process(lease, offset)
    return list(registry.calls), entries(registry.store, clock)


@pytest.mark.parametrize("store", ["memory", "sqlite", "postgres"], indirect=True)
def test_a_million_processed_offsets_cost_as_much_as_a_hundred(registry, clock):
    lease = WorkLease(max_retries=1, store=registry, clock=clock)
    for offset in range(100):
        process(lease, offset)
    few, small = cost(lease, registry, clock, 100)
    lease.set_watermark("A", 1_000_000)
    many, large = cost(lease, registry, clock, 1_000_000)
    assert few == many == ["read", "write", "read", "write"]
    assert list(small) == list(large) == [head_key("A")]
    assert large[head_key("A")] - small[head_key("A")] <= 4  # bytes: the numbers themselves are longer
    assert lease.state("A").processed.ranges() == [(0, 1_000_000)]


def test_waiting_offsets_that_arrived_in_order_fit_one_small_entry(registry, clock):
    lease = WorkLease(max_retries=1, store=registry, clock=clock)
    for offset in range(2000):
        lease.try_acquire("A", offset)
    [size] = entries(registry.store, clock).values()
    assert size < 300


@pytest.mark.parametrize("store", ["memory", "sqlite", "postgres"], indirect=True)
def test_a_call_for_a_sparse_domain_reads_few_chunks(registry, clock, small_pages):
    lease = WorkLease(max_retries=1, store=registry, clock=clock)
    offsets = range(0, 200, 2)
    for offset in offsets:
        process(lease, offset)
    assert len(entries(registry.store, clock)) > 10
    for offset in (4, 150, 198):
        registry.calls.clear()
        assert lease.try_acquire("A", offset) == AlreadyProcessed()
        assert len(registry.calls) <= 2
    registry.calls.clear()
    process(lease, 151)
    assert len(registry.calls) <= 8
    assert lease.state("A").processed == {*offsets, 151}


@pytest.mark.parametrize("first", [0, 5, 10**15])
def test_a_domain_whose_gaps_were_filled_needs_no_chunks(first, registry, clock, small_pages):
    lease = WorkLease(max_retries=0, store=registry, clock=clock)
    most = 0
    for offset in [*range(first, first + 400, 2), *range(first + 1, first + 400, 2)]:
        process(lease, offset)
        most = max(most, len(entries(registry.store, clock)))
    assert most > 20
    assert lease.state("A").processed.ranges() == [(first, first + 399)]
    assert len(entries(registry.store, clock)) <= 3  # the chunks at both ends are not full


def test_a_watermark_removes_chunks_a_few_at_a_time(registry, clock, small_pages, monkeypatch):
    monkeypatch.setattr(overflow, "MAX_REMOVED_CHUNKS", 3)
    lease = WorkLease(max_retries=0, store=registry, clock=clock)
    for offset in range(0, 600, 3):
        process(lease, offset) if offset % 2 else lease.fail("A", lease.try_acquire("A", offset).token)
    before = len(entries(registry.store, clock))
    lease.set_watermark("A", 400)
    assert before - 3 == len(entries(registry.store, clock)) > 20
    wanted = lease.state("A")
    assert (wanted.processed.first_missing(0), wanted.failed.lowest) == (400, 402)
    for offset in range(700, 720, 2):
        process(lease, offset)
    assert len(entries(registry.store, clock)) < 20
    state = lease.state("A")
    assert (state.processed, state.failed) == (wanted.processed | set(range(700, 720, 2)), wanted.failed)


def test_a_call_that_changes_nothing_writes_nothing(registry, clock):
    lease = WorkLease(max_retries=1, store=registry, clock=clock)
    token = lease.try_acquire("A", 1).token
    lease.try_acquire("A", 2)
    registry.calls.clear()
    lease.try_acquire("A", 1)
    assert lease.try_acquire("A", 2) == Enqueued()
    assert registry.calls == ["read", "read"]
    lease.succeed("A", token)


def test_ended_leases_leave_no_entries_behind(registry, clock):
    lease = WorkLease(max_retries=9, store=registry, clock=clock, owner="w1", lease_for=LEASE)
    for offset in range(20):
        process(lease, offset)
    assert len(entries(registry.store, clock)) <= 2  # the head, and the holder of the last lease
    for _ in range(5):  # taken over
        assert isinstance(lease.try_acquire("A", 20), Acquired)
        clock.advance(LEASE)
    assert len(entries(registry.store, clock)) <= 2


def test_a_domain_that_is_too_large_is_a_clear_error(registry, clock, small_pages, monkeypatch):
    monkeypatch.setattr(stored_domains, "MAX_HEAD_BYTES", 3000)
    monkeypatch.setattr(stored_domains, "RESERVED_BYTES", 1500)
    lease = WorkLease(max_retries=1, store=registry, clock=clock)
    token = lease.try_acquire("A", 0).token

    def fill() -> None:
        for offset in itertools.count(2, 2):
            lease.try_acquire("A", offset)

    with pytest.raises(DomainFull, match="watermark") as refusal:
        fill()
    assert refusal.value.size > refusal.value.most == 1500
    waiting = lease.state("A").backlog
    assert list(waiting) == list(range(2, 2 * len(waiting) + 2, 2))  # everything accepted, and nothing else
    lease.succeed("A", token)
    for offset in waiting:  # a full backlog can be processed
        process(lease, offset)
    assert lease.state("A").processed == {0, *waiting}
    lease.set_watermark("A", waiting[-1])
    lease.set_watermark("A", waiting[-1] + 1)
    assert lease.state("A").processed.ranges() == [(0, waiting[-1])]
    process(lease, waiting[-1] + 2)
    assert len(entries(registry.store, clock)) == 1


def test_a_domain_of_another_format_is_refused(store, clock):
    value = msgspec.msgpack.encode(Head(domain="A", format=99))
    store.do(Write(changes=[Change(kind=KIND, key=head_key("A"), value=value)], now=clock.now()))
    with pytest.raises(SchemaMismatch, match="99"):
        WorkLease(max_retries=1, store=store, clock=clock).state("A")


# Races and deaths ---------------------------------------------------------------------------------------------


class Scene:
    """A domain with chunks, and calls that change it. All scenes with the same first steps are equal but for tokens."""

    def __init__(self, store, clock: ManualClock) -> None:
        self.store = store
        self.clock = clock
        self.lease = self.open(store)
        for offset in range(0, 60, 4):
            process(self.lease, offset)
        self.token = self.lease.try_acquire("A", 61).token
        for offset in range(100, 60, -2):
            self.lease.try_acquire("A", offset)

    def open(self, store) -> WorkLease:
        return WorkLease(
            max_retries=1, store=store, clock=self.clock, errors="return", strict=False, owner="w1", lease_for=LEASE
        )

    def call(self, name: str, lease: WorkLease) -> object:
        """Make a call; return its answer without tokens."""
        match name:
            case "enqueue":
                answer: object = lease.try_acquire("A", 55)
            case "enqueue-again":
                answer = lease.try_acquire("A", 100)
            case "steal":
                answer = lease.try_acquire("A", 61, owner="w2")
            case "succeed":
                answer = lease.succeed("A", self.token)
            case "fail":
                answer = lease.fail("A", self.token)
            case "extend":
                answer = lease.extend("A", self.token)
            case "watermark":
                answer = lease.set_watermark("A", 33)
            case "watermark-of-all":  # the other one changes nothing after it, and has made a chunk in vain
                answer = lease.set_watermark("A", 61)
            case _:
                raise AssertionError(name)
        return repr(answer)

    def state(self) -> DomainState:
        return self.open(self.store).state("A")

    def check_entries(self) -> None:
        """The domain has the entries that its head uses, and no others."""
        key, now = head_key("A"), self.clock.now()
        [entry] = self.store.do(Read(kind=KIND, keys=[key], now=now))
        head = decode_head(entry)
        used = {key} | {key + part_name(head.first_part + place) for place in range(len(head.parts))}
        if head.lease is not None:
            used.add(key + holder_name(head.lease.token))
        stored = set(entries(self.store, self.clock))
        chunked = {name for name in stored if name.startswith(key + CHUNK)}
        assert stored - chunked == used
        covered = IntervalSet.of_ranges(head.processed_ranges).first_missing(0)
        assert all((chunk_number(name.removeprefix(key)) + 1) * chunks.SPAN > covered for name in chunked)


CALLS = ["enqueue", "enqueue-again", "steal", "succeed", "fail", "extend", "watermark", "watermark-of-all"]


@pytest.mark.parametrize("second", CALLS)
@pytest.mark.parametrize("first", CALLS)
def test_two_calls_that_race_have_the_effect_of_one_after_the_other(first, second, small_pages):
    """The second call runs as a whole between the read and the write of the first one."""
    clock = ManualClock()
    raced = Scene(holdfast.connect("memory://", caller_clock=True), clock)
    registry = Registry(raced.store)
    seconds = []

    def intrude(name: str, number: int) -> None:
        if name == "write" and not seconds:
            seconds.append(None)
            seconds[0] = raced.call(second, raced.lease)

    registry.before = intrude
    answer = raced.call(first, raced.open(registry))

    serial = Scene(holdfast.connect("memory://", caller_clock=True), clock)
    if not seconds:  # the first call wrote nothing, so there was no race
        seconds.append(raced.call(second, raced.lease))
        wanted = (serial.call(first, serial.lease), serial.call(second, serial.lease))
    else:
        wanted = (serial.call(second, serial.lease), serial.call(first, serial.lease))[::-1]
    assert (answer, seconds[0]) == wanted
    assert repr(raced.state()) == repr(serial.state())
    raced.check_entries()


def test_of_two_owners_that_take_over_at_once_one_is_busy(small_pages):
    clock = ManualClock()
    scene = Scene(holdfast.connect("memory://", caller_clock=True), clock)
    clock.advance(LEASE)
    registry = Registry(scene.store)
    winners = []

    def intrude(name: str, number: int) -> None:
        if name == "write" and not winners:
            winners.append(scene.lease.try_acquire("A", 61, owner="w3"))

    registry.before = intrude
    assert scene.open(registry).try_acquire("A", 61, owner="w2") == Busy()
    assert isinstance(winners[0], Acquired)
    assert (scene.state().lease.owner, scene.state().lease.retry_count) == ("w3", 1)
    scene.check_entries()


@pytest.mark.parametrize("name", CALLS)
def test_a_process_that_dies_at_any_call_leaves_the_domain_as_before_or_after(name, small_pages):
    clock = ManualClock()
    before = Scene(holdfast.connect("memory://", caller_clock=True), clock).state()
    whole = Scene(holdfast.connect("memory://", caller_clock=True), clock)
    counted = Registry(whole.store)
    whole.call(name, whole.open(counted))
    for fatal in range(len(counted.calls)):
        scene = Scene(holdfast.connect("memory://", caller_clock=True), clock)
        registry = Registry(scene.store)

        def die(_: str, number: int, fatal: int = fatal) -> None:
            if number == fatal:
                raise Killed

        registry.before = die
        with pytest.raises(Killed):
            scene.call(name, scene.open(registry))
        assert repr(scene.state()) == repr(before)  # no write before the last call
        scene.check_entries()
    assert counted.calls.count("write") <= 1


def test_a_process_that_lost_a_race_and_died_leaves_nothing(small_pages):
    clock = ManualClock()
    scene = Scene(holdfast.connect("memory://", caller_clock=True), clock)
    grown = 0
    for offset in range(200, 220, 2):
        registry = Registry(scene.store)

        def overtake_then_die(name: str, number: int, registry: Registry = registry) -> None:
            if name == "write":
                if registry.calls.count("write"):
                    raise Killed
                scene.lease.extend("A", scene.token)

        registry.before = overtake_then_die
        before = entries(scene.store, clock).keys()
        with pytest.raises(Killed):
            scene.open(registry).try_acquire("A", offset)
        assert entries(scene.store, clock).keys() == before
        scene.lease.try_acquire("A", offset)
        grown += len(entries(scene.store, clock)) - len(before)
    assert grown > 0  # it lost a race for a part of the backlog, too
    scene.check_entries()


@pytest.mark.parametrize("name", ["extend", "fail"])
def test_a_renewal_that_lost_a_race_and_died_does_not_end_the_lease(name, small_pages):
    clock = ManualClock()
    scene = Scene(holdfast.connect("memory://", caller_clock=True), clock)
    registry = Registry(scene.store)

    def overtake_then_die(call: str, number: int) -> None:
        if call == "write" and "write" not in registry.calls:
            scene.lease.try_acquire("A", 200)
        if call == "read" and "write" in registry.calls:  # the next try
            raise Killed

    registry.before = overtake_then_die
    with pytest.raises(Killed):
        scene.call(name, scene.open(registry))
    assert not scene.state().lease.has_lapsed
    assert "Busy" in scene.call("steal", scene.lease)


def test_a_lease_that_ends_meanwhile_is_not_shown_as_lapsed(clock, monkeypatch):
    monkeypatch.setattr(domain_entries, "PAGE_ENTRIES", 1)
    store = holdfast.connect("memory://", caller_clock=True)
    registry = Registry(store)
    options = {"max_retries": 1, "clock": clock, "owner": "w1", "lease_for": LEASE}
    lease = WorkLease(store=store, **options)
    token = lease.try_acquire("A", 1).token

    def end(_: str, number: int) -> None:
        if number == 1:  # after the page with the head, before that with the holder
            lease.succeed("A", token)
            process(lease, 2)
            process(lease, 3)

    registry.before = end
    state = WorkLease(store=registry, **options).state("A")
    assert (state.lease, state.processed) == (None, {1, 2, 3})


def test_a_call_gives_up_when_others_are_always_faster(monkeypatch, clock):
    monkeypatch.setattr(stored_domains, "MAX_TRIES", 3)
    store = holdfast.connect("memory://", caller_clock=True)
    registry = Registry(store)
    offsets = itertools.count(2)
    other = WorkLease(max_retries=1, store=store, clock=clock)
    token = other.try_acquire("A", 1).token
    registry.before = lambda name, _: name == "write" and other.try_acquire("A", next(offsets))
    with pytest.raises(StoreBusy):
        WorkLease(max_retries=1, store=registry, clock=clock).succeed("A", token)
    assert other.state("A").lease.token == token


def test_a_reader_is_not_confused_by_chunks_that_are_replaced_meanwhile(clock, small_pages, monkeypatch):
    monkeypatch.setattr(domain_entries, "PAGE_ENTRIES", 3)
    store = holdfast.connect("memory://", caller_clock=True)
    lease = WorkLease(max_retries=1, store=store, clock=clock)
    for offset in range(0, 100, 2):
        process(lease, offset)
    registry = Registry(store)
    odd = iter([1, 3, 5])

    def replace_chunks(name: str, number: int) -> None:
        if number % 2:  # between two pages
            for offset in itertools.islice(odd, 3):
                process(lease, offset)

    registry.before = replace_chunks
    state = WorkLease(max_retries=1, store=registry, clock=clock).state("A")
    assert state.processed == {*range(0, 100, 2), 1, 3, 5}
    assert len(registry.calls) > 2
