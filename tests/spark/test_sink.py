"""The sink: rows become jobs, each once, and bad rows are refused or written to a separate table."""

import json

import pyarrow as pa
import pytest
from pyspark.sql.types import LongType, StringType, StructType, VariantType

import holdfast
from holdfast.clock import SECOND
from holdfast.driver import ack
from holdfast.errors import HoldfastError
from holdfast.model.columns import JOB_COLUMNS
from holdfast.spark.datasource import sink
from holdfast.spark.datasource.format import HoldfastSource
from holdfast.spark.datasource.options import parse_sink
from holdfast.spark.datasource.row_to_job import RowConverter

STREAM_TIMEOUT_SECONDS = 200  # for a stream that takes three seconds on an idle machine


@pytest.fixture
def url(tmp_path):
    return f"sqlite:///{tmp_path}/jobs.db"


def jobs(url):
    with holdfast.connect(url) as store:
        return store.find(limit=10_000).items


def save(df, url, **options):
    df.write.format("holdfast").options(url=url, **{"type": "t", **options}).mode("append").save()


def test_a_row_becomes_a_job_with_the_row_as_its_payload(spark, url):
    df = spark.sql("select id, 'x' as s, map('k', 1.5D) as m, timestamp'2026-01-02 03:04:05' as at from range(3)")
    save(df, url, queue="q")
    stored = jobs(url)
    assert sorted(json.loads(job.payload)["id"] for job in stored) == [0, 1, 2]
    assert {(job.type, job.queue, job.priority, job.max_attempts) for job in stored} == {("t", "q", 0, 25)}
    at = "2026-01-02T03:04:05.000000Z"
    assert {"id": 0, "s": "x", "m": {"k": 1.5}, "at": at} in [json.loads(job.payload) for job in stored]


def test_equal_rows_are_separate_jobs_and_a_second_save_adds_them_again(spark, url):
    df = spark.range(0, 10, 1, 2).selectExpr("1 as x")
    save(df, url)
    assert len(jobs(url)) == 10
    save(df, url)
    assert len(jobs(url)) == 20


def test_columns_become_the_fields_of_a_job(spark, url):
    df = spark.sql(
        """select id, 'a' || id as who, int(id) as urgent, timestamp'2030-01-01 00:00:00' as later, 90 as seconds,
                  named_struct('n', id) as body, if(id = 0, 'bulk', null) as lane, 'k.' || id as kind,
                  map('source', 'spark') as tags from range(2)"""
    )
    options = {
        "type_column": "kind",
        "queue": "rest",
        "queue_column": "lane",
        "payload": "body",
        "priority": "urgent",
        "run_at": "later",
        "timeout": "seconds",
        "domain": "who",
        "limit_key": "lane",
        "name": "who",
        "meta": "tags",
        "max_attempts": "7",
        "key": "who",
    }
    df.write.format("holdfast").options(url=url, **options).mode("append").save()
    first, second = sorted(jobs(url), key=lambda job: job.type)
    assert (first.type, first.queue, first.payload, first.priority) == ("k.0", "bulk", b'{"n":0}', 0)
    assert (second.type, second.queue, second.payload, second.priority) == ("k.1", "rest", b'{"n":1}', 1)
    assert first.run_at == first.requested_run_at == 1_893_456_000_000_000
    assert (second.timeout, second.domain, second.name) == (90_000_000, "a1", "a1")
    assert (first.limit_key, second.limit_key) == ("bulk", None)
    assert (second.meta, second.max_attempts, second.idempotency_key) == ({"source": "spark"}, 7, "a1")


def test_the_sink_sets_every_column_of_a_job():
    options = parse_sink({"url": "memory://", "type": "t", "priority": "n"}, ["n"])
    rows = pa.RecordBatch.from_pydict({"n": pa.array([1, 2], pa.int32())})
    for job in RowConverter(options, ["n"], run="r", partition=0).convert(rows, now=1):
        for column in JOB_COLUMNS:
            assert column.nullable or getattr(job, column.name) is not None


def test_a_payload_is_a_json_column_or_some_of_the_columns(spark, url):
    df = spark.sql("""select id, ' {"deep": [1, null]} ' as text, 1 as x, 'k' || id as k from range(1)""")
    save(df, url, payload="text")
    save(df, url, payload="x, k", delay="1h")
    first, second = jobs(url)
    assert (first.payload, first.run_at) == (b'{"deep": [1, null]}', None)
    assert second.payload == b'{"x":1,"k":"k0"}'
    assert second.run_at == second.created_at + 3_600_000_000


def test_rows_with_the_same_key_columns_are_one_job_in_all_saves(spark, url):
    df = spark.sql("select id, id % 2 as half, 'n' as word from range(4)")
    save(df.select("half", "word"), url, key="half,word")
    save(df.select("half", "word"), url, key="half,word")
    assert sorted(job.idempotency_key for job in jobs(url)) == ['[0,"n"]', '[1,"n"]']


