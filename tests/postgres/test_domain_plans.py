"""Ordered domains cost a few index probes each, however many jobs, domains and ended offsets there are.

And jobs without a domain read nothing of them.
"""

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
from holdfast.model.queue_settings import Gaps, OnExhausted, QueueSettings
from holdfast.model.settlement import Ack, Release, Retry
from tests.postgres.conftest import NOW
from tests.postgres.test_plans import ExplainedSession

JOBS_OF_ONE_DOMAIN = 5_000
DOMAINS = 3_000  # each with a job; every second one waits for an offset
RANGES = 3_000  # of ended offsets of one domain
MAX_PAGES = 400

INSERT = f"""
INSERT INTO jobs (space, id, queue, type, priority, available_at, enqueued_at, created_at, max_attempts, payload,
                  domain, "offset", turn)
SELECT 'main', 'big-' || n, 'q', 't', 0, {NOW}, 0, 0, 25, ''::bytea, 'big', {10 * RANGES} + 2 * n, false
  FROM generate_series(1, {JOBS_OF_ONE_DOMAIN}) AS n
UNION ALL
SELECT 'main', 'one-' || n, 'q', 't', 0, {NOW}, 0, 0, 25, '', 'one-' || n, 1, n % 2 = 0
  FROM generate_series(1, {DOMAINS}) AS n;
INSERT INTO domains (space, queue, domain, waits_for, waiting_since, pass_at)
SELECT 'main', 'q', 'one-' || n, 0, {NOW}, {NOW + 10**9} + n FROM generate_series(1, {DOMAINS}, 2) AS n;
INSERT INTO ended_offsets (space, queue, domain, first, last)
SELECT 'main', 'q', 'big', 2 * n, 2 * n FROM generate_series(1, {RANGES}) AS n;
INSERT INTO ended (seq, space, id, queue, type, priority, state, available_at, enqueued_at, ended_at, created_at,
                   attempts, max_attempts, crashes, cancel_requested, noted, last_error, payload, domain, "offset")
SELECT n, 'main', 'ended-' || n, 'q', 't', 0, 'done', 0, 0, n, 0, 1, 25, 0, false, false, '', '', 'big', 2 * n
  FROM generate_series(1, {RANGES}) AS n;
"""


def _record(number: int, **fields) -> JobRecord:
    plain = {"id": f"new-{number}", "type": "t", "queue": "q", "payload": b"", "created_at": NOW, "domain": "big"}
    return JobRecord(**{**plain, "offset": 2 * number + 1, **fields})


