"""A job that stands in both tables fails no batch: its last ending replaces the earlier one."""

import pytest

from holdfast.drivers.requests import Cancel, Requeue
from holdfast.model.job import State
from holdfast.model.settlement import Ack, Fail, Release
from tests.postgres.conftest import NOW

LEASE = 1000
COPY_TO_ENDED = """
INSERT INTO ended (seq, available_at, enqueued_at, ended_at, created_at, attempts, max_attempts, crashes, priority,
                   cancel_requested, noted, space, id, queue, type, state, last_error, dead_reason, dead_at, payload)
SELECT seq, available_at, enqueued_at, 1, created_at, attempts, max_attempts, crashes, priority, cancel_requested,
       noted, space, id, queue, type, 'dead', 'earlier', 'earlier', 1, payload
  FROM jobs WHERE id = 'a'
"""


@pytest.fixture
def held(store, session, job):
    """The leases of a job that stands in both tables, and of a job beside it."""
    store.enqueue([job(id="a", max_attempts=1), job(id="b", max_attempts=1)], now=NOW)
    reservations = store.reserve(["q"], limit=2, lease_for=LEASE, now=NOW)
    session.execute(COPY_TO_ENDED)
    return [one.lease for one in reservations]


def read_states(session):
    query = "SELECT id, state FROM jobs UNION ALL SELECT id, state FROM ended ORDER BY 1"
    return session.execute(query).fetchall()


@pytest.mark.parametrize(
    ("settle", "state"),
    [
        (Ack, State.DONE),
        (lambda lease: Fail(lease, reason="no"), State.DEAD),
        (lambda lease: Release(lease, delay=9, budget=1), State.DEAD),
    ],
)
def test_a_settlement_ends_it_and_the_jobs_beside_it(store, session, held, settle, state):
    for _ in range(2):  # and the same settlement again is a repeat
        assert store.settle([settle(lease) for lease in held], now=NOW) == [None, None]
        assert read_states(session) == [("a", state), ("b", state)]
    assert [row.job_id for row in store.ledger()] == ["a", "b"]
    assert store.get("a").last_error != "earlier"


def test_reap_and_reserve_end_it_and_the_jobs_beside_it(store, session, held):
    assert store.reap(now=NOW + LEASE) == 2
    assert read_states(session) == [("a", "dead"), ("b", "dead")]
    assert store.get("a").dead_reason == "lease expired"


def test_cancel_ends_it(store, session, job):
    store.enqueue([job(id="a")], now=NOW)
    session.execute(COPY_TO_ENDED)
    assert store.do(Cancel(job_ids=["a"], now=NOW)) == [State.CANCELLED]
    assert read_states(session) == [("a", "cancelled")]


def test_requeue_leaves_it_as_it_is(store, session, held):
    assert store.do(Requeue(job_ids=["a"], now=NOW)) == [False]
    assert store.settle([Ack(lease) for lease in held], now=NOW) == [None, None]
