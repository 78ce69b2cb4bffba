"""A named run: what it remembers, for how long, and under which versions of its handler."""

import pytest

import holdfast
from holdfast.clock import DAY, SystemClock
from holdfast.drivers.requests import Trim
from holdfast.errors import InvalidInput, OutcomesTrimmed
from holdfast.spark import run
from holdfast.spark.execution.handler_version import handler_version
from tests.spark.conftest import OPTIONS


@pytest.fixture
def url(tmp_path):
    return f"sqlite:///{tmp_path}/jobs.db"


@pytest.fixture
def nightly(spark, url, tmp_path):
    """A function that runs a frame of ten rows, and a count of the rows that ran."""
    ran = tmp_path / "ran"
    ran.touch()

    def note(row):
        with ran.open("a") as file:
            file.write(f"{row['n']} ")
        if row["n"] == 3:
            raise ValueError(3)

    def nightly():
        df = spark.range(10).toDF("n")
        return run(df, note, key="n", url=url, run="nightly", max_attempts=1, slots=1, options=OPTIONS)

    nightly.ran = lambda: len(ran.read_text().split())
    return nightly


def trim(url, *, days):
    """Remove what the store does not keep, as seen after some days."""
    with holdfast.connect(url, caller_clock=True) as store:
        while store.do(Trim(ended_for=7 * DAY, now=SystemClock().now() + days * DAY)).more:
            pass


def test_a_named_run_remembers_its_rows_after_more_than_a_day(nightly, url):
    nightly()
    trim(url, days=6)
    result = nightly()
    assert (nightly.ran(), result.summary.done, result.summary.dead) == (10, 9, 1)


def test_rows_whose_jobs_are_no_longer_kept_are_reported_and_not_dropped(nightly, url):
    nightly()
    trim(url, days=8)  # removes the jobs that are done; the dead letter and the keys stay
    with pytest.raises(OutcomesTrimmed, match="the run nightly, got none for 9 rows") as caught:
        nightly()
    assert nightly.ran() == 10
    ok, dead = caught.value.result
    assert (ok.count(), [row["n"] for row in dead.collect()]) == (0, [3])


def test_rows_that_nothing_is_left_of_run_again_and_have_one_outcome(nightly, url):
    nightly()
    trim(url, days=40)  # removes done jobs and their keys; a dead letter stays
    _forget_keys(url)
    result = nightly()
    assert (nightly.ran(), result.summary.done, result.summary.dead, result.summary.open) == (20, 9, 1, 0)
    assert (result.ok.count(), result.dead.count()) == (9, 1)


def test_dead_rows_run_again_as_new_jobs_whether_they_were_corrected_or_not(spark, url):
    def divide(row):
        return 10 // row["by"]

    def call(*rows, **options):
        df = spark.createDataFrame(rows, "n int, by int")
        named = {"key": "n", "url": url, "run": "divide", "max_attempts": 1, "slots": 1, "options": OPTIONS}
        return run(df, divide, **named, **options)

    first = call((1, 5), (2, 0), (3, 0))
    assert (first.summary.done, first.summary.dead) == (1, 2)
    with pytest.raises(
        InvalidInput, match=r"others for n=2, which an earlier call stored: they differ in by.*retry_dead"
    ):
        call((1, 5), (2, 2), (3, 0))
    again = call((1, 5), (2, 2), (3, 0), retry_dead=True)
    assert {row["n"]: row["holdfast"]["result"] for row in again.ok.collect()} == {1: "2", 2: "5"}
    [dead] = again.dead.collect()
    assert (dead["n"], dead["holdfast"]["attempts"]) == (3, 1)
    with holdfast.connect(url) as store:
        endings = [str(row.ending) for row in store.ledger()]
    assert (endings.count("purged"), endings.count("acked")) == (2, 2)


def test_only_a_named_run_retries_dead_rows(spark, url):
    with pytest.raises(InvalidInput, match="retry_dead: wanted the name of an earlier run"):
        run(spark.range(1), len, key="id", url=url, retry_dead=True)


def _forget_keys(url):
    """The key of a dead letter stays in the store, and is valid for the window: end the window."""
    import sqlite3

    with sqlite3.connect(url.removeprefix("sqlite:///")) as database:
        database.execute("UPDATE holdfast_dedupe SET until = 0")
    database.close()


# Versions of the handler ------------------------------------------------------------------------------------


def test_a_mix_of_handler_versions_is_in_the_summary(spark, url):
    named = {"key": "n", "url": url, "run": "mixed", "slots": 1, "options": OPTIONS}
    first = run(spark.range(10).toDF("n"), lambda row: row["n"], **named)
    again = run(spark.range(10).toDF("n"), lambda row: row["n"], **named)
    assert (len(first.summary.versions), again.summary.versions) == (1, first.summary.versions)
    second = run(spark.range(15).toDF("n"), lambda row: row["n"] + 1, **named)
    assert second.summary.has_mixed_versions
    assert list(second.summary.versions.values()) == [10, 5]
    assert "results of 2 versions of the handler: 10 of " in str(second.summary)
    third = run(spark.range(16).toDF("n"), lambda row: row["n"], version="v3", **named)
    assert third.summary.versions["v3"] == 1


def test_the_version_of_a_handler_is_a_hash_of_its_code():
    def make(number):
        return lambda row: row["n"] + number

    assert handler_version(make(1), None) == handler_version(make(1), None)
    assert handler_version(make(1), None) != handler_version(make(2), None)
    assert handler_version(make(1), "v1") == "v1"
    one, other = (lambda row: row["a"] in {"x", "y"}), (lambda row: row["a"] in {"x", "z"})
    assert handler_version(one, None) != handler_version(other, None)