def test_the_same_run_twice_adds_nothing_also_with_other_partitions(spark, url):
    df = spark.range(0, 100, 1, 3)
    save(df, url, run="nightly-1")
    save(df.repartition(5, "id"), url, run="nightly-1")
    assert len(jobs(url)) == 100
    save(df, url, run="nightly-2")
    assert len(jobs(url)) == 200


@pytest.mark.parametrize("partitions", [1, 2], ids=["in one partition", "in two partitions"])
def test_equal_rows_without_a_key_are_refused_in_a_run_that_can_be_repeated(spark, url, partitions):
    df = spark.range(0, 2, 1, partitions).selectExpr("1 as x")
    with pytest.raises(
        Exception, match="key: wanted columns that tell all rows apart, got none, and rows that make equal jobs"
    ):
        save(df, url, run="nightly")
    save(df.selectExpr("x", "spark_partition_id() + monotonically_increasing_id() as number"), url, run="nightly")


def test_a_spark_task_that_is_killed_and_retried_adds_no_second_job(spark, url, tmp_path):
    killed = tmp_path / "killed"

    def killed_once(batches):
        import os
        import signal

        for number, batch in enumerate(batches):
            yield batch
            if number == 5 and not killed.exists():
                killed.touch()
                os.kill(os.getpid(), signal.SIGKILL)

    spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", "50")
    try:
        df = spark.range(0, 1000, 1, 1).selectExpr("id % 3 as x").mapInArrow(killed_once, "x long")
        save(df, url)
    finally:
        spark.conf.unset("spark.sql.execution.arrow.maxRecordsPerBatch")
    assert killed.exists()
    assert len(jobs(url)) == 1000