@pytest.fixture(params=[False, True], ids=["planned on unknown tables", "planned on empty tables"])
def session(request, url):
    """A session that has planned every statement for empty tables, and then has many domains, jobs and offsets."""
    with holdfast.connect(f"{url}?listen=off", caller_clock=True) as store:
        store.do(
            Configure(
                queue="q", settings=QueueSettings(gaps=Gaps.WAIT, gap_pass_after=MINUTE, on_exhausted=OnExhausted.HALT)
            )
        )
        with psycopg.connect(url, autocommit=True, options="-c search_path=holdfast") as connection:
            for table in ("jobs", "ended", "ledger", "domains", "ended_offsets", "arrivals"):
                connection.execute(f"ALTER TABLE {table} SET (autovacuum_enabled = off)")
            if request.param:
                connection.execute("VACUUM ANALYZE")
            explained = ExplainedSession(url)
            call_all(explained, None)
            busy = [_record(n, id=f"busy-{n}", domain=f"busy-{n % 3}", offset=n // 3) for n in range(9)]
            store.enqueue(busy, now=NOW)
            leases = [one.lease for one in store.reserve(["q"], limit=3, lease_for=MINUTE, now=NOW)]
            assert len(leases) == 3
            connection.execute(INSERT)
    explained.all_plans = ""
    yield explained, leases[0]
    explained.connection.close()


def call_all(session, lease):
    """Return the pages of each call; every call is rolled back."""
    lease = lease or holdfast.driver.Lease(job_id="nobody", token="1.0", fence=1, expires_at=1)
    queues, random_bytes = pack_texts(["q"]), b"\0" * 160
    new = [_record(number) for number in range(5)]
    known = [_record(number, offset=10 * (RANGES + number) + 10) for number in range(5)]
    past = [_record(number, offset=10 * number + 10) for number in range(5)]
    pages, rows = {}, {}
    session.connection.execute("DELETE FROM arrivals")
    for name, verb, *arguments in (
        ("reserve", "reserve", NOW, queues, None, 10, MINUTE, "w", random_bytes, None, "share", True),
        ("ack", "ack", NOW, *pack_acks([Ack(lease)])),
        ("retry", "settle", NOW, *pack_settlements([Retry(lease)], [])),
        ("cancel", "cancel", NOW, pack_texts(["big-1", "big-2", "big-9", "one-3"])),
        ("next_due", "next_due", queues, NOW),
        ("enqueue", "enqueue", NOW, None, True, 1, *pack_jobs(new)),
        ("enqueue of open offsets", "enqueue", NOW, None, True, 1, *pack_jobs(known)),
        ("enqueue of ended offsets", "enqueue", NOW, None, True, 1, *pack_jobs(past)),
        ("requeue", "requeue", NOW, pack_texts(["ended-1"])),
        ("resume_domain", "resume_domain", NOW, None, "q", "big", "resume", 10 * RANGES),
        ("list_domains", "list_domains", NOW, "q", None, None, "", "", 10, 10),
        ("show", "list_domains", NOW, "q", "one-5", None, "", "", 10, 10),
    ):
        rows[name], pages[name] = session.call(verb, "main", *arguments)
    for domain in ("big", "one-1", "one-2", "none"):
        session.connection.execute("INSERT INTO arrivals VALUES ('main', 'q', %s)", [domain])
    arrived = ("reserve", "main", NOW, queues, None, 10, MINUTE, "w", random_bytes, None, "share", True)
    rows["reserve after arrivals"], pages["reserve after arrivals"] = session.call(*arrived)
    return pages, rows


def test_a_call_reads_a_few_rows_of_each_domain_and_none_of_the_others(session):
    explained, lease = session
    pages, rows = call_all(explained, lease)
    assert [row[1:] for row in rows["enqueue"]] == []
    assert [row[3] for row in rows["enqueue of open offsets"]] == [False] * 5
    assert [(row[1], row[3]) for row in rows["enqueue of ended offsets"]] == [
        (f"ended-{5 * number + 5}", True) for number in range(5)
    ]
    assert len(rows["reserve"]) == 10
    assert {verb: count for verb, count in pages.items() if count > MAX_PAGES + 600} == {}
    used = set(re.findall(r"Scan (?:Backward )?using (\w+) on", explained.all_plans))
    assert used >= {"jobs_domain", "jobs_turn", "jobs_offset", "ended_offset", "ended_offsets_pkey", "domains_pass"}
    removed = [int(count) for count in re.findall(r"Rows Removed by [A-Za-z ]*Filter: (\d+)", explained.all_plans)]
    assert max(removed, default=0) <= 1000


def test_jobs_without_a_domain_read_nothing_of_domains(url):
    with holdfast.connect(f"{url}?listen=off", caller_clock=True) as store:
        explained = ExplainedSession(url)
        plain = {"domain": None, "offset": None}
        store.enqueue([_record(number, id=f"plain-{number}", **plain) for number in range(4)], now=NOW)
        reserved = store.reserve(["q"], limit=4, lease_for=MINUTE, now=NOW)
        mixed = [Ack(reserved[0].lease), Retry(reserved[1].lease), Release(reserved[2].lease)]
        for verb, *arguments in (
            ("ack", NOW, *pack_acks([Ack(one.lease) for one in reserved])),
            ("settle", NOW, *pack_settlements(mixed, [])),
            ("cancel", NOW, pack_texts([one.job.id for one in reserved])),
            ("reap", None, None, 9, NOW + 2 * MINUTE),
            ("enqueue", NOW, None, True, 1, *pack_jobs([_record(99, **plain)])),
        ):
            explained.call(verb, "main", *arguments)
            plans = "\n".join(explained.plans)
            assert verb in plans
            assert not re.search(r" on (domains|ended_offsets|arrivals)\b|using jobs_(domain|turn|offset)\b", plans), (
                plans
            )
        explained.connection.close()


def test_many_jobs_of_one_domain_are_cancelled_without_a_look_at_the_domain_for_each(url):
    with holdfast.connect(f"{url}?listen=off", caller_clock=True) as store:
        explained = ExplainedSession(url)
        ids = [f"new-{number}" for number in range(400)]
        store.enqueue([_record(number, id=ids[number]) for number in range(400)], now=NOW)
        explained.call("cancel", "main", NOW, pack_texts(ids))
        probes = re.findall(r"using jobs_domain on jobs .* loops=(\d+)\)", explained.all_plans)
        assert set(probes) == {"1"}
        explained.connection.close()
