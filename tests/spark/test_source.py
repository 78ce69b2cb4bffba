"""The sources: jobs and the ledger as frames, and the ledger as a stream."""

import json
import sqlite3
import time
from contextlib import closing
from datetime import UTC, datetime, timedelta

import psycopg
import pytest
from msgspec.structs import replace
from pyspark.errors import AnalysisException
from pyspark.sql.types import StringType, StructField, StructType

import holdfast
from holdfast.client import Client
from holdfast.clock import DAY, from_datetime
from holdfast.drivers.engine import Engine
from holdfast.drivers.requests import LedgerMarks, ReadTuples, Trim
from holdfast.drivers.store import Store
from holdfast.errors import HoldfastError, LedgerTrimmed
from holdfast.model.filters import JobFilter
from holdfast.model.job import State
from holdfast.model.request import JobRequest
from holdfast.model.settlement import Ack, Fail
from holdfast.spark import session, sync
from holdfast.spark.datasource import jobs_table, ledger_table
from holdfast.spark.datasource.format import HoldfastSource
from holdfast.spark.datasource.options import FILTER_OPTIONS, parse_job_filter
from tests.requests_seen import answer_requests

MINUTE = 60_000_000
PUSHDOWN = "spark.sql.python.filterPushdown.enabled"


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
    failures = [Fail(each.lease, reason="bad") for each in reservations[:bad]]
    # The store refuses it, which leaves a gap in the row numbers of some stores.
    stale = Ack(replace(reservations[0].lease, token="1.stale"))
    store.settle([*failures, stale, *(Ack(each.lease) for each in reservations[bad:])])


def read(spark, url, table="jobs", **options):
    return spark.read.format("holdfast").options(url=url, **options).load(table)


def every_ending(store):
    rows, cursor = [], None
    while page := store.ledger(cursor, 1000):
        rows += page.items
        cursor = page.cursor
    return rows


def test_jobs_in_all_states_are_read_with_their_columns(spark, store, url):
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


@pytest.mark.parametrize("damage", ["meta = x'fffe'", "name = CAST(x'ff41' AS text)", f"attempts = {2**63 - 1}"])
def test_a_row_that_cannot_be_read_stops_neither_a_read_nor_a_sync(spark, store, url, tmp_path, damage):
    Client(store).enqueue([JobRequest(type="t", payload=number, queue="q") for number in range(3)])
    with closing(sqlite3.connect(url.removeprefix("sqlite:///"))) as database, database:
        database.execute(f"UPDATE holdfast_jobs SET {damage} WHERE seq = (SELECT min(seq) FROM holdfast_jobs)")
    assert [row["state"] for row in read(spark, url).collect()] == ["ready"] * 3
    store.settle([Ack(each.lease) for each in store.reserve(["q"], limit=10, lease_for=MINUTE)])
    assert sorted(row["state"] for row in read(spark, url).collect()) == ["dead", "done", "done"]
    assert sync(store, str(tmp_path / "history"), spark=spark).rows == 3


@pytest.fixture(params=["true", "false"])
def pushdown(request, spark):
    """The session's own setting of Spark's filter pushdown for Python sources."""
    spark.conf.set(PUSHDOWN, request.param)
    yield request.param
    spark.conf.unset(PUSHDOWN)


def test_a_frame_gives_the_same_jobs_in_every_query(spark, store, url, pushdown):
    """A filter of one query, or of one branch of a query, changes no other: Spark shares the reader of a frame."""
    end_some(store, 6, bad=2)
    end_some(store, 3, queue="other")
    jobs = read(spark, url)
    assert [jobs.count(), jobs.where("queue = 'nope'").count(), jobs.count()] == [9, 0, 9]
    q, other = jobs.where("queue = 'q'"), jobs.where("queue = 'other'")
    assert q.union(other).groupBy("queue").count().collect() == [("q", 6), ("other", 3)]
    joined = jobs.where("state = 'dead'").alias("a").crossJoin(jobs.where("queue = 'other'").alias("b"))
    assert joined.select("a.id", "b.id").distinct().count() == 6
    jobs.createOrReplaceTempView("holdfast_jobs")
    counts = spark.sql(
        "select (select count(*) from holdfast_jobs where state = 'dead'),"
        " (select count(*) from holdfast_jobs where queue = 'other'), (select count(*) from holdfast_jobs)"
    )
    assert counts.first() == (2, 3, 9)


