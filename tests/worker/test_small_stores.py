"""A worker does its work on an engine that has the core alone, and without each group and each field."""

import logging
import time
from datetime import timedelta
from threading import Event, Thread

import pytest

from holdfast import Retry, Snooze, Unrecoverable
from holdfast.app import Holdfast
from holdfast.client import Client
from holdfast.cron.store import ScheduleStore
from holdfast.driver import MINUTE, JobRecord
from holdfast.drivers.capabilities import Feature
from holdfast.drivers.requests import Inspect
from holdfast.errors import JobNotDone, Unsupported
from holdfast.model.retry import Fixed
from holdfast.observability.metrics import InMemoryMetrics
from tests.in_memory import CORE_ALONE, InMemory
from tests.waiting import wait_until

SMALL = {**{feature.name.lower(): (feature,) for feature in CORE_ALONE}, "core alone": CORE_ALONE}


def small_app(lacks, **keywords) -> Holdfast:
    """An app on a store in memory. Child processes are allowed: the handlers here use no store."""
    return Holdfast(driver=InMemory(declined=lacks, allows_processes=True), **keywords)


@pytest.fixture
def app():
    app = small_app(CORE_ALONE)
    yield app
    app.close()


def run(app, **keywords):
    worker = app.worker(**{"processes": 2, "concurrency": 2, "lease": timedelta(seconds=2), **keywords})
    return worker.run(until_drained=True)


@pytest.mark.parametrize("lacks", SMALL.values(), ids=SMALL)
def test_a_worker_drains_a_store_that_lacks_something(lacks):
    app = small_app(lacks, metrics=InMemoryMetrics())

    @app.handler("work")
    def work(number: int, ctx) -> int:
        ctx.progress(1, 2)
        ctx.checkpoint = number
        if number % 5 == 4 and ctx.attempt == 1:
            raise Retry(after=timedelta(0), reason="again")
        if number % 5 == 3:
            raise Unrecoverable("never")
        return number

    answers = work.enqueue_many(range(20))
    assert run(app) == {"acked": 16, "retried": 4, "dead": 4}
    states = [app.client.wait(answer.id, timeout=0).state for answer in answers]
    assert (states.count("done"), states.count("dead")) == (16, 4)
    if Feature.RESULT in lacks:
        with pytest.raises(Unsupported, match="results"):
            app.client.result(answers[0].id)
    else:
        assert app.client.result(answers[1].id) == 1
    with pytest.raises(JobNotDone):
        app.client.result(answers[3].id)
    app.close()


def test_a_retry_is_due_at_once_where_the_store_keeps_no_delays(app):
    attempts = app.handler("work", retry=Fixed(timedelta(hours=1)), max_attempts=3)(fail)
    [job] = attempts.enqueue_many([None])
    assert run(app) == {"retried": 2, "dead": 1}
    assert app.client.get(job.id).dead_reason == "attempts exhausted"


def fail(_):
    raise ValueError("no")


def test_a_snooze_keeps_its_lease_until_it_is_over(app):
    @app.handler("work")
    def work(until: float) -> None:
        if time.time() < until:
            raise Snooze(timedelta(milliseconds=200))

    until = time.time() + 0.7
    [job] = work.enqueue_many([until])
    statuses = run(app)
    assert statuses["acked"] == 1
    assert 1 <= statuses["released"] <= 4, "it is not given back again and again"
    assert app.client.get(job.id).attempts == 1, "a snooze is no attempt"


def test_jobs_of_an_unknown_type_do_not_keep_a_worker_from_others(app):
    done = app.handler("work")(lambda _: None)
    unknown = [JobRecord(id=f"new-{n}", type="new", queue="default", payload=b"1", created_at=1) for n in range(20)]
    app.driver.enqueue(unknown)
    jobs = done.enqueue_many(range(5))
    statuses = run(app, queues=("default",))
    assert statuses == {"acked": 5, "released": 20}
    assert {app.client.get(job.id).state for job in jobs} == {"done"}
    left = app.driver.do(Inspect(job_ids=[job.id for job in unknown]))
    assert {(one.job.state, one.job.attempts) for one in left.values()} == {("ready", 0)}, (
        "they wait for a newer worker"
    )


