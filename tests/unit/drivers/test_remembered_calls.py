"""A store object remembers the calls that ended expired leases, and forgets the oldest if nobody asks."""

from holdfast.drivers.remembered_calls import MAX_REMEMBERED_CALLS, RememberedCalls


def test_calls_are_taken_once_and_in_their_order():
    calls = RememberedCalls()
    calls.add(1)
    calls.add(2)
    assert (calls.take(), calls.take()) == ([1, 2], [])
    calls.add(3)
    assert calls.take() == [3]


def test_the_oldest_calls_are_forgotten_if_nobody_asks():
    calls = RememberedCalls()
    for number in range(MAX_REMEMBERED_CALLS + 5):
        calls.add(number)
    assert calls.take() == list(range(5, MAX_REMEMBERED_CALLS + 5))
