"""Sync, compaction and retention of a history: every ledger row exactly once, also after a crash."""

from datetime import timedelta
from pathlib import Path

import pytest

from holdfast import Client, JobRequest
from holdfast.clock import DAY, SECOND, ManualClock
from holdfast.drivers.requests import Scan, Trim
from holdfast.errors import HistoryConflict, InvalidInput, LedgerTrimmed
from holdfast.model.settlement import Ack, Fail, Retry
from holdfast.spark import History, compact, sync
from holdfast.spark.history import compaction, manifest, tables
from holdfast.spark.history import sync as sync_module
from holdfast.spark.history.folder import Folder
from holdfast.spark.history.sync import SyncResult
from holdfast.wire.records import to_record
from tests.in_memory import InMemory


@pytest.fixture
def clock():
    return ManualClock()


@pytest.fixture
def store(clock):
    return InMemory(clock)


@pytest.fixture
def folder(tmp_path):
    return str(tmp_path / "history")


def work(store, clock, jobs=6):
    """Run some jobs: every third fails once, every fifth fails for good."""
    requests = [JobRequest(type="t", queue="q", payload=number) for number in range(jobs)]
    store.enqueue([to_record(request, now=clock.now()) for request in requests])
    while batch := store.reserve(["q"], limit=100, lease_for=10 * SECOND, worker="w"):
        clock.advance(SECOND)
        ends = []
        for number, one in enumerate(batch):
            if one.job.attempts == 1 and number % 3 == 0:
                ends.append(Retry(one.lease, error="at first"))
            elif number % 5 == 1:
                ends.append(Fail(one.lease, reason="bad", error=f"no user 'u{number}'"))
            else:
                ends.append(Ack(one.lease))
        assert not any(store.settle(ends))


def ledger(store):
    return [(row.job_id, row.ended_at, str(row.ending)) for row in store.ledger().items]


def stored_ledger(spark, folder):
    leases = History(spark, folder).leases.selectExpr("position", "job_id", "unix_micros(ended_at) AS at", "ending")
    rows = sorted(leases.collect())
    assert [row["position"] for row in rows] == list(range(len(rows)))
    return [(row["job_id"], row["at"], row["ending"]) for row in rows]


def test_a_sync_continues_the_last_one_and_a_crash_before_the_commit_changes_nothing(
    spark, store, clock, folder, monkeypatch
):
    work(store, clock)
    first = sync(store, folder, spark=spark)
    assert (first.rows, first.commits) == (len(ledger(store)), 1)
    assert stored_ledger(spark, folder) == ledger(store)
    clock.advance(DAY)
    work(store, clock)

    def dies(*_):
        raise OSError("the power is gone")

    with monkeypatch.context() as crash:
        crash.setattr(sync_module, "commit", dies)
        with pytest.raises(OSError, match="power"):
            sync(store, folder, spark=spark)
    assert stored_ledger(spark, folder) == ledger(store)[: first.rows]  # the files exist, but no commit names them
    second = sync(store, folder, spark=spark)
    assert first.rows + second.rows == second.position == len(ledger(store))
    assert stored_ledger(spark, folder) == ledger(store)
    days = {path.name for path in Path(folder, "leases").glob("day=*")}
    assert days == {"day=2027-01-15", "day=2027-01-16"}
    assert sync(store, folder, spark=spark) == SyncResult(
        rows=0, jobs=0, waiting=0, commits=0, position=second.position
    )
    assert History(spark, folder).audit().holds


def test_each_small_chunk_is_one_commit_and_waiting_jobs_are_stored(spark, store, clock, folder, monkeypatch):
    work(store, clock, jobs=8)
    Client(store).enqueue([JobRequest(type="later", queue="r", idempotency_key="k") for _ in range(2)])
    monkeypatch.setattr("holdfast.spark.history.store_reader.PAGE_ROWS", 5)
    done = sync(store, folder, spark=spark, size=5)
    assert (done.commits, done.waiting) == (3, 1)
    assert stored_ledger(spark, folder) == ledger(store)
    history = History(spark, folder)
    states = {row["state"]: row["count"] for row in history.jobs.groupBy("state").count().collect()}
    assert states == {"done": 6, "dead": 2, "ready": 1}
    [failure] = history.failures.collect()
    assert (failure["dead"], failure["reason"], failure["error"]) == (2, "bad", "no user '…'")


def test_a_job_that_vanishes_from_the_store_is_lost(spark, store, clock, folder):
    Client(store).enqueue(JobRequest(type="t", queue="q"))
    sync(store, folder, spark=spark)
    work(store, clock, jobs=1)  # runs both
    [vanishes] = Client(store).enqueue([JobRequest(type="t", queue="q")])
    sync(store, folder, spark=spark)
    store.engine._space.rows.clear()
    store.engine._space.lanes.clear()
    sync(store, folder, spark=spark)
    certificate = History(spark, folder).audit()
    assert [(each.check, each.job_id) for each in certificate.violations] == [("lost", vanishes.id)]


def test_of_two_concurrent_syncs_one_adds_nothing(spark, store, clock, folder, monkeypatch):
    work(store, clock)
    commit = sync_module.commit

    def slow(place, before, state):
        monkeypatch.setattr(sync_module, "commit", commit)
        sync(store, folder, spark=spark)
        return commit(place, before, state)

    monkeypatch.setattr(sync_module, "commit", slow)
    with pytest.raises(HistoryConflict, match="commit 1 "):
        sync(store, folder, spark=spark)
    assert stored_ledger(spark, folder) == ledger(store)


