"""Limits by key as users set them: handlers, requests, settings, and a handler that pauses the key of its job."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from datetime import timedelta

import pytest

from holdfast import Holdfast, QueueSettings, Retry
from holdfast.clock import MINUTE, ManualClock
from holdfast.drivers.capabilities import Feature
from holdfast.drivers.requests import Configure, Settings
from holdfast.errors import InvalidInput
from holdfast.model.limit_proposal import LimitProposal, QueueLimits
from holdfast.model.queue_settings import LimitOrigin
from tests.in_memory import InMemory


@dataclass
class Page:
    host: str
    status: int = 200


@pytest.fixture
def clock():
    return ManualClock()


@pytest.fixture
def app(clock):
    app = Holdfast(driver=InMemory(clock), clock=clock)
    yield app
    app.close()


def limit_keys(app: Holdfast) -> list[str | None]:
    return [job.limit_key for job in app.driver.find().items]


@pytest.mark.parametrize(
    ("source", "wanted"),
    [("host", "a.example"), ("status", "200"), (lambda page: page.host.upper(), "A.EXAMPLE"), (lambda _: None, None)],
)
def test_the_limit_key_of_a_handler_is_a_field_or_a_function_of_the_payload(app, source, wanted):
    @app.handler("fetch", limit_key=source)
    def fetch(page: Page) -> None: ...

    fetch.enqueue(Page("a.example"))
    app.enqueue("fetch", {"host": "a.example"})
    fetch.enqueue_many([Page("a.example"), {"host": "a.example"}])
    assert limit_keys(app) == [wanted] * 4


def test_async_callers_have_the_same_limit_keys(app):
    @app.handler("fetch", limit_key="host")
    def fetch(page): ...

    async def enqueue() -> None:
        await fetch.aenqueue({"host": "a"})
        await fetch.aenqueue_many({"host": host} for host in ("b", "c"))

    asyncio.run(enqueue())
    assert limit_keys(app) == ["a", "b", "c"]


def test_an_option_replaces_the_limit_key_of_the_handler(app):
    @app.handler("fetch", limit_key="host")
    def fetch(page): ...

    fetch.enqueue({"host": "a"}, limit_key="other")
    fetch.enqueue_many([{}, {}], limit_key=None)
    assert limit_keys(app) == ["other", None, None]


def test_enqueue_middleware_sees_the_limit_key_and_may_be_called_twice(app):
    @app.handler("fetch", limit_key="host")
    def fetch(page): ...

    @app.enqueue_middleware
    def store_twice(requests, call_next):
        call_next(requests)
        return call_next(requests)

    fetch.enqueue({"host": "a"})
    fetch.enqueue_many([{"host": "b"}, {"host": "c"}])
    assert limit_keys(app) == ["a", "a", "b", "c", "b", "c"]


@pytest.mark.parametrize("payload", [{}, {"host": ""}, {"host": 1.5}, {"host": "a" * 257}, {"host": True}])
def test_a_payload_without_a_usable_limit_key_is_refused_at_enqueue(app, payload):
    @app.handler("fetch", limit_key="host")
    def fetch(page): ...

    with pytest.raises(InvalidInput, match="limit_key"):
        fetch.enqueue(payload)
    assert limit_keys(app) == []


def test_a_limit_key_that_is_no_field_and_no_function_is_refused(app):
    with pytest.raises(InvalidInput, match="limit_key"):
        app.handler("fetch", limit_key=7)


def test_a_handler_pauses_the_key_of_its_job(app, clock):
    @app.handler("fetch", limit_key="host")
    def fetch(page: Page) -> None:
        if page.status == 429:
            raise Retry(after=timedelta(minutes=1), reason="429", pause_key=True)

    fetch.enqueue_many([Page("a", 429), Page("a"), Page("b")])
    worker = app.worker()
    assert [worker.process_once().status for _ in range(3)] == ["retried", "acked", "empty"]
    clock.advance(MINUTE)
    assert worker.process_once().status == "acked"


def test_a_pause_of_a_key_crosses_the_pipe_of_a_child(tmp_path):
    app = Holdfast(f"sqlite:///{tmp_path}/jobs.db")

    @app.handler("fetch", limit_key="host")
    def fetch(page: Page) -> None:
        if page.status == 429:
            raise Retry(after=timedelta(hours=1), reason="429", pause_key=True)

    app.driver.do(Configure(queue="default", settings=QueueSettings(key_max_inflight=1)))
    busy, waiting, other = [one.id for one in fetch.enqueue_many([Page("a", 429), Page("a"), Page("b")])]
    assert app.worker(processes=1, max_jobs=2).run() == {"retried": 1, "acked": 1}
    app.driver.do(
        Configure(queue="default", settings=QueueSettings(), only=("max_inflight",))
    )  # another setting: the hold stays
    assert app.driver.reserve(["default"], limit=9, lease_for=MINUTE) == []
    assert [app.driver.get(job).state for job in (busy, waiting, other)] == ["ready", "ready", "done"]
    app.close()


def test_a_store_without_key_limits_ignores_the_pause(clock):
    app = Holdfast(driver=InMemory(clock, declined={Feature.LIMIT_KEY}), clock=clock)

    @app.handler("fetch")
    def fetch(page: Page) -> None:
        if page.status == 429:
            raise Retry(after=timedelta(minutes=1), reason="429", pause_key=True)

    fetch.enqueue_many([Page("a", 429), Page("a")])
    worker = app.worker()
    assert [worker.process_once().status for _ in range(2)] == ["retried", "acked"]
    app.close()


def test_a_pause_needs_a_length():
    with pytest.raises(InvalidInput, match="pause_key: wanted a length"):
        Retry(pause_key=True)


def test_a_worker_proposes_the_key_limits_of_the_settings(app):
    app.handler("fetch")(lambda _: None)
    limits = QueueLimits(key_max_inflight=2, key_rate=10, key_burst=5)
    proposal = LimitProposal(queue="default", limits=limits, origin=LimitOrigin.SETTINGS)
    app.worker(queue_limits=(proposal,)).process_once()
    assert app.driver.do(Settings(queue="default")) == proposal.as_settings()
    lower = LimitProposal(queue="default", limits=QueueLimits(max_inflight=7), origin=LimitOrigin.SETTINGS)
    app.worker(queue_limits=(lower,)).process_once()
    assert app.driver.do(Settings(queue="default")) == lower.as_settings()
