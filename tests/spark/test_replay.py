"""Replays: the selected jobs are enqueued again, each once, also after a crash."""

import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from datetime import timedelta
from shutil import rmtree

import pytest
from click.testing import CliRunner

from holdfast import Client, JobRequest, open_payloads
from holdfast.artifacts.blobs import task_folder
from holdfast.cli.root import root
from holdfast.clock import MINUTE
from holdfast.connect import connect
from holdfast.driver import ack, fail
from holdfast.drivers.contract import JobFilter
from holdfast.errors import InvalidInput, ReplayConflict
from holdfast.settings import read
from holdfast.signing import open_signer
from holdfast.spark import Replay, replay, sync
from holdfast.spark.replay import replay as replay_module
from holdfast.wire.signing import Verdict


@pytest.fixture(scope="module")
def past(spark, tmp_path_factory):
    """A history of 20 jobs, half of them dead, and their records by payload."""
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
    """Run jobs, half of them done and half dead letters; then enqueue one that waits."""
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
    while reservations := store.reserve(["mail"], limit=100, lease_for=MINUTE, worker="w"):
        for each in reservations:
            if each.job.payload[-3] % 2:  # the last digit
                ack(store, each.lease)
            else:
                fail(store, each.lease, reason="bad address", error="550")
    Client(store).enqueue(JobRequest(type="mail", queue="mail", payload={"to": "later"}))


def jobs_of(store, queue):
    return store.find(JobFilter(queue=queue), limit=10_000).items


def receivers(jobs):
    return sorted(json.loads(job.payload)["to"] for job in jobs)


def everyone(count=20, step=1):
    return sorted(f"u{number}" for number in range(0, count, step))


def test_dead_letters_of_a_history_are_enqueued_again_with_their_columns(spark, store, past):
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


def test_a_replay_verifies_the_old_jobs_and_signs_the_new_ones_for_their_queue(spark, store, url, tmp_path):
    variables = {"HOLDFAST_SIGNING": "required", "HOLDFAST_SIGNING_KEY": "correct horse battery staple"}
    settings = read(environ=variables, folder=tmp_path)
    signer = open_signer(settings, space="main")
    Client(store, signer=signer).enqueue([JobRequest(type="mail", queue="mail", payload=n) for n in range(3)])
    for each in store.reserve(["mail"], limit=3, lease_for=MINUTE):
        fail(store, each.lease, reason="bad address")
    with closing(sqlite3.connect(tmp_path / "jobs.db")) as connection, connection:
        connection.execute("UPDATE holdfast_ended SET payload = ? WHERE payload = ?", [b"7", b"1"])
    done = replay(url, "state = 'dead'", to=store, queue="again", spark=spark, settings=settings)
    assert (done.added, done.refused) == (2, 1)
    again = jobs_of(store, "again")
    assert sorted(job.payload for job in again) == [b"0", b"2"]
    assert {signer.verify(job) for job in again} == {Verdict.VALID}


def test_a_replay_copies_payloads_that_are_stored_apart_from_their_jobs(spark, store, url, tmp_path):
    settings = read(environ={"HOLDFAST_ARTIFACTS": str(tmp_path / "artifacts")}, folder=tmp_path)
    payloads = open_payloads(settings)
    sent = Client(store, payloads=payloads).enqueue(
        [JobRequest(type="mail", queue="mail", payload=letter * (2 << 20)) for letter in "ab"]
    )
    for each in store.reserve(["mail"], limit=2, lease_for=MINUTE):
        fail(store, each.lease, reason="bad address")
    rmtree(tmp_path / "artifacts" / task_folder("main", sent[1].id))
    done = replay(url, "state = 'dead'", to=store, queue="again", spark=spark, settings=settings)
    assert (done.added, done.refused) == (1, 1)
    [again] = jobs_of(store, "again")
    assert payloads.load(again.id, again.payload) == b'"' + b"a" * (2 << 20) + b'"'


def test_a_repeated_replay_adds_nothing_and_a_new_id_adds_all_jobs_again(spark, store, past):
    folder, _ = past
    first = replay(folder, "state = 'dead'", to=store, queue="again", spark=spark)
    second = replay(folder, "state = 'dead'", to=store, queue="again", spark=spark)
    assert (second.replay_id, second.finished_at, second.before) == (first.replay_id, first.finished_at, True)
    assert len(jobs_of(store, "again")) == 10
    third = replay(folder, "state = 'dead'", to=store, queue="again", replay_id="once-more", spark=spark)
    assert (third.added, len(jobs_of(store, "again"))) == (10, 20)


