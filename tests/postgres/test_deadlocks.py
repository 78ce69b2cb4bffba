"""The verbs take their locks in one order: no two of them wait for each other in a circle."""

from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import pytest

from holdfast.clock import MINUTE
from holdfast.drivers.requests import Enqueue, Write
from holdfast.errors import WriteRefused
from holdfast.model.registry import Change
from holdfast.model.settlement import Ack
from tests.postgres.conftest import NOW
from tests.postgres.stress import count_deadlocks_of_random_verbs
from tests.waiting import wait_until

BLOCKED = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
WRITE = """
INSERT INTO registry (space, kind, key, value, version) VALUES ('main', 'k', %s, 'other', nextval('counter'))
    ON CONFLICT (space, kind, key) DO UPDATE SET value = excluded.value, version = excluded.version
"""


def change(key, value=b"mine", **fields):
    return Change(kind="k", key=key, value=value, **fields)


def enqueue(store, job, changes):
    return store.do(Enqueue(jobs=[job()], writes=changes, now=NOW)).answers


def ack_one(store, job, changes):
    return ack(store, job, [changes])


def ack_each(store, job, changes):
    return ack(store, job, [[one] for one in changes])


def ack(store, job, changes):
    store.enqueue([job() for _ in changes], now=NOW)
    held = store.reserve(["q"], limit=10, lease_for=MINUTE, now=NOW)
    acks = [Ack(one.lease, writes=tuple(some)) for one, some in zip(held, changes, strict=True)]
    return store.settle(acks, now=NOW)


@pytest.mark.parametrize("call", [enqueue, ack_one, ack_each])
@pytest.mark.parametrize(
    ("existing", "changes"),
    [
        ("a", [change("a"), change("b")]),
        ("b", [change("a"), change("b", None)]),
        ("b", [change("b"), change("a", version=0)]),
    ],
    ids=["the second is new", "the first is new, the second removed", "the first is new, and must be"],
)
def test_entries_are_locked_in_order_whether_they_exist_or_not(store, session, other, job, *, call, existing, changes):
    """Another session writes the first entry, and the second one once the call waits."""
    store.do(Write(changes=[change(existing)], now=NOW))
    other.execute("SET deadlock_timeout = '10ms'")  # so that the error is in this session, and no call is repeated
    other.execute(WRITE, ["a"])
    with ThreadPoolExecutor() as pool:
        calling = pool.submit(call, store, job, changes)
        wait_until(lambda: session.execute(BLOCKED).fetchone() == (1,))
        other.execute(WRITE, ["b"])
        other.commit()
        with suppress(WriteRefused):  # an entry that must be new is not new any more
            calling.result()


@pytest.mark.parametrize("steps", [50, pytest.param(150, marks=pytest.mark.long)])
@pytest.mark.parametrize(("seed", "keyed", "ordered"), [(1, False, False), (2, True, False), (3, False, True)])
def test_random_verbs_never_deadlock_and_lose_no_turn_and_no_job_of_a_key(url, seed, keyed, ordered, steps):
    assert count_deadlocks_of_random_verbs(url, threads=8, steps=steps, seed=seed, keyed=keyed, ordered=ordered) == 0