def test_a_worker_that_stops_gives_back_what_it_has(app, caplog):
    caplog.set_level(logging.INFO)
    app.handler("slow")(lambda _: time.sleep(60))
    app.handler("snoozed")(snooze)
    slow, snoozed = (app.tasks[name].enqueue_many([None])[0] for name in ("slow", "snoozed"))
    worker = app.worker(processes=2, lease=timedelta(seconds=1), drain=timedelta(0), grace=timedelta(milliseconds=100))
    stop = Event()
    thread = Thread(target=worker.run, args=(stop,))
    worker.prepare()
    thread.start()
    wait_until(lambda: worker.running == 1 and worker.held == 2)
    expiry = app.driver.do(Inspect(job_ids=[slow.id]))[slow.id].expires_at
    wait_until(lambda: app.driver.do(Inspect(job_ids=[slow.id]))[slow.id].expires_at > expiry)  # a heartbeat
    stop.set()
    thread.join(20)
    assert not thread.is_alive()
    jobs = [app.client.get(job.id) for job in (slow, snoozed)]
    assert [(job.state, job.attempts) for job in jobs] == [("ready", 0), ("ready", 0)]
    [lacks] = [record for record in caplog.records if getattr(record, "event", "") == "store.lacks"]
    assert "the registry" in lacks.getMessage()


def snooze(_):
    raise Snooze(timedelta(hours=1))


def test_nothing_is_taken_ahead_where_the_store_does_not_know_what_has_begun():
    app = small_app([Feature.NOTES])
    app.handler("slow")(lambda _: time.sleep(60))
    app.tasks["slow"].enqueue_many(range(10))
    worker = app.worker(processes=2, drain=timedelta(0), grace=timedelta(milliseconds=100))
    stop = Event()
    worker.prepare()
    thread = Thread(target=worker.run, args=(stop,))
    thread.start()
    wait_until(lambda: worker.running == 2)
    time.sleep(0.3)
    held = worker.held
    stop.set()
    thread.join(20)
    assert held == 2
    app.close()


def test_what_a_small_store_cannot_keep_is_refused_before_it_is_lost(app):
    task = app.handler("work")(lambda _: None)
    for keywords in (
        {"priority": 1},
        {"delay": timedelta(1)},
        {"idempotency_key": "a"},
        {"domain": "d"},
        {"limit_key": "a"},
    ):
        with pytest.raises(Unsupported, match="missing in this test"):
            task.enqueue(1, **keywords)
    with pytest.raises(Unsupported):
        Client(app.driver).cancel("a")
    assert run(app) == {}


def test_a_handler_with_a_guard_is_refused_without_a_registry(app):
    app.handler("work", single_instance=True)(lambda _: None)
    with pytest.raises(Unsupported, match="single_instance"):
        app.worker().prepare()


def test_a_job_with_a_lock_of_its_own_is_a_dead_letter_without_a_registry(app):
    task = app.handler("work")(lambda _: None)
    job = task.enqueue(1, single_instance=True)
    assert run(app) == {"dead": 1}
    assert app.client.get(job.id).dead_reason == "no lock"


def test_one_job_in_this_process(app):
    task = app.handler("work")(lambda number: number)
    task.enqueue(7)
    worker = app.worker()
    assert worker.process_once().status == "acked"
    assert worker.process_once().status == "empty"
    assert app.driver.reserve(["default"], limit=1, lease_for=MINUTE) == []


@pytest.mark.parametrize("lacks", [Feature.REGISTRY, Feature.KEY])
def test_schedules_need_a_registry_and_keys_and_a_worker_goes_on_without_them(lacks):
    app = small_app([lacks])
    task = app.handler("work")(lambda _: None)
    app.cron("nightly").daily(at="03:00").run(task)
    with pytest.raises(Unsupported, match="schedules: missing in this test"):
        ScheduleStore(app.driver)
    task.enqueue(1)
    assert app.worker(processes=1).run(max_jobs=1) == {"acked": 1}
    app.close()
