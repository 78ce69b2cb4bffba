"""A worker that drains its queues does not wait for domains that only an operator or a producer can move."""

import pytest

import holdfast
from holdfast.clock import MINUTE
from holdfast.driver import Ack, Fail, Gaps, JobRecord, OnExhausted, QueueSettings, ResumeAction
from holdfast.drivers.requests import Configure, Resume
from holdfast.worker.job_source import Demand, StoreJobSource


@pytest.fixture
def store():
    with holdfast.connect("memory://") as opened:
        yield opened


def add(store, *ids, domain="d", **fields):
    store.enqueue(
        [JobRecord(id=each, type="t", queue="q", payload=b"", created_at=1, domain=domain, **fields) for each in ids]
    )


def source_of(store):
    return StoreJobSource(store, ["q"], ["t"], lease_for=MINUTE, worker="w")


def test_jobs_of_a_halted_domain_do_not_count(store):
    source = source_of(store)
    store.do(Configure(queue="q", settings=QueueSettings(on_exhausted=OnExhausted.HALT)))
    add(store, "a", "b")
    [reservation] = source.reserve(Demand(limit=10))
    assert not source.is_drained()
    store.settle([Fail(reservation.lease, "never")])
    assert source.is_drained()
    add(store, "c", domain="other")
    assert not source.is_drained()
    [reservation] = source.reserve(Demand(limit=10))
    store.settle([Ack(reservation.lease)])
    store.do(Configure(queue="q", settings=QueueSettings(on_exhausted=OnExhausted.SKIP)))  # the domain stays halted
    assert source.is_drained()
    store.do(Resume(queue="q", domain="d", action=ResumeAction.SKIP))
    assert not source.is_drained()


def test_jobs_that_wait_for_a_missing_offset_for_ever_do_not_count(store):
    source = source_of(store)
    store.do(Configure(queue="q", settings=QueueSettings(gaps=Gaps.WAIT)))
    add(store, "a", offset=1)
    assert source.reserve(Demand(limit=10)) == []
    assert source.is_drained()
    store.do(Configure(queue="q", settings=QueueSettings(gaps=Gaps.WAIT, gap_pass_after=MINUTE)))
    assert not source.is_drained()
