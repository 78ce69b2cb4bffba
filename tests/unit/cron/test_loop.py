"""The loop of a scheduler: it survives failures, enqueues what has no queue, and stops at once."""

from __future__ import annotations

import threading
from dataclasses import replace

import pytest

from holdfast.app import Holdfast
from holdfast.connect import connect
from holdfast.cron.runner import CronRunner, CronTiming
from holdfast.drivers.capabilities import Feature
from holdfast.errors import StoreUnavailable, Unsupported
from holdfast.model.filters import JobFilter
from tests.unit.cron.crashing_store import CrashingStore
from tests.waiting import wait_until


@pytest.fixture
def real_store():
    with connect("memory://") as store:
        yield store


@pytest.fixture
def start():
    """A function that runs a loop in a thread; it is stopped at the end."""
    stop = threading.Event()
    threads = []

    def run(runner):
        thread = threading.Thread(target=runner.run_loop, args=(stop,))
        thread.start()
        threads.append(thread)
        return stop, thread

    yield run
    stop.set()
    for thread in threads:
        thread.join(60)


def make_app(store) -> Holdfast:
    app = Holdfast(driver=store)

    @app.handler("tick", queue="ticks")
    def tick(_payload):
        pass

    app.cron("tick").expression("* * * * * *").run(tick, None)
    return app


def test_a_schedule_without_a_queue_is_enqueued_to_the_queue_of_its_handler(real_store, start):
    stop, thread = start(CronRunner(make_app(real_store)))
    [*_, job] = wait_until(lambda: list(real_store.find(JobFilter(type="tick"))))
    assert (job.queue, job.max_attempts) == ("ticks", 25)
    stop.set()
    thread.join(60)
    assert not thread.is_alive()


def test_an_outage_of_the_store_is_logged_once_and_ends_nothing(real_store, start, events):
    class Failing(CrashingStore):
        is_down = False

        def do(self, request):
            if self.is_down and request.verb in ("scan", "write", "read"):
                raise StoreUnavailable("the network is down")
            return super().do(request)

    store = Failing(real_store)
    start(CronRunner(make_app(store), timing=CronTiming(failure_seconds=0.01)))
    wait_until(lambda: list(real_store.find(JobFilter())))
    store.is_down = True
    wait_until(lambda: events.named("scheduler.waiting"))
    before = len(list(real_store.find(JobFilter())))
    store.is_down = False
    wait_until(lambda: len(list(real_store.find(JobFilter()))) > before)
    assert len(events.named("scheduler.waiting")) == 1


def test_an_unexpected_failure_ends_no_scheduler(real_store, start, monkeypatch, events):
    runner = CronRunner(make_app(real_store), timing=CronTiming(max_sleep_seconds=0.01))
    monkeypatch.setattr(runner, "_tick", lambda *_: 1 / 0)
    start(runner)
    wait_until(lambda: len(events.named("scheduler.failed")) > 2)


def test_a_store_without_a_registry_has_no_schedules(real_store):
    class WithoutRegistry(CrashingStore):
        @property
        def capabilities(self):
            return replace(self.store.capabilities, gaps={Feature.REGISTRY: "a test"})

    app = make_app(WithoutRegistry(real_store))
    with pytest.raises(Unsupported, match="schedules"):
        CronRunner(app)
    with pytest.raises(Unsupported, match="schedules"):
        app.worker(cron=True)
    app.worker()  # has no scheduler
