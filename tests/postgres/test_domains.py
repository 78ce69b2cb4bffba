"""Ordered domains while transactions are open and rows are locked, and in stores from before offsets."""

import threading

import psycopg
import pytest
from msgspec.structs import replace

import holdfast
from holdfast.clock import SECOND
from holdfast.drivers.postgres.copy import MIN_COPY_JOBS
from holdfast.drivers.postgres.settle import MIN_SEPARATE_ACKS, pack_acks
from holdfast.drivers.requests import Configure, Domains, Enqueue, ForgetDomain, Read, Requeue, Resume, Settings
from holdfast.errors import LeaseMismatch
from holdfast.model.domain import DomainStatus, ResumeAction
from holdfast.model.lease import Enqueued
from holdfast.model.queue_settings import Gaps, OnExhausted, QueueSettings
from holdfast.model.registry import Change
from holdfast.model.settlement import Ack, Fail, Release, Retry
from tests.postgres.conftest import NOW, WITHOUT_PAYLOADS
from tests.postgres.test_wait import wait_until

LEASE = 30 * SECOND
WAITING = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"


def reserve_offsets(store, limit=9, *, now=NOW):
    return [one.job.offset for one in store.reserve(["q"], limit=limit, lease_for=LEASE, now=now)]


@pytest.fixture
def impatient(url):
    """A store whose calls fail if they wait for a lock."""
    with holdfast.connect(f"{url}?listen=off&patience=0&options=-c%20lock_timeout%3D2s", caller_clock=True) as opened:
        yield opened


def enqueue_in_thread(store, record, answers):
    thread = threading.Thread(target=lambda: answers.extend(store.enqueue([record], now=NOW)))
    thread.start()
    return thread


# Transactions that end later ------------------------------------------------------------------------------------


@pytest.mark.parametrize("commits", [True, False])
def test_an_enqueue_waits_for_the_transaction_that_ends_its_offset(store, session, other, job, commits):
    first = job(domain="d", offset=4)
    store.enqueue([first], now=NOW)
    [held] = store.reserve(["q"], limit=1, lease_for=LEASE, now=NOW)
    call = "SELECT * FROM ack(%s, %s, %s, %s, %s, %s, %s)"
    assert other.execute(call, ["main", NOW, *pack_acks([Ack(held.lease)])]).fetchall() == []
    answers: list[Enqueued] = []
    thread = enqueue_in_thread(store, job(domain="d", offset=4), answers)
    wait_until(lambda: session.execute(WAITING).fetchone() == (1,))
    if commits:
        other.commit()
    else:
        other.rollback()
    thread.join(60)
    assert answers == [Enqueued(id=first.id, existed=True, past=commits)]
    assert reserve_offsets(store) == []


def test_an_open_transaction_that_enqueues_delays_only_its_own_offset(store, session, url, impatient, job):
    store.enqueue([job(domain="d", offset=2), job(domain="d", offset=3)], now=NOW)
    with psycopg.connect(url) as connection:
        late = job(domain="d", offset=1)
        assert store.joined(connection).enqueue([late], now=NOW) == [Enqueued(id=late.id, existed=False)]
        assert impatient.enqueue([job(domain="d", offset=5)], now=NOW)[0].existed is False
        [held] = impatient.reserve(["q"], limit=9, lease_for=LEASE, now=NOW)
        assert held.job.offset == 2
        assert impatient.settle([Ack(held.lease)], now=NOW) == [None]
        answers: list[Enqueued] = []
        thread = enqueue_in_thread(store, job(domain="d", offset=1), answers)
        wait_until(lambda: session.execute(WAITING).fetchone() == (1,))
        connection.commit()
    thread.join(60)
    assert answers == [Enqueued(id=late.id, existed=True)]
    assert reserve_offsets(store) == [1]


