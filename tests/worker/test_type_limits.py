"""Limits of handlers and settings, circuit breakers, and pauses that handlers ask for, in real workers."""

import logging
import threading
from dataclasses import replace
from datetime import timedelta

import pytest

from holdfast import Client, JobRequest, QueueSettings, Retry, Unrecoverable, Worker, WorkerOptions, connect
from holdfast.app import Holdfast
from holdfast.clock import MINUTE, SECOND, ManualClock
from holdfast.drivers.requests import Configure, Settings, Settle
from holdfast.model.limit_proposal import LimitProposal, QueueLimits
from holdfast.model.queue_settings import TYPE_LIMIT_FIELDS, LimitOrigin
from holdfast.model.retry import NoDelay
from holdfast.observability.metrics import InMemoryMetrics
from holdfast.observability.store_gauges import StoreGauges
from holdfast.worker.breaker import BreakerRule
from holdfast.worker.job_source import StoreJobSource
from holdfast.worker.limit_proposals import propose_limits
from holdfast.worker.observer import WorkerObserver
from holdfast.worker.type_holds import read_breakers
from tests.requests_seen import answer_requests
from tests.waiting import wait_until
from tests.worker.conftest import KEEP_RESERVED

COOLDOWN = timedelta(minutes=1)


@pytest.fixture
def clock():
    return ManualClock()


@pytest.fixture
def store(clock, tmp_path):
    with connect(f"sqlite:///{tmp_path}/jobs.db", clock=clock) as store:
        yield store


@pytest.fixture
def app(store, clock):
    return Holdfast(driver=store, clock=clock)


def limits_of(store, queue="default", type=None) -> QueueLimits:
    return QueueLimits.of(store.do(Settings(queue=queue, type=type)))


def events(caplog, prefix) -> list[str]:
    return [record.event for record in caplog.records if record.event.startswith(prefix)]


# Limits -----------------------------------------------------------------------------------------------------


def test_the_limits_of_a_handler_are_in_force_before_its_first_job(app, store):
    running = []

    @app.handler("mail.send", queue="mail", rate="120/m", burst=3, max_inflight=1)
    def send(_payload):
        running.append(store.reserve(["mail"], limit=5, lease_for=MINUTE))

    send.enqueue_many(range(3))
    assert app.worker().process_once().status == "acked"
    assert limits_of(store, "mail", "mail.send") == QueueLimits(rate=2.0, burst=3, max_inflight=1)
    assert running == [[]]


def test_the_settings_win_over_the_handler_and_an_operator_over_both(app, store, caplog):
    app.handler("a", rate=5)(lambda _payload: None)
    app.worker().process_once()
    assert limits_of(store, type="a") == QueueLimits(rate=5)

    of_file = LimitProposal(queue="default", type="a", limits=QueueLimits(rate=9), origin=LimitOrigin.SETTINGS)
    app.worker(queue_limits=(of_file,)).process_once()
    app.worker().process_once()  # a worker without the file
    assert limits_of(store, type="a") == QueueLimits(rate=9)

    store.do(Configure(queue="default", settings=QueueSettings(rate=1, paused_until=7), type="a"))
    with caplog.at_level(logging.WARNING, logger="holdfast.worker"):
        app.worker(queue_limits=(of_file,)).process_once()
    assert store.do(Settings(queue="default", type="a")) == QueueSettings(rate=1, paused_until=7)
    assert events(caplog, "limits.") == ["limits.differ", "limits.differ"]  # of the handler, then of the file


def test_a_pause_of_an_operator_stays_when_a_worker_proposes_limits(app, store):
    app.handler("a", max_inflight=2)(lambda _payload: None)
    store.do(Configure(queue="default", settings=QueueSettings(paused_until=10**15), type="a"))
    app.worker().process_once()
    assert store.do(Settings(queue="default", type="a")) == QueueSettings(
        paused_until=10**15, max_inflight=2, limits_from=LimitOrigin.HANDLER
    )


