"""Parked jobs and keys cost nothing while they wait, however many there are: plans and page counts show it."""

import re

import psycopg
import pytest

import holdfast
from holdfast.clock import MINUTE
from holdfast.drivers.postgres.arrays import pack_texts
from holdfast.drivers.postgres.enqueue import pack_jobs
from holdfast.drivers.postgres.settle import pack_acks, pack_settlements
from holdfast.drivers.requests import Configure
from holdfast.model.job import JobRecord
from holdfast.model.queue_settings import QueueSettings
from holdfast.model.settlement import Ack, Release, Retry
from tests.postgres.conftest import NOW
from tests.postgres.test_plans import ExplainedSession

PARKED_OF_ONE_KEY = 100_000
KEYS = 10_000  # each with a parked job
BUSY = 20  # keys of which a job is in flight
LAST_INSTANT = 253402300799999999
MAX_PAGES = 400  # and 60 for each job of a batch, as in test_plans

INSERT_JOBS = f"""
INSERT INTO jobs (space, id, queue, type, priority, available_at, parked_from, enqueued_at, created_at, max_attempts,
                  payload, limit_key)
SELECT 'main', 'big-' || n, 'q', CASE n % 2 WHEN 0 THEN 't' ELSE 'u' END, 0, {LAST_INSTANT}, {NOW - 10**7} + n, 0, 0,
       25, ''::bytea, 'big'
  FROM generate_series(1, {PARKED_OF_ONE_KEY}) AS n
UNION ALL
SELECT 'main', 'key-' || n, 'q', 't', 0, {LAST_INSTANT}, {NOW - 10**7} + n, 0, 0, 25, '', 'key-' || n
  FROM generate_series(1, {KEYS}) AS n
UNION ALL
SELECT 'main', 'free-' || n, 'q', 't', 0, {NOW - 10**6} + n, NULL, 0, 0, 25, '', NULL
  FROM generate_series(1, 10000) AS n
"""
INSERT_KEYS = f"""
INSERT INTO limit_keys (space, queue, key, parked, watched, wake_at)
SELECT 'main', 'q', CASE n WHEN 0 THEN 'big' ELSE 'key-' || n END, true, true, {NOW + 10**9} + n
  FROM generate_series(0, {KEYS}) AS n
ON CONFLICT (space, queue, key) DO UPDATE SET parked = true, watched = true, wake_at = excluded.wake_at
"""


@pytest.fixture(params=[False, True], ids=["planned on unknown tables", "planned on empty tables"])
def session(request, url):
    """A session that has planned every statement for empty tables, and then has many keys and parked jobs."""
    with holdfast.connect(f"{url}?listen=off", caller_clock=True) as store:
        store.do(Configure(queue="q", settings=QueueSettings(key_max_inflight=1, key_rate=1000, max_inflight=100_000)))
        with psycopg.connect(url, autocommit=True, options="-c search_path=holdfast") as connection:
            for table in ("jobs", "ended", "ledger", "limit_keys", "key_changes"):
                connection.execute(f"ALTER TABLE {table} SET (autovacuum_enabled = off)")
            if request.param:
                connection.execute("VACUUM ANALYZE")
            explained = ExplainedSession(url)
            call_all(explained, [], [])
            running = [_record(number) for number in range(BUSY)]
            store.enqueue(running, now=NOW)
            leases = [one.lease for one in store.reserve(["q"], limit=BUSY, lease_for=MINUTE, now=NOW)]
            assert len(leases) == BUSY
            connection.execute(INSERT_JOBS)
            connection.execute(INSERT_KEYS)
    explained.all_plans = ""
    yield explained, leases
    explained.connection.close()


def _record(number: int, **fields) -> JobRecord:
    key = "big" if number == 0 else f"key-{number}"
    plain = {"id": f"new-{number}", "type": "t", "queue": "q", "payload": b"{}", "created_at": NOW, "limit_key": key}
    return JobRecord(**{**plain, **fields})


