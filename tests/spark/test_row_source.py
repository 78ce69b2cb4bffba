"""Rows that a slot stores itself, without Spark around it."""

import pyarrow as pa
import pytest

import holdfast
import holdfast.driver
from holdfast.clock import MINUTE
from holdfast.errors import StoreUnavailable
from holdfast.model.job import JobRecord, State
from holdfast.model.settlement import Ack
from holdfast.spark.execution.row_source import AHEAD, LOT, Rows, RowSource
from holdfast.spark.execution.slot import RUN, STOP

LIKE = JobRecord(id="-", type="t", queue="q", payload=b"", created_at=1)
COUNT = 3 * LOT


@pytest.fixture
def store():
    with holdfast.connect("memory://") as made:
        yield made


def batches(*keys, each=10_000):
    rows = [(str(key), f'{{"n":{number}}}') for number, key in enumerate(keys)]
    for start in range(0, len(rows), each):
        some = rows[start : start + each]
        yield pa.RecordBatch.from_pydict({"key": [key for key, _ in some], "payload": [value for _, value in some]})


def source_of(store, rows):
    return RowSource(store, rows, run="r", queues=["q"], types=["t"], lease_for=MINUTE, worker="w")


def filled(store, *keys):
    return source_of(store, Rows(batches(*(keys or range(COUNT))), LIKE))


def reserve(source, limit):
    return source.reserve(limit, short_jobs=limit == 1000)


def states(store):
    counted = store.counts()
    return sum(one.ready for one in counted), sum(one.inflight for one in counted)


def test_before_anything_is_known_of_them_no_more_rows_are_stored_than_can_run(store):
    assert len(reserve(filled(store), 1)) == 1
    assert states(store) == (0, 1)


def test_short_rows_are_leased_as_they_are_stored_a_lot_at_a_time(store):
    rows = filled(store)
    reserve(rows, 1)
    found = reserve(rows, 1000)
    assert (len(found), states(store)) == (LOT, (0, LOT + 1))
    assert {(one.job.state, one.job.attempts) for one in found} == {(State.INFLIGHT, 1)}
    assert [store.settle([Ack(one.lease)]) for one in found[:3]] == [[None]] * 3


def test_long_rows_are_stored_ahead_for_all_to_share(store):
    rows = filled(store)
    reserve(rows, 1)
    assert len(reserve(rows, 2)) == 2
    assert states(store) == (AHEAD - 2, 3)
    assert len(reserve(rows, 2)) == 2
    assert states(store) == (2 * AHEAD - 4, 5)


def test_what_waits_goes_before_new_rows(store):
    rows = filled(store)
    [first] = reserve(rows, 1)
    holdfast.driver.retry(store, first.lease, error="once more")
    again, *others = reserve(rows, 1000)
    assert (again.job.id, again.job.attempts, len(others)) == (first.job.id, 2, LOT)


def test_it_is_drained_only_when_there_are_no_more_rows(store):
    rows, seen = filled(store), 0
    for _ in range(COUNT // LOT + 2):
        assert not rows.is_drained()
        rows.wait(60)  # it does not
        found = reserve(rows, 1000)
        seen += len(found)
        store.settle([Ack(one.lease) for one in found])
    assert (seen, rows.is_drained()) == (COUNT, True)
    ids = rows.told().column("id").to_pylist()
    every = [job.id for job in store.find(limit=10_000).items]
    assert ids[0] == every[0]
    assert ids == sorted(ids)
    assert len(ids) > COUNT // 1000


def gone(*_, **__):
    raise StoreUnavailable("gone")


def test_rows_that_could_not_be_stored_are_stored_later(store, monkeypatch):
    rows = filled(store)
    with monkeypatch.context() as patch:
        patch.setattr(store, "enqueue_leased", gone)
        with pytest.raises(StoreUnavailable):
            reserve(rows, 1000)
        assert states(store) == (0, 0)
        store.enqueue([JobRecord(id="waits", type="t", queue="q", payload=b"", created_at=1)])
        assert [one.job.id for one in reserve(rows, 1000)] == ["waits"]  # it is leased: nobody else could run it
    assert len(reserve(rows, 1000)) == LOT


def test_a_driver_that_leases_nothing_as_it_is_stored_will_do(store):
    plain = source_of(_Plain(store), Rows(batches(*range(COUNT)), LIKE))
    assert reserve(plain, 1000) == []
    assert states(store) == (LOT, 0)
    assert len(reserve(plain, 1000)) == 1000


class _Plain:
    """Only what every driver has."""

    def __init__(self, store):
        self.enqueue, self.reserve = store.enqueue, store.reserve


def test_a_key_that_stands_for_two_rows_stops_the_run(store):
    rows = filled(store, *range(600), 7)
    assert reserve(rows, 1000) == []
    assert rows.told().to_pylist()[0] == {"refused": "7", "id": None}
    assert [entry.value for entry in store.read(RUN, ["r"])] == [STOP]
    assert reserve(rows, 1000) == []
    assert states(store) == (600, 0)


def test_rows_that_are_equal_share_a_job(store):
    same = pa.RecordBatch.from_pydict({"key": ["a", "a", "b"], "payload": ["1", "1", "1"]})
    rows = source_of(store, Rows(iter([same, same]), LIKE))
    assert [one.job.idempotency_key for one in reserve(rows, 1000)] == ["a", "b"]
    assert reserve(rows, 1000) == []
    assert rows.told().column("refused").to_pylist() == [None] * len(rows.told())
