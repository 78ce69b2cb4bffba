"""Ordered domains on SQLite: what a long history costs, every way in which jobs are enqueued, and many processes."""

import asyncio
import random
import sqlite3
from contextlib import closing
from itertools import groupby, pairwise

import pytest

import holdfast
from holdfast.aio import AsyncClient
from holdfast.clock import SECOND
from holdfast.driver import DomainStatus, Gaps, OnExhausted, QueueSettings
from holdfast.drivers.requests import Cancel, Configure, Domains, Enqueue, LeaseTerms, Read, Reap, Resume
from holdfast.drivers.sqlite.migrations import load, migrate
from holdfast.model.job_batch import JobBatch
from holdfast.model.lease import Enqueued
from holdfast.model.ledger import Ending
from holdfast.model.registry import Change
from holdfast.model.request import JobRequest
from holdfast.model.settlement import Ack, Fail
from tests.sqlite.conftest import NOW
from tests.sqlite.test_plans import count_steps
from tests.sqlite.test_processes import RoleProcess

LEASE_FOR = 60 * SECOND


def run_all(store, now=NOW) -> list[int | None]:
    """Reserve and ack one job at a time; return their offsets."""
    offsets = []
    while reserved := store.reserve(["q"], limit=1, lease_for=LEASE_FOR, now=now):
        [one] = reserved
        offsets.append(one.job.offset)
        assert store.settle([Ack(one.lease)], now=now) == [None]
    return offsets


def ranges(store) -> list[tuple[int, int]]:
    with store.engine._database.reading() as connection:
        return connection.execute("SELECT first, last FROM holdfast_ended_offsets ORDER BY first").fetchall()


def insert_ranges(store, rows) -> None:
    store.engine._database.write(
        lambda connection: connection.executemany(
            "INSERT INTO holdfast_ended_offsets VALUES ('main', 'q', 'd', ?, ?)", rows
        )
    )


# What is stored ---------------------------------------------------------------------------------------------------


def test_contiguous_offsets_are_one_row_in_whatever_order_they_end(store, job):
    offsets = random.Random(1).sample(range(60), 60)
    for start in range(0, 60, 20):
        store.enqueue([job(domain="d", offset=offset) for offset in offsets[start : start + 20]], now=NOW)
        assert run_all(store) == sorted(offsets[start : start + 20])
    assert ranges(store) == [(0, 59)]


def test_many_offsets_of_one_domain_may_end_in_one_call(store, job):
    store.enqueue([job(id=f"o-{offset}", domain="d", offset=offset) for offset in range(20)], now=NOW)
    ids = [f"o-{offset}" for offset in (3, 4, 5, 9, 7, 8, 0)]
    assert store.do(Cancel(job_ids=ids, now=NOW)) == ["cancelled"] * len(ids)
    assert ranges(store) == [(0, 0), (3, 5), (7, 9)]
    assert run_all(store) == [1, 2, 6, *range(10, 20)]
    assert ranges(store) == [(0, 19)]


def test_a_domain_that_has_neither_offsets_nor_stopped_stores_nothing(store, job):
    store.do(Configure(queue="q", settings=QueueSettings(on_exhausted=OnExhausted.HALT, gaps=Gaps.WAIT)))
    store.enqueue([job(domain="d"), job(domain="d")], now=NOW)
    assert run_all(store) == [None, None]
    store.enqueue([job(domain="halts"), job(domain="waits", offset=1)], now=NOW)
    [one] = store.reserve(["q"], limit=1, lease_for=LEASE_FOR, now=NOW)
    store.settle([Fail(one.lease, reason="bad")], now=NOW)
    assert [(info.domain, info.status) for info in store.do(Domains(now=NOW))] == [
        ("halts", DomainStatus.HALTED),
        ("waits", DomainStatus.WAITING),
    ]
    assert store.do(Resume(queue="q", domain="halts", now=NOW))
    store.enqueue([job(domain="waits", offset=0)], now=NOW)
    assert run_all(store) == [0, 1]
    with store.engine._database.reading() as connection:
        assert connection.execute("SELECT * FROM holdfast_domains").fetchall() == []


def test_two_jobs_of_a_domain_cannot_have_the_turn(store, job):
    store.enqueue([job(domain="d"), job(domain="d")], now=NOW)
    with pytest.raises(holdfast.HoldfastError, match="UNIQUE"):
        store.engine._database.write(lambda connection: connection.execute("UPDATE holdfast_jobs SET turn = 1"))


