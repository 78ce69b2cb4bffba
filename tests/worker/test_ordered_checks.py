"""The checks of ``run soak ordered`` find what they look for: each history has one violation."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from holdfast.clock import SECOND
from holdfast.driver import Ending, LedgerRow, State
from tests.soak.ordered_checks import check_effects, check_idle, check_order

ROW = LedgerRow(
    job_id="j",
    type="t",
    queue="q",
    domain="d",
    offset=0,
    attempt=1,
    fence=1,
    worker="w",
    enqueued_at=0,
    available_at=0,
    reserved_at=0,
    started_at=0,
    ended_at=1,
    ending=Ending.ACKED,
    state=State.DONE,
    detail="",
    error="",
)


def lease(offset: int, fence: int, *, began: int, ended: int, ending: Ending = Ending.ACKED) -> LedgerRow:
    return replace(ROW, offset=offset, fence=fence, reserved_at=began, ended_at=ended, ending=ending)


GOOD = [
    lease(0, 1, began=0, ended=2, ending=Ending.RETRIED),
    lease(0, 2, began=2, ended=4),
    lease(1, 5, began=4, ended=6),
]
EFFECTS = [("began", "d", 0, 1), ("began", "d", 0, 2), ("ended", "d", 0, 2), ("began", "d", 1, 5), ("ended", "d", 1, 5)]


def test_a_good_history_passes():
    check_order(GOOD, {"d": 2})
    assert check_effects(EFFECTS, GOOD) == 0


@pytest.mark.parametrize(
    "rows",
    [
        [lease(1, 1, began=0, ended=1), lease(0, 2, began=1, ended=2)],
        [lease(0, 1, began=0, ended=3), lease(1, 2, began=2, ended=4)],
        [lease(0, 1, began=0, ended=1)],
        [lease(1, 1, began=0, ended=1, ending=Ending.RETRIED), *(replace(row, fence=row.fence + 1) for row in GOOD)],
    ],
    ids=["acked in another order", "two leases at once", "an offset is missing", "begun before its turn"],
)
def test_a_broken_order_is_found(rows):
    with pytest.raises(AssertionError):
        check_order(rows, {"d": 2})


@pytest.mark.parametrize(
    "effects",
    [
        [*EFFECTS, EFFECTS[-1]],
        EFFECTS[:-1],
        [("began", "d", 1, 1), *EFFECTS],
    ],
    ids=["twice under one lease", "an ack without its effect", "under the lease of another offset"],
)
def test_wrong_effects_are_found(effects):
    with pytest.raises(AssertionError):
        check_effects(effects, GOOD)


def test_a_stale_effect_is_behind_the_fence():
    late = [*EFFECTS, ("ended", "d", 0, 1)]
    assert check_effects(late, GOOD) == 1


def idle_check_fails(*rows: LedgerRow, outages: tuple[tuple[int, int], ...] = (), most: int = SECOND) -> bool:
    try:
        check_idle(rows, outages, most=most)
    except AssertionError:
        return True
    return False


def test_a_domain_is_idle_from_the_instant_at_which_its_job_is_runnable():
    late = lease(0, 1, began=SECOND + 1, ended=9 * SECOND)
    assert idle_check_fails(late)
    assert not idle_check_fails(replace(late, available_at=1))  # enqueued later, or in its backoff until then
    assert not idle_check_fails(late, lease(1, 2, began=10 * SECOND, ended=11 * SECOND), most=SECOND + 1)
    assert idle_check_fails(late, lease(1, 2, began=10 * SECOND + 2, ended=11 * SECOND), most=SECOND + 1)
    expired = lease(0, 1, began=0, ended=9 * SECOND, ending=Ending.EXPIRED)  # reaped at 9 s, expired at 1 s
    again = replace(lease(0, 2, began=9 * SECOND, ended=9 * SECOND), available_at=SECOND)
    assert idle_check_fails(expired, again, most=8 * SECOND - 1)
    assert not idle_check_fails(expired, again, most=8 * SECOND)


def test_a_domain_is_not_idle_while_nobody_can_lease_its_job():
    late = lease(0, 1, began=9 * SECOND, ended=10 * SECOND)
    outages = ((4 * SECOND, 8 * SECOND), (SECOND, 5 * SECOND), (20 * SECOND, 30 * SECOND))
    assert not idle_check_fails(late, outages=outages, most=2 * SECOND)
    assert idle_check_fails(late, outages=outages, most=2 * SECOND - 1)
