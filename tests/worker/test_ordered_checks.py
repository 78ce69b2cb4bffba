"""The checks of ``run soak ordered`` find what they look for: each history has one violation."""

from __future__ import annotations

from dataclasses import replace

import pytest

from holdfast.clock import SECOND
from holdfast.driver import Ending, LedgerRow, State
from tests.soak.ordered_checks import check_effects, check_order, longest_idle

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


def test_a_domain_that_younger_jobs_pass_is_idle_but_not_while_nobody_is_there():
    instants = [step * SECOND // 2 for step in range(20)]
    others = [
        replace(ROW, domain="other", fence=10 + place, available_at=at + 1, reserved_at=at + 1)
        for place, at in enumerate(instants)
    ]
    waiting = replace(ROW, fence=99, reserved_at=10 * SECOND, ended_at=11 * SECOND)
    assert longest_idle([*others, waiting]).ordinary.microseconds == 10 * SECOND - 1
    older = [replace(row, available_at=0) for row in others]
    assert longest_idle([*older, waiting]).ordinary.microseconds == 0
    assert longest_idle([others[0], waiting]).ordinary.microseconds == 0
    expired = replace(ROW, fence=1, reserved_at=0, ended_at=SECOND, ending=Ending.EXPIRED)
    assert longest_idle([*others, expired, waiting]).isolated.row == waiting
