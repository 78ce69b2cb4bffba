"""The decisions of a circuit breaker; every instant is an argument."""

from datetime import timedelta

import pytest

from holdfast import QueueSettings
from holdfast.errors import InvalidInput
from holdfast.worker.breaker import (
    BreakerAction,
    BreakerPhase,
    BreakerRule,
    BreakerState,
    EndedAttempt,
    after_attempts,
    phase_of,
)

RULE = BreakerRule(threshold=3)


def attempts(text: str, *, reserved_at: int = 100) -> list[EndedAttempt]:
    return [EndedAttempt(reserved_at, letter == "f") for letter in text]


@pytest.mark.parametrize(
    ("ended", "failures", "action"),
    [
        ("", 0, None),
        ("ff", 2, None),
        ("ffs", 0, None),
        ("ffsff", 2, None),
        ("fff", 3, BreakerAction.OPEN),
        ("sfffs", 3, BreakerAction.OPEN),
    ],
)
def test_only_failures_in_a_row_open_it(ended, failures, action):
    assert after_attempts(BreakerState(), attempts(ended), RULE) == (BreakerState(failures=failures), action)


def test_failures_are_counted_over_batches():
    state, action = after_attempts(BreakerState(), attempts("ff"), RULE)
    assert action is None
    assert after_attempts(state, attempts("f"), RULE)[1] is BreakerAction.OPEN


def test_an_attempt_that_began_before_it_opened_changes_nothing():
    opened = BreakerState(failures=3, held_until=100, probing=True)
    assert after_attempts(opened, attempts("sfsfff", reserved_at=99), RULE) == (opened, None)


def test_a_probe_that_succeeds_closes_it_and_one_that_fails_opens_it_again():
    half_open = BreakerState(failures=3, held_until=100, probing=True)
    assert after_attempts(half_open, attempts("s"), RULE) == (BreakerState(), BreakerAction.CLOSE)
    state, action = after_attempts(half_open, attempts("f"), RULE)
    assert (state.failures, action) == (4, BreakerAction.OPEN)


def test_the_settings_of_the_type_have_the_state():
    held = QueueSettings(held_until=100, probing=True)
    assert [phase_of(held, now) for now in (99, 100)] == [BreakerPhase.OPEN, BreakerPhase.HALF_OPEN]
    assert phase_of(QueueSettings(held_until=100), 99) is BreakerPhase.CLOSED  # a handler paused the type
    assert phase_of(QueueSettings(), 99) is BreakerPhase.CLOSED


def test_a_rule_is_checked():
    with pytest.raises(InvalidInput, match="breaker_threshold: wanted a whole number from 1"):
        BreakerRule(threshold=0)
    with pytest.raises(InvalidInput, match="breaker_cooldown"):
        BreakerRule(threshold=1, cooldown=timedelta())
