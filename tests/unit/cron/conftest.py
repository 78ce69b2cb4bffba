"""Apps with schedules on a store in memory, under a clock that the test moves."""

from __future__ import annotations

import logging
from collections import Counter
from datetime import UTC, datetime

import pytest

from holdfast.app import Holdfast
from holdfast.clock import ManualClock, from_datetime
from holdfast.connect import connect
from holdfast.cron.runner import CronRunner
from holdfast.model.filters import JobFilter

START = datetime(2027, 5, 3, 5, 59, 30, tzinfo=UTC)  # a Monday, half a minute before six


@pytest.fixture
def clock():
    return ManualClock(from_datetime(START))


@pytest.fixture
def store(clock):
    with connect("memory://", clock=clock) as driver:
        yield driver


@pytest.fixture
def make_app(store, clock):
    """A function that returns one more app on the same store, as another process would have it."""
    return lambda: Holdfast(driver=store, clock=clock)


@pytest.fixture
def app(make_app):
    app = make_app()

    @app.handler("report", queue="reports")
    def report(payload):
        return payload

    return app


@pytest.fixture
def runner(app):
    return CronRunner(app)


@pytest.fixture
def fires(store):
    """A function that counts the jobs of all fires, by schedule and instant."""

    def count() -> Counter[tuple[str, str]]:
        jobs = list(store.find(JobFilter(), limit=10_000))
        return Counter((job.meta["holdfast.schedule"], job.meta["holdfast.fire"]) for job in jobs)

    return count


class Events(logging.Handler):
    """The names and fields of the events of a test."""

    def __init__(self) -> None:
        super().__init__()
        self.records: list[logging.LogRecord] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.records.append(record)

    def named(self, event: str) -> list[logging.LogRecord]:
        return [record for record in self.records if getattr(record, "event", None) == event]


@pytest.fixture
def events():
    handler = Events()
    log = logging.getLogger("holdfast.worker")
    before = log.level
    log.setLevel(logging.INFO)
    log.addHandler(handler)
    yield handler
    log.removeHandler(handler)
    log.setLevel(before)
