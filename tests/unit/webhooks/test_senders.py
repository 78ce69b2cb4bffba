"""Senders: what waits is bounded, and leaves room to other spaces."""

from __future__ import annotations

from holdfast.webhooks.senders import MAX_WAITING, Senders
from holdfast.webhooks.shares import Place


def fill(senders, space):
    """Put tasks of a space, each to a host of its own, while there is room; return how many."""
    count = 0
    while senders.room(space):
        senders.put(Place(space, f"host-{count}"), lambda: True)
        count += 1
    return count


def test_what_waits_is_bounded_and_leaves_room_to_other_spaces():
    senders = Senders(threads=4)  # they are not started: nothing begins
    assert fill(senders, "a") == MAX_WAITING // 2
    assert fill(senders, "b") == MAX_WAITING // 4
    assert sum(fill(senders, f"space-{number}") for number in range(2000)) == MAX_WAITING // 4


def test_a_space_whose_quick_hosts_wait_for_all_senders_has_no_room():
    senders = Senders(threads=2)
    senders.start()
    place = Place("a", "quick")
    senders.put(place, lambda: True)
    senders.begin()
    senders.stop()
    senders.put(place, lambda: True)
    assert (senders.room("a"), senders.room("b")) == (1, 2)
    senders.put(place, lambda: True)
    assert (senders.room("a"), senders.room("b")) == (0, 2)
