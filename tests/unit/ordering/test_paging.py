"""Paged sets and backlogs against plain ones, written and read back after every step, as a store does it."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from holdfast.ordering import paging
from holdfast.ordering.paged_backlog import PagedBacklog
from holdfast.ordering.paged_set import PagedSet
from holdfast.ordering.paging import PageEntry

OFFSETS = st.integers(0, 300)
SET_STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("add"), OFFSETS),
        st.tuples(st.just("add"), OFFSETS),
        st.tuples(st.just("add"), OFFSETS),
        st.tuples(st.sampled_from(["fill_below", "discard_below"]), st.integers(0, 60)),
    ),
    max_size=120,
)


class Chunks:
    """Chunks that never change, and how many were read and written."""

    def __init__(self) -> None:
        self.values: dict[str, bytes] = {}
        self.loads = 0

    def load(self, names):
        self.loads += bool(names)
        return [self.values[name] for name in names]

    def store(self, value: bytes) -> str:
        name = str(len(self.values))
        self.values[name] = value
        return name

    def again(self, cls, paged):
        """Write the pages and read them back. Return the copy and the entries."""
        entries = msgspec.msgpack.decode(msgspec.msgpack.encode(paged.to_entries(self.store)), type=list[PageEntry])
        return cls(entries, self.load), entries


@pytest.fixture
def small_pages(monkeypatch):
    monkeypatch.setattr(paging, "MAX_INLINE_RANGES", 8)
    monkeypatch.setattr(paging, "MAX_CHUNK_RANGES", 12)


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(SET_STEPS)
def test_a_paged_set_is_a_set(small_pages, steps):
    model: set[int] = set()
    chunks = Chunks()
    offsets = PagedSet([], chunks.load)
    for name, number in steps:
        getattr(offsets, name)(number)
        match name:
            case "add":
                model.add(number)
            case "fill_below":
                model.update(range(number))
            case "discard_below":
                model.difference_update(range(number))
        offsets, entries = chunks.again(PagedSet, offsets)
        assert all(entry.count <= 12 for entry in entries)
        assert all((each in offsets) == (each in model) for each in (number - 1, number, number + 1, 300))
    assert offsets.whole() == model
    assert all((offset in offsets) == (offset in model) for offset in range(-1, 302))


def test_a_full_range_needs_no_chunk_whatever_the_order(small_pages):
    chunks = Chunks()
    offsets = PagedSet([], chunks.load)
    for offset in [*range(0, 400, 2), *range(1, 400, 2)]:
        offsets.add(offset)
        offsets, entries = chunks.again(PagedSet, offsets)
    assert len(chunks.values) > 20
    assert not any(entry.chunk for entry in entries)
    assert offsets.whole().ranges() == [(0, 399)]
    assert len(entries) <= 3


def test_a_question_reads_one_chunk_at_most():
    chunks = Chunks()
    offsets = PagedSet([], chunks.load)
    for offset in range(0, 20_000, 2):
        offsets.add(offset)
    offsets, entries = chunks.again(PagedSet, offsets)
    assert len(entries) > 10
    for offset in (0, 1, 9_999, 10_000, 19_998, 30_000):
        chunks.loads = 0
        assert (offset in PagedSet(entries, chunks.load)) == (offset % 2 == 0 and offset < 20_000)
        assert chunks.loads <= 1


def test_the_largest_chunk_fits_an_entry():
    far = 2**63 - 1
    ranges = [(far - 2 * place - 1, far - 2 * place - 1) for place in range(paging.MAX_CHUNK_RANGES)]
    assert len(paging.pack(ranges)) < 64 << 10


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.one_of(OFFSETS, OFFSETS, st.none()), max_size=200))
def test_a_paged_backlog_is_a_list(small_pages, steps):
    model: list[int] = []
    chunks = Chunks()
    backlog = PagedBacklog([], chunks.load)
    for offset in steps:
        if offset is None:
            if model:
                assert backlog.popleft() == model.pop(0)
        elif offset not in model:
            assert offset not in backlog
            backlog.append(offset)
            model.append(offset)
        backlog, _ = chunks.again(PagedBacklog, backlog)
        assert backlog.peek() == (model[0] if model else None)
        assert offset is None or offset in backlog
        assert backlog.lowest == min(model, default=None)
    assert list(backlog) == model
    while model:
        assert backlog.popleft() == model.pop(0)
        backlog, _ = chunks.again(PagedBacklog, backlog)


def test_taking_the_head_of_a_chunk_does_not_write_the_chunk_again(small_pages):
    chunks = Chunks()
    backlog = PagedBacklog([], chunks.load)
    for offset in range(0, 200, 2):
        backlog.append(offset)
    backlog, _ = chunks.again(PagedBacklog, backlog)
    written = len(chunks.values)
    for offset in range(0, 100, 2):
        assert backlog.popleft() == offset
        backlog, _ = chunks.again(PagedBacklog, backlog)
    assert len(chunks.values) == written
