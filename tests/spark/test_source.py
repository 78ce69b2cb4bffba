"""Jobs and the ledger as frames and as a stream."""

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import psycopg
import pytest
from pyspark.sql import datasource as ds
from pyspark.sql.types import StringType, StructField, StructType

import holdfast
from holdfast.client import Client
from holdfast.drivers.contract import JobFilter
from holdfast.errors import HoldfastError, LedgerTrimmed
from holdfast.model.job import State
from holdfast.model.request import JobRequest
from holdfast.model.settlement import Ack, Fail
from holdfast.spark.datasource import jobs_table, ledger_table
from holdfast.spark.datasource.format import HoldfastSource

MINUTE = 60_000_000


@pytest.fixture
def url(tmp_path):
    return f"sqlite:///{tmp_path}/hunter2.db"


@pytest.fixture
def store(url):
    with holdfast.connect(url) as store:
        yield store


def end_some(store, count, *, bad=0, queue="q"):
    Client(store).enqueue([JobRequest(type="t", payload=number, queue=queue) for number in range(count)])
    reservations = store.reserve([queue], limit=count, lease_for=MINUTE, worker="w")
    settlements = [Fail(one.lease, reason="bad") for one in reservations[:bad]]
    stale = Ack(
        replace(reservations[0].lease, token="1.stale")
    )  # refused: it leaves a gap in the numbers of some stores
    store.settle([*settlements, stale, *(Ack(one.lease) for one in reservations[bad:])])


def read(spark, url, table="jobs", **options):
    return spark.read.format("holdfast").options(url=url, **options).load(table)


def every_ending(store):
    rows, cursor = [], None
    while page := store.ledger(cursor, 1000):
        rows += page.items
        cursor = page.cursor
    return rows


def test_jobs_in_any_state_are_read_as_they_are(spark, store, url):
    end_some(store, 5, bad=2)
    client = Client(store)
    client.enqueue(JobRequest(type="later", payload={"a": 1}, delay=timedelta(days=1), meta={"k": 1}, name="n"))
    rows = read(spark, url).collect()
    assert sorted(row["state"] for row in rows) == ["dead", "dead", "done", "done", "done", "ready"]
    [job] = store.find(JobFilter(type="later")).items
    [row] = [row for row in rows if row["type"] == "later"]
    assert (row["id"], json.loads(row["payload"]), json.loads(row["meta"]), row["name"]) == (
        *(job.id, {"a": 1}, {"k": 1}, "n"),
    )
    assert row["run_at"].replace(tzinfo=UTC) == datetime.fromtimestamp(job.run_at / 1e6, UTC)


def test_filters_are_the_stores_as_far_as_it_knows_them(spark, store, url):
    end_some(store, 6, bad=2)
    end_some(store, 3, queue="other")
    frame = read(spark, url).where("state in ('dead', 'done') and queue = 'q' and dead_reason = 'bad' and attempts = 1")
    frame = frame.where("created_at > timestamp'2020-01-01'")
    assert frame.count() == 2
    assert read(spark, url).where("state = 'dead' and state = 'done'").count() == 0
    job_id = store.find().items[0].id
    assert [row["id"] for row in read(spark, url).where(f"id = '{job_id}' and queue = 'q'").collect()] == [job_id]


def test_what_the_store_takes_over_is_not_asked_of_spark_again():
    pushed = jobs_table.Pushed()
    dated = ds.LessThan(("created_at",), datetime(2020, 1, 1, tzinfo=UTC))
    left = [ds.EqualTo(("attempts",), 1), dated, ds.EqualTo(("queue",), "b"), ds.Not(ds.EqualTo(("type",), "t"))]
    taken = [ds.EqualTo(("queue",), "a"), ds.In(("state",), ("dead", "no such")), ds.IsNotNull(("queue",))]
    assert list(pushed.take([*taken, *left])) == left
    assert pushed.wanted.where.queue == "a"
    assert pushed.wanted.where.states == (State.DEAD,)
    assert pushed.wanted.where.created_before == 1_577_836_800_000_001


def test_ranges_of_ids_cover_each_job_once(store, monkeypatch):
    Client(store).enqueue([JobRequest(type="t", payload=number) for number in range(100)])
    monkeypatch.setattr(jobs_table, "PAGE", 3)
    newest = int(store.find().items[-1].id.replace("-", "")[:12], 16)
    pieces = jobs_table.ranges(store, jobs_table.Wanted(), pieces=7, now=(newest + 1) * 1000)
    assert len(pieces) == 7
    found = [
        batch["id"].to_pylist() for piece in pieces for batch in jobs_table.read(store, jobs_table.Wanted(), piece)
    ]
    assert [job_id for page in found for job_id in page] == [job.id for job in store.find().items]


def test_the_ledger_is_read_in_order_by_many_readers(spark, store, url, monkeypatch):
    end_some(store, 200, bad=3)
    rows = read(spark, url, "ledger").collect()
    assert [(row["job_id"], row["ending"], row["fence"]) for row in rows] == [
        (row.job_id, row.ending, row.fence) for row in every_ending(store)
    ]
    monkeypatch.setattr(ledger_table, "PAGE", 7)
    start = ledger_table.oldest(store)
    pieces = ledger_table.stretches(start, ledger_table.marks(store, start.after), 4)
    assert [piece.rows for piece in pieces] == [56, 56, 56, 32]
    found = [batch["job_id"].to_pylist() for piece in pieces for batch in ledger_table.read(store, piece)]
    assert [job_id for page in found for job_id in page] == [row.job_id for row in every_ending(store)]