def test_a_session_keeps_its_own_settings(spark, pushdown):
    before = spark.conf.getAll
    assert session(spark) is spark
    assert spark.conf.getAll == before
    assert before[PUSHDOWN] == pushdown


def test_the_store_applies_the_filters_of_the_options(spark, store, url):
    end_some(store, 6, bad=2)
    end_some(store, 3, queue="other")
    now = datetime.now(UTC).isoformat()
    assert read(spark, url, state="dead, done", queue="q", reason="bad", until=now).count() == 2
    both = read(spark, url, queue="q").union(read(spark, url, queue="other"))
    assert both.groupBy("queue").count().collect() == [("q", 6), ("other", 3)]
    assert read(spark, url, since=now).count() == 0
    assert read(spark, url, since="2026-11-15", until="9999-12-31").count() == 9


def test_every_filter_option_is_one_field_of_the_filter():
    since = datetime(2026, 11, 15, tzinfo=UTC)
    options = {"queue": "q", "state": "done,dead", "type": "t", "domain": "d", "name": "n", "key": "k", "reason": "r"}
    options |= {"since": since.isoformat(), "until": "2026-11-16T01:00:00+01:00"}
    assert set(options) == set(FILTER_OPTIONS)
    assert parse_job_filter(options) == JobFilter(
        states=(State.DONE, State.DEAD),
        queue="q",
        type="t",
        domain="d",
        name="n",
        idempotency_key="k",
        reason="r",
        created_from=from_datetime(since),
        created_before=from_datetime(since) + DAY,
    )


def test_ranges_of_ids_cover_each_job_once(store, monkeypatch):
    Client(store).enqueue([JobRequest(type="t", payload=number) for number in range(100)])
    monkeypatch.setattr(jobs_table, "PAGE_JOBS", 3)
    newest = int(store.find().items[-1].id.replace("-", "")[:12], 16)
    ranges = jobs_table.split_ids(store, JobFilter(), most=7, now=(newest + 1) * 1000)
    assert len(ranges) == 7
    pages = [batch["id"].to_pylist() for ids in ranges for batch in jobs_table.read(store, JobFilter(), ids)]
    assert [job_id for page in pages for job_id in page] == [job.id for job in store.find().items]


def test_the_ledger_is_read_in_order_by_many_readers(spark, store, url, monkeypatch):
    end_some(store, 200, bad=3)
    rows = read(spark, url, "ledger").collect()
    assert [(row["job_id"], row["ending"], row["fence"]) for row in rows] == [
        (row.job_id, row.ending, row.fence) for row in every_ending(store)
    ]
    monkeypatch.setattr(ledger_table, "SPLIT_ROWS", 7)
    start = ledger_table.ledger_start(store)
    ranges = ledger_table.split_ledger(start, ledger_table.split_points(store, start.after), 4)
    assert [each.rows for each in ranges] == [56, 56, 56, 32]
    pages = [batch["job_id"].to_pylist() for each in ranges for batch in ledger_table.read(store, each)]
    assert [job_id for page in pages for job_id in page] == [row.job_id for row in every_ending(store)]


def test_a_frame_that_is_read_again_sees_what_is_there_then(spark, any_app):
    store, url = any_app.driver, any_app.url
    jobs, ledger = read(spark, url), read(spark, url, "ledger")
    assert (jobs.count(), ledger.count()) == (0, 0)
    for number in range(1, 3):
        end_some(store, 3)
        assert (jobs.count(), ledger.count()) == (3 * number, 3 * number)
    assert [row["job_id"] for row in ledger.collect()] == [row.job_id for row in every_ending(store)]