@pytest.mark.parametrize("recorded", [True, False], ids=["between two batches", "before a batch is recorded"])
def test_a_replay_continues_after_a_crash(spark, store, past, monkeypatch, recorded):
    folder, _ = past
    monkeypatch.setattr(replay_module, "BATCH_JOBS", 3)
    write_progress = Replay._write_progress

    def crash(self, progress, version):
        if progress.added == 6 and not recorded:
            raise OSError("the power is gone")
        answer = write_progress(self, progress, version)
        if progress.added == 6:
            raise OSError("the power is gone")
        return answer

    with Replay(folder, "true", to=store, queue="again", spark=spark) as planned:
        with monkeypatch.context() as patch:
            patch.setattr(Replay, "_write_progress", crash)
            with pytest.raises(OSError, match="power"):
                planned.run()
        assert len(jobs_of(store, "again")) == 6
        done = planned.run()
    assert (done.added, done.existed) == ((20, 0) if recorded else (17, 3))
    assert receivers(jobs_of(store, "again")) == everyone()


def test_of_two_concurrent_replays_one_stops_and_no_job_is_enqueued_twice(spark, store, past, monkeypatch):
    folder, _ = past
    monkeypatch.setattr(replay_module, "BATCH_JOBS", 7)
    with Replay(folder, "true", to=store, queue="again", spark=spark) as planned, pytest.raises(ReplayConflict):
        planned.run(on_progress=lambda _: planned.run())
    assert receivers(jobs_of(store, "again")) == everyone()


def test_jobs_without_a_payload_are_counted_and_left_out(spark, store, tmp_path):
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


def test_a_replay_of_a_store_does_not_select_its_own_jobs(spark, store, url):
    work(store)
    done = replay(url, "type = 'mail' and payload like '%u%'", to=store, replay_id="r", spark=spark)
    assert done.added == 6  # not the waiting job
    while reservations := store.reserve(["mail"], limit=100, lease_for=MINUTE):
        for each in reservations:
            ack(store, each.lease)
    with Replay(url, "type = 'mail'", to=store, replay_id="r", spark=spark) as planned:
        assert planned.preview.chosen == 7
        assert {group.state: group.count for group in planned.preview.groups} == {"dead": 3, "done": 4}


def test_an_invalid_condition_is_refused_with_the_names_of_the_columns(spark, store, past):
    folder, _ = past
    for where in ("colour = 'red'", "state =", "count(*) > 1", "attempts + 1", "x" * 10_001):
        with pytest.raises(InvalidInput, match="where: wanted") as caught:
            Replay(folder, where, to=store, spark=spark)
        assert "dead_reason, error, fingerprint, payload" in str(caught.value) or "characters" in str(caught.value)


def test_the_command_shows_a_preview_asks_and_counts(spark, store, url, past):
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
    result = json.loads(run(*dead, "--yes", "--json", "--rate", "1000/s").stdout)
    assert (result["chosen"], result["added"], result["before"]) == (10, 10, False)
    assert "was finished at" in run(*dead).stdout
    assert len(jobs_of(store, "again")) == 10


def test_a_killed_command_is_continued_by_the_same_command(spark, store, url, past):
    options = ["replay", "--from", past[0], "--where", "true", "--queue", "again", "--yes", "--url", url]
    command = [sys.executable, "-m", "holdfast", *options, "--rate", "10/s", "--master", "local[1]"]
    running = subprocess.Popen(command, start_new_session=True)
    deadline = time.monotonic() + 240
    while len(jobs_of(store, "again")) < 5:
        assert running.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.02)
    os.killpg(running.pid, signal.SIGKILL)
    running.wait()
    assert 5 <= len(jobs_of(store, "again")) < 20
    ran = CliRunner().invoke(root, [*options, "--json"])
    assert ran.exit_code == 0, ran.stderr
    result = json.loads(ran.stdout)
    assert result["added"] + result["existed"] == 20
    assert receivers(jobs_of(store, "again")) == everyone()