def schema(arrow):
    return StructType([StructField(name, StringType()) for name in arrow.names])


class Plain:
    """A store without a scan of its own."""

    def __init__(self, store):
        self.ledger, self.ledger_end = store.ledger, store.ledger_end


def test_a_store_without_marks_is_walked_and_gives_the_same(store, monkeypatch):
    end_some(store, 50)
    monkeypatch.setattr(ledger_table, "PAGE", 7)
    assert ledger_table.marks(Plain(store), None) == ledger_table.marks(store, None)
    assert ledger_table.marks(Plain(store), None, most=10) == ledger_table.marks(store, None, most=10)
    stretch = ledger_table.Stretch(after=store.ledger(None, 10).cursor, rows=20)
    assert list(ledger_table.read(Plain(store), stretch)) == list(ledger_table.read(store, stretch))
    assert ledger_table.oldest(Plain(store)) == ledger_table.oldest(store)


def test_a_reader_that_comes_after_retention_says_so(url):
    with holdfast.connect(url, caller_clock=True) as store:
        Client(store).enqueue([JobRequest(type="t") for _ in range(4)])
        reserved = store.reserve(["default"], limit=4, lease_for=MINUTE, now=1_000)
        for place, one in enumerate(reserved):
            store.settle([Ack(one.lease)], now=2_000 + place)
        start = ledger_table.oldest(store)
        store.trim(ledger_for=1, now=2_002)
        with pytest.raises(LedgerTrimmed):
            list(ledger_table.read(store, ledger_table.Stretch(after=start.after, first=start.first, rows=4)))


def stream(spark, url, tmp_path, **options):
    """The micro-batches of one run of a query, by their number."""
    batches = {}

    def keep(frame, number):
        batches[number] = [(row["fence"], row["job_id"], row["ending"]) for row in frame.collect()]

    rows = spark.readStream.format("holdfast").options(url=url, **options).load("ledger")
    query = rows.writeStream.foreachBatch(keep).option("checkpointLocation", f"{tmp_path}/checkpoint")
    query = query.trigger(availableNow=True).start()
    query.awaitTermination(60)
    assert query.exception() is None
    return batches


def test_the_ledger_streams_each_row_once_and_in_order_across_restarts_in_bounded_batches(spark, store, url, tmp_path):
    end_some(store, 25)
    first = stream(spark, url, tmp_path, max_rows="10")
    assert [len(rows) for rows in first.values()] == [10, 10, 5]
    end_some(store, 7, bad=1)
    for commit in (tmp_path / "checkpoint" / "commits").glob("*2*"):
        commit.unlink()  # as if the Spark driver had died before the last batch was done
    second = stream(spark, url, tmp_path, max_rows="10")
    assert second[2] == first[2]
    assert stream(spark, url, tmp_path) == {}
    told = [row for number in range(4) for row in {**first, **second}[number]]
    assert told == [(row.fence, row.job_id, row.ending) for row in every_ending(store)]


def test_no_row_of_a_transaction_that_is_held_open_is_passed_over(spark, postgres_database, tmp_path):
    """On PostgreSQL, with restarts in between: what commits late comes late, in its order, and once."""
    url = postgres_database()
    told = {}
    with holdfast.connect(url) as store, psycopg.connect(url) as late:
        end_some(store, 12)
        Client(store).enqueue([JobRequest(type="t", queue="q") for _ in range(3)])
        slow, *quick = store.reserve(["q"], limit=3, lease_for=10 * MINUTE)
        acked = [slow.job.id], [slow.lease.token]
        late.execute("SELECT * FROM holdfast.ack('main', NULL, %s, %s, NULL, NULL, NULL)", acked)
        store.settle([Ack(one.lease) for one in quick])  # later, and committed before
        end_some(store, 6)
        told |= stream(spark, url, tmp_path, max_rows="5")
        assert sum(map(len, told.values())) == 12
        assert stream(spark, url, tmp_path) == {}
        late.commit()
        end_some(store, 4)
        told |= stream(spark, url, tmp_path, max_rows="5")
        rows = [row for number in sorted(told) for row in told[number]]
        assert rows == [(row.fence, row.job_id, row.ending) for row in every_ending(store)]
        assert rows[12][1] == slow.job.id
        assert len(rows) == 25


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"table": "job"}, "option table: wanted jobs or ledger, got job"),
        ({"partitions": "0"}, "option partitions: wanted a whole number from 1"),
        ({"max_rows": "5"}, "option max_rows: wanted an option of the source: url, space, table, path, partitions"),
        ({"url": "memory://"}, "memory driver does not offer Spark"),
    ],
)
def test_a_read_is_refused_if_an_option_does_not_fit(url, options, said):
    source = HoldfastSource({"url": url, **options})
    with pytest.raises(HoldfastError, match=said):
        source.reader(schema(jobs_table.SCHEMA))


def test_a_stream_of_jobs_is_refused(url):
    with pytest.raises(HoldfastError, match="option table: wanted ledger, got jobs"):
        HoldfastSource({"url": url}).streamReader(schema(jobs_table.SCHEMA))


def test_no_plan_shows_the_url(spark, store, url, capsys):
    read(spark, url).where("queue = 'q'").explain(mode="extended")
    shown = capsys.readouterr().out
    assert "BatchScan" in shown
    assert "hunter2" not in shown
