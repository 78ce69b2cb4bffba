"""A store into a folder: everything once, whatever dies on the way; small and young afterwards, if asked."""

from datetime import timedelta
from pathlib import Path

import pytest

from holdfast import Client, JobRequest
from holdfast.clock import DAY, SECOND, ManualClock
from holdfast.drivers.memory import MemoryDriver
from holdfast.errors import HistoryConflict, InvalidInput, LedgerTrimmed
from holdfast.model.settlement import Ack, Fail, Retry
from holdfast.spark import compact
from holdfast.spark.history import compaction, manifest, tables
from holdfast.spark.history import sync as sync_module
from holdfast.spark.history.sync import History, sync
from holdfast.wire.records import to_record


@pytest.fixture
def clock():
    return ManualClock()


@pytest.fixture
def store(clock):
    return MemoryDriver(clock)


@pytest.fixture
def folder(tmp_path):
    return str(tmp_path / "history")


def work(store, clock, jobs=6):
    """Some jobs, of which every third fails once and every fifth for good."""
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


def kept(spark, folder):
    leases = History(spark, folder).leases.selectExpr("position", "job_id", "unix_micros(ended_at) AS at", "ending")
    rows = sorted(leases.collect())
    assert [row["position"] for row in rows] == list(range(len(rows)))
    return [(row["job_id"], row["at"], row["ending"]) for row in rows]


def test_a_sync_goes_on_from_the_last_one_and_a_crash_before_the_commit_changes_nothing(
    spark, store, clock, folder, monkeypatch
):
    work(store, clock)
    first = sync(store, folder, spark=spark)
    assert (first.rows, first.commits) == (len(ledger(store)), 1)
    assert kept(spark, folder) == ledger(store)
    clock.advance(DAY)
    work(store, clock)

    def dies(*_):
        raise OSError("the power is gone")

    with monkeypatch.context() as crash:
        crash.setattr(sync_module, "commit", dies)
        with pytest.raises(OSError, match="power"):
            sync(store, folder, spark=spark)
    assert kept(spark, folder) == ledger(store)[: first.rows]  # files are there that nobody sees
    second = sync(store, folder, spark=spark)
    assert first.rows + second.rows == second.position == len(ledger(store))
    assert kept(spark, folder) == ledger(store)
    days = {path.name for path in Path(folder, "leases").glob("day=*")}
    assert days == {"day=2027-01-15", "day=2027-01-16"}
    assert sync(store, folder, spark=spark) == sync.Synced(
        rows=0, jobs=0, waiting=0, commits=0, position=second.position
    )
    assert History(spark, folder).audit().holds


def test_small_chunks_are_commits_of_their_own_and_what_waits_is_known(spark, store, clock, folder, monkeypatch):
    work(store, clock, jobs=8)
    Client(store).enqueue([JobRequest(type="later", queue="r", idempotency_key="k") for _ in range(2)])
    monkeypatch.setattr("holdfast.spark.history.store_reader.PAGE", 5)
    done = sync(store, folder, spark=spark, size=5)
    assert (done.commits, done.waiting) == (3, 1)
    assert kept(spark, folder) == ledger(store)
    history = History(spark, folder)
    states = {row["state"]: row["count"] for row in history.jobs.groupBy("state").count().collect()}
    assert states == {"done": 6, "dead": 2, "ready": 1}
    [failure] = history.failures.collect()
    assert (failure["dead"], failure["reason"], failure["error"]) == (2, "bad", "no user '…'")


def test_a_job_that_vanishes_from_the_store_is_lost(spark, store, clock, folder):
    Client(store).enqueue(JobRequest(type="t", queue="q"))
    sync(store, folder, spark=spark)
    work(store, clock, jobs=1)  # takes both
    [vanishes] = Client(store).enqueue([JobRequest(type="t", queue="q")])
    sync(store, folder, spark=spark)
    store._space.rows.clear()
    store._space.waiting.clear()
    sync(store, folder, spark=spark)
    certificate = History(spark, folder).audit()
    assert [(each.check, each.job_id) for each in certificate.violations] == [("lost", vanishes.id)]


def test_of_two_syncs_at_a_time_one_adds_nothing(spark, store, clock, folder, monkeypatch):
    work(store, clock)
    commit = sync.commit

    def slow(place, state):
        monkeypatch.setattr(sync_module, "commit", commit)
        sync(store, folder, spark=spark)
        commit(place, state)

    monkeypatch.setattr(sync_module, "commit", slow)
    with pytest.raises(HistoryConflict, match="commit 1 "):
        sync(store, folder, spark=spark)
    assert kept(spark, folder) == ledger(store)


