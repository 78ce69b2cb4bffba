"""Removing a space: no table keeps a row of it, and rows that others hold are not waited for."""

import threading

import psycopg

from holdfast.clock import DAY, MINUTE, SECOND
from holdfast.driver import Ack, Change, QueueSettings, Retry
from holdfast.drivers.postgres.arrays import pack_texts
from holdfast.drivers.requests import Configure, RemoveSpace, Trim, Write
from holdfast.errors import SpaceInUse
from tests.postgres.conftest import NOW
from tests.waiting import wait_until

WAITING = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"


def run_until_it_waits(session, call) -> tuple[threading.Thread, list]:
    """Run a call in a thread until it waits for a lock. Its answer or its error is in the list when the thread ends."""
    answers = []

    def run():
        try:
            answers.append(call())
        except SpaceInUse as error:
            answers.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    wait_until(lambda: session.execute(WAITING).fetchone()[0])
    return thread, answers


def tables_with_spaces(session) -> list[str]:
    rows = session.execute(
        "SELECT table_name FROM information_schema.columns WHERE table_schema = 'holdfast' AND column_name = 'space'"
    ).fetchall()
    return [name for (name,) in rows]


def count_rows(session, space: str) -> dict[str, int]:
    return {
        table: session.execute(f'SELECT count(*) FROM "{table}" WHERE space = %s', [space]).fetchone()[0]
        for table in tables_with_spaces(session)
    }


def test_no_table_keeps_a_row_of_a_removed_space(store, session, job):
    shop = store.space("shop")
    shop.do(Configure(queue="q", settings=QueueSettings(key_max_inflight=1, rate=100.0)))
    shop.enqueue([job(domain="d", limit_key="k", idempotency_key=f"key-{number}") for number in range(4)], now=NOW)
    shop.enqueue([job(limit_key="k") for _ in range(3)], now=NOW)
    held = shop.reserve(["q"], limit=4, lease_for=SECOND, now=NOW)
    shop.settle([Retry(held[0].lease, hold_key=True, delay=5)], now=NOW)
    again = shop.reserve(["q"], limit=4, lease_for=SECOND, now=NOW + SECOND)
    shop.settle([Ack(one.lease) for one in again], now=NOW + SECOND)
    shop.do(Write(changes=[Change(kind="kind", key="key", value=b"1")], now=NOW))
    shop.do(Trim(ledger_for=1, now=NOW + 3 * SECOND))
    assert sum(count > 0 for count in count_rows(session, "shop").values()) >= 6
    while store.do(RemoveSpace(name="shop", force=True, limit=5, now=NOW)).more:
        pass
    assert set(count_rows(session, "shop").values()) == {0}


def test_rows_that_another_session_has_locked_stay_for_the_next_step(url, store, job):
    shop = store.space("shop")
    shop.enqueue([job(id="a"), job(id="b")], now=NOW)
    with psycopg.connect(url) as other:
        other.execute("SELECT FROM holdfast.jobs WHERE id = 'a' FOR UPDATE")
        first = store.do(RemoveSpace(name="shop", now=NOW))
        assert (first.rows, first.more) == (1, True)
    assert store.do(RemoveSpace(name="shop", now=NOW)).more is False
    assert shop.find().items == []


# Other calls between two statements of a removal. A table lock stops the removal where it locks rows --------------


def test_a_job_that_is_leased_during_the_removal_is_not_removed(store, session, other, job):
    shop = store.space("shop")
    shop.enqueue([job(id="a"), job(id="b")], now=NOW)
    arguments = ["shop", NOW, pack_texts(["q"]), None, 1, MINUTE, "w", b"\0" * 16, None, "share", False]
    with psycopg.RawCursor(other) as cursor:
        numbers = ", ".join(f"${number}" for number in range(1, len(arguments) + 1))
        [(token,)] = cursor.execute(f"SELECT token FROM reserve({numbers})", arguments).fetchall()
    other.execute("LOCK TABLE jobs IN EXCLUSIVE MODE")
    removing, answers = run_until_it_waits(session, lambda: store.do(RemoveSpace(name="shop", now=NOW)))
    other.commit()
    removing.join()
    assert isinstance(answers[0], SpaceInUse), answers
    assert session.execute("SELECT id, token FROM jobs ORDER BY id").fetchall() == [("a", token), ("b", None)]


def test_a_job_that_is_enqueued_during_the_removal_gets_its_turn(store, session, other, job):
    shop = store.space("shop")
    shop.joined(other).enqueue([job(id="a", domain="d", idempotency_key="k")], now=NOW)
    other.execute("LOCK TABLE arrivals IN EXCLUSIVE MODE")
    removing, answers = run_until_it_waits(session, lambda: store.do(RemoveSpace(name="shop", now=NOW)))
    other.commit()
    removing.join()
    assert answers[0].more
    assert shop.enqueue([job(id="b", idempotency_key="k")], now=NOW)[0].id == "a"
    assert [one.job.id for one in shop.reserve(["q"], limit=9, lease_for=SECOND, now=NOW)] == ["a"]


def test_a_trim_during_the_removal_leaves_no_row(store, session, other, job):
    shop = store.space("shop")
    shop.enqueue([job()], now=NOW)
    shop.settle([Ack(one.lease) for one in shop.reserve(["q"], limit=1, lease_for=SECOND, now=NOW)], now=NOW)
    assert other.execute("SELECT leases FROM remove_space('shop', false, 100)").fetchall() == [(0,)]
    trimming, _ = run_until_it_waits(session, lambda: shop.do(Trim(ledger_for=1, now=NOW + DAY)))
    other.commit()
    trimming.join()
    assert set(count_rows(session, "shop").values()) == {0}
