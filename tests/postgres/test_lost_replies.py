"""A call that is repeated because its reply was lost leaves the same state as one call."""

import dataclasses
import signal
import threading

import psycopg
import pytest
from msgspec.structs import replace

import holdfast
from holdfast.clock import DAY, SECOND
from holdfast.drivers.requests import (
    Cancel,
    Configure,
    Enqueue,
    Extend,
    Inspect,
    LeaseTerms,
    Purge,
    Reap,
    Requeue,
    Reserve,
    Resume,
    Scan,
    Settings,
    Trim,
    Write,
)
from holdfast.errors import StoreUnavailable
from holdfast.model.domain import ResumeAction
from holdfast.model.job import State
from holdfast.model.job_batch import JobBatch
from holdfast.model.lease import Note
from holdfast.model.ledger import Ending
from holdfast.model.queue_settings import OnExhausted, QueueSettings
from holdfast.model.registry import Change
from holdfast.model.settlement import Ack, Fail, Release, Retry
from tests.postgres.conftest import NOW, open_store
from tests.postgres.proxy import LosingProxy
from tests.postgres.test_wait import wait_until

LATER = NOW + 60 * SECOND

# The calls of this database that wait for a lock; the server has the databases of other tests, too.
BLOCKED = """
SELECT FROM pg_locks AS l JOIN pg_stat_activity AS a USING (pid)
 WHERE NOT l.granted AND a.datname = current_database()
"""


def state_of(store):
    """The whole state of a store, without fences: they differ from lease to lease."""
    jobs = [
        dataclasses.replace(store.do(Inspect(job_ids=[one.id]))[one.id], fence=None)
        for one in store.find(limit=1000).items
    ]
    rows = [replace(row, fence=None) for row in store.ledger().items]
    return jobs, rows, store.counts(now=LATER), store.do(Settings(queue="q")), store.do(Scan(kind="kind", now=LATER))


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


def halt_a_domain(store, job):
    store.do(Configure(queue="q", settings=QueueSettings(on_exhausted=OnExhausted.HALT)))
    store.enqueue([job(id=f"o{number}", domain="d", offset=number) for number in range(2)], now=NOW)
    [held] = store.reserve(["q"], limit=1, lease_for=30 * SECOND, now=NOW)
    store.settle([Fail(held.lease, reason="no")], now=NOW)


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
        lambda s, x: s.do(Enqueue(jobs=x, lease=LeaseTerms(lease_for=30 * SECOND, worker="w"), now=NOW)),
    ),
    "enqueue with offsets": (
        lambda _, j: [j(id=f"e{n}", domain="d", offset=n % 2) for n in range(3)],
        lambda s, x: s.enqueue(x, now=NOW),
    ),
    "resume": (
        halt_a_domain,
        lambda s, _: s.do(Resume(queue="q", domain="d", action=ResumeAction.RETRY, position=1, now=NOW + 1)),
    ),
    "extend": (
        reserve_some,
        lambda s, x: s.do(Extend(leases=x, lease_for=90 * SECOND, notes={"held-0": Note(progress=b"1")}, now=NOW + 1)),
    ),
    "settle acks": (reserve_some, lambda s, x: s.settle([Ack(lease) for lease in x], now=NOW + 1)),
    "settle": (one_settlement_of_each_verb, lambda s, x: s.settle(x, now=NOW + 1)),
    "reap": (reserve_some, lambda s, _: s.reap(now=LATER)),
    "report_outage": (reserve_some, lambda s, x: s.do(Reap(leases=x, now=LATER)).reported),
    "report_outage after a reap": (reserve_and_reap, lambda s, x: s.do(Reap(leases=x, now=LATER)).reported),
    "cancel": (
        lambda s, j: s.enqueue([j(id="c")], now=NOW),
        lambda s, _: s.do(Cancel(job_ids=["c", "unknown"], now=NOW + 1)),
    ),
    "requeue": (make_dead_jobs, lambda s, x: s.do(Requeue(job_ids=x, now=NOW + 1))),
    "purge": (make_dead_jobs, lambda s, x: s.do(Purge(job_ids=x, now=NOW + 1))),
    "configure": (lambda *_: None, lambda s, _: s.do(Configure(queue="q", settings=QueueSettings(max_inflight=3)))),
    "write": (
        lambda *_: None,
        lambda s, _: s.do(Write(changes=[Change(kind="kind", key="k", value=b"1", version=0)], now=NOW)),
    ),
    "write together": (
        lambda *_: None,
        lambda s, _: s.do(
            Write(changes=[Change(kind="kind", key=key, value=b"1", version=0) for key in "ba"], together=True, now=NOW)
        ),
    ),
    "trim": (make_dead_jobs, lambda s, _: s.do(Trim(ledger_for=DAY, now=NOW + 2 * DAY))),
}
ANSWERED_ONCE = {"requeue", "purge", "resume", "write", "write together", "report_outage", "report_outage after a reap"}
READS_BEFORE = {"purge": 1, "requeue": 1, "trim": 1}  # calls that read the readers of the ledger or the jobs first
REPEATED_BY_THE_DRIVER = set(CALLS) - ANSWERED_ONCE  # the others would answer differently


@pytest.fixture
def proxied(postgres_database):
    url = postgres_database()
    proxy = LosingProxy(url)
    yield url, f"{proxy.url}?listen=off", proxy
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
    proxy.lose_next(after=READS_BEFORE.get(verb, 0))
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