def test_compaction_keeps_every_row_and_retention_only_young_ones(spark, store, clock, folder, monkeypatch):
    for _ in range(2):
        work(store, clock, jobs=3)
        sync(store, folder, spark=spark)
    clock.advance(3 * DAY)
    work(store, clock, jobs=3)
    sync(store, folder, spark=spark)
    monkeypatch.setattr(compaction, "SystemClock", lambda: clock)
    monkeypatch.setattr(compaction, "WASTE_AFTER", 10_000 * DAY)
    health, failures = summaries(History(spark, folder))
    done = compact(folder, spark=spark)
    assert (done.before, done.after, done.forgotten, done.waste) == (9, 9, 0, 0)  # three of them are summaries
    assert kept(spark, folder) == ledger(store)
    assert compact(folder, spark=spark) == compaction.Compacted(before=9, after=9, forgotten=0, waste=0)
    monkeypatch.setattr(compaction, "WASTE_AFTER", 0)
    done = compact(folder, spark=spark, keep=timedelta(days=2))
    assert (done.before, done.after, done.forgotten, done.waste) == (9, 6, 20, 12)
    history = History(spark, folder)
    assert {str(day) for (day,) in history.leases.select("day").collect()} == {"2027-01-18"}
    assert history.audit().holds
    assert summaries(history) == (health, failures)  # also of the days that are gone
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


def test_a_compaction_that_dies_has_changed_nothing(spark, store, clock, folder, monkeypatch):
    for _ in range(2):
        work(store, clock, jobs=3)
        sync(store, folder, spark=spark)
    before = History(spark, folder).commit
    put, calls = compaction.put_frame, []

    def gone(*_):
        raise OSError("the power is gone")

    def dies_at_the_second_part(*arguments):
        calls.append(arguments[1])
        return gone() if len(calls) == 2 else put(*arguments)

    monkeypatch.setattr(compaction, "WASTE_AFTER", 0)
    for place, name, death in (
        (compaction, "put_frame", dies_at_the_second_part),
        (compaction, "commit", gone),
        (manifest.Folder, "remove", gone),
    ):
        with monkeypatch.context() as crash:
            crash.setattr(place, name, death)
            with pytest.raises(OSError, match="power"):
                compact(folder, spark=spark)
        assert (History(spark, folder).commit == before) is (name != "remove")
    assert kept(spark, folder) == ledger(store)
    done = compact(folder, spark=spark)
    assert (done.before, done.after) == (5, 5)
    assert kept(spark, folder) == ledger(store)
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
    assert store.trim(ledger_for=7 * DAY).ledger == 0
    assert sync(store, folder, spark=spark).rows == unread
    clock.advance(29 * DAY)
    assert store.trim(ledger_for=7 * DAY).ledger == read
    sync(store, folder, spark=spark)  # nothing is new, and the wait begins again
    clock.advance(29 * DAY)
    assert store.trim(ledger_for=7 * DAY).ledger == 0
    clock.advance(DAY)
    assert store.trim(ledger_for=7 * DAY).ledger == unread
    sync(store, folder, spark=spark, hold=None)
    assert store.scan("ledger.reader") == []


def test_a_folder_says_what_it_cannot_take(spark, store, clock, folder):
    work(store, clock, jobs=1)
    sync(store, folder, spark=spark)
    with pytest.raises(InvalidInput, match="'main', whose history this is"):
        sync(store, folder, spark=spark, space="other")
    work(store, clock, jobs=3)
    clock.advance(40 * DAY)
    store.trim()
    with pytest.raises(LedgerTrimmed):
        sync(store, folder, spark=spark)
    place = manifest.Folder(spark, folder)
    manifest.commit(place, manifest.Commit(number=9, format=99))
    with pytest.raises(InvalidInput, match="newer Holdfast"):
        History(spark, folder)


def test_a_column_that_old_files_do_not_have_is_null(spark, store, clock, folder, monkeypatch):
    import pyarrow as pa

    work(store, clock, jobs=1)
    sync(store, folder, spark=spark)
    monkeypatch.setitem(tables.STORED, "leases", tables.LEASES.append(pa.field("shade", pa.string())))
    [(rows, shades)] = History(spark, folder).leases.selectExpr("count(*)", "count(shade)").collect()
    assert (rows > 0, shades) == (True, 0)
