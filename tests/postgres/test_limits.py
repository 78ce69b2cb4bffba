"""The limits of a queue are not exceeded, also while they are replaced."""

import threading

import psycopg
import pytest

from holdfast.clock import SECOND
from holdfast.drivers.requests import Configure
from holdfast.model.queue_settings import QueueSettings
from tests.postgres.conftest import NOW
from tests.waiting import wait_until

GATE = 42  # the advisory lock at which the reserves wait
WAITING = """
SELECT count(*) FROM pg_locks
 WHERE locktype = 'advisory' AND objid = %s AND NOT granted
   AND database = (SELECT oid FROM pg_database WHERE datname = current_database()) -- other tests use other databases
"""
WAIT_AFTER_LOCK_LIMITS = f"""
ALTER FUNCTION lock_limits RENAME TO lock_limits_at_once;
CREATE FUNCTION lock_limits(_space text, _queues text[]) RETURNS boolean[] LANGUAGE plpgsql AS $$
DECLARE
  _limits boolean[] := lock_limits_at_once(_space, _queues);
BEGIN
  PERFORM pg_advisory_xact_lock_shared({GATE});
  RETURN _limits;
END $$
"""


@pytest.mark.parametrize(
    "limits",
    [QueueSettings(max_inflight=1), QueueSettings(rate=1, burst=1), QueueSettings(key_max_inflight=1)],
    ids=["max_inflight", "rate", "key_max_inflight"],
)
def test_reserves_that_have_seen_a_pause_do_not_share_the_places_of_a_new_limit(store, session, url, job, limits):
    """They have locked nothing, so each of them would count the same free places."""
    store.do(Configure(queue="q", settings=QueueSettings(paused_until=2 * NOW)))
    store.enqueue([job(limit_key="k") for _ in range(9)], now=NOW)
    session.execute(WAIT_AFTER_LOCK_LIMITS)
    held = []

    def reserve():
        held.extend(store.reserve(["q"], limit=3, lease_for=SECOND, now=NOW))

    reserving = [threading.Thread(target=reserve) for _ in range(2)]
    with psycopg.connect(url) as gate:
        gate.execute("SELECT pg_advisory_xact_lock(%s)", [GATE])
        for thread in reserving:
            thread.start()
        wait_until(lambda: session.execute(WAITING, [GATE]).fetchone() == (2,))
        store.do(Configure(queue="q", settings=limits))
    for thread in reserving:
        thread.join()
    reserve()
    assert len(held) == 1