def test_a_later_version_of_the_handler_replaces_its_limits(store, clock):
    for rate in (5, 9):
        app = Holdfast(driver=store, clock=clock)
        app.handler("a", rate=rate)(lambda _payload: None)
        app.worker().process_once()
        assert limits_of(store, type="a") == QueueLimits(rate=rate)


@pytest.mark.parametrize("origin", [LimitOrigin.SETTINGS, LimitOrigin.OPERATOR])
def test_a_worker_that_loses_a_race_replaces_no_limits_of_a_higher_origin(store, caplog, monkeypatch, origin):
    """Another caller sets limits between the look and the proposal of the worker."""
    set_meanwhile = QueueSettings(rate=1, limits_from=origin)

    def lose(request, do):
        do(Configure(queue="q", settings=set_meanwhile, only=TYPE_LIMIT_FIELDS))
        return do(request)

    answer_requests(monkeypatch, store, Configure, lose)
    proposal = LimitProposal(queue="q", limits=QueueLimits(rate=5), origin=LimitOrigin.HANDLER)
    with caplog.at_level(logging.WARNING, logger="holdfast.worker"):
        propose_limits(store, [proposal])
    assert store.do(Settings(queue="q")) == set_meanwhile
    assert events(caplog, "limits.") == ["limits.differ"]


# Breakers ---------------------------------------------------------------------------------------------------


def test_a_breaker_opens_for_every_worker_and_a_probe_closes_it(app, store, clock, caplog):
    is_broken = True

    @app.handler("call", breaker_threshold=2, breaker_cooldown=COOLDOWN, retry=NoDelay())
    def call(_payload):
        if is_broken:
            raise ConnectionError("no answer")

    other_calls = []
    app.handler("other")(other_calls.append).enqueue(1)
    call.enqueue_many(range(3))
    metrics = InMemoryMetrics()
    gauges = StoreGauges(store, metrics)
    first, second = app.worker(name="first"), app.worker(name="second")
    with caplog.at_level(logging.WARNING, logger="holdfast.worker"):
        assert [first.process_once().status for _ in range(4)].count("retried") == 2
        assert other_calls == [1]
        assert second.process_once().status == "empty"
        assert [(one.queue, one.type, one.failures) for one in read_breakers(store)] == [("default", "call", 2)]
        gauges.update()
        assert metrics.value("holdfast_breaker_open", queue="default", type="call") == 1

        clock.advance(MINUTE)
        assert second.process_once().status == "retried"  # the probe of another worker opens it again
        assert first.process_once().status == "empty"

        clock.advance(MINUTE)
        is_broken = False
        [probe] = store.reserve(["default"], limit=3, lease_for=SECOND)
        assert second.process_once().status == "empty"  # one probe at a time
        clock.advance(SECOND)  # the probe is lost with its worker, and the next one is let through
        assert second.process_once().status == "acked"
        gauges.update()
    assert store.do(Settings(queue="default", type="call")) == QueueSettings()
    assert list(read_breakers(store)) == []
    assert metrics.series("holdfast_breaker_open") == [({"queue": "default", "type": "call"}, 0)]
    assert len(store.reserve(["default"], limit=3, lease_for=MINUTE)) == 2
    assert probe.job.type == "call"
    assert events(caplog, "breaker.") == ["breaker.opened", "breaker.opened", "breaker.half_open", "breaker.closed"]


def test_the_breaker_of_the_options_is_for_handlers_that_are_registered_later(store):
    worker = Worker(store, WorkerOptions(breaker=BreakerRule(threshold=1)))

    def fail(_payload):
        raise ConnectionError("no answer")

    worker.register("call", fail, retry=NoDelay())
    Client(store).enqueue(JobRequest(type="call"))
    assert [worker.process_once().status for _ in range(2)] == ["retried", "empty"]
    worker.close()


