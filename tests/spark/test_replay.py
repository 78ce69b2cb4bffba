"""Ended jobs again: the right ones, each once, whatever dies on the way."""

import json
import os
import signal
import subprocess
import sys
import time
from datetime import timedelta

import pytest
from click.testing import CliRunner

from holdfast import Client, JobRequest
from holdfast.cli.root import root
from holdfast.clock import MINUTE
from holdfast.connect import connect
from holdfast.driver import ack, fail
from holdfast.drivers.contract import JobFilter
from holdfast.errors import InvalidInput, ReplayConflict
from holdfast.spark import Replay, replay, sync
from holdfast.spark.replay import replay as replay_module


@pytest.fixture(scope="module")
def past(spark, tmp_path_factory):
    """A history of 20 jobs, every second of them dead, and their records by payload."""
    place = tmp_path_factory.mktemp("past")
    folder = str(place / "history")
    with connect(f"sqlite:///{place}/jobs.db") as store:
        work(store, jobs=20)
        sync(store, folder, spark=spark)
        return folder, {job.payload: job for job in jobs_of(store, "mail")}


@pytest.fixture
def url(tmp_path):
    return f"sqlite:///{tmp_path}/jobs.db"


@pytest.fixture
def store(url):
    with connect(url) as opened:
        yield opened


def work(store, jobs=6):
    """Jobs of which every second is done and every other one a dead letter; and one that waits."""
    requests = [
        JobRequest(
            type="mail",
            queue="mail",
            payload={"to": f"u{number}"},
            priority=number % 3,
            max_attempts=7,
            timeout=timedelta(seconds=90),
            domain=f"d{number % 2}",
            name=f"mail {number}",
            meta={"tenant": "acme"},
        )
        for number in range(jobs)
    ]
    Client(store).enqueue(requests)
    while taken := store.reserve(["mail"], limit=100, lease_for=MINUTE, worker="w"):
        for one in taken:
            if one.job.payload[-3] % 2:  # the last digit
                ack(store, one.lease)
            else:
                fail(store, one.lease, reason="bad address", error="550")
    Client(store).enqueue(JobRequest(type="mail", queue="mail", payload={"to": "later"}))


def jobs_of(store, queue):
    return store.find(JobFilter(queue=queue), limit=10_000).items


def receivers(jobs):
    return sorted(json.loads(job.payload)["to"] for job in jobs)


def everyone(count=20, step=1):
    return sorted(f"u{number}" for number in range(0, count, step))


def test_dead_letters_of_a_history_come_again_as_they_were(spark, store, past):
    folder, old = past
    done = replay(folder, "state = 'dead'", to=store, queue="again", spark=spark)
    assert (done.added, done.existed, done.without_payload, done.before) == (10, 0, 0, False)
    again = jobs_of(store, "again")
    assert receivers(again) == everyone(step=2)
    for new in again:
        first = old[new.payload]
        assert new.idempotency_key == f"replay:{done.replay_id}:{first.id}"
        for field in ("type", "priority", "timeout", "max_attempts", "max_crashes", "domain", "name", "meta"):
            assert getattr(new, field) == getattr(first, field), field


def test_the_same_replay_adds_nothing_and_another_id_another_set(spark, store, past):
    folder, _ = past
    first = replay(folder, "state = 'dead'", to=store, queue="again", spark=spark)
    second = replay(folder, "state = 'dead'", to=store, queue="again", spark=spark)
    assert (second.replay_id, second.finished_at, second.before) == (first.replay_id, first.finished_at, True)
    assert len(jobs_of(store, "again")) == 10
    third = replay(folder, "state = 'dead'", to=store, queue="again", replay_id="once-more", spark=spark)
    assert (third.added, len(jobs_of(store, "again"))) == (10, 20)


@pytest.mark.parametrize("noted", [True, False], ids=["between two pieces", "before a piece is noted"])
def test_a_replay_that_dies_goes_on_where_it_ended(spark, store, past, monkeypatch, noted):
    folder, _ = past
    monkeypatch.setattr(replay_module, "PIECE", 3)
    write = Replay._write

    def dies(self, standing, version):
        if standing.added == 6 and not noted:
            raise OSError("the power is gone")
        answer = write(self, standing, version)
        if standing.added == 6:
            raise OSError("the power is gone")
        return answer

    with Replay(folder, "true", to=store, queue="again", spark=spark) as planned:
        with monkeypatch.context() as crash:
            crash.setattr(Replay, "_write", dies)
            with pytest.raises(OSError, match="power"):
                planned.run()
        assert len(jobs_of(store, "again")) == 6
        done = planned.run()
    assert (done.added, done.existed) == ((20, 0) if noted else (17, 3))
    assert receivers(jobs_of(store, "again")) == everyone()