# What it costs ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("few", "many"),
    [
        ([(0, 99)], [(0, 999_999)]),
        ([(2 * n, 2 * n) for n in range(50)], [(2 * n, 2 * n) for n in range(20_000)]),
    ],
    ids=["contiguous", "every other offset"],
)
def test_a_long_history_costs_no_more_than_a_short_one(path, job, few, many):
    def steps(rows) -> int:
        with holdfast.connect(f"sqlite:///{path}-{len(rows)}-{rows[-1]}", caller_clock=True) as store:
            store.do(Configure(queue="q", settings=QueueSettings(gaps=Gaps.WAIT)))
            insert_ranges(store, rows)
            following = rows[-1][1] + 1
            jobs = [job(domain="d", offset=offset) for offset in (1, 3, following, following)]

            def call():
                store.enqueue(jobs, now=NOW)
                run_all(store)

            return count_steps(store, call)

    assert steps(many) < 2 * steps(few)


def test_a_backlog_costs_no_more_than_a_few_jobs(path, job):
    def steps(count) -> int:
        with holdfast.connect(f"sqlite:///{path}-{count}", caller_clock=True) as store:
            store.enqueue([job(domain="d", offset=offset) for offset in range(10, 10 + count)], now=NOW)
            store.enqueue([job(domain="d") for _ in range(count)], now=NOW)

            def call():
                store.enqueue([job(domain="d", offset=1)], now=NOW)
                [one] = store.reserve(["q"], limit=1, lease_for=LEASE_FOR, now=NOW)
                store.settle([Ack(one.lease)], now=NOW)

            return count_steps(store, call)

    assert steps(3000) < 2 * steps(10)


def test_jobs_without_a_domain_run_no_statement_of_domains(store, job):
    store.do(Configure(queue="q", settings=QueueSettings(on_exhausted=OnExhausted.HALT)))
    seen = []
    store.engine._database.write(lambda connection: connection.set_trace_callback(seen.append))
    store.enqueue([job(), job(idempotency_key="k")], now=NOW)
    first, second = store.reserve(["q"], limit=2, lease_for=LEASE_FOR, now=NOW)
    assert store.settle([Ack(first.lease), Fail(second.lease, reason="bad")], now=NOW) == [None, None]
    store.engine._database.write(lambda connection: connection.set_trace_callback(None))
    tables = ("holdfast_domains", "holdfast_ended_offsets")
    named = [text for text in seen if any(table in text for table in tables)]
    assert len(seen) > 5
    assert {"holdfast_settings" in text for text in named} == {
        True
    }  # reserve reads the settings, and looks for arrivals


# Every way in which jobs are enqueued -----------------------------------------------------------------------------


def test_a_store_of_the_former_version_is_upgraded_with_its_domains(path, job):
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        migrate(connection, load()[:6], NOW)  # without 007_domains
        assert load()[6].name == "007_domains"
        rows = [("running", "d", 1, "1.x"), ("second", "d", 0, None), ("third", "d", 0, None), ("other", "e", 1, None)]
        for id_, domain, turn, token in rows:
            lease = (token, 1, NOW + LEASE_FOR, NOW) if token else (None,) * 4
            connection.execute(
                "INSERT INTO holdfast_jobs (space, id, queue, type, priority, state, turn, domain, token, fence, "
                "expires_at, reserved_at, worker, available_at, enqueued_at, max_attempts, created_at, payload) "
                "VALUES ('main', ?, 'q', 't', 0, ?, ?, ?, ?, ?, ?, ?, 'w', ?, ?, 3, ?, x'31')",
                (id_, "inflight" if token else "ready", turn, domain, *lease, NOW, NOW, NOW),
            )
        connection.execute("INSERT INTO holdfast_lanes VALUES ('main', 'q', 't', 0)")
    with holdfast.connect(f"sqlite:///{path}", caller_clock=True) as store:
        store.enqueue([job(id="offset", domain="d", offset=7)], now=NOW)
        assert [info.head_id for info in store.do(Domains(now=NOW))] == ["running", "other"]
        assert store.do(Reap(worker="w", now=NOW)).count == 1
        expected = ["offset", "running", "second", "third"]
        for wanted in expected:
            reserved = store.reserve(["q"], limit=5, lease_for=LEASE_FOR, now=NOW)
            [one] = [reservation for reservation in reserved if reservation.job.domain == "d"]
            assert one.job.id == wanted
            assert store.settle([Ack(one.lease)], now=NOW) == [None]


