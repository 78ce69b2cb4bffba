"""When a worker is live, and when it is ready."""

import pytest

from holdfast.errors import StoreUnavailable
from holdfast.observability.health import BLOCKED_SECONDS, RESERVE_SECONDS, Facts, Health, judge_live, judge_ready

NOW = 10_000.0
FINE = {"started_at": 0.0, "looped_at": NOW, "reserved_at": NOW, "answered_at": NOW}
LONG_BLOCKED, LONG_AGO = NOW - BLOCKED_SECONDS - 1, NOW - RESERVE_SECONDS - 1


@pytest.mark.parametrize(
    ("facts", "reason"),
    [
        (FINE, None),
        ({}, None),  # it has not started: that is for ``ready``
        ({**FINE, "looped_at": LONG_BLOCKED}, "the loop has been blocked for 91 s, and the store answers"),
        ({**FINE, "looped_at": NOW - BLOCKED_SECONDS + 1}, None),
        ({**FINE, "looped_at": LONG_BLOCKED, "answered_at": LONG_BLOCKED - 1}, None),  # the store is out of reach
        ({**FINE, "looped_at": LONG_BLOCKED, "answered_at": None}, None),
        ({**FINE, "looped_at": LONG_BLOCKED, "is_stopping": True}, None),
        ({**FINE, "has_stopped": True}, "the worker has stopped"),
    ],
)
def test_live_is_red_only_if_a_restart_helps(facts, reason):
    verdict = judge_live(Facts(**facts), NOW)
    assert (verdict.ok, verdict.reasons) == (reason is None, () if reason is None else (reason,))


@pytest.mark.parametrize(
    ("facts", "reason"),
    [
        (FINE, None),
        ({}, "the worker has not started"),
        ({"started_at": NOW - 2, "looped_at": NOW}, "no reserve was answered yet"),
        (
            {"started_at": NOW - 2, "looped_at": NOW, "failure": "reserve: StoreUnavailable"},
            "no reserve was answered for 2 s: reserve: StoreUnavailable",
        ),
        ({**FINE, "reserved_at": LONG_AGO}, "no reserve was answered for 31 s"),
        ({**FINE, "reserved_at": LONG_AGO, "is_full": True}, None),  # it holds all the jobs that it may
        ({**FINE, "reserved_at": LONG_AGO, "looped_at": LONG_AGO, "is_full": True}, "no reserve was answered for 31 s"),
        ({**FINE, "is_stopping": True}, "the worker drains"),
        ({**FINE, "has_stopped": True}, "the worker has stopped"),
    ],
)
def test_ready_is_red_if_the_worker_does_not_reserve(facts, reason):
    verdict = judge_ready(Facts(**facts), NOW)
    assert (verdict.ok, verdict.reasons) == (reason is None, () if reason is None else (reason,))


def test_a_worker_becomes_ready_loses_its_store_gets_it_back_and_drains():
    clock = [0.0]
    health = Health(now=lambda: clock[0])
    assert (health.live().ok, health.ready().ok) == (True, False)
    health.started("w", ["default"])
    health.looped(full=False)
    health.reserved([], 0.01)
    assert health.ready().ok
    clock[0] += RESERVE_SECONDS + 1
    health.looped(full=False)
    health.store_failed("reserve", StoreUnavailable("the password of postgresql://me:s3cret@h is wrong"))
    assert health.ready().reasons == ("no reserve was answered for 31 s: reserve: StoreUnavailable",)
    assert health.live().ok
    health.reserved([], 0.01)
    assert health.ready().ok
    health.stopping()
    assert (health.live().ok, health.ready().reasons) == (True, ("the worker drains",))
    health.stopped("w", {})
    assert not health.live().ok
