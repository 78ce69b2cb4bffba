"""A job without key and domain is stored by one statement, which does no more and no less than the general way."""

import threading

import pytest

import holdfast
from holdfast.clock import HOUR, SECOND, ManualClock
from holdfast.drivers.sqlite.free_space import COMMIT_BYTES, MAX_UNCHECKED_BYTES, FreeSpace
from holdfast.errors import CallerClockRefused, StoreBusy, StoreFull
from holdfast.model.lease import Enqueued
from holdfast.model.settlement import Ack
from tests.sqlite.conftest import NOW


@pytest.fixture
def statements(store, job):
    """The statements that the writing connection executes; the lane of the jobs is open."""
    store.enqueue([job()], now=NOW)
    executed: list[str] = []
    store.engine._database._writer.set_trace_callback(lambda text: executed.append(text.split()[0]))
    return executed


def test_a_plain_job_in_an_open_lane_is_one_statement(store, job, statements):
    record = job(run_at=NOW + SECOND, limit_key="k", name="n", meta={"a": 1})
    assert store.enqueue([record], now=NOW) == [Enqueued(id=record.id, existed=False)]
    assert statements == ["INSERT"]
    assert store.get(record.id) == record


@pytest.mark.parametrize("fields", [{"type": "new"}, {"queue": "new"}, {"priority": 9}])
def test_a_job_in_a_new_lane_is_reserved(store, job, statements, fields):
    record = job(**fields)
    store.enqueue([record], now=NOW)
    assert statements[0] == "INSERT"
    assert statements[-1] == "COMMIT"
    reservations = store.reserve(["q", "new"], limit=9, lease_for=SECOND, now=NOW)
    assert record.id in {each.job.id for each in reservations}


def test_a_known_id_is_found_among_open_and_ended_jobs(store, job):
    record = job()
    store.enqueue([record], now=NOW)
    known = Enqueued(id=record.id, existed=True)
    assert store.enqueue([record], now=NOW) == [known]
    [reservation] = store.reserve(["q"], limit=1, lease_for=SECOND, now=NOW)
    assert store.settle([Ack(reservation.lease)], now=NOW) == [None]
    assert store.enqueue([record], now=NOW) == [known]
    assert store.enqueue([job(id=record.id, payload=b"[]")], now=NOW) == [
        Enqueued(id=record.id, existed=True, conflict=True)
    ]


def test_a_plain_job_does_not_arrive_before_the_last_lease(path, job):
    clock = ManualClock(NOW)
    store = holdfast.connect(f"sqlite:///{path}", clock=clock)
    store.enqueue([job()])
    store.reserve(["q"], limit=1, lease_for=SECOND)
    clock.advance(-HOUR)
    store.enqueue([job(id="held")])
    [reservation] = store.reserve(["q"], limit=1, lease_for=SECOND)
    assert reservation.job.id == "held"
    store.settle([Ack(reservation.lease)])
    assert store.ledger().items[0].enqueued_at == NOW
    with pytest.raises(CallerClockRefused):
        store.enqueue([job()], now=NOW)
    store.close()


def test_plain_jobs_of_many_threads_are_all_stored(store, job):
    records = [job() for _ in range(60)]
    threads = [
        threading.Thread(target=lambda some=some: [store.enqueue([each], now=NOW) for each in some])
        for some in (records[start::4] for start in range(4))
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert store.counts(now=NOW)[0].ready == 60


def test_a_plain_job_waits_for_the_lock_of_another_process(store, path, job, statements):
    quick = holdfast.connect(f"sqlite:///{path}?busy_for=0.05", caller_clock=True)
    assert quick.enqueue([job()], now=NOW)
    other = store.engine._database._connect()
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(StoreBusy):
        quick.enqueue([job(id="late")], now=NOW)
    other.execute("ROLLBACK")
    assert quick.get("late") is None
    assert quick.enqueue([job(id="late")], now=NOW) == [Enqueued(id="late", existed=False)]
    other.close(), quick.close()


def test_a_reading_of_the_free_space_counts_for_few_bytes(tmp_path):
    space = FreeSpace(tmp_path, least=0)
    space.check_for_one(0)
    space._least = 1 << 62
    with pytest.raises(StoreFull):
        space.check_for_one(MAX_UNCHECKED_BYTES)
    with pytest.raises(StoreFull):  # a refusal is no reading that counts
        space.check_for_one(0)
    space._least = 0
    space.check_for_one(0)
    space._least = 1 << 62
    with pytest.raises(StoreFull):  # also of many jobs without a payload
        [space.check_for_one(0) for _ in range(MAX_UNCHECKED_BYTES // COMMIT_BYTES + 1)]