def test_compaction_keeps_every_row_and_retention_removes_old_days(spark, store, clock, folder, monkeypatch):
    for _ in range(2):
        work(store, clock, jobs=3)
        sync(store, folder, spark=spark)
    clock.advance(3 * DAY)
    work(store, clock, jobs=3)
    sync(store, folder, spark=spark)
    monkeypatch.setattr(compaction, "SystemClock", lambda: clock)
    monkeypatch.setattr(Folder, "age", lambda *_: 0)  # every part is new
    health, failures = summaries(History(spark, folder))
    done = compact(folder, spark=spark)
    assert (done.before, done.after, done.forgotten, done.waste) == (9, 9, 0, 0)  # three parts are summaries
    assert stored_ledger(spark, folder) == ledger(store)
    assert compact(folder, spark=spark) == compaction.CompactionResult(before=9, after=9, forgotten=0, waste=0)
    monkeypatch.setattr(Folder, "age", lambda *_: 2 * DAY)
    done = compact(folder, spark=spark, keep=timedelta(days=2))
    assert (done.before, done.after, done.forgotten, done.waste) == (9, 6, 20, 12)
    history = History(spark, folder)
    assert {str(day) for (day,) in history.leases.select("day").collect()} == {"2027-01-18"}
    assert history.audit().holds
    assert summaries(history) == (health, failures)  # also of the removed days
    assert History(spark, folder).stored("health").count() == len(health)


def summaries(history):
    health = sorted(
        (row["minute"], row["arrivals"], row["acked"], row["dead"], row["run_p50"]) for row in history.health.collect()
    )
    failures = sorted(
        (row["fingerprint"], row["dead"], row["first_at"], row["last_at"]) for row in history.failures.collect()
    )
    assert health
    assert failures
    return health, failures


def test_a_compaction_that_crashes_changes_nothing(spark, store, clock, folder, monkeypatch):
    for _ in range(2):
        work(store, clock, jobs=3)
        sync(store, folder, spark=spark)
    before = History(spark, folder).commit
    write_frame, tables_written = compaction.write_frame, []

    def fail(*_):
        raise OSError("the power is gone")

    def fail_at_the_second_part(*arguments):
        tables_written.append(arguments[1])
        return fail() if len(tables_written) == 2 else write_frame(*arguments)

    monkeypatch.setattr(Folder, "age", lambda *_: 2 * DAY)
    for target, name, crash in (
        (compaction, "write_frame", fail_at_the_second_part),
        (compaction, "commit", fail),
        (Folder, "remove", fail),
    ):
        with monkeypatch.context() as patch:
            patch.setattr(target, name, crash)
            with pytest.raises(OSError, match="power"):
                compact(folder, spark=spark)
        assert (History(spark, folder).commit == before) is (name != "remove")
    assert stored_ledger(spark, folder) == ledger(store)
    done = compact(folder, spark=spark)
    assert (done.before, done.after) == (5, 5)
    assert stored_ledger(spark, folder) == ledger(store)
    assert {path.name for path in Path(folder).glob("*/*/part=*")} == {
        part.path.rsplit("/", 1)[1] for part in History(spark, folder).commit.parts
    }


def test_trimming_waits_for_the_next_sync_up_to_a_limit(spark, store, clock, folder):
    work(store, clock, jobs=3)
    sync(store, folder, spark=spark)
    read = len(ledger(store))
    clock.advance(DAY)
    work(store, clock, jobs=3)
    unread = len(ledger(store)) - read
    clock.advance(28 * DAY)
    assert store.do(Trim(ledger_for=7 * DAY)).ledger == read
    assert sync(store, folder, spark=spark, hold=None).rows == unread
    assert store.do(Scan(kind="ledger.reader")) == []
    sync(store, folder, spark=spark)  # nothing is new, and the hold begins
    work(store, clock, jobs=1)
    clock.advance(29 * DAY)
    assert store.do(Trim(ledger_for=7 * DAY)).ledger == unread
    clock.advance(DAY)
    assert store.do(Trim(ledger_for=7 * DAY)).ledger > 0


def test_a_sync_of_another_space_a_trimmed_ledger_and_a_newer_format_are_refused(spark, store, clock, folder):
    work(store, clock, jobs=1)
    sync(store, folder, spark=spark)
    with pytest.raises(InvalidInput, match="'main', whose history this is"):
        sync(store, folder, spark=spark, space="other")
    work(store, clock, jobs=3)
    clock.advance(40 * DAY)
    store.do(Trim())
    with pytest.raises(LedgerTrimmed):
        sync(store, folder, spark=spark)
    place = Folder(spark, folder)
    manifest.commit(place, manifest.newest(place), manifest.Commit(format=99))
    with pytest.raises(InvalidInput, match="newer Holdfast"):
        History(spark, folder)


def test_a_new_column_is_null_in_old_files(spark, store, clock, folder, monkeypatch):
    import pyarrow as pa

    work(store, clock, jobs=1)
    sync(store, folder, spark=spark)
    monkeypatch.setitem(tables.SCHEMAS, "leases", tables.LEASES.append(pa.field("shade", pa.string())))
    [(rows, shades)] = History(spark, folder).leases.selectExpr("count(*)", "count(shade)").collect()
    assert (rows > 0, shades) == (True, 0)