def test_a_transaction_that_is_rolled_back_leaves_its_offset_new(store, url, job):
    with psycopg.connect(url) as connection:
        store.joined(connection).enqueue([job(domain="d", offset=1)], now=NOW)
        connection.rollback()
    assert store.enqueue([job(domain="d", offset=1)], now=NOW)[0].existed is False


def test_a_requeue_waits_for_a_transaction_that_stores_its_offset_again(store, session, url, job):
    """After ``forget_domain`` the offset of a dead job is new, and its sender may send it again at any time."""
    dead, plain = job(domain="d", offset=1), job()
    store.enqueue([dead, plain], now=NOW)
    held = store.reserve(["q"], limit=2, lease_for=LEASE, now=NOW)
    store.settle([Fail(one.lease, "no") for one in held], now=NOW)
    assert store.do(ForgetDomain(queue="q", domain="d"))
    answers = []
    with psycopg.connect(url) as connection:
        again = job(domain="d", offset=1)
        assert not store.joined(connection).enqueue([again], now=NOW)[0].existed
        thread = threading.Thread(
            target=lambda: answers.extend(store.do(Requeue(job_ids=[dead.id, plain.id], now=NOW)))
        )
        thread.start()
        wait_until(lambda: session.execute(WAITING).fetchone() == (1,))
        connection.commit()
        thread.join(60)
    assert answers == [False, True]
    assert reserve_offsets(store) == [1, None]


# Rows that another session has locked ---------------------------------------------------------------------------


def test_the_turn_of_a_locked_job_is_taken_back_later(impatient, other, job):
    larger, smaller = job(domain="d", offset=5), job(domain="d", offset=3)
    impatient.enqueue([larger], now=NOW)
    [held] = impatient.reserve(["q"], limit=1, lease_for=LEASE, now=NOW)
    impatient.settle([Release(held.lease)], now=NOW)  # ready again, with the turn
    assert other.execute("SELECT FROM jobs WHERE id = %s FOR UPDATE", [larger.id]).rowcount == 1
    impatient.enqueue([smaller], now=NOW)
    assert reserve_offsets(impatient) == []
    other.rollback()
    assert reserve_offsets(impatient) == [3]


def test_a_domain_goes_on_although_its_next_job_is_locked(impatient, other, job):
    impatient.do(Configure(queue="q", settings=QueueSettings(on_exhausted=OnExhausted.HALT)))
    first, following = job(domain="d"), job(domain="d")
    impatient.enqueue([first, following], now=NOW)
    [held] = impatient.reserve(["q"], limit=1, lease_for=LEASE, now=NOW)
    assert impatient.settle([Fail(held.lease, reason="no")], now=NOW) == [None]
    assert other.execute("SELECT FROM jobs WHERE id = %s FOR UPDATE", [following.id]).rowcount == 1
    assert impatient.do(Resume(queue="q", domain="d", action=ResumeAction.SKIP, now=NOW))
    assert impatient.reserve(["q"], limit=9, lease_for=LEASE, now=NOW) == []
    other.rollback()
    assert [one.job.id for one in impatient.reserve(["q"], limit=9, lease_for=LEASE, now=NOW)] == [following.id]


def test_only_the_domain_whose_next_job_is_locked_waits_after_an_ack(impatient, other, job):
    jobs = [job(domain=domain, offset=offset) for offset in (0, 1) for domain in ("a", "b")]
    impatient.enqueue(jobs, now=NOW)
    held = impatient.reserve(["q"], limit=9, lease_for=LEASE, now=NOW)
    assert other.execute("SELECT FROM jobs WHERE id = %s FOR UPDATE", [jobs[2].id]).rowcount == 1
    assert impatient.settle([Ack(one.lease) for one in held], now=NOW) == [None, None]
    assert [one.job.id for one in impatient.reserve(["q"], limit=9, lease_for=LEASE, now=NOW)] == [jobs[3].id]
    other.rollback()
    assert [one.job.id for one in impatient.reserve(["q"], limit=9, lease_for=LEASE, now=NOW)] == [jobs[2].id]


# Batches --------------------------------------------------------------------------------------------------------


