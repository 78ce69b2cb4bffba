"""The row source of a slot, without Spark."""

import dataclasses
import re

import msgspec
import pyarrow as pa
import pytest
from msgspec.structs import replace
from pyspark.sql.types import LongType, StringType

import holdfast
import holdfast.driver
from holdfast.clock import MINUTE, SystemClock
from holdfast.drivers.capabilities import Feature
from holdfast.drivers.requests import Enqueue, Extend, Reap
from holdfast.drivers.store import Store
from holdfast.errors import StoreUnavailable
from holdfast.model.job import JobRecord, State
from holdfast.model.lease import Note
from holdfast.model.settlement import Ack, Fail
from holdfast.spark.execution.row_source import (
    AHEAD_BATCH_JOBS,
    AHEAD_GROWTH,
    SHORT_BATCH_JOBS,
    EarlierCalls,
    RowJobs,
    RowSource,
)
from holdfast.spark.execution.run_columns import InputColumns
from holdfast.spark.execution.run_spec import STOP, read_stop
from holdfast.worker.job_source import Demand
from tests.in_memory import InMemory
from tests.requests_seen import answer_requests

TEMPLATE = JobRecord(id="-", type="t", queue="q", payload=b"", created_at=1)
COUNT = 3 * SHORT_BATCH_JOBS
COLUMNS = InputColumns(names=("k", "n"), kinds=(LongType(), LongType()), key=(0,))


@pytest.fixture
def store():
    with holdfast.connect("memory://") as opened:
        yield opened


def batches(*keys, each=10_000):
    rows = list(enumerate(keys))
    for start in range(0, len(rows), each):
        yield batch(*((key, number) for number, key in rows[start : start + each]))


def batch(*rows):
    """Rows of a key and a number."""
    keys, numbers = [key for key, _ in rows], [number for _, number in rows]
    return pa.RecordBatch.from_pydict({"key": list(map(str, keys)), "c0": keys, "c1": numbers})


def source_of(store, rows):
    return RowSource(store, rows, run="r", queues=["q"], types=["t"], lease_for=MINUTE, worker="w")


def row_source(store, *keys):
    return source_of(store, RowJobs(batches(*(keys or range(COUNT))), TEMPLATE, COLUMNS))


def reserve(source, limit):
    return source.reserve(Demand(limit=limit, short_jobs=limit == 1000))


def states(store):
    counts = store.counts()
    return sum(count.ready for count in counts), sum(count.inflight for count in counts)


def test_before_the_speed_is_known_only_as_many_rows_are_stored_as_can_run(store):
    assert len(reserve(row_source(store), 1)) == 1
    assert states(store) == (0, 1)


def test_short_rows_are_stored_and_leased_in_one_call_in_large_batches(store):
    rows = row_source(store)
    reserve(rows, 1)
    reservations = reserve(rows, 1000)
    assert (len(reservations), states(store)) == (SHORT_BATCH_JOBS, (0, SHORT_BATCH_JOBS + 1))
    assert {(each.job.state, each.job.attempts) for each in reservations} == {(State.INFLIGHT, 1)}
    assert [store.settle([Ack(each.lease)]) for each in reservations[:3]] == [[None]] * 3


def test_long_rows_are_stored_ahead_without_a_lease_for_all_slots(store):
    rows = row_source(store)
    reserve(rows, 1)
    assert len(reserve(rows, 2)) == 2
    assert states(store) == (AHEAD_GROWTH - 2, 3)
    assert len(reserve(rows, 2)) == 2
    assert states(store) == (AHEAD_GROWTH + AHEAD_GROWTH**2 - 4, 5)


def test_batches_of_long_rows_grow_to_a_limit(store):
    rows, stored = row_source(store), []
    for _ in range(8):
        before = sum(states(store))
        reserve(rows, 1)
        stored.append(sum(states(store)) - before)
    assert stored == [1, 4, 16, 64, 256, AHEAD_BATCH_JOBS, AHEAD_BATCH_JOBS, AHEAD_BATCH_JOBS]


def test_jobs_in_the_store_go_before_new_rows(store):
    rows = row_source(store)
    [first] = reserve(rows, 1)
    holdfast.driver.retry(store, first.lease, error="once more")
    again, *others = reserve(rows, 1000)
    assert (again.job.id, again.job.attempts, len(others)) == (first.job.id, 2, SHORT_BATCH_JOBS)


