"""When a worker that holds leases makes room for an isolated job."""

from holdfast.model.isolation import Isolation
from holdfast.worker.isolation import FIRST_WAIT_SECONDS, SKIP_FACTOR, RoomMaker


def waiting_since_zero() -> RoomMaker:
    """A worker that holds leases and, at second 0, was told that an isolated job comes first, or that there is none."""
    room = RoomMaker()
    room.add_answer(room.choose(holds_leases=True, now=0.0), is_empty=True, now=0.0)
    return room


def choose(room: RoomMaker, now: float) -> Isolation:
    return room.choose(holds_leases=True, now=now)


def test_a_worker_waits_and_then_passes_over_isolated_jobs_for_a_while():
    room = waiting_since_zero()
    assert choose(room, 0.9 * FIRST_WAIT_SECONDS) is Isolation.STOP
    assert choose(room, FIRST_WAIT_SECONDS) is Isolation.SKIP
    room.add_answer(Isolation.SKIP, is_empty=False, now=FIRST_WAIT_SECONDS)
    assert choose(room, SKIP_FACTOR * FIRST_WAIT_SECONDS) is Isolation.SKIP
    assert choose(room, (1 + SKIP_FACTOR) * FIRST_WAIT_SECONDS) is Isolation.STOP


def test_a_worker_without_leases_forgets_how_long_it_waited():
    room = waiting_since_zero()
    room.add_answer(choose(room, FIRST_WAIT_SECONDS), is_empty=False, now=FIRST_WAIT_SECONDS)
    room.choose(holds_leases=False, now=FIRST_WAIT_SECONDS)
    again = 2 * FIRST_WAIT_SECONDS
    assert choose(room, again) is Isolation.STOP
    room.add_answer(Isolation.STOP, is_empty=True, now=again)
    assert choose(room, again + FIRST_WAIT_SECONDS) is Isolation.SKIP


def test_jobs_before_the_isolated_one_end_the_wait():
    room = waiting_since_zero()
    room.add_answer(Isolation.STOP, is_empty=False, now=0.5 * FIRST_WAIT_SECONDS)
    assert choose(room, 2 * FIRST_WAIT_SECONDS) is Isolation.STOP


def test_a_worker_that_waited_without_any_job_in_the_store_passes_over_none():
    room = waiting_since_zero()
    room.add_answer(choose(room, FIRST_WAIT_SECONDS), is_empty=True, now=FIRST_WAIT_SECONDS)
    assert choose(room, 2 * FIRST_WAIT_SECONDS) is Isolation.STOP