def test_a_large_batch_with_offsets_is_answered_job_by_job(store, job):
    """COPY cannot: one known offset would abort it."""
    count = MIN_COPY_JOBS
    half = [job(domain=f"d{number % 3}", offset=number) for number in range(0, count, 2)]
    assert not any(answer.existed for answer in store.enqueue(half, now=NOW))
    batch = [job(domain=f"d{number % 3}", offset=number) for number in reversed(range(count))]
    answers = store.enqueue([*batch, *batch[:3]], now=NOW)
    assert [answer.existed for answer in answers] == [one.offset % 2 == 0 for one in batch] + [True] * 3
    assert [answer.id for answer in answers[count:]] == [batch[0].id, half[-1].id, batch[2].id]
    assert sorted(reserve_offsets(store)) == [0, 1, 2]


def test_offsets_that_are_known_are_answered_also_with_registry_writes(store, job):
    store.enqueue([job(domain="d", offset=1), job(domain="d", offset=2)], now=NOW)
    [held] = store.reserve(["q"], limit=1, lease_for=LEASE, now=NOW)
    store.settle([Ack(held.lease)], now=NOW)
    batch = [job(domain="d", offset=offset) for offset in (3, 2, 1, 3)]
    answers = store.do(Enqueue(jobs=batch, writes=[Change(kind="k", key="k", value=b"1", version=0)], now=NOW)).answers
    assert [(answer.existed, answer.past) for answer in answers] == [
        (False, False),
        (True, False),
        (True, True),
        (True, False),
    ]
    assert answers[3].id == batch[0].id
    assert store.do(Read(kind="k", keys=["k"], now=NOW)) != [None]


def test_jobs_of_a_batch_keep_their_places_in_the_lane_whatever_their_offsets(store, job):
    jobs = [job(), job(domain="b", offset=2), job(), job(domain="a", offset=1), job(domain="c")]
    store.enqueue(jobs, now=NOW)
    reserved = store.reserve(["q"], limit=9, lease_for=LEASE, now=NOW)
    assert [one.job.id for one in reserved] == [one.id for one in jobs]


def test_many_acks_beside_other_settlements_are_answered_by_position(store, job):
    jobs = [job(domain=f"d{number}") for number in range(MIN_SEPARATE_ACKS + 10)]
    store.enqueue([*jobs, *(job(domain=one.domain) for one in jobs)], now=NOW)
    leases = [one.lease for one in store.reserve(["q"], limit=len(jobs), lease_for=LEASE, now=NOW)]
    stale = replace(leases[7], token="1.0")
    settlements = [
        Retry(leases[0], delay=SECOND),
        *(Ack(lease) for lease in leases[1:7]),
        Ack(stale),
        *(Ack(lease) for lease in leases[8:-1]),
        Fail(replace(leases[-1], token="1.0"), reason="no"),
    ]
    for _ in range(2):  # they can be repeated
        answers = store.settle(settlements, now=NOW)
        refused = {number: type(answer) for number, answer in enumerate(answers) if answer is not None}
        assert refused == {7: LeaseMismatch, len(jobs) - 1: LeaseMismatch}
    assert len(store.reserve(["q"], limit=len(jobs), lease_for=LEASE, now=NOW)) == len(jobs) - 3


# Earlier versions -----------------------------------------------------------------------------------------------

TO_VERSION_7 = """
DROP TABLE domains, ended_offsets;
DROP INDEX jobs_domain, jobs_offset, jobs_turn, ended_offset;
CREATE INDEX jobs_domain ON jobs (space, queue, domain, turn DESC, seq) WHERE domain IS NOT NULL;
ALTER TABLE settings DROP COLUMN gaps, DROP COLUMN gap_report_after, DROP COLUMN gap_pass_after;
ALTER TABLE settings DROP COLUMN limits_from;
DELETE FROM migrations WHERE version >= 8;
UPDATE functions SET revision = 8, oldest = 7, checksum = 'older';
"""