@pytest.fixture
def stream(spark, url, tmp_path):
    """Writes the new files of a folder as jobs, and returns how many rows were read."""

    def stream(**options):
        rows = spark.readStream.schema("x long, y long").parquet(str(tmp_path / "in"))
        query = (
            rows.writeStream.format("holdfast")
            .options(url=url, type="t", **options)
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        assert query.awaitTermination(STREAM_TIMEOUT_SECONDS)
        return query.lastProgress["numInputRows"]

    return stream


def forget_commits(folder):
    """Leave the checkpoint as after a crash of the Spark driver before it recorded the micro-batch."""
    for commit in (folder / "checkpoint" / "commits").iterdir():
        commit.unlink()


def test_a_micro_batch_that_is_replayed_with_other_partitions_adds_nothing(spark, url, tmp_path, stream):
    for start in (0, 25):  # two files
        spark.range(start, start + 25, 1, 1).selectExpr("id as x", "1L as y").write.parquet(
            str(tmp_path / "in"), mode="append"
        )
    assert stream() == 50
    assert len(jobs(url)) == 50
    forget_commits(tmp_path)
    spark.conf.set("spark.sql.files.minPartitionNum", "1")  # both files in one partition
    try:
        assert stream() == 50
    finally:
        spark.conf.unset("spark.sql.files.minPartitionNum")
    assert len(jobs(url)) == 50


def test_a_stream_takes_key_columns_as_a_save_does_and_refuses_equal_rows_without(spark, url, tmp_path, stream):
    rows = "select id % 2 as x, if(id = 7, null, 1L) as y from range(0, 6, 1, 2)"
    spark.sql(rows).write.parquet(str(tmp_path / "in"))
    with pytest.raises(
        Exception, match="key: wanted columns that tell all rows apart, got none, and rows that make equal jobs"
    ):
        stream()
    assert jobs(url) == []  # the rows of each partition are compared before they are stored
    assert stream(key="x, y") == 6
    assert sorted(job.idempotency_key for job in jobs(url)) == ["[0,1]", "[1,1]"]
    spark.sql(rows.replace("0, 6", "7, 8")).write.parquet(str(tmp_path / "in"), mode="append")
    with pytest.raises(Exception, match="key y: wanted a value in every row, got null"):
        stream(key="x, y")


BAD = """select id, case id when 3 then 'not json' else '{}' end as body, if(id = 5, 10, 1) as urgent,
                if(id = 6, double('NaN'), 1D) as number from range(0, 8, 1, 1)"""


def test_a_bad_row_fails_the_write_with_its_reason(spark, url):
    with pytest.raises(Exception, match=r"body: wanted JSON in UTF-8, got 8 bytes"):
        save(spark.sql(BAD), url, payload="body")
    assert jobs(url) == []


def test_bad_rows_go_to_a_table_with_their_reasons_and_the_others_are_stored(spark, url, tmp_path):
    bad = str(tmp_path / "bad")
    for _ in range(2):  # the same run again: the same table
        save(spark.sql(BAD), url, payload="id,body,number", meta="body", priority="urgent", bad_rows=bad, run="r")
        assert len(jobs(url)) == 5
        rows = spark.read.parquet(bad).orderBy("id").collect()
        assert [(row["id"], row["holdfast_run"]) for row in rows] == [(3, "r"), (5, "r"), (6, "r")]
        assert "meta: wanted JSON" in rows[0]["holdfast_reason"]
        assert "priority: wanted a whole number" in rows[1]["holdfast_reason"]
        assert "number: wanted a finite number" in rows[2]["holdfast_reason"]


def test_a_key_with_another_payload_is_a_bad_row(spark, url, tmp_path):
    df = spark.sql("select 'k' as k, id from range(0, 3, 1, 1)")
    save(df, url, key="k", bad_rows=f"file://{tmp_path}/bad")
    assert [json.loads(job.payload)["id"] for job in jobs(url)] == [0]
    assert [
        (row["id"], row["holdfast_reason"]) for row in spark.read.parquet(f"{tmp_path}/bad").orderBy("id").collect()
    ] == [
        (1, "key: wanted one row for each key, got two different rows with 'k': they differ in id"),
        (2, "key: wanted one row for each key, got two different rows with 'k': they differ in id"),
    ]


OFFSETS = """select * from values ('a', 0L, 'x'), ('a', 0L, 'x'), ('a', 0L, 'y'), ('a', null, 'x'), (null, null, 'x'),
                                   ('a', -1L, 'x'), (null, 1L, 'x') as rows (d, o, p)"""


def test_an_offset_is_one_job_and_another_payload_for_it_is_a_bad_row(spark, url, tmp_path):
    df = spark.sql(OFFSETS).coalesce(1)
    save(df, url, domain="d", offset="o", run="r", bad_rows=f"{tmp_path}/bad")
    stored = [(job.domain, job.offset, job.idempotency_key is None) for job in jobs(url)]
    assert stored == [("a", 0, True), ("a", None, False), (None, None, False)]
    reasons = [row["holdfast_reason"] for row in spark.read.parquet(f"{tmp_path}/bad").orderBy("d", "o").collect()]
    assert reasons[:2] == [
        "offset: wanted a domain beside it, got an offset alone",
        "offset: wanted a whole number from 0 to 9223372036854775807, got -1",
    ]
    assert reasons[2].startswith("offset: wanted one row for each offset of a domain, got two different rows with ")
    assert reasons[2].endswith("domain 'a' and offset 0: they differ in p")


def test_a_row_whose_offset_has_ended_is_counted_as_past(url):
    options = parse_sink({"url": url, "type": "t", "domain": "d", "offset": "o"}, ["d", "o"])
    converter = RowConverter(options, ["d", "o"], run="r", partition=None)
    with holdfast.connect(url) as store:

        def write(*offsets):
            rows = pa.RecordBatch.from_pydict({"d": ["a"] * len(offsets), "o": offsets})
            return sink._write([rows], store, converter, None, 0, signer=None)

        write(1, 2)
        [reservation] = store.reserve(["default"], limit=10, lease_for=SECOND)
        assert reservation.job.offset == 1
        assert ack(store, reservation.lease) is None
        counts = write(1, 2, 3)
        assert (counts.added, counts.existed, counts.past) == (1, 2, 1)


SCHEMA = StructType().add("id", LongType()).add("s", StringType()).add("v", VariantType())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"queu": "q"}, r"option queu: wanted an option of the sink: url, .*, got another"),
        ({"type": "no spaces"}, r"option type: wanted 1 to 128 of the characters"),
        ({"type_column": "s"}, r"option type: wanted the type of all jobs, or type_column .*, got both"),
        ({"payload": "bdy"}, r"option payload: wanted a column of id, s, v, got bdy"),
        ({"key": ","}, r"option key: wanted columns of id, s, v, got nothing"),
        ({"priority": "urgent"}, r"option priority: wanted a whole number, or a column of id, s, v, got urgent"),
        ({"delay": "soon"}, r"option delay: wanted a length such as 5m, or a column of id, s, v, got soon"),
        ({"run_at": "s"}, r"option run_at: wanted a column with a timestamp, got s string"),
        ({"payload": "v"}, r"option payload: wanted a column with a type that JSON can hold .*, got v variant"),
        ({"offset": "id"}, r"option offset: wanted a domain beside it"),
        ({"offset": "s", "domain": "s"}, r"option offset: wanted a column with a whole number, got s string"),
        ({"domain": "id"}, r"option domain: wanted a column with text, got id bigint"),
        ({"url": "memory://"}, r"memory .*one process"),
        ({"url": ""}, r"option url: wanted a store URL such as .*, here or in HOLDFAST_URL"),
        ({"url": "nothing://"}, r"wanted a store URL such as"),
        ({"bad_rows": "relative"}, r"option bad_rows: wanted fail, or the absolute path"),
    ],
)
def test_an_invalid_option_is_refused(url, options, message):
    all_options = {"url": url, "type": "t", "payload": "s", **options}
    with pytest.raises(HoldfastError, match=message):
        HoldfastSource(all_options).writer(SCHEMA, overwrite=False)


def test_a_write_is_refused_before_any_spark_task_runs(spark, url):
    with pytest.raises(Exception, match="option queu: wanted an option of the sink: url,") as refused:
        save(spark.range(1), url, queu="q")
    assert "stage" not in str(refused.value)
    with pytest.raises(Exception, match="mode: wanted append"):
        spark.range(1).write.format("holdfast").options(url=url, type="t").mode("overwrite").save()
