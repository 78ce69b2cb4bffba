"""When a worker waits until it is alone, and when it passes over isolated jobs."""

from holdfast.model.isolation import Isolation
from holdfast.worker.isolation import FIRST_WAIT_SECONDS, SKIP_FACTOR, RoomMaker


def test_a_worker_spends_a_tenth_of_its_time_on_waiting_and_waits_longer_each_time():
    room, now, waits = RoomMaker(), 0.0, []
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
    assert longest * 0.1 > 16 * FIRST_WAIT_SECONDS


def test_a_worker_that_holds_nothing_waits_for_nobody():
    room = RoomMaker()
    assert room.choose(holds_leases=False, now=0.0) is Isolation.ALONE
    assert room.choose(holds_leases=True, now=0.0) is Isolation.STOP


def test_an_empty_store_is_no_reason_to_pass_over_isolated_jobs():
    room, chosen = RoomMaker(), []
    for tick in range(100):
        isolation = room.choose(holds_leases=True, now=tick / 10)
        room.add_answer(isolation, is_empty=True, now=tick / 10)
        chosen.append(isolation)
    assert chosen.count(Isolation.SKIP) < 10  # one look after each wait
