"""Chunks: ranges that are split into bits and joined again, and the size of an entry."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.model.bounds import MAX_NOTE_BYTES
from holdfast.model.interval_set import IntervalSet
from holdfast.model.registry import Entry
from holdfast.ordering.chunks import SPAN, join_ranges, pack_chunk, split_ranges, unpack_chunk

OFFSETS = st.integers(0, 5 * SPAN) | st.sampled_from([SPAN - 1, SPAN, 2**63 - 1, 2**63 - 2])
RANGES = st.lists(st.tuples(OFFSETS, st.integers(0, 2 * SPAN)).map(lambda one: (one[0], one[0] + one[1])), max_size=9)


def read_back(processed: int, failed: int) -> tuple[int, int]:
    return unpack_chunk(Entry(key="k", value=pack_chunk(processed, failed), version=1))


@settings(max_examples=100, deadline=None)
@given(RANGES)
def test_ranges_are_the_same_after_a_way_through_chunks(ranges):
    found = []
    for number, bits in sorted(split_ranges(ranges).items()):
        assert read_back(bits, 0) == (bits, 0)
        assert read_back(0, bits) == (0, bits)
        found += join_ranges(number, bits)
    assert found == sorted(found)
    assert IntervalSet.of_ranges(found) == IntervalSet.of_ranges(ranges)


def test_without_an_entry_no_bit_is_set():
    assert unpack_chunk(None) == (0, 0)


@pytest.mark.parametrize(
    ("count", "most"), [(1, 100), (100, 1_000), (SPAN // 2, MAX_NOTE_BYTES // 3), (SPAN, MAX_NOTE_BYTES // 3)]
)
def test_an_entry_of_few_offsets_is_small_and_every_one_fits(count, most):
    dice = random.Random(count)
    processed = sum(1 << place for place in dice.sample(range(SPAN), count))
    failed = dice.getrandbits(SPAN) & ~processed if count == SPAN // 2 else 0
    assert len(pack_chunk(processed, failed)) < most
    assert read_back(processed, failed) == (processed, failed)