def test_of_two_at_a_time_one_stops_and_no_job_is_there_twice(spark, store, past, monkeypatch):
    folder, _ = past
    monkeypatch.setattr(replay_module, "PIECE", 7)
    with Replay(folder, "true", to=store, queue="again", spark=spark) as planned, pytest.raises(ReplayConflict):
        planned.run(on_progress=lambda _: planned.run())
    assert receivers(jobs_of(store, "again")) == everyone()


def test_jobs_without_a_payload_are_told_and_left_out(spark, store, tmp_path):
    folder = str(tmp_path / "history")
    work(store, jobs=4)
    sync(store, folder, spark=spark, payloads=False)
    work(store, jobs=2)
    sync(store, folder, spark=spark)
    with Replay(folder, "queue = 'mail'", to=store, queue="again", spark=spark) as planned:
        assert (planned.preview.chosen, planned.preview.without_payload) == (7, 4)
        done = planned.run()
    assert (done.added, done.without_payload) == (3, 4)
    assert receivers(jobs_of(store, "again")) == ["later", "u0", "u1"]


def test_a_store_is_a_source_and_a_replay_does_not_take_its_own_jobs_for_more(spark, store, url):
    work(store)
    done = replay(url, "type = 'mail' and payload like '%u%'", to=store, replay_id="r", spark=spark)
    assert done.added == 6  # not the one that waits
    while taken := store.reserve(["mail"], limit=100, lease_for=MINUTE):
        for one in taken:
            ack(store, one.lease)
    with Replay(url, "type = 'mail'", to=store, replay_id="r", spark=spark) as planned:
        assert planned.preview.chosen == 7
        assert {group.state: group.count for group in planned.preview.groups} == {"dead": 3, "done": 4}


def test_a_condition_that_does_not_fit_says_which_columns_there_are(spark, store, past):
    folder, _ = past
    for where in ("colour = 'red'", "state =", "count(*) > 1", "attempts + 1", "x" * 10_001):
        with pytest.raises(InvalidInput, match="where: wanted") as caught:
            Replay(folder, where, to=store, spark=spark)
        assert "dead_reason, error, fingerprint, payload" in str(caught.value) or "characters" in str(caught.value)


def test_the_command_shows_asks_and_counts(spark, store, url, past):
    def run(*arguments, code=0, answer="", source=past[0]):
        ran = CliRunner().invoke(root, ["replay", "--from", source, *arguments, "--url", url], input=answer)
        assert ran.exit_code == code, (ran.stdout, ran.stderr)
        return ran

    dead = ("--where", "state = 'dead'", "--queue", "again")
    assert "no history at" in run("--where", "true", source=f"{past[0]}/nowhere", code=4).stderr
    assert "wanted a condition in SQL over job_id, type" in run("--where", "colour = 1", code=2).stderr
    assert "no ended job matches" in run("--where", "false").stderr
    dry = run(*dead, "--dry-run").stdout
    assert "mail   mail  dead     10" in dry
    assert '{"to":"u0"}' in dry
    assert "would enqueue 10 jobs" in dry
    assert "nothing was changed" in run(*dead, code=1, answer="n\n").stderr
    assert jobs_of(store, "again") == []
    told = json.loads(run(*dead, "--yes", "--json", "--rate", "1000/s").stdout)
    assert (told["chosen"], told["added"], told["before"]) == (10, 10, False)
    assert "was finished at" in run(*dead).stdout
    assert len(jobs_of(store, "again")) == 10


def test_a_command_that_is_killed_half_way_is_finished_by_the_same_command(spark, store, url, past):
    options = ["replay", "--from", past[0], "--where", "true", "--queue", "again", "--yes", "--url", url]
    command = [sys.executable, "-m", "holdfast", *options, "--rate", "10/s", "--master", "local[1]"]
    running = subprocess.Popen(command, start_new_session=True)
    deadline = time.monotonic() + 120
    while len(jobs_of(store, "again")) < 5:
        assert running.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.02)
    os.killpg(running.pid, signal.SIGKILL)
    running.wait()
    assert 5 <= len(jobs_of(store, "again")) < 20
    ran = CliRunner().invoke(root, [*options, "--json"])
    assert ran.exit_code == 0, ran.stderr
    told = json.loads(ran.stdout)
    assert told["added"] + told["existed"] == 20
    assert receivers(jobs_of(store, "again")) == everyone()
