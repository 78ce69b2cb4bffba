"""Workers log each domain that has stopped once, and read nothing of queues that neither halt nor wait."""

from __future__ import annotations

import logging

import pytest

import holdfast
from holdfast import Client, JobRequest
from holdfast.driver import MINUTE, Fail, Gaps, OnExhausted, QueueSettings, ResumeAction
from holdfast.drivers.requests import Configure, Resume
from holdfast.worker.stopped_domains import StoppedDomainLog, read_stopped_domains

SETTINGS = QueueSettings(gaps=Gaps.WAIT, on_exhausted=OnExhausted.HALT, gap_report_after=1)


@pytest.fixture
def store():
    with holdfast.connect("memory://") as store:
        yield store


@pytest.fixture
def events(caplog):
    """The events that were logged since the last call, each with its fields."""
    caplog.set_level(logging.INFO, "holdfast.worker")

    def take() -> list[tuple[str, str, object]]:
        found = [(one.event, one.domain, getattr(one, "job_id", None) or one.offset) for one in caplog.records]
        caplog.clear()
        return found

    return take


def enqueue(store, domain: str, offset: int) -> str:
    request = JobRequest(type="book", queue="accounts", domain=domain, offset=offset)
    return Client(store).enqueue(request).id


def halt(store, domain: str) -> str:
    job_id = enqueue(store, domain, 0)
    [reservation] = store.reserve(["accounts"], limit=1, lease_for=MINUTE)
    store.settle([Fail(reservation.lease, "no")])
    return job_id


def test_each_stop_is_logged_once(store, events):
    store.do(Configure(queue="accounts", settings=SETTINGS))
    log = StoppedDomainLog(store, ["accounts", "other"])
    log.look()
    assert events() == []
    dead = halt(store, "broken")
    enqueue(store, "gap", 3)
    store.reserve(["accounts"], limit=1, lease_for=MINUTE)
    log.look()
    assert events() == [("domain.halted", "broken", dead), ("domain.gap", "gap", 0)]
    log.look()
    assert events() == []


def test_a_domain_that_halts_again_is_logged_again(store, events):
    store.do(Configure(queue="accounts", settings=SETTINGS))
    log = StoppedDomainLog(store, ["accounts"])
    dead = halt(store, "broken")
    log.look()
    store.do(Resume(queue="accounts", domain="broken", action=ResumeAction.RETRY))
    log.look()
    [reservation] = store.reserve(["accounts"], limit=1, lease_for=MINUTE)
    store.settle([Fail(reservation.lease, "no")])
    log.look()
    assert events() == [("domain.halted", "broken", dead)] * 2


def test_a_gap_that_is_not_overdue_is_no_stop(store):
    store.do(Configure(queue="accounts", settings=QueueSettings(gaps=Gaps.WAIT)))
    enqueue(store, "gap", 3)
    store.reserve(["accounts"], limit=1, lease_for=MINUTE)
    assert list(read_stopped_domains(store).overdue) == []
