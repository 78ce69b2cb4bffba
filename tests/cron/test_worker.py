"""A scheduler beside a worker, and inline runs in a child process."""

import threading
import time
from datetime import UTC, datetime, timedelta

import pytest

from holdfast import Holdfast
from holdfast.cron.reports import FireStatus
from holdfast.cron.runner import CronRunner
from holdfast.cron.worker_thread import CronThread
from holdfast.errors import InvalidInput
from holdfast.model.filters import JobFilter
from holdfast.model.job import State
from holdfast.worker.guard import Guard
from holdfast.worker.processes.running import Run
from tests.waiting import wait_until

SIX = datetime(2026, 5, 4, 6, tzinfo=UTC)
MINUTE = timedelta(minutes=1)


@pytest.fixture
def app(tmp_path):
    app = Holdfast(f"sqlite:///{tmp_path}/jobs.db")
    yield app
    app.close()


@pytest.fixture
def in_background():
    """Runs a worker in a thread, and stops it at the end of the test."""
    started = []

    def run(worker):
        worker.prepare()
        thread = threading.Thread(target=worker.run)
        thread.start()
        started.append((worker, thread))
        return thread

    yield run
    for worker, thread in started:
        worker.stop(at_once=True)
        thread.join(60)


def cron_threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "holdfast-cron"]


def done(app, type_) -> list:
    return [job for job in app.driver.find(JobFilter(type=type_)) if job.state is State.DONE]


def test_a_worker_fires_the_schedules_of_its_app_until_it_stops(app, in_background):
    @app.handler("tick", cron="* * * * * *")
    def tick(_payload):
        pass

    worker = app.worker(processes=1)
    thread = in_background(worker)
    wait_until(lambda: done(app, "tick"))
    [scheduler] = cron_threads()
    worker.stop()
    thread.join(60)
    assert not thread.is_alive()
    assert not scheduler.is_alive()
    jobs = list(app.driver.find(JobFilter(type="tick"), limit=1000))
    assert len({job.idempotency_key for job in jobs}) == len(jobs)
    assert {job.meta["holdfast.schedule"] for job in jobs} == {"tick"}


def test_a_draining_worker_fires_nothing(app, in_background, tmp_path):
    release = tmp_path / "release"

    @app.handler("slow")
    def slow(_payload):
        while not release.exists():
            time.sleep(0.01)

    app.cron("tick").expression("* * * * * *").queue("ticks").run("slow", None)
    slow.enqueue()
    worker = app.worker(processes=1)
    thread = in_background(worker)
    wait_until(lambda: worker.running and app.driver.counts(["ticks"]))
    worker.stop()
    wait_until(lambda: not cron_threads())
    assert thread.is_alive()  # it waits for the slow job
    release.touch()
    thread.join(60)
    assert not thread.is_alive()


def test_a_worker_has_a_scheduler_if_the_app_has_schedules_and_it_does_not_only_drain(app):
    app.handler("report")(lambda _payload: None)

    def has_scheduler(**options):
        observers = app.worker(processes=1, **options)._observers._observers
        return any(isinstance(each, CronThread) for each in observers)

    assert not has_scheduler()
    assert has_scheduler(cron=True)  # for dynamic schedules
    app.cron("daily").daily().run("report", None)
    assert has_scheduler()
    assert not has_scheduler(cron=False)
    assert not has_scheduler(until_drained=True)
    assert not has_scheduler(max_jobs=1)
    assert has_scheduler(until_drained=True, cron=True)


def test_schedules_that_are_wrong_are_an_error_before_the_worker_starts(app):
    app.handler("report")(lambda _payload: None)
    app.cron("a").daily().depends_on("b").run("report", None)
    with pytest.raises(InvalidInput, match="depends_on"):
        app.worker()


def test_an_inline_run_is_one_attempt_in_a_child_which_its_timeout_interrupts(app):
    @app.handler("hang")
    def hang(_payload):
        time.sleep(600)

    @app.handler("work")
    def work(payload):
        return payload

    app.cron("stuck").every_minute().timeout(timedelta(milliseconds=200)).run(hang, None)
    app.cron("after").every_minute().depends_on("stuck").run(work, 1)
    app.cron("other").every_minute().run(work, 2)
    fired = {one.schedule: one for one in CronRunner(app).run(now=SIX)}
    assert {name: one.status for name, one in fired.items()} == {
        "stuck": FireStatus.FAILED,
        "after": FireStatus.BLOCKED,
        "other": FireStatus.DONE,
    }
    assert "timed out" in fired["stuck"].error
    stuck = app.client.get(fired["stuck"].job_id)
    assert (stuck.state, stuck.attempts) == (State.DEAD, 1)
    assert app.client.result(fired["other"].job_id) == 2


def test_a_single_instance_that_is_held_releases_an_inline_run(app):
    """The lock is held by a job in flight: the inline run does not wait for it."""

    @app.handler("work", single_instance=True, queue="work")
    def work(_payload):
        pass

    app.cron("held").every_minute().single_instance("lock").run(work, None)
    work.enqueue(None, single_instance="lock")
    [reservation] = app.driver.reserve(["work"], limit=1, lease_for=600_000_000)
    worker = app.worker(queues=("work",))
    admitted, _ = Guard(app.driver, worker.catalogue, worker.options).admit([Run(1, reservation)])
    assert admitted
    [fired] = CronRunner(app).run(now=SIX)
    assert fired.status is FireStatus.RELEASED
    assert app.client.get(fired.job_id).state is State.READY
