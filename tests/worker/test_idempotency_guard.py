"""The idempotency guard (L12): work that was finished is not done again, work that was not finished is."""

import signal
import subprocess
import sys
from datetime import timedelta

import pytest

from holdfast import Holdfast, QueueSettings, connect
from holdfast.clock import SECOND, ManualClock
from holdfast.drivers.requests import Configure, Read, Reap, Scan, Write
from holdfast.errors import StoreBusy
from holdfast.model.registry import Change
from holdfast.model.settlement import Ack
from holdfast.testing.inline import Inline
from holdfast.wire.guard_entries import LOCK_KIND, MARK_KIND, Holder, is_done, mark_key
from holdfast.worker.guard import Guard
from holdfast.worker.options import WorkerOptions
from holdfast.worker.processes.running import Run
from tests.requests_seen import answer_requests
from tests.worker import crash_points
from tests.worker.crash_points import LEASE, NAME, POINTS, make_app, plant


class Killed(BaseException):
    """The process ends here."""


@pytest.fixture
def clock():
    return ManualClock(1_800_000_000 * SECOND)


@pytest.fixture
def app(clock):
    store = connect("memory://", clock=clock)
    store.do(
        Configure(queue="default", settings=QueueSettings(dedupe_window=1))
    )  # the next job may have the key of a done one
    app = Holdfast(driver=store, clock=clock)
    yield app
    app.close()


def last_row(store):
    return store.ledger().items[-1]


def test_a_job_whose_key_is_done_is_skipped_until_the_ttl_has_passed(app, clock):
    calls = []
    task = app.handler("t", idempotent=True, idempotency_ttl=timedelta(hours=1))(calls.append)
    worker = app.worker()
    first = task.enqueue(1, idempotency_key="k")
    assert worker.process_once().status == "acked"
    clock.advance(SECOND)
    second = task.enqueue(2, idempotency_key="k")
    assert not second.existed
    assert worker.process_once().status == "skipped"
    row = last_row(app.driver)
    assert (row.job_id, row.ending, row.state) == (second.id, "acked", "done")
    assert row.detail == f"skipped: its idempotency key is done, by job {first.id}"
    assert app.client.result(second.id) is None
    clock.advance(3600 * SECOND)
    task.enqueue(3, idempotency_key="k")
    assert worker.process_once().status == "acked"
    assert calls == [1, 3]


def test_keys_of_another_queue_or_without_the_guard_are_their_own(app, clock):
    calls = []
    guarded = app.handler("guarded", idempotent=True)(calls.append)
    plain = app.handler("plain", idempotent=False)(calls.append)
    app.driver.do(Configure(queue="other", settings=QueueSettings(dedupe_window=1)))
    worker = app.worker(queues=("default", "other"), idempotent=True)  # of the app; a handler may say no
    for task, queue in [(guarded, "default"), (guarded, "other"), (plain, "default"), (plain, "default")]:
        task.enqueue(1, idempotency_key="k", queue=queue)
        assert worker.process_once().status == "acked"
        clock.advance(SECOND)
    for _ in range(2):  # no key, or a key that ``unique`` frees: every job runs
        guarded.enqueue(1)
        assert worker.process_once().status == "acked"
        guarded.enqueue(1, unique="while_open")
        assert worker.process_once().status == "acked"
    assert len(calls) == 8


def test_a_failed_attempt_leaves_the_key_to_the_next_one(app, clock):
    calls = []

    @app.handler("t", idempotent=True)
    def work(payload):
        calls.append(payload)
        if len(calls) == 1:
            raise ValueError(payload)

    work.enqueue(1, idempotency_key="k")
    with app.using(app.driver, clock=clock):
        assert Inline(app, clock).drain(advance=True) == {"retried": 1, "acked": 1}


def test_the_test_kit_crashes_before_the_ack_as_a_worker_does(app, clock):
    calls = []
    task = app.handler("t", idempotent=True)(calls.append)
    task.enqueue(1, idempotency_key="k")
    with app.using(app.driver, clock=clock):
        assert Inline(app, clock).crash_before_ack().status == "acked"
    assert calls == [1, 1]


