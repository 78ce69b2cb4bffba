"""A call whose answer was lost, made again, leaves what it would have left at once: by the driver itself or by hand."""

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
    """Everything but the numbers that differ from lease to lease."""
    jobs = [replace(store.inspect(found.id), fence=None) for found in store.find(limit=1000).items]
    rows = [replace(row, fence=None) for row in store.ledger().items]
    return jobs, rows, store.counts(now=LATER), store.settings("q"), store.scan("kind", now=LATER)


def some_held(store, job, count=4):
    store.enqueue([job(id=f"held-{number}") for number in range(count)], now=NOW)
    return [one.lease for one in store.reserve(["q"], limit=count, lease_for=30 * SECOND, now=NOW)]


def endings(store, job):
    first, second, third, fourth = some_held(store, job)
    write = Change(kind="kind", key="k", value=b"1", version=0)
    return [Ack(first, writes=(write,)), Retry(second, delay=5), Fail(third, reason="no"), Release(fourth)]


def dead(store, job):
    store.settle([Fail(lease, reason="no") for lease in some_held(store, job)], now=NOW)
    return [f"held-{number}" for number in range(4)]


# verb -> what is prepared, and the call that is made (again) with it
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
        some_held,
        lambda s, x: s.extend(x, lease_for=90 * SECOND, notes={"held-0": Note(progress=b"1")}, now=NOW + 1),
    ),
    "settle acks": (some_held, lambda s, x: s.settle([Ack(lease) for lease in x], now=NOW + 1)),
    "settle": (endings, lambda s, x: s.settle(x, now=NOW + 1)),
    "reap": (some_held, lambda s, _: s.reap(now=LATER)),
    "cancel": (lambda s, j: s.enqueue([j(id="c")], now=NOW), lambda s, _: s.cancel(["c", "unknown"], now=NOW + 1)),
    "requeue": (dead, lambda s, x: s.requeue(x, now=NOW + 1)),
    "purge": (dead, lambda s, x: s.purge(x, now=NOW + 1)),
    "configure": (lambda *_: None, lambda s, _: s.configure("q", QueueSettings(max_inflight=3))),
    "write": (
        lambda *_: None,
        lambda s, _: s.write([Change(kind="kind", key="k", value=b"1", version=0)], now=NOW),
    ),
    "trim": (dead, lambda s, _: s.trim(ledger_for=DAY, now=NOW + 2 * DAY)),
}
MADE_AGAIN_BY_THE_DRIVER = set(CALLS) - {"requeue", "purge", "write"}  # whose answers would differ the second time


@pytest.fixture
def proxied(postgres_database):
    url = postgres_database()
    head, port = url.rsplit("/", 1)[0].rsplit(":", 1)
    proxy = LosingProxy(int(port))
    yield url, f"{head}:{proxy.port}/{url.rsplit('/', 1)[1]}?listen=off", proxy
    proxy.close()


def versions_apart(state):
    """Registry versions are numbers that are never used twice."""
    jobs, rows, counts, settings, entries = state
    return jobs, rows, counts, settings, [replace(entry, version=0) for entry in entries]


@pytest.mark.parametrize("verb", CALLS)
@pytest.mark.parametrize("by", ["the driver", "hand"])
def test_the_state_is_the_same_as_without_a_loss(proxied, job, verb, by):
    direct, through, proxy = proxied
    prepare, call = CALLS[verb]
    undisturbed = holdfast.connect(direct, space="undisturbed", caller_clock=True)
    call(undisturbed, prepare(undisturbed, job))

    patience = 15 if by == "the driver" else 0
    store = holdfast.connect(f"{through}&patience={patience}", caller_clock=True)
    prepared = prepare(store, job)
    proxy.lose_next()
    if by == "the driver" and verb in MADE_AGAIN_BY_THE_DRIVER:
        call(store, prepared)
    else:
        with pytest.raises(StoreUnavailable):
            call(store, prepared)
        call(store, prepared)
    assert proxy.lost == 1
    assert versions_apart(state_of(store)) == versions_apart(state_of(undisturbed))
    store.close()
    undisturbed.close()


def test_a_lost_answer_to_reserve_is_not_asked_for_again(proxied, job):
    """The leases it gave are nobody's, and expire: a second call would take more jobs under the same belief."""
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
