"""Registry writes with an enqueue: lost answers, and transactions of the caller."""

import asyncio
import threading

import asyncpg
import psycopg
import pytest

import holdfast
from holdfast.drivers.on_loop import OnLoop
from holdfast.drivers.postgres.commit_outcome import _is_committed
from holdfast.drivers.requests import Enqueue, Scan, Write
from holdfast.errors import StoreUnavailable, WriteRefused
from holdfast.model.lease import Enqueued
from holdfast.model.registry import Change
from tests.postgres.conftest import NOW
from tests.postgres.proxy import LosingProxy
from tests.postgres.test_wait import wait_until

KIND = "schedule"


def change(key, value, **fields):
    return Change(kind=KIND, key=key, value=value, **fields)


def write_row(store, key="state"):
    [entry] = store.do(Write(changes=[change(key, b"old")], now=NOW))
    return entry


def rows(store):
    return {entry.key: entry.value for entry in store.do(Scan(kind=KIND, now=NOW))}


@pytest.fixture
def proxy(url):
    started = LosingProxy(url)
    yield started
    started.close()


@pytest.fixture
def connect_through(proxy):
    """A function that opens the store of ``url`` through the proxy."""
    stores = []

    def connect(patience):
        stores.append(holdfast.connect(f"{proxy.url}?listen=off&patience={patience}", caller_clock=True))
        return stores[-1]

    yield connect
    for store in stores:
        store.close()


@pytest.mark.parametrize("known", [False, True], ids=["a new job", "a job whose key is taken"])
def test_a_commit_whose_answer_was_lost_is_not_refused_by_its_own_writes(store, connect_through, proxy, job, known):
    if known:
        store.enqueue([job(id="known", idempotency_key="k")], now=NOW)
    row = write_row(store)
    through = connect_through(patience=15)
    writes = [change("state", b"new", version=row.version), change("next", b"1", version=0)]
    through.counts()  # opens the connection
    proxy.lose_next()
    answers = through.do(Enqueue(jobs=[job(id="mine", idempotency_key="k")], writes=writes, now=NOW)).answers
    assert proxy.lost == 1
    assert answers == [Enqueued(id="known" if known else "mine", existed=known)]
    assert rows(store) == {"state": b"new", "next": b"1"}


def test_a_refusal_whose_answer_was_lost_is_still_a_refusal(store, connect_through, proxy, job):
    write_row(store)
    through = connect_through(patience=15)
    through.counts()
    proxy.lose_next()
    with pytest.raises(WriteRefused):
        through.do(Enqueue(jobs=[job(id="mine")], writes=[change("state", b"new", version=0)], now=NOW))
    assert proxy.lost == 1
    assert (store.get("mine"), rows(store)) == (None, {"state": b"old"})


def test_without_patience_a_lost_answer_is_reported_and_the_entries_show_the_outcome(
    store, connect_through, proxy, job
):
    row = write_row(store)
    through = connect_through(patience=0)
    through.counts()
    proxy.lose_next()
    with pytest.raises(StoreUnavailable):
        through.do(Enqueue(jobs=[job(id="mine")], writes=[change("state", b"new", version=row.version)], now=NOW))
    assert (store.get("mine").id, rows(store)) == ("mine", {"state": b"new"})


def test_a_call_that_is_cut_off_before_its_commit_is_repeated(url, store, connect_through, proxy, job):
    row = write_row(store)
    through = connect_through(patience=15)
    answers = []

    def enqueue():
        writes = [change("state", b"new", version=row.version)]
        answers.extend(through.do(Enqueue(jobs=[job(id="mine")], writes=writes, now=NOW)).answers)

    with psycopg.connect(url, options="-c search_path=holdfast") as blocker:
        blocker.execute("SELECT FROM registry FOR UPDATE")
        waiting = threading.Thread(target=enqueue)
        waiting.start()
        with psycopg.connect(url, autocommit=True) as session:
            wait_until(lambda: session.execute("SELECT FROM pg_locks WHERE NOT granted").rowcount == 1)
            proxy.cut()
            wait_until(lambda: session.execute("SELECT FROM pg_locks WHERE NOT granted").rowcount == 2)
    waiting.join(60)
    assert answers == [Enqueued(id="mine", existed=False)]
    assert rows(store) == {"state": b"new"}


def test_the_outcome_of_a_transaction_is_known_when_it_has_ended(store, session, url):
    for end, outcome in (("COMMIT", True), ("ROLLBACK", False)):
        with psycopg.connect(url, autocommit=True) as other:
            other.execute("BEGIN")
            [(transaction,)] = other.execute("SELECT pg_current_xact_id()::text").fetchall()
            with pytest.raises(psycopg.OperationalError, match="does not say yet"):
                _is_committed(session, transaction)
            other.execute(end)
        assert _is_committed(session, transaction) is outcome


def test_a_refused_write_leaves_the_connection_of_the_pool_open(store, session, job):
    write_row(store)
    sessions = "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
    before = session.execute(sessions).fetchall()
    with pytest.raises(WriteRefused):
        store.do(Enqueue(jobs=[job()], writes=[change("state", b"new", version=0)], now=NOW))
    assert session.execute(sessions).fetchall() == before


@pytest.mark.parametrize("commits", [True, False], ids=["commit", "rollback"])
def test_writes_belong_to_the_transaction_of_the_caller(url, store, job, commits):
    row = write_row(store)
    with psycopg.connect(url) as connection:
        joined = store.joined(connection)
        joined.do(Enqueue(jobs=[job(id="mine")], writes=[change("state", b"new", version=row.version)], now=NOW))
        assert rows(store) == {"state": b"old"}
        with pytest.raises(WriteRefused):
            joined.do(Enqueue(jobs=[job(id="other")], writes=[change("state", b"newer", version=row.version)], now=NOW))
        joined.enqueue([job(id="last")], now=NOW)  # the refusal has left the transaction usable
        if commits:
            connection.commit()
        else:
            connection.rollback()
    assert [one.id for one in store.find().items] == (["last", "mine"] if commits else [])
    assert rows(store) == {"state": b"new" if commits else b"old"}


def test_writes_belong_to_the_transaction_of_an_async_caller(url, store, job):
    row = write_row(store)

    async def scenario():
        connection = await asyncpg.connect(url)
        async with asyncio.timeout(60), connection.transaction():
            joined = store.joined(OnLoop(connection))
            writes = [change("state", b"new", version=row.version)]
            again = [job(id="a"), job(id="a"), job(id="b")]
            await asyncio.to_thread(joined.do, Enqueue(jobs=again, writes=writes, now=NOW))
            with pytest.raises(WriteRefused):
                await asyncio.to_thread(joined.do, Enqueue(jobs=[job(id="c")], writes=writes, now=NOW))
        await connection.close()

    asyncio.run(scenario())
    assert [one.id for one in store.find().items] == ["a", "b"]
    assert rows(store) == {"state": b"new"}