def lose_a_reserve(store, proxy, **options):
    """Reserve two jobs and lose the answer; assert that the store has leased them."""
    proxy.lose_next()
    with pytest.raises(StoreUnavailable):
        store.do(Reserve(queues=["q"], limit=2, lease_for=10, worker="w", now=NOW, **options))
    assert store.counts(now=NOW)[0].inflight == 2


@pytest.mark.parametrize("max_attempts", [1, 25])
@pytest.mark.parametrize("prefetch", [False, True])
def test_a_reserve_whose_reply_was_lost_is_not_repeated_and_its_leases_are_released_by_the_next(
    proxied, job, max_attempts, prefetch
):
    """Nobody knows the leases that it granted. If they expired, a job on its last attempt would be dead."""
    _, through, proxy = proxied
    store = holdfast.connect(through, caller_clock=True)
    jobs = [job(max_attempts=max_attempts) for _ in range(3)]
    store.enqueue(jobs, now=NOW)
    lose_a_reserve(store, proxy, prefetch=prefetch)
    again = store.reserve(["q"], limit=9, lease_for=10, worker="w", now=NOW + 10)
    assert [one.job for one in again] == [replace(one, state=State.INFLIGHT, attempts=1) for one in jobs]
    assert {one.isolated for one in again} == {False}
    rows = [(row.job_id, row.ending, row.attempt, row.state, row.detail) for row in store.ledger().items]
    assert rows == [(one.id, Ending.RELEASED, 1, State.READY, "answer lost") for one in jobs[:2]]
    store.close()


def test_a_job_whose_cancel_was_requested_under_a_lost_lease_is_cancelled(proxied, job):
    _, through, proxy = proxied
    store = holdfast.connect(through, caller_clock=True)
    first, second = job(domain="d"), job(domain="d")
    store.enqueue([first, second, job()], now=NOW)
    lose_a_reserve(store, proxy)
    store.do(Cancel(job_ids=[first.id], now=NOW))
    [reserved, _] = store.reserve(["q"], limit=9, lease_for=10, worker="w", now=NOW)
    assert reserved.job.id == second.id
    assert (store.get(first.id).state, store.get(first.id).attempts) == (State.CANCELLED, 0)
    store.close()


def test_only_the_leases_of_the_lost_answer_are_released(proxied, job):
    _, through, proxy = proxied
    store = holdfast.connect(through, caller_clock=True)
    store.enqueue([job() for _ in range(5)], now=NOW)
    held = store.reserve(["q"], limit=2, lease_for=10, worker="w", now=NOW)
    proxy.lose_next()
    with pytest.raises(StoreUnavailable):
        store.reserve(["q"], limit=2, lease_for=10, worker="w", now=NOW)
    assert len(store.reserve(["q"], limit=9, lease_for=10, worker="w", now=NOW)) == 3
    assert store.settle([Ack(one.lease) for one in held], now=NOW) == [None, None]
    store.close()


def test_the_leases_of_a_reserve_that_the_server_carries_out_later_are_released_too(proxied, job):
    """The server may notice the lost connection late: the first reserve after the loss finds no leases yet."""
    direct, through, proxy = proxied
    store = open_store(f"{through}&patience=0", caller_clock=True, lost_call_seconds=600.0)
    store.enqueue([job(max_attempts=1) for _ in range(2)], now=NOW)
    store.do(Configure(queue="q", settings=QueueSettings(max_inflight=9)))
    errors = []

    def reserve():
        try:
            store.reserve(["q"], limit=2, lease_for=10, worker="w", now=NOW)
        except StoreUnavailable as error:
            errors.append(error)

    with psycopg.connect(direct, options="-c search_path=holdfast") as blocker:
        blocker.execute("SELECT FROM settings FOR UPDATE")
        waiting = threading.Thread(target=reserve)
        waiting.start()
        with psycopg.connect(direct, autocommit=True) as session:
            wait_until(lambda: session.execute(BLOCKED).rowcount == 1)
        proxy.cut()
        waiting.join()
        assert store.reserve(["other"], limit=1, lease_for=10, worker="w", now=NOW) == []
    assert len(errors) == 1
    wait_until(lambda: store.counts(now=NOW)[0].inflight == 2)
    assert len(store.reserve(["q"], limit=2, lease_for=10, worker="w", now=NOW + 10)) == 2
    store.close()


class InterruptedCall(Exception):
    """Raised by the handler of a signal, in the middle of a call."""


def test_the_leases_of_a_reserve_that_an_exception_has_interrupted_are_released(url, job):
    store = open_store(url, caller_clock=True, lost_call_seconds=600.0)
    store.enqueue([job(max_attempts=1) for _ in range(2)], now=NOW)
    store.do(Configure(queue="q", settings=QueueSettings(max_inflight=9)))

    def interrupt(_number, _frame):
        raise InterruptedCall

    def send_signal():
        with psycopg.connect(url, autocommit=True) as session:
            wait_until(lambda: session.execute(BLOCKED).rowcount == 1)
        signal.pthread_kill(threading.main_thread().ident, signal.SIGUSR2)

    before = signal.signal(signal.SIGUSR2, interrupt)
    with psycopg.connect(url, options="-c search_path=holdfast") as blocker:
        blocker.execute("SELECT FROM settings FOR UPDATE")
        sender = threading.Thread(target=send_signal)
        sender.start()
        with pytest.raises(InterruptedCall):
            store.reserve(["q"], limit=2, lease_for=30 * SECOND, worker="w", now=NOW)
        sender.join()
    signal.signal(signal.SIGUSR2, before)
    wait_until(lambda: store.counts(now=NOW)[0].inflight == 2)
    assert len(store.reserve(["q"], limit=2, lease_for=30 * SECOND, worker="w", now=NOW)) == 2
    store.close()
