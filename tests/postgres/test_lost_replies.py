"""A call that is repeated because its reply was lost leaves the same state as one call."""

from dataclasses import replace

import pytest

import holdfast
from holdfast.clock import DAY, SECOND
from holdfast.drivers.contract import Change, QueueSettings
from holdfast.errors import StoreUnavailable
from holdfast.model.job_batch import JobBatch
from holdfast.model.lease import Note
from holdfast.model.settlement import Ack, Fail, Release, Retry
from tests.postgres.conftest import NOW
from tests.postgres.proxy import LosingProxy

LATER = NOW + 60 * SECOND


def state_of(store):
    """The whole state of a store, without fences: they differ from lease to lease."""
    jobs = [replace(store.inspect(one.id), fence=None) for one in store.find(limit=1000).items]
    rows = [replace(row, fence=None) for row in store.ledger().items]
    return jobs, rows, store.counts(now=LATER), store.settings("q"), store.scan("kind", now=LATER)


def reserve_some(store, job, count=4):
    store.enqueue([job(id=f"held-{number}") for number in range(count)], now=NOW)
    return [one.lease for one in store.reserve(["q"], limit=count, lease_for=30 * SECOND, now=NOW)]


def reserve_and_reap(store, job):
    leases = reserve_some(store, job)
    store.reap(now=LATER)
    return leases


def one_settlement_of_each_verb(store, job):
    first, second, third, fourth = reserve_some(store, job)
    write = Change(kind="kind", key="k", value=b"1", version=0)
    return [Ack(first, writes=(write,)), Retry(second, delay=5), Fail(third, reason="no"), Release(fourth)]


def make_dead_jobs(store, job):
    store.settle([Fail(lease, reason="no") for lease in reserve_some(store, job)], now=NOW)
    return [f"held-{number}" for number in range(4)]


# verb -> the preparation, and the call that gets what the preparation returned
CALLS = {
    "enqueue": (lambda _, j: [j(id=f"e{n}", domain="d") for n in range(3)], lambda s, x: s.enqueue(x, now=NOW)),
    "enqueue by COPY": (
        lambda _, j: [j(id=f"e{n:03}", domain="d") for n in range(600)],
        lambda s, x: s.enqueue(x, now=NOW),
    ),
    "enqueue with keys": (
        lambda _, j: [j(id=f"e{n}", idempotency_key=f"k{n % 2}") for n in range(3)],
        lambda s, x: s.enqueue(x, now=NOW),
    ),
    "enqueue with leases": (
        lambda _, j: JobBatch(j(), [f"e{n:03}" for n in range(600)], [b"{}"] * 600, [f"k{n}" for n in range(600)]),
        lambda s, x: s.enqueue_leased(x, lease_for=30 * SECOND, worker="w", now=NOW),
    ),
    "extend": (
        reserve_some,
        lambda s, x: s.extend(x, lease_for=90 * SECOND, notes={"held-0": Note(progress=b"1")}, now=NOW + 1),
    ),
    "settle acks": (reserve_some, lambda s, x: s.settle([Ack(lease) for lease in x], now=NOW + 1)),
    "settle": (one_settlement_of_each_verb, lambda s, x: s.settle(x, now=NOW + 1)),
    "reap": (reserve_some, lambda s, _: s.reap(now=LATER)),
    "report_outage": (reserve_some, lambda s, x: s.report_outage(x, now=LATER)),
    "report_outage after a reap": (reserve_and_reap, lambda s, x: s.report_outage(x, now=LATER)),
    "cancel": (lambda s, j: s.enqueue([j(id="c")], now=NOW), lambda s, _: s.cancel(["c", "unknown"], now=NOW + 1)),
    "requeue": (make_dead_jobs, lambda s, x: s.requeue(x, now=NOW + 1)),
    "purge": (make_dead_jobs, lambda s, x: s.purge(x, now=NOW + 1)),
    "configure": (lambda *_: None, lambda s, _: s.configure("q", QueueSettings(max_inflight=3))),
    "write": (
        lambda *_: None,
        lambda s, _: s.write([Change(kind="kind", key="k", value=b"1", version=0)], now=NOW),
    ),
    "trim": (make_dead_jobs, lambda s, _: s.trim(ledger_for=DAY, now=NOW + 2 * DAY)),
}
# The others would answer differently.
REPEATED_BY_THE_DRIVER = set(CALLS) - {
    *("requeue", "purge", "write", "report_outage", "report_outage after a reap"),
}


@pytest.fixture
def proxied(postgres_database):
    url = postgres_database()
    head, port = url.rsplit("/", 1)[0].rsplit(":", 1)
    proxy = LosingProxy(int(port))
    yield url, f"{head}:{proxy.port}/{url.rsplit('/', 1)[1]}?listen=off", proxy
    proxy.close()


def without_versions(state):
    """Remove registry versions: a number is never used twice."""
    jobs, rows, counts, settings, entries = state
    return jobs, rows, counts, settings, [replace(entry, version=0) for entry in entries]


@pytest.mark.parametrize("verb", CALLS)
@pytest.mark.parametrize("repeated_by", ["the driver", "the caller"])
def test_the_state_is_the_same_as_without_a_loss(proxied, job, verb, repeated_by):
    direct, through, proxy = proxied
    prepare, call = CALLS[verb]
    reference = holdfast.connect(direct, space="reference", caller_clock=True)
    call(reference, prepare(reference, job))

    patience = 15 if repeated_by == "the driver" else 0
    store = holdfast.connect(f"{through}&patience={patience}", caller_clock=True)
    prepared = prepare(store, job)
    proxy.lose_next()
    if repeated_by == "the driver" and verb in REPEATED_BY_THE_DRIVER:
        call(store, prepared)
    else:
        with pytest.raises(StoreUnavailable):
            call(store, prepared)
        call(store, prepared)
    assert proxy.lost == 1
    assert without_versions(state_of(store)) == without_versions(state_of(reference))
    store.close()
    reference.close()


def test_a_reserve_whose_reply_was_lost_is_not_repeated(proxied, job):
    """Nobody knows the leases that it granted, and they expire. A repeated call would lease more jobs."""
    _, through, proxy = proxied
    store = holdfast.connect(through, caller_clock=True)
    store.enqueue([job() for _ in range(3)], now=NOW)
    proxy.lose_next()
    with pytest.raises(StoreUnavailable):
        store.reserve(["q"], limit=2, lease_for=10, now=NOW)
    assert store.counts(now=NOW)[0].inflight == 2
    assert len(store.reserve(["q"], limit=9, lease_for=10, now=NOW)) == 1
    assert len(store.reserve(["q"], limit=9, lease_for=10, now=NOW + 10)) == 3
    store.close()
