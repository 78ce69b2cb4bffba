"""Removing a space: no table keeps a row of it, and its numbers are never used again."""

import sqlite3
from contextlib import closing

import holdfast
from holdfast.clock import SECOND
from holdfast.driver import Ack, Change, JobRecord, Note, QueueSettings
from holdfast.drivers.requests import Configure, Extend, RemoveSpace, Spaces, Write

NOW = 1_800_000_000 * SECOND


def count_rows(path, space: str) -> dict[str, int]:
    with closing(sqlite3.connect(path)) as connection:
        tables = connection.execute(
            "SELECT t.name FROM sqlite_schema AS t JOIN pragma_table_info(t.name) AS c WHERE c.name = 'space'"
        ).fetchall()
        return {
            table: connection.execute(f'SELECT count(*) FROM "{table}" WHERE space = ?', [space]).fetchone()[0]
            for (table,) in tables
        }


def job(number: int, **fields) -> JobRecord:
    return JobRecord(id=f"job-{number}", type="t", queue="q", payload=b"{}", created_at=NOW, **fields)


def test_no_table_keeps_a_row_of_a_removed_space(tmp_path):
    path = tmp_path / "jobs.db"
    with holdfast.connect(f"sqlite:///{path}", caller_clock=True) as store:
        shop = store.space("shop")
        shop.do(Configure(queue="q", settings=QueueSettings(key_max_inflight=1)))
        shop.enqueue([job(n, domain="d", offset=n, idempotency_key=f"k{n}") for n in range(4)], now=NOW)
        shop.enqueue([job(n, limit_key="k") for n in range(4, 8)], now=NOW)
        held = shop.reserve(["q"], limit=2, lease_for=SECOND, now=NOW)
        shop.do(Extend(leases=[held[0].lease], lease_for=SECOND, notes={held[0].job.id: Note(progress=b"1")}, now=NOW))
        shop.settle([Ack(held[0].lease)], now=NOW)
        shop.do(Write(changes=[Change(kind="kind", key="key", value=b"1")], now=NOW))
        assert sum(count > 0 for count in count_rows(path, "shop").values()) >= 9
        steps = 1
        while store.do(RemoveSpace(name="shop", force=True, limit=5, now=NOW)).more:
            steps += 1
        assert steps > 2
        assert set(count_rows(path, "shop").values()) == {0}


def test_the_numbers_of_a_removed_space_are_not_used_again_by_any_space(tmp_path):
    with holdfast.connect(f"sqlite:///{tmp_path}/jobs.db", caller_clock=True) as store:
        fences = {}
        for name in ("shop", "other"):
            space = store.space(name)
            space.enqueue([job(n) for n in range(5)], now=NOW)
            fences[name] = [one.lease.fence for one in space.reserve(["q"], limit=5, lease_for=SECOND, now=NOW)]
        assert fences["other"] == fences["shop"]  # each space counts for itself
        store.do(RemoveSpace(name="shop", force=True, now=NOW))
        for name in ("shop", "new"):
            space = store.space(name)
            space.enqueue([job(n) for n in range(5)], now=NOW)
            [one] = space.reserve(["q"], limit=1, lease_for=SECOND, now=NOW)
            assert one.lease.fence > max(fences["shop"])
        assert "" not in store.do(Spaces()).items