def test_a_failed_probe_lets_no_other_probe_through(app, store, clock, monkeypatch):
    @app.handler("call", breaker_threshold=1, breaker_cooldown=COOLDOWN, retry=NoDelay())
    def call(_payload):
        raise ConnectionError("no answer")

    call.enqueue_many(range(3))
    taken = []

    def settle_and_reserve(request, do):
        answers = do(request)
        taken.extend(store.reserve(["default"], limit=3, lease_for=SECOND))  # by another worker, at the worst instant
        return answers

    answer_requests(monkeypatch, store, Settle, settle_and_reserve)
    worker = app.worker()
    for _ in range(3):  # the failure that opens it, then two probes
        assert worker.process_once().status == "retried"
        assert taken == []
        clock.advance(MINUTE)


def test_a_type_that_pauses_itself_lets_no_job_through(app, store, monkeypatch):
    @app.handler("fetch")
    def fetch(_payload):
        raise Retry(after=timedelta(seconds=30), pause_type=True)

    fetch.enqueue_many(range(3))
    taken = []

    def settle_and_reserve(request, do):
        answers = do(request)
        taken.extend(store.reserve(["default"], limit=3, lease_for=SECOND))
        return answers

    answer_requests(monkeypatch, store, Settle, settle_and_reserve)
    assert app.worker().process_once().status == "retried"
    assert taken == []


class GreedySource(StoreJobSource):
    """Takes more jobs than the worker can start."""

    def reserve(self, demand):
        return super().reserve(replace(demand, limit=50, prefetch=True))


class ReleasedJobs(WorkerObserver):
    def __init__(self):
        self.details = []

    def settled(self, settled):
        self.details += [one.settlement.detail for one in settled if one.status == "released"]


@pytest.mark.parametrize("payload", ["fail", "pause"])
def test_jobs_that_were_taken_ahead_are_given_back_when_their_type_is_held(tmp_path, payload):
    app = Holdfast(f"sqlite:///{tmp_path}/run.db")
    began = tmp_path / "began"

    @app.handler("call", breaker_threshold=1, breaker_cooldown=timedelta(hours=1))
    def call(payload):
        with began.open("a") as file:
            file.write(f"{payload}\n")
        if payload == "fail":
            raise ConnectionError("no answer")
        if payload == "pause":
            raise Retry(after=timedelta(hours=1), pause_type=True)
        wait_until((tmp_path / "released").exists)

    app.handler("other")(lambda _payload: None)
    first = call.enqueue(payload)
    others = call.enqueue_many(range(20))
    healthy = app.client.enqueue([JobRequest(type="other") for _ in range(20)])
    source = GreedySource(app.driver, ["default"], ["call", "other"], lease_for=15 * SECOND, worker="test")
    released = ReleasedJobs()
    worker = Worker(
        app.driver,
        WorkerOptions(processes=1),
        catalogue=app.catalogue,
        observers=[released],
        source=source,
        timing=KEEP_RESERVED,
    )
    worker.prepare()
    stop = threading.Event()
    thread = threading.Thread(target=worker.run, args=(stop,))
    thread.start()
    try:
        wait_until(lambda: len(released.details) >= 19)
        (tmp_path / "released").touch()
        wait_until(lambda: all(app.client.get(one.id).state == "done" for one in healthy))
    finally:
        (tmp_path / "released").touch()
        stop.set()
        thread.join(60)
    assert set(released.details) == {"not started: its type is held"}
    assert began.read_text().split() in ([payload], [payload, "0"])  # one may begin before the first is settled
    assert {app.client.get(one.id).attempts for one in others[1:]} == {0}
    assert app.client.get(first.id).attempts == 1
    app.close()


def test_releases_bad_payloads_and_unrecoverable_jobs_do_not_count(app, store):
    @app.handler("call", breaker_threshold=1)
    def call(payload: int):
        raise Unrecoverable("no such customer")

    app.client.enqueue(call.definition.request("text"))
    call.enqueue(1)
    worker = app.worker()
    assert [worker.process_once().status for _ in range(2)] == ["rejected", "dead"]
    assert store.do(Settings(queue="default", type="call")) == QueueSettings()


