"""Removing a space: no table keeps a row of it, and rows that others hold are not waited for."""

import psycopg

from holdfast.clock import SECOND
from holdfast.driver import Ack, Change, QueueSettings, Retry
from tests.postgres.conftest import NOW


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
    shop.configure("q", QueueSettings(key_max_inflight=1, rate=100.0))
    shop.enqueue([job(domain="d", limit_key="k", idempotency_key=f"key-{number}") for number in range(4)], now=NOW)
    shop.enqueue([job(limit_key="k") for _ in range(3)], now=NOW)
    held = shop.reserve(["q"], limit=4, lease_for=SECOND, now=NOW)
    shop.settle([Retry(held[0].lease, hold_key=True, delay=5)], now=NOW)
    again = shop.reserve(["q"], limit=4, lease_for=SECOND, now=NOW + SECOND)
    shop.settle([Ack(one.lease) for one in again], now=NOW + SECOND)
    shop.write([Change(kind="kind", key="key", value=b"1")], now=NOW)
    shop.trim(ledger_for=1, now=NOW + 3 * SECOND)
    assert sum(count > 0 for count in count_rows(session, "shop").values()) >= 6
    while store.remove_space("shop", force=True, limit=5, now=NOW).more:
        pass
    assert set(count_rows(session, "shop").values()) == {0}


def test_rows_that_another_session_has_locked_stay_for_the_next_step(url, store, job):
    shop = store.space("shop")
    shop.enqueue([job(id="a"), job(id="b")], now=NOW)
    with psycopg.connect(url) as other:
        other.execute("SELECT FROM holdfast.jobs WHERE id = 'a' FOR UPDATE")
        first = store.remove_space("shop", now=NOW)
        assert (first.rows, first.more) == (1, True)
    assert store.remove_space("shop", now=NOW).more is False
    assert shop.find().items == []
