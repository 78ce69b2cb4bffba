"""``IntervalSet`` against a plain set."""

from __future__ import annotations

import pickle
from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.model.interval_set import IntervalSet

OFFSETS = st.integers(0, 40)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("add"), OFFSETS),
        st.tuples(st.just("discard"), OFFSETS),
        st.tuples(st.just("fill_below"), OFFSETS),
        st.tuples(st.just("discard_below"), OFFSETS),
        st.tuples(st.just("add_range"), OFFSETS, st.integers(0, 6)),
        st.tuples(st.just("discard_range"), OFFSETS, st.integers(0, 6)),
    ),
    max_size=30,
)


def plain_step(model: set[int], step: tuple) -> None:
    match step:
        case ("add", offset):
            model.add(offset)
        case ("discard", offset):
            model.discard(offset)
        case ("fill_below", limit):
            model.update(range(limit))
        case ("discard_below", limit):
            model.difference_update(range(limit))
        case ("add_range", first, more):
            model.update(range(first, first + more + 1))
        case ("discard_range", first, more):
            model.difference_update(range(first, first + more + 1))


def step_of(offsets: IntervalSet, step: tuple) -> None:
    name, first, *more = step
    getattr(offsets, name)(first, *(first + each for each in more))


@settings(max_examples=200)
@given(STEPS)
def test_it_is_a_set_with_as_few_ranges_as_possible(steps):
    model: set[int] = set()
    offsets = IntervalSet()
    for step in steps:
        plain_step(model, step)
        step_of(offsets, step)
        assert offsets == model
        assert sorted(model) == list(offsets)
        assert len(offsets) == len(model)
        assert all((offset in offsets) == (offset in model) for offset in range(-1, 50))
        assert (offsets.lowest, offsets.highest) == (min(model, default=None), max(model, default=None))
        ranges = offsets.ranges()
        assert all(first <= last for first, last in ranges)
        assert all(after[0] > before[1] + 1 for before, after in pairwise(ranges))
        assert IntervalSet.of_ranges(reversed(ranges)) == offsets


def test_contiguous_offsets_take_one_range_in_any_order():
    offsets = IntervalSet([*range(0, 1000, 2), *range(999, 0, -2)])
    assert offsets.ranges() == [(0, 999)]
    assert repr(IntervalSet([1, 2, 3, 7])) == "IntervalSet(1..3, 7)"


def test_it_compares_with_plain_sets_and_survives_pickling():
    offsets = IntervalSet([1, 2, 5])
    assert offsets == {1, 2, 5}
    assert offsets != {1, 2}
    assert offsets & {2, 9} == {2}
    assert "1" not in offsets
    assert pickle.loads(pickle.dumps(offsets)) == offsets


@given(st.sets(st.integers(0, 30)), st.integers(0, 30))
def test_the_first_missing_number_is_the_smallest_that_is_not_in_the_set(offsets: set[int], start: int):
    missing = next(number for number in range(start, 99) if number not in offsets)
    assert IntervalSet(offsets).first_missing(start) == missing