def mark(app, key, job_id, *, fence=1, done=False):
    value = Holder(job_id=job_id, fence=fence, done=done).encode()
    [written] = app.driver.do(Write(changes=[Change(kind=MARK_KIND, key=mark_key("default", key), value=value)]))
    return written


def test_a_mark_of_a_running_job_releases_and_one_of_an_ended_job_is_taken_over(app, clock):
    seen = []

    @app.handler("holder")
    def hold(_payload, ctx):
        mark(app, "k", ctx.job.id, fence=ctx.fence)
        seen.append(app.worker().process_once().status)  # the other job
        return seen[-1]

    calls = []
    work = app.handler("t", idempotent=True)(calls.append)
    holder = hold.enqueue(None)
    job = work.enqueue(1, idempotency_key="k")
    assert app.worker().process_once().status == "acked"
    assert (seen, calls) == (["released"], [])
    record = app.client.get(job.id)
    assert (record.state, record.attempts) == ("ready", 0)
    row = next(row for row in app.driver.ledger().items if row.job_id == job.id)
    assert row.detail == f"its idempotency key is held by job {holder.id}"
    clock.advance(10 * SECOND)
    assert app.worker().process_once().status == "acked"  # the holder is done, and did not finish this work
    assert calls == [1]


def test_a_stale_attempt_does_not_take_the_mark_of_a_newer_one(app):
    task = app.handler("t", idempotent=True)(lambda payload: payload)
    job = task.enqueue(1, idempotency_key="k")
    [stale] = app.driver.reserve(["default"], limit=1, lease_for=3600 * SECOND, worker="stale")
    app.driver.do(Reap(worker="stale"))
    [newer] = app.driver.reserve(["default"], limit=1, lease_for=3600 * SECOND)
    guard = Guard(app.driver, app.catalogue, WorkerOptions())
    run = Run(1, newer)
    assert guard.admit([run]) == ([run], [])
    admitted, [(_, outcome)] = guard.admit([Run(2, stale)])
    assert (admitted, outcome.reason) == ([], f"its idempotency key is held by job {job.id}")
    assert guard.settle([run], guard.add_writes([run], [Ack(newer.lease)])) == [None]
    assert is_done(app.driver.do(Read(kind=MARK_KIND, keys=[mark_key("default", "k")]))[0])


def test_a_batch_with_one_key_runs_one_of_its_jobs(app):
    task = app.handler("t", idempotent=True, single_instance=True)(lambda payload: payload)
    for number in range(3):
        task.enqueue(number, idempotency_key=f"k{number}")
    task.enqueue(3)
    reservations = app.driver.reserve(["default"], limit=9, lease_for=3600 * SECOND)
    guard = Guard(app.driver, app.catalogue, WorkerOptions())
    runs = [Run(number, one) for number, one in enumerate(reservations)]
    admitted, refused = guard.admit(runs)
    assert (admitted, [run for run, _ in refused]) == (runs[:1], runs[1:])
    assert {type(outcome).__name__ for _, outcome in refused} == {"Snoozed"}


def test_an_ack_whose_mark_another_one_took_is_done_without_it(app):
    @app.handler("t", idempotent=True)
    def work(_payload):
        mark(app, "k", "another", done=True)
        return "mine"

    job = work.enqueue(1, idempotency_key="k")
    assert app.worker().process_once().status == "acked"
    assert app.client.result(job.id) == "mine"
    assert last_row(app.driver).detail == "done without its guard: another attempt has taken it"


def test_requeue_by_an_operator_clears_the_mark(app, clock):
    calls = []
    task = app.handler("t", idempotent=True)(calls.append)
    job = task.enqueue(1, idempotency_key="k")
    app.client.cancel(job.id)
    mark(app, "k", "another", done=True)
    assert app.client.requeue([job.id, "unknown"]) == [True, False]
    assert app.worker().process_once().status == "acked"
    assert calls == [1]


