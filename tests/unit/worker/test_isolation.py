"""When a worker waits until it is alone, and when it passes over isolated jobs."""

from holdfast.model.isolation import Isolation
from holdfast.worker.isolation import MAX_FIRST_WAIT_SECONDS, SKIP_FACTOR, RoomMaker

LEASE_SECONDS = 30.0


def test_a_worker_spends_a_tenth_of_its_time_on_waiting_and_waits_longer_each_time():
    room, now, waits = RoomMaker(LEASE_SECONDS), 0.0, []
    skipped = waited = 0.0
    while now < 1000:
        isolation = room.choose(holds_leases=True, now=now)
        room.add_answer(isolation, is_empty=isolation is Isolation.STOP, now=now)
        waited += 0.1 * (isolation is Isolation.STOP)
        skipped += 0.1 * (isolation is Isolation.SKIP)
        waits.append(isolation)
        now += 0.1
    assert waited / (waited + skipped) < 0.25  # the last wait may be unfinished
    assert skipped / waited > SKIP_FACTOR / 3
    longest = max(len(part) for part in "".join("w" if one is Isolation.STOP else "s" for one in waits).split("s"))
    assert longest * 0.1 > 16 * MAX_FIRST_WAIT_SECONDS


def test_a_worker_that_holds_nothing_waits_for_nobody():
    room = RoomMaker(LEASE_SECONDS)
    assert room.choose(holds_leases=False, now=0.0) is Isolation.ALONE
    assert room.choose(holds_leases=True, now=0.0) is Isolation.STOP


def test_an_empty_store_is_no_reason_to_pass_over_isolated_jobs():
    room, chosen = RoomMaker(LEASE_SECONDS), []
    for tick in range(100):
        isolation = room.choose(holds_leases=True, now=tick / 10)
        room.add_answer(isolation, is_empty=True, now=tick / 10)
        chosen.append(isolation)
    assert chosen.count(Isolation.SKIP) < 10  # one look after each wait


def waiting_since_zero() -> RoomMaker:
    """A worker that holds leases and, at second 0, was told that an isolated job comes first, or that there is none."""
    room = RoomMaker(LEASE_SECONDS)
    room.add_answer(room.choose(holds_leases=True, now=0.0), is_empty=True, now=0.0)
    return room


def choose(room: RoomMaker, now: float) -> Isolation:
    return room.choose(holds_leases=True, now=now)


def test_a_worker_waits_and_then_passes_over_isolated_jobs_for_a_while():
    room = waiting_since_zero()
    assert choose(room, 0.9 * MAX_FIRST_WAIT_SECONDS) is Isolation.STOP
    assert choose(room, MAX_FIRST_WAIT_SECONDS) is Isolation.SKIP
    room.add_answer(Isolation.SKIP, is_empty=False, now=MAX_FIRST_WAIT_SECONDS)
    assert choose(room, SKIP_FACTOR * MAX_FIRST_WAIT_SECONDS) is Isolation.SKIP
    assert choose(room, (1 + SKIP_FACTOR) * MAX_FIRST_WAIT_SECONDS) is Isolation.STOP


def test_a_worker_without_leases_forgets_how_long_it_waited():
    room = waiting_since_zero()
    room.add_answer(choose(room, MAX_FIRST_WAIT_SECONDS), is_empty=False, now=MAX_FIRST_WAIT_SECONDS)
    room.choose(holds_leases=False, now=MAX_FIRST_WAIT_SECONDS)
    again = 2 * MAX_FIRST_WAIT_SECONDS
    assert choose(room, again) is Isolation.STOP
    room.add_answer(Isolation.STOP, is_empty=True, now=again)
    assert choose(room, again + MAX_FIRST_WAIT_SECONDS) is Isolation.SKIP


def test_jobs_before_the_isolated_one_end_the_wait():
    room = waiting_since_zero()
    room.add_answer(Isolation.STOP, is_empty=False, now=0.5 * MAX_FIRST_WAIT_SECONDS)
    assert choose(room, 2 * MAX_FIRST_WAIT_SECONDS) is Isolation.STOP


def test_after_a_slow_moment_an_isolated_job_is_passed_over_for_less_than_half_a_lease():
    lease_seconds, now = 2.0, 0.0
    room = RoomMaker(lease_seconds)
    while choose(room, now) is Isolation.STOP:
        room.add_answer(Isolation.STOP, is_empty=True, now=now)
        now += 0.01
    room.add_answer(Isolation.SKIP, is_empty=False, now=now)
    assert choose(room, now + 0.5 * lease_seconds) is Isolation.STOP
