"""``Backlog`` against a plain list."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.ordering.backlog import Backlog

OFFSETS = st.integers(0, 40)


@settings(max_examples=200)
@given(st.lists(st.one_of(st.tuples(st.just("append"), OFFSETS), st.tuples(st.just("drop"), st.integers(0, 3)))))
def test_a_backlog_is_a_list_without_duplicates(steps):
    model: list[int] = []
    backlog = Backlog()
    for name, number in steps:
        if name == "append" and number not in model:
            model.append(number)
            backlog.append(number)
        elif name == "drop":
            count = min(number, len(model))
            del model[:count]
            backlog.drop(count)
        assert (list(backlog), len(backlog), backlog.peek()) == (model, len(model), model[0] if model else None)
        assert all((offset in backlog) == (offset in model) for offset in range(41))
        assert (backlog.lowest, backlog.highest) == (min(model, default=None), max(model, default=None))
        assert list(Backlog(backlog.runs())) == model


def test_offsets_that_arrive_in_order_take_one_run():
    backlog = Backlog()
    for offset in range(10_000):
        backlog.append(offset)
    assert backlog.runs() == [(0, 9_999)]
    assert backlog.popleft() == 0
    assert backlog.runs() == [(1, 9_999)]


def test_a_long_run_is_dropped_at_once():
    """A page of a stored backlog drops at every call the offsets that have left it."""
    backlog = Backlog([(5 * 10**11, 10**12), (0, 5 * 10**11 - 1)])
    backlog.drop(6 * 10**11)
    assert backlog.runs() == [(10**11 - 1, 5 * 10**11 - 1)]
    assert (backlog.lowest, len(backlog)) == (10**11 - 1, 4 * 10**11 + 1)
