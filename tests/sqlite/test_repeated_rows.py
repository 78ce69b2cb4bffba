"""A job that stands in both tables fails no batch: its last ending replaces the earlier one."""

import sqlite3

import pytest

from holdfast.clock import HOUR
from holdfast.drivers.requests import Cancel
from holdfast.model.job import State
from holdfast.model.settlement import Ack, Fail
from tests.sqlite.conftest import NOW

COPY_TO_ENDED = """
INSERT INTO holdfast_ended
  (seq, available_at, enqueued_at, ended_at, created_at, attempts, max_attempts, crashes, priority, cancel_requested,
   noted, space, id, queue, type, state, last_error, dead_reason, dead_at, payload)
SELECT seq + 100, available_at, enqueued_at, 1, created_at, attempts, max_attempts, crashes, priority, cancel_requested,
       noted, space, id, queue, type, 'dead', 'earlier', 'earlier', 1, payload
  FROM holdfast_jobs WHERE id = 'a'
"""


@pytest.mark.parametrize("end", [Ack, lambda lease: Fail(lease, reason="no"), None])
def test_the_last_ending_replaces_the_earlier_one(store, path, job, end):
    store.enqueue([job(id="a"), job(id="b")], now=NOW)
    leases = [one.lease for one in store.reserve(["q"], limit=2, lease_for=HOUR, now=NOW)] if end else []
    with sqlite3.connect(path) as connection:
        connection.execute(COPY_TO_ENDED)
    connection.close()
    if end is None:
        assert store.do(Cancel(job_ids=["a", "b"], now=NOW)) == [State.CANCELLED, State.CANCELLED]
    else:
        assert store.settle([end(lease) for lease in leases], now=NOW) == [None, None]
    assert [(one.id, one.dead_reason) for one in store.find()] == [
        (name, "no" if end not in (Ack, None) else None) for name in ("a", "b")
    ]
