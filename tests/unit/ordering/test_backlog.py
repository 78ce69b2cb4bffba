"""``Backlog`` against a plain list."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.ordering.backlog import Backlog

OFFSETS = st.integers(0, 40)


@settings(max_examples=200)
@given(st.lists(st.one_of(OFFSETS, OFFSETS, st.none())))
def test_a_backlog_is_a_list_without_duplicates(steps):
    model: list[int] = []
    backlog = Backlog()
    for offset in steps:
        if offset is None and model:
            assert backlog.popleft() == model.pop(0)
        elif offset is not None and offset not in model:
            model.append(offset)
            backlog.append(offset)
        assert (list(backlog), len(backlog), backlog.peek()) == (model, len(model), model[0] if model else None)
        assert all((offset in backlog) == (offset in model) for offset in range(41))
        assert backlog.lowest == min(model, default=None)
        assert list(Backlog(backlog.runs())) == model


def test_offsets_that_arrive_in_order_take_one_run():
    backlog = Backlog()
    for offset in range(10_000):
        backlog.append(offset)
    assert backlog.runs() == [(0, 9_999)]
    assert backlog.popleft() == 0
    assert backlog.runs() == [(1, 9_999)]


def test_what_arrives_behind_a_middle_that_is_elsewhere_does_not_continue_the_first_runs():
    backlog = Backlog([(5, 5), (7, 8)], closed=2)
    for offset in (6, 20):
        backlog.note(offset)
    for offset in (9, 10):
        backlog.append(offset)
    assert (backlog.runs(), backlog.closed) == ([(5, 5), (7, 8), (9, 10)], 2)
    assert [offset in backlog for offset in (5, 6, 10, 11, 20)] == [True, True, True, False, True]
    assert backlog.lowest == 5
    assert [backlog.popleft(), backlog.closed, backlog.lowest] == [5, 1, 6]
    assert [backlog.popleft(), backlog.closed, backlog.popleft(), backlog.closed] == [7, 1, 8, 0]