def schema(arrow):
    return StructType([StructField(name, StringType()) for name in arrow.names])


def test_a_store_that_reads_its_ledger_by_pages_is_split_in_the_same_way(store, monkeypatch):
    end_some(store, 50)
    plain = Store(store.engine)
    answer_requests(monkeypatch, plain, LedgerMarks, lambda request, _: Engine.ledger_marks(store.engine, request))
    answer_requests(monkeypatch, plain, ReadTuples, lambda request, _: Engine.read_tuples(store.engine, request))
    monkeypatch.setattr(ledger_table, "SPLIT_ROWS", 7)
    assert ledger_table.split_points(plain, None) == ledger_table.split_points(store, None)
    assert ledger_table.split_points(plain, None, most=10) == ledger_table.split_points(store, None, most=10)
    part = ledger_table.LedgerRange(after=store.ledger(None, 10).cursor, rows=20)
    assert list(ledger_table.read(plain, part)) == list(ledger_table.read(store, part))
    assert ledger_table.ledger_start(plain) == ledger_table.ledger_start(store)


def test_reading_trimmed_rows_raises(url):
    with holdfast.connect(url, caller_clock=True) as store:
        Client(store).enqueue([JobRequest(type="t") for _ in range(4)])
        reservations = store.reserve(["default"], limit=4, lease_for=MINUTE, now=1_000)
        for number, each in enumerate(reservations):
            store.settle([Ack(each.lease)], now=2_000 + number)
        start = ledger_table.ledger_start(store)
        store.do(Trim(ledger_for=1, now=2_002))
        with pytest.raises(LedgerTrimmed):
            list(ledger_table.read(store, ledger_table.LedgerRange(after=start.after, first=start.first, rows=4)))


def stream(spark, url, tmp_path, **options):
    """Run a query to the end of the ledger, and return its micro-batches by number."""
    batches = {}

    def collect(frame, number):
        batches[number] = [(row["fence"], row["job_id"], row["ending"]) for row in frame.collect()]

    rows = spark.readStream.format("holdfast").options(url=url, **options).load("ledger")
    query = rows.writeStream.foreachBatch(collect).option("checkpointLocation", f"{tmp_path}/checkpoint")
    query = query.trigger(availableNow=True).start()
    query.awaitTermination(60)
    assert query.exception() is None
    return batches


def test_the_ledger_streams_each_row_once_in_order_across_restarts_in_limited_batches(spark, store, url, tmp_path):
    end_some(store, 25)
    first = stream(spark, url, tmp_path, max_rows="10")
    assert [len(rows) for rows in first.values()] == [10, 10, 5]
    end_some(store, 7, bad=1)
    for commit in (tmp_path / "checkpoint" / "commits").glob("*2*"):
        commit.unlink()  # as after a crash of the Spark driver before it recorded the last batch
    second = stream(spark, url, tmp_path, max_rows="10")
    assert second[2] == first[2]
    assert stream(spark, url, tmp_path) == {}
    rows = [row for number in range(4) for row in {**first, **second}[number]]
    assert rows == [(row.fence, row.job_id, row.ending) for row in every_ending(store)]


