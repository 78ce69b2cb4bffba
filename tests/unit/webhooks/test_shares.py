"""Which request begins next: no host and no space holds up the others."""

from __future__ import annotations

from collections import Counter

import pytest

from holdfast.webhooks.shares import Pace, Place, next_place

SENDERS = 32


def begin(waiting, running=(), paces=None, senders=SENDERS):
    """Begin as many requests as may begin; ``waiting`` has the number of each (space, host)."""
    waiting, running = Counter({Place(*place): count for place, count in waiting.items()}), list(running)
    while (
        place := next_place([one for one in waiting if waiting[one]], running, paces or {}, senders=senders)
    ) is not None:
        waiting[place] -= 1
        running.append(place)
    return Counter(running)


def test_an_unknown_host_gets_one_request_until_it_has_answered():
    assert begin({("a", "x"): 100, ("a", "y"): 100}) == {("a", "x"): 1, ("a", "y"): 1}


def test_a_quick_host_gets_half_of_what_is_free_and_the_others_the_rest():
    running = begin({("a", "x"): 100}, paces={("a", "x"): Pace.QUICK})
    assert running == {("a", "x"): 16}
    running = begin({("a", "y"): 100}, running.elements(), {("a", "x"): Pace.QUICK, ("a", "y"): Pace.QUICK})
    assert running == {("a", "x"): 16, ("a", "y"): 8}


def test_a_silent_host_gets_one_probe_at_a_time_from_each_space():
    paces = {("a", "x"): Pace.SILENT, ("b", "x"): Pace.SILENT}
    assert begin({("a", "x"): 9, ("b", "x"): 9}, paces=paces) == {("a", "x"): 1, ("b", "x"): 1}


def test_a_space_that_makes_a_host_hang_does_not_slow_down_another_space():
    paces = {("a", "x"): Pace.SILENT, ("b", "x"): Pace.QUICK}
    assert begin({("b", "x"): 99}, [Place("a", "x")], paces)["b", "x"] == 15


@pytest.mark.parametrize("pace", [Pace.SLOW, Pace.SILENT, Pace.UNKNOWN])
def test_any_number_of_bad_hosts_leaves_senders_to_good_ones_and_to_other_spaces(pace):
    bad = {("a", f"bad-{number}"): pace for number in range(200)}
    running = begin(dict.fromkeys(bad, 50), paces=bad)
    assert running.total() <= SENDERS // 2
    waiting = {("a", "good"): 50, ("b", "new"): 1, ("c", "new too"): 1}
    after = begin(waiting, running.elements(), bad | {("a", "good"): Pace.QUICK})
    assert after["a", "good"] >= 4
    assert (after["b", "new"], after["c", "new too"]) == (1, 1)


def test_bad_hosts_of_several_spaces_leave_half_to_good_ones():
    bad = {(f"space-{number % 20}", f"bad-{number}"): Pace.SILENT for number in range(200)}
    running = begin(dict.fromkeys(bad, 5), paces=bad)
    assert running.total() == SENDERS // 2
    after = begin({("z", "good"): 50}, running.elements(), bad | {("z", "good"): Pace.QUICK})
    assert after["z", "good"] == SENDERS // 4


def test_spaces_take_turns():
    paces = {(space, f"host-{number}"): Pace.QUICK for space in "abc" for number in range(40)}
    of_space = Counter(place.space for place in begin(dict.fromkeys(paces, 9), paces=paces).elements())
    assert sorted(of_space.values()) == [10, 11, 11]


def test_the_host_that_was_quick_comes_first():
    paces = {Place("a", pace.name.lower()): pace for pace in (Pace.SILENT, Pace.SLOW, Pace.QUICK)}
    places = [Place("a", host) for host in ("silent", "slow", "new", "quick")]
    order = []
    while (place := next_place(places, [], paces, senders=4)) is not None:
        order.append(place.host)
        places.remove(place)
    assert order == ["quick", "new", "slow", "silent"]


@pytest.mark.parametrize("senders", [1, 2, 3])
def test_a_few_senders_still_send_to_everyone_in_turn(senders):
    for pace in Pace:
        assert begin({("a", "x"): 1}, paces={("a", "x"): pace}, senders=senders).total() == 1
    assert begin({("a", "x"): 9, ("b", "y"): 9}, senders=senders).total() <= senders