def test_the_limits_and_the_pause_of_an_operator_survive_a_breaker(app, store, clock):
    is_broken = True

    @app.handler("call", retry=NoDelay())
    def call(_payload):
        if is_broken:
            raise ConnectionError

    call.enqueue(1)
    operators = QueueSettings(max_inflight=7, rate=9, burst=4, paused_until=clock.now())
    store.do(Configure(queue="default", settings=operators, type="call"))
    worker = app.worker(breaker=BreakerRule(threshold=1, cooldown=COOLDOWN))
    assert worker.process_once().status == "retried"
    held_until = store.do(Settings(queue="default", type="call")).held_until
    assert held_until == clock.now() + MINUTE
    assert store.do(Settings(queue="default", type="call")).max_inflight == 7
    clock.advance(MINUTE)
    is_broken = False
    assert worker.process_once().status == "acked"
    assert store.do(Settings(queue="default", type="call")) == operators


def test_a_handler_pauses_its_type_for_every_worker(app, store, clock):
    @app.handler("fetch")
    def fetch(_payload, ctx):
        if ctx.attempt == 1:
            raise Retry(after=timedelta(seconds=30), reason="429", pause_type=True)

    fetch.enqueue(1)
    later = fetch.enqueue(2, delay=timedelta(seconds=1))
    assert app.worker().process_once().status == "retried"
    assert store.do(Settings(queue="default", type="fetch")) == QueueSettings(held_until=clock.now() + 30 * SECOND)
    clock.advance(30 * SECOND - 1)
    assert app.worker().process_once().status == "empty"
    clock.advance(1)
    assert app.worker().process_once().job_id == later.id  # no probe: the type runs as before
    with pytest.raises(ValueError, match="pause_type: wanted a length"):
        Retry(pause_type=True)


def test_a_crash_in_a_child_opens_the_breaker_of_a_running_worker(tmp_path, caplog):
    app = Holdfast(f"sqlite:///{tmp_path}/run.db")

    @app.handler("crash", breaker_threshold=1, breaker_cooldown=timedelta(hours=1), max_attempts=2, retry=NoDelay())
    def crash(_payload):
        import os

        os._exit(3)

    crash.enqueue(1)
    stop = threading.Event()
    worker = app.worker(processes=1)
    worker.prepare()
    thread = threading.Thread(target=worker.run, args=(stop,))
    with caplog.at_level(logging.WARNING, logger="holdfast.worker"):
        thread.start()
        try:
            wait_until(lambda: "breaker.opened" in events(caplog, "breaker."))
        finally:
            stop.set()
            thread.join(60)
    assert app.driver.do(Settings(queue="default", type="crash")).probing
    app.close()


class ReserveCounter(WorkerObserver):
    """How often a worker has looked for jobs."""

    calls = 0

    def reserved(self, reservations, seconds):  # noqa: ARG002 - only how often
        self.calls += 1


def test_a_pause_acts_on_all_running_workers_and_resume_too(tmp_path):
    app = Holdfast(f"sqlite:///{tmp_path}/run.db")
    task = app.handler("one")(lambda _payload: None)
    stop = threading.Event()
    looks = [ReserveCounter(), ReserveCounter()]
    workers = [app.worker(processes=1, observers=[look]) for look in looks]
    for worker in workers:
        worker.prepare()
    threads = [threading.Thread(target=worker.run, args=(stop,)) for worker in workers]
    for thread in threads:
        thread.start()
    try:
        first = task.enqueue(1)
        wait_until(lambda: app.client.get(first.id).state == "done")
        app.driver.do(Configure(queue="default", settings=QueueSettings(paused_until=2**52)))
        waiting = task.enqueue_many(range(20))
        before = [look.calls for look in looks]
        wait_until(lambda: all(look.calls > calls + 1 for look, calls in zip(looks, before, strict=True)))
        assert {app.client.get(one.id).attempts for one in waiting} == {0}
        app.driver.do(Configure(queue="default", settings=QueueSettings()))
        wait_until(lambda: all(app.client.get(one.id).state == "done" for one in waiting))
    finally:
        stop.set()
        for thread in threads:
            thread.join(60)
    app.close()