def test_a_batch_of_one_shape_with_an_offset_stores_its_first_record(store, job):
    batch = JobBatch(job(domain="d", offset=3), ["a", "b"], [b"1", b"2"])
    assert store.enqueue(batch, now=NOW) == [
        Enqueued(id="a", existed=False),
        Enqueued(id="a", existed=True, conflict=True),
    ]
    assert run_all(store) == [3]


def test_offsets_join_the_transaction_of_a_caller(path, store, job):
    with closing(sqlite3.connect(path)) as connection:
        joined = store.joined(connection)
        joined.enqueue([job(domain="d", offset=2), job(domain="d", offset=1)], now=NOW)
        [again] = joined.enqueue([job(domain="d", offset=1)], now=NOW)
        assert again.existed
        connection.rollback()
        assert store.do(Domains(now=NOW)).items == []
        joined.enqueue([job(id="kept", domain="d", offset=1)], now=NOW)
        connection.commit()
    assert store.enqueue([job(domain="d", offset=1)], now=NOW) == [Enqueued(id="kept", existed=True)]


def test_registry_writes_are_made_with_an_offset_that_existed(store, job):
    store.enqueue([job(id="first", domain="d", offset=1)], now=NOW)
    fires = [Change(kind="cron", key="k", value=b"fired", version=None)]
    [answer] = store.do(Enqueue(jobs=[job(domain="d", offset=1)], writes=fires, now=NOW)).answers
    assert answer == Enqueued(id="first", existed=True)
    assert store.do(Read(kind="cron", keys=["k"], now=NOW))[0].value == b"fired"


def test_a_job_with_an_offset_is_not_leased_while_it_is_stored(store, job):
    for settings in (QueueSettings(), QueueSettings(gaps=Gaps.WAIT)):
        store.do(Configure(queue="q", settings=settings))
        jobs = [job(), job(domain="d", offset=5)]
        stored = store.do(Enqueue(jobs=jobs, lease=LeaseTerms(lease_for=LEASE_FOR), now=NOW))
        assert stored.reservations == []
        assert len(stored.answers) == 2


def test_async_callers_get_the_same_answers(path):
    async def enqueue() -> list[Enqueued]:
        async with AsyncClient.open(f"sqlite:///{path}") as client:
            request = JobRequest(type="t", queue="q", domain="d", offset=5)
            return await client.enqueue([request, request])

    stored, repeated = asyncio.run(enqueue())
    assert (stored.existed, repeated) == (False, Enqueued(id=stored.id, existed=True))


# Many processes ---------------------------------------------------------------------------------------------------

DOMAINS, OFFSETS = 4, 30


def test_processes_that_enqueue_the_same_offsets_store_each_once_and_run_them_in_order(path):
    """Shuffled, in random batches; two producers and a consumer are killed and replaced."""
    url = f"sqlite:///{path}"
    store = holdfast.connect(url)
    store.do(Configure(queue="q", settings=QueueSettings(gaps=Gaps.WAIT)))

    def start(role, seed):
        return RoleProcess(role, url, DOMAINS, OFFSETS, seed)

    producing = [start("produce_offsets", seed) for seed in range(3)]
    consuming = [start("consume_offsets", seed) for seed in range(2)]
    killed = [producing.pop(), consuming.pop()]
    for process, role in zip(killed, ("produce_offsets", "consume_offsets"), strict=True):
        process.wait_for_reports(5)
        process.process.kill()
        (producing if role == "produce_offsets" else consuming).append(start(role, 9))
    for process in (*producing, *consuming):
        assert process.end() == ""
        assert process.process.returncode == 0
    for process in killed:
        process.end()
    stored = [report for process in (*producing, *killed) for report in process.reports if report[0] == "stored"]
    assert len({(domain, offset) for _, domain, offset in stored}) == len(stored) <= DOMAINS * OFFSETS
    rows = store.ledger(limit=10_000).items
    acked = sorted((row for row in rows if row.ending is Ending.ACKED), key=lambda row: (row.domain, row.fence))
    by_domain = {domain: [row.offset for row in found] for domain, found in groupby(acked, key=lambda row: row.domain)}
    assert by_domain == {f"d{number}": [*range(OFFSETS)] for number in range(DOMAINS)}
    leases = sorted(rows, key=lambda row: (row.domain, row.fence))
    assert all(
        later.reserved_at >= earlier.ended_at for earlier, later in pairwise(leases) if earlier.domain == later.domain
    )
    assert store.do(Domains()).items == []
    store.close()