def test_the_source_is_drained_only_when_there_are_no_more_rows(store):
    rows, seen = row_source(store), 0
    for _ in range(COUNT // SHORT_BATCH_JOBS + 1):  # the last call finds no more rows
        assert not rows.is_drained()
        rows.wait(60)  # returns at once
        reservations = reserve(rows, 1000)
        seen += len(reservations)
        store.settle([Ack(each.lease) for each in reservations])
    assert (seen, rows.is_drained()) == (COUNT, True)
    ids = rows.report().column("id").to_pylist()
    every = [job.id for job in store.find(limit=10_000).items]
    assert ids[0] == every[0]
    assert ids == sorted(ids)
    assert len(ids) > COUNT // 1000


def fail(_request, _do):
    raise StoreUnavailable("gone")


def test_rows_that_could_not_be_stored_are_stored_later(store, monkeypatch):
    rows = row_source(store)
    with monkeypatch.context() as patch:
        answer_requests(patch, store, Enqueue, fail)
        with pytest.raises(StoreUnavailable):
            reserve(rows, 1000)
        assert states(store) == (0, 0)
        waits = JobRecord(id="waits", type="t", queue="q", payload=b"", created_at=1)
        Store(store.engine).enqueue([waits])
        assert [each.job.id for each in reserve(rows, 1000)] == [
            "waits"
        ]  # returned, because this worker holds its lease
    assert len(reserve(rows, 1000)) == SHORT_BATCH_JOBS


def test_a_driver_without_leased_enqueue_is_supported():
    store = InMemory(declined=[Feature.NOTES])
    plain = source_of(store, RowJobs(batches(*range(COUNT)), TEMPLATE, COLUMNS))
    assert reserve(plain, 1000) == []
    assert states(store) == (SHORT_BATCH_JOBS, 0)
    assert len(reserve(plain, 1000)) == 1000


def test_a_key_of_two_different_rows_stops_the_run(store):
    rows = row_source(store, *range(600), 7)
    assert reserve(rows, 1000) == []
    refused = rows.report().to_pylist()[0]
    assert (refused["got"], refused["id"]) == ("two different rows with k=7: they differ in n", None)
    assert read_stop(store, "r") == STOP
    assert reserve(rows, 1000) == []
    assert states(store) == (600, 0)


def named_source(store, *rows, began_at, retry_dead):
    jobs = RowJobs(iter([batch(*rows)]), TEMPLATE, COLUMNS)
    earlier = EarlierCalls(began_at, retry_dead=retry_dead)
    return RowSource(store, jobs, run="r", queues=["q"], types=["t"], lease_for=MINUTE, worker="w", earlier=earlier)


def reserve_all(source):
    """Reserve as a slot does: what was stored without a lease comes with the next call."""
    return reserve(source, 1000) + reserve(source, 1000)


def test_a_stored_row_with_other_values_is_refused_and_a_dead_one_is_retried_once_in_a_call(store):
    for reservation in reserve(row_source(store, 5, 6), 1000):
        end = Fail(reservation.lease, reason="no") if reservation.job.idempotency_key == "5" else Ack(reservation.lease)
        store.settle([end])
    began_at = SystemClock().now() + MINUTE
    for row, hint in (
        ((5, 7), r"It is dead: run\(..., retry_dead=True\)"),
        ((6, 7), "It is done and keeps its values"),
    ):
        refused = named_source(store, row, began_at=began_at, retry_dead=False)
        assert reserve_all(refused) == []
        assert re.search(
            f"others for k={row[0]}, which an earlier call stored: .*n. {hint}", refused.report()[2][0].as_py()
        )
    [retried] = reserve_all(named_source(store, (5, 7), (6, 1), began_at=began_at, retry_dead=True))
    assert (retried.job.idempotency_key, retried.job.payload, retried.job.attempts) == ("5", b'{"k":5,"n":7}', 1)
    store.settle([Fail(retried.lease, reason="again")])
    assert (
        reserve_all(named_source(store, (5, 7), began_at=began_at, retry_dead=False)) == []
    )  # the same Spark task again
    assert [str(row.ending) for row in store.ledger()] == ["failed", "acked", "purged", "failed"]


def test_equal_rows_share_a_job(store):
    same = batch((1, 5), (1, 5), (2, 5))
    rows = source_of(store, RowJobs(iter([same, same]), TEMPLATE, COLUMNS))
    assert [each.job.idempotency_key for each in reserve(rows, 1000)] == ["1", "2"]
    assert reserve(rows, 1000) == []
    assert rows.report().column("field").to_pylist() == [None] * len(rows.report())


def test_the_attempt_of_a_row_counts_if_its_start_was_reported_before_its_slot_was_killed(store):
    begun, unknown = reserve(row_source(store, 0, 1), 1000)
    notes = {begun.job.id: Note(started_at=1)}  # as the heartbeat of the slot
    store.do(Extend(leases=[begun.lease, unknown.lease], lease_for=MINUTE, notes=notes))
    store.do(Reap(worker="w"))
    jobs = [store.get(each.job.id) for each in (begun, unknown)]
    assert [(job.attempts, job.crashes) for job in jobs] == [(1, 1), (0, 0)]
    assert [row.detail for row in store.ledger().items] == ["", "not begun"]


def test_a_row_with_one_attempt_is_dead_if_it_had_begun_when_its_slot_was_killed_and_runs_otherwise(store):
    once = replace(TEMPLATE, max_attempts=1)
    begun, waiting = reserve(source_of(store, RowJobs(batches(0, 1), once, COLUMNS)), 1000)
    store.do(
        Extend(leases=[begun.lease], lease_for=MINUTE, notes={begun.job.id: Note(started_at=1)})
    )  # before its handler began
    store.do(Reap(worker="w"))
    jobs = [store.get(each.job.id) for each in (begun, waiting)]
    assert [(job.state, job.attempts, job.dead_reason) for job in jobs] == [
        ("dead", 1, "lease expired"),
        ("ready", 0, None),
    ]


def large_rows(*sizes, domain=False):
    names = ("k", "text")
    columns = InputColumns(names=names, kinds=(LongType(), StringType()), key=(0,), domain=(0,) if domain else ())
    rows = {"key": list(map(str, range(len(sizes)))), "c0": range(len(sizes)), "c1": ["x" * size for size in sizes]}
    if domain:
        rows["domain"] = ["d"] * len(sizes)
    return RowJobs(iter([pa.RecordBatch.from_pydict(rows)]), TEMPLATE, columns)


@pytest.mark.parametrize("domain", [False, True])
def test_a_row_that_is_too_large_keeps_its_place_among_the_others(domain):
    jobs = large_rows(1, 1 << 20, 2, domain=domain).next(10)
    assert [(job.idempotency_key, job.type) for job in jobs] == [("0", "t"), ("1", "spark.bad_row"), ("2", "t")]


def test_two_different_large_rows_with_one_key_have_different_payloads():
    payloads = [large_rows(1 << 20, 1).next(1)[0].payload, large_rows((1 << 20) + 1, 1).next(1)[0].payload]
    same = [large_rows(1 << 20, 7).next(1)[0].payload for _ in "12"]
    assert len({*payloads, *same}) == 2


# Rows in order ----------------------------------------------------------------------------------------------


ORDERED = dataclasses.replace(COLUMNS, domain=(0,), order=(1,))


def ordered_source(store, count):
    """A source over rows of two domains, in batches of 700."""
    numbers = pa.array(range(count))
    parities = pa.array([number % 2 for number in range(count)])
    names = {
        kind: pa.array([f"{kind}{number}" for number in column.to_pylist()])
        for kind, column in (("key", numbers), ("d", parities))
    }
    rows = pa.RecordBatch.from_pydict({"key": names["key"], "c0": parities, "c1": numbers, "domain": names["d"]})
    batches = [rows.slice(start, 700) for start in range(0, count, 700)]
    return source_of(store, RowJobs(iter(batches), TEMPLATE, ORDERED))


def test_ordered_rows_are_stored_ahead_and_only_the_first_of_each_domain_is_leased(store):
    rows = ordered_source(store, 2000)
    first = reserve(rows, 1000)
    assert [(each.job.domain, each.job.payload) for each in first] == [
        ("d0", b'{"k":0,"n":0}'),
        ("d1", b'{"k":1,"n":1}'),
    ]
    assert reserve(rows, 1000) == []
    assert states(store) == (1398, 2)


def test_a_second_try_of_a_slot_and_a_copy_of_it_keep_the_order_of_rows(store):
    first, second = ordered_source(store, 1500), ordered_source(store, 1500)
    run_order = []
    for source in (first, second, second, first, second, first, first, second):
        for each in reserve(source, 1000):
            run_order.append(each.job)
            store.settle([Ack(each.lease)])
    while reservations := reserve(first, 1000):
        for each in reservations:
            run_order.append(each.job)
            store.settle([Ack(each.lease)])
    for domain in ("d0", "d1"):
        numbers = [msgspec.json.decode(job.payload)["n"] for job in run_order if job.domain == domain]
        assert numbers == list(range(int(domain[1]), 1500, 2))
