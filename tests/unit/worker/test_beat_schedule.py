"""When heartbeats begin: a store that answers late, and grants every extend, keeps the attempts of its workers."""

import heapq
import itertools
import random

import pytest

from holdfast.worker.heartbeat import MAX_BEATS, BeatSchedule
from holdfast.worker.processes.running import LEASE_MARGIN

LEASE = 3.0
USABLE = (1 - LEASE_MARGIN) * LEASE
RESERVE, BEGIN, ANSWER, ADD = range(4)


def shortest_reserve(latency, *, seed: int, until: float = 60.0) -> float:
    """Simulate reserves and beats; return how close a local deadline came before it was moved, in seconds.

    ``latency`` returns the seconds from a call to its answer. A lease counts from the begin of the call that granted
    it. Each beat extends what the worker holds at its begin.
    """
    chooser = random.Random(seed)
    schedule = BeatSchedule(LEASE, 0.0)
    deadlines: dict[int, float] = {}
    numbers, order = itertools.count(), itertools.count()
    events = [(chooser.uniform(0, LEASE), next(order), RESERVE, None), (schedule.due_at, next(order), BEGIN, None)]
    under_way, closest = 0, LEASE
    while events[0][0] < until:
        now, _, kind, subject = heapq.heappop(events)
        if kind == RESERVE:
            heapq.heappush(events, (now + latency(chooser), next(order), ADD, now + USABLE))
        elif kind == ADD:
            closest = min(closest, subject - now)
            deadlines[next(numbers)] = subject
            schedule.add(now, subject - USABLE)
            heapq.heappush(events, (schedule.due_at, next(order), BEGIN, None))
            heapq.heappush(events, (now + chooser.uniform(0, LEASE / 2), next(order), RESERVE, None))
        elif kind == BEGIN:
            if now >= schedule.due_at and under_way < MAX_BEATS:
                under_way += 1
                schedule.begin(now)
                heapq.heappush(events, (now + latency(chooser), next(order), ANSWER, (now, list(deadlines))))
                heapq.heappush(events, (schedule.due_at, next(order), BEGIN, None))
        else:
            began, extended = subject
            under_way -= 1
            schedule.end(now - began)
            for number in deadlines.keys() & extended:
                closest = min(closest, deadlines[number] - now)
                deadlines[number] = max(deadlines[number], began + USABLE)
            for number in extended[:-20]:
                deadlines.pop(number, None)  # it has ended
            heapq.heappush(events, (max(now, schedule.due_at), next(order), BEGIN, None))
    return closest


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("share", [0.0, 0.1, 1 / 3, 0.38])
def test_no_lease_comes_to_its_deadline_while_the_store_answers_within_two_fifths_of_it(share, seed):
    assert shortest_reserve(lambda _: share * LEASE, seed=seed) > 0


@pytest.mark.parametrize("seed", range(5))
def test_answers_that_take_now_this_and_now_that_long_keep_the_leases(seed):
    assert shortest_reserve(lambda chooser: chooser.uniform(0, LEASE / 3), seed=seed) > 0


def test_a_store_that_takes_half_of_the_lease_cannot_keep_it():
    assert shortest_reserve(lambda _: LEASE / 2, seed=1) <= 0


def test_a_store_that_answers_at_once_gets_a_beat_every_third_of_the_lease():
    schedule = BeatSchedule(LEASE, 0.0)
    for now in (1.0, 2.0, 3.0):
        assert schedule.due_at == now
        schedule.begin(now)
        schedule.end(0.001)
        schedule.add(now + 0.5, now + 0.499)


def test_a_beat_that_failed_is_repeated_soon():
    schedule = BeatSchedule(LEASE, 0.0)
    schedule.begin(1.0)
    schedule.fail(1.5)
    assert 1.5 < schedule.due_at < 1.8