def test_a_store_from_before_offsets_is_upgraded_while_its_domains_wait_and_run(store, session, url, job):
    running, waiting, ready = job(domain="a"), job(domain="a"), job(domain="b")
    store.enqueue([running, waiting, ready], now=NOW)
    [held] = store.reserve(["q"], limit=1, lease_for=LEASE, now=NOW)
    store.do(Configure(queue="q", settings=QueueSettings(max_inflight=5)))
    store.close()
    session.execute(WITHOUT_PAYLOADS)
    session.execute(TO_VERSION_7)
    with holdfast.connect(url, caller_clock=True) as upgraded:
        assert upgraded.do(Settings(queue="q")) == QueueSettings(max_inflight=5)
        [domain_a, domain_b] = upgraded.do(Domains(now=NOW))
        assert (domain_a.status, domain_a.open, domain_a.head_id) == (DomainStatus.RUNNING, 2, running.id)
        assert (domain_b.status, domain_b.open, domain_b.head_id) == (DomainStatus.OPEN, 1, ready.id)
        upgraded.enqueue([job(domain="b", offset=1)], now=NOW)
        assert upgraded.settle([Ack(held.lease)], now=NOW) == [None]
        reserved = upgraded.reserve(["q"], limit=9, lease_for=LEASE, now=NOW)
        assert [(one.job.domain, one.job.offset) for one in reserved] == [("a", None), ("b", 1)]
        upgraded.do(Configure(queue="q", settings=QueueSettings(gaps=Gaps.WAIT)))
        assert upgraded.do(Settings(queue="q")).gaps is Gaps.WAIT


TO_VERSION_8 = """
DROP INDEX jobs_domain;
CREATE INDEX jobs_domain ON jobs (space, queue, domain, "offset", seq) WHERE domain IS NOT NULL;
ALTER TABLE settings DROP COLUMN limits_from;
DELETE FROM migrations WHERE version >= 9;
UPDATE functions SET revision = 9, oldest = 7, checksum = 'older';
"""


def test_a_store_whose_index_had_all_jobs_of_a_domain_is_upgraded_while_they_wait_and_run(store, session, url, job):
    running, next_one, last = job(domain="a", offset=0), job(domain="a", offset=1), job(domain="a")
    store.enqueue([last, next_one, running], now=NOW)
    [held] = store.reserve(["q"], limit=9, lease_for=LEASE, now=NOW)
    store.close()
    session.execute(WITHOUT_PAYLOADS)
    session.execute(TO_VERSION_8)
    with holdfast.connect(url, caller_clock=True) as upgraded:
        assert "NOT turn" in str(
            session.execute("SELECT indexdef FROM pg_indexes WHERE indexname = 'jobs_domain'").fetchall()
        )
        [domain] = upgraded.do(Domains(now=NOW))
        assert (domain.status, domain.open, domain.head_id) == (DomainStatus.RUNNING, 3, running.id)
        for expected in (next_one, last):
            assert upgraded.settle([Ack(held.lease)], now=NOW) == [None]
            [held] = upgraded.reserve(["q"], limit=9, lease_for=LEASE, now=NOW)
            assert held.job.id == expected.id


def test_calls_of_an_earlier_version_store_and_end_jobs_of_domains(store, session, job):
    """Revision 8 reads five columns of ``enqueue_with_writes``, two of ``enqueue_one`` and three or more of others."""
    columns = {
        function: session.execute(
            "SELECT count(*) FROM pg_proc AS p CROSS JOIN unnest(p.proargmodes) AS m (mode) "
            "WHERE p.pronamespace = 'holdfast'::regnamespace AND p.proname = %s AND m.mode IN ('t', 'o')",
            [function],
        ).fetchone()
        for function in ("enqueue_with_writes", "enqueue_one", "ack", "settle")
    }
    assert columns == {"enqueue_with_writes": (5,), "enqueue_one": (2,), "ack": (7,), "settle": (7,)}