def test_rows_of_a_transaction_that_commits_late_are_not_skipped(spark, postgres_database, tmp_path):
    """On PostgreSQL, with restarts in between: the rows arrive late, in order, and once."""
    url = postgres_database()
    streamed = {}
    with holdfast.connect(url) as store, psycopg.connect(url) as late:
        end_some(store, 12)
        Client(store).enqueue([JobRequest(type="t", queue="q") for _ in range(3)])
        slow, *quick = store.reserve(["q"], limit=3, lease_for=10 * MINUTE)
        acked = [slow.job.id], [slow.lease.token]
        late.execute("SELECT * FROM holdfast.ack('main', NULL, %s, %s, NULL, NULL, NULL)", acked)
        store.settle([Ack(one.lease) for one in quick])  # acked later, committed earlier
        end_some(store, 6)
        streamed |= stream(spark, url, tmp_path, max_rows="5")
        assert sum(map(len, streamed.values())) == 12
        assert stream(spark, url, tmp_path) == {}
        late.commit()
        end_some(store, 4)
        streamed |= stream(spark, url, tmp_path, max_rows="5")
        rows = [row for number in sorted(streamed) for row in streamed[number]]
        assert rows == [(row.fence, row.job_id, row.ending) for row in every_ending(store)]
        assert rows[12][1] == slow.job.id
        assert len(rows) == 25


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"table": "job"}, "option table: wanted jobs or ledger, got job"),
        ({"state": "dead,lost"}, "option state: wanted states, separated by commas: ready, .*, got lost"),
        ({"since": "15.11.2026"}, "option since: wanted an instant such as .*, got 15.11.2026"),
        ({"table": "ledger", "queue": "q"}, "option queue: wanted an option of the source ledger: url, "),
        ({"partitions": "0"}, "option partitions: wanted a whole number from 1"),
        (
            {"max_rows": "5"},
            "option max_rows: wanted an option of the source jobs: url, store, space, table, path",
        ),
        ({"url": "memory://"}, "memory driver does not offer Spark"),
    ],
)
def test_a_read_with_an_invalid_option_is_refused(url, options, message):
    source = HoldfastSource({"url": url, **options})
    with pytest.raises(HoldfastError, match=message):
        source.reader(schema(jobs_table.SCHEMA))


def test_a_stream_of_jobs_is_refused(url):
    with pytest.raises(HoldfastError, match="option table: wanted ledger, got jobs"):
        HoldfastSource({"url": url}).streamReader(schema(jobs_table.SCHEMA))


@pytest.fixture
def catalog(spark):
    """Removes the tables that a test creates."""
    yield
    for name in ("made_jobs", "made_ledger", "made_again"):
        spark.sql(f"drop table if exists {name}")


def test_a_table_of_the_catalog_is_read_with_its_options(spark, store, url, catalog):
    end_some(store, 4, bad=1)
    spark.sql(f"create table made_jobs using holdfast options (url '{url}', state 'done')")
    spark.sql(f"create table made_ledger using holdfast options (url '{url}', table 'ledger')")
    assert spark.sql("select (select count(*) from made_jobs), (select count(*) from made_ledger)").first() == (3, 4)
    assert spark.table("made_jobs").dtypes == read(spark, url).dtypes
    with pytest.raises(AnalysisException, match="option sate: wanted an option of the source jobs"):
        spark.sql(f"create table made_again using holdfast options (url '{url}', sate 'done')")
    with pytest.raises(AnalysisException, match="got no options, as in CREATE TABLE"):
        spark.sql(f"create table made_again using holdfast options (url '{url}', type 't') as select 1 as id")


@pytest.mark.parametrize("query", ["", " as select 1 as id"])
def test_a_table_with_a_password_in_its_url_is_refused(spark, catalog, query):
    with pytest.raises(AnalysisException) as refusal:
        spark.sql(f"create table made_jobs using holdfast options (url 'postgresql://me:s3cret@nowhere/db'){query}")
    assert "s3cret" not in str(refusal.value)
    assert not spark.catalog.tableExists("made_jobs")
    deadline = time.monotonic() + 30  # Spark lists a statement a moment after its end
    while not any("made_jobs" in each and "url ->" in each for each in plan_descriptions(spark)):
        assert time.monotonic() < deadline
        time.sleep(0.1)
    assert not any("s3cret" in each for each in plan_descriptions(spark))


def plan_descriptions(spark):
    """What Spark's pages, its REST API and its event log show of the last statements."""
    executions = spark._jsparkSession.sharedState().statusStore().executionsList()
    last = range(max(0, executions.size() - 20), executions.size())
    return [executions.apply(number).physicalPlanDescription() for number in last]


def test_no_plan_shows_the_url(spark, store, url, capsys):
    read(spark, url).where("queue = 'q'").explain(mode="extended")
    shown = capsys.readouterr().out
    assert "BatchScan" in shown
    assert "hunter2" not in shown