def call_all(session, leases, changed):
    """Return the pages of each call and the rows of the reserves; every call is rolled back."""
    queues, pages, rows = pack_texts(["q"]), {}, {}
    reserve = ("reserve", "main", NOW, queues, None, 10, MINUTE, "w", b"\0" * 160, None, "share", True)
    session.connection.execute("DELETE FROM key_changes")
    rows["reserve"], pages["reserve"] = session.call(*reserve)
    lease = leases[0] if leases else holdfast.driver.Lease(job_id="nobody", token="1.0", fence=1, expires_at=1)
    _, pages["ack"] = session.call("ack", "main", NOW, *pack_acks([Ack(lease)]))
    hold = Retry(lease, delay=5, hold_key=True)
    _, pages["settle"] = session.call("settle", "main", NOW, *pack_settlements([hold], []))
    _, pages["cancel"] = session.call("cancel", "main", NOW, pack_texts(["big-5", "key-7"]))
    _, pages["next_due"] = session.call("next_due", "main", queues, NOW)
    _, pages["trim_expired"] = session.call("trim_expired", "main", NOW, 1, 1, 10)
    for key in changed:
        session.connection.execute("INSERT INTO key_changes (space, queue, key) VALUES ('main', 'q', %s)", [key])
    rows["reserve after changes"], pages["reserve after changes"] = session.call(*reserve)
    return pages, rows


def test_reserve_reads_no_parked_job_that_stays_parked(session):
    explained, leases = session
    idle = [f"key-{number}" for number in range(BUSY, BUSY + 5)]
    pages, rows = call_all(explained, leases, ["big", "key-1", *idle])
    first = [row[5] for row in rows["reserve"]]
    assert first == [f"free-{number}" for number in range(1, 11)]
    after = [row[5] for row in rows["reserve after changes"]]
    assert after == [*idle, *(f"free-{number}" for number in range(1, 6))]
    assert {verb: count for verb, count in pages.items() if count > MAX_PAGES + 600} == {}
    removed = [int(count) for count in re.findall(r"Rows Removed by [A-Za-z ]*Filter: (\d+)", explained.all_plans)]
    assert max(removed, default=0) <= 1000


def test_jobs_without_keys_in_queues_without_key_limits_touch_no_key(url):
    with holdfast.connect(f"{url}?listen=off", caller_clock=True) as store:
        store.do(Configure(queue="limited", settings=QueueSettings(max_inflight=5, rate=9)))
        queues = pack_texts(["q", "limited"])
        explained = ExplainedSession(url)
        for queue in ("q", "limited"):
            store.enqueue(
                [_record(number, id=f"{queue}-{number}", queue=queue, limit_key=None) for number in range(4)], now=NOW
            )
        reserved = store.reserve(["q", "limited"], limit=4, lease_for=MINUTE, now=NOW)
        reserve = ("main", NOW, queues, None, 4, MINUTE, "w", b"\0" * 64, None, "share", True)
        mixed = [Ack(reserved[0].lease), Retry(reserved[1].lease), Release(reserved[2].lease)]
        for verb, *arguments in (
            ("reserve", *reserve),
            ("ack", "main", NOW, *pack_acks([Ack(one.lease) for one in reserved])),
            ("settle", "main", NOW, *pack_settlements(mixed, [])),
            ("cancel", "main", NOW, pack_texts([one.job.id for one in reserved])),
            ("reap", "main", None, None, 9, NOW + 2 * MINUTE),
            ("enqueue", "main", NOW, None, True, 1, *pack_jobs([_record(99, limit_key=None)])),
        ):
            explained.call(verb, *arguments)
            plans = "\n".join(explained.plans)
            assert verb in plans
            assert not re.search("limit_keys|key_changes|jobs_key_|jobs_parked", plans), plans
        explained.connection.close()