def test_a_store_that_fails_in_the_guard_releases_the_job(app, monkeypatch):
    calls = []
    task = app.handler("t", idempotent=True)(calls.append)
    task.enqueue(1, idempotency_key="k")

    def fail(*_arguments, **_keywords):
        raise StoreBusy(1.0)

    with monkeypatch.context() as patched:
        answer_requests(patched, app.driver, Write, fail)
        assert app.worker().process_once().status == "released"
    assert app.worker().process_once().status == "acked"
    assert calls == [1]


def test_a_worker_logs_and_counts_a_skipped_job(tmp_path, caplog):
    with connect(f"sqlite:///{tmp_path}/jobs.db") as store:
        app = Holdfast(driver=store)
        task = app.handler("t", idempotent=True)(lambda payload: payload)
        task.enqueue(1, idempotency_key="k")
        mark(app, "k", "another", done=True)
        caplog.set_level("INFO", logger="holdfast.worker")
        assert app.worker(processes=1, until_drained=True).run() == {"skipped": 1}
    [record] = [record for record in caplog.records if getattr(record, "event", "") == "job.skipped"]
    assert record.reason == "its idempotency key is done, by job another"


def check_after_crash(store, point, effects, run_again):
    """The job is done, its work was finished, its lock is gone, and its key skips the next job."""
    lines = effects.read_text().splitlines() if effects.exists() else []
    assert lines == {"reserved": [], "marked": [], "handler": ["begun"]}.get(point, ["begun", "finished"])
    assert run_again() == ("empty" if point == "answer lost" else "acked")
    assert store.do(Scan(kind=LOCK_KIND)) == []
    finished = effects.read_text().splitlines().count("finished")
    assert finished == (2 if point == "finished" else 1)  # at least once, and never skipped
    app = make_app(store, effects)
    store.do(Configure(queue="default", settings=QueueSettings(dedupe_window=1)))
    again = app.enqueue("charge", 2, idempotency_key="k")
    assert not again.existed
    assert app.worker().process_once().status == "skipped"
    assert effects.read_text().splitlines().count("finished") == finished


@pytest.mark.parametrize("point", POINTS)
def test_a_crash_at_each_point_in_memory(point, tmp_path, clock):
    def kill_at(reached):
        if reached == point:
            raise Killed

    with connect("memory://", clock=clock) as store:
        store.do(Configure(queue="default", settings=QueueSettings(dedupe_window=1)))
        effects = tmp_path / "effects"
        app = make_app(store, effects, kill_at)
        app.enqueue("charge", 1, idempotency_key="k")
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(store, "do", store.do)
            plant(store, kill_at)
            with pytest.raises(Killed):
                app.worker(lease=LEASE).process_once()
        clock.advance(int(LEASE.total_seconds()) * SECOND)
        alive = make_app(store, effects)
        check_after_crash(store, point, effects, lambda: alive.worker().process_once().status)


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request, tmp_path):
    return (
        f"sqlite:///{tmp_path}/jobs.db" if request.param == "sqlite" else request.getfixturevalue("postgres_database")()
    )


@pytest.mark.parametrize("point", [*POINTS, "worker"])
def test_a_process_that_is_killed_at_each_point(point, url, tmp_path):
    effects = tmp_path / "effects"
    with connect(url) as store:
        store.do(Configure(queue="default", settings=QueueSettings(dedupe_window=1)))
        app = make_app(store, effects)
        app.enqueue("charge", 1, idempotency_key="k")
        killed = subprocess.run(
            [sys.executable, crash_points.__file__, url, point, str(effects)], timeout=120, check=False
        )
        assert killed.returncode == -signal.SIGKILL
        store.do(Reap(worker=NAME))
        reached = "handler" if point == "worker" else point
        check_after_crash(store, reached, effects, lambda: app.worker().process_once().status)
