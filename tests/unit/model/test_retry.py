"""Retry policies: bounded, growing, spread by jitter, and equal after formatting and parsing."""

from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.clock import DAY, to_timedelta
from holdfast.errors import InvalidInput
from holdfast.model import bounds
from holdfast.model.job import DEFAULT_MAX_ATTEMPTS
from holdfast.model.retry import (
    DEFAULT,
    MAX_FACTOR,
    Custom,
    Exponential,
    Fixed,
    Jitter,
    Linear,
    NoDelay,
    RetryPolicy,
    format_policy,
    parse,
)

SECOND = timedelta(seconds=1)
ATTEMPTS = st.integers(1, 10**6)
RANDOM = st.floats(0, 1, exclude_max=True)
LENGTHS = st.integers(0, bounds.MAX_DURATION).map(to_timedelta)
JITTERS = st.sampled_from(Jitter)
FACTORS = st.integers(1, MAX_FACTOR) | st.floats(1, MAX_FACTOR)


@st.composite
def policies(draw: st.DrawFn, jitters: st.SearchStrategy[Jitter] = JITTERS) -> NoDelay | Fixed | Linear | Exponential:
    base, cap = sorted((draw(LENGTHS), draw(LENGTHS)))
    jitter = draw(jitters)
    return draw(
        st.sampled_from(
            [
                NoDelay(),
                Fixed(base, jitter=jitter),
                Linear(base, max_delay=cap, jitter=jitter),
                Exponential(base, factor=draw(FACTORS), max_delay=cap, jitter=jitter),
            ]
        )
    )


def seconds(policy: RetryPolicy, attempts: int, random: float = 0.5) -> list[float]:
    return [policy.delay(attempt, random).total_seconds() for attempt in range(1, attempts + 1)]


def test_the_delays_of_each_policy():
    assert seconds(NoDelay(), 3) == [0, 0, 0]
    assert seconds(Fixed(30 * SECOND), 3) == [30, 30, 30]
    assert seconds(Linear(10 * SECOND, max_delay=35 * SECOND), 5) == [10, 20, 30, 35, 35]
    doubling = Exponential(2 * SECOND, max_delay=60 * SECOND, jitter=Jitter.NONE)
    assert seconds(doubling, 7) == [2, 4, 8, 16, 32, 60, 60]
    assert seconds(Exponential(SECOND, factor=1.5, jitter=Jitter.NONE), 3) == [1, 1.5, 2.25]
    squares = Custom(lambda attempt: attempt**2 * SECOND, max_delay=10 * SECOND)
    assert seconds(squares, 5) == [1, 4, 9, 10, 10]


def test_jitter_makes_all_or_half_of_a_delay_random():
    [none, full, equal] = [Fixed(8 * SECOND, jitter=jitter) for jitter in (Jitter.NONE, Jitter.FULL, Jitter.EQUAL)]
    assert [none.delay(1, random).total_seconds() for random in (0, 0.5, 0.75)] == [8, 8, 8]
    assert [full.delay(1, random).total_seconds() for random in (0, 0.5, 0.75)] == [0, 4, 6]
    assert [equal.delay(1, random).total_seconds() for random in (0, 0.5, 0.75)] == [4, 6, 7]


@given(policies(), ATTEMPTS, RANDOM)
def test_no_delay_is_longer_than_max_delay(policy: NoDelay | Fixed | Linear | Exponential, attempt: int, random: float):
    assert timedelta() <= policy.delay(attempt, random) <= policy.max_delay


@given(policies(st.just(Jitter.NONE)), ATTEMPTS, ATTEMPTS, RANDOM)
def test_a_later_attempt_never_waits_less(policy: RetryPolicy, one: int, other: int, random: float):
    earlier, later = sorted((one, other))
    assert policy.delay(earlier, random) <= policy.delay(later, random)
    assert policy.delay(earlier, random) <= policy.delay(earlier + 1, random)


@given(LENGTHS, FACTORS, ATTEMPTS, RANDOM)
def test_jitter_stays_within_its_share(base: timedelta, factor: float, attempt: int, random: float):
    longest = to_timedelta(bounds.MAX_DURATION)
    plain, full, equal = (
        Exponential(base, factor=factor, max_delay=longest, jitter=jitter).delay(attempt, random)
        for jitter in (Jitter.NONE, Jitter.FULL, Jitter.EQUAL)
    )
    assert timedelta() <= full <= plain
    assert plain // 2 <= equal <= plain


@given(st.timedeltas(), LENGTHS, JITTERS, RANDOM)
def test_a_custom_delay_is_limited_by_max_delay(length: timedelta, cap: timedelta, jitter: Jitter, random: float):
    delay = Custom(lambda _: length, max_delay=cap, jitter=jitter).delay(1, random)
    assert timedelta() <= delay <= cap


def test_a_custom_function_must_return_a_timedelta():
    with pytest.raises(InvalidInput, match=r"delay: wanted a timedelta from the policy's function, got 5"):
        Custom(lambda _: 5).delay(1, 0.5)  # type: ignore[arg-type, return-value]


@pytest.mark.parametrize("attempt", [10**6, bounds.MAX_COUNT])
def test_the_delay_of_a_very_late_attempt_does_not_overflow(attempt: int):
    assert Exponential(SECOND, factor=MAX_FACTOR, jitter=Jitter.NONE).delay(attempt, 0) == timedelta(hours=1)
    assert Exponential(SECOND, factor=1, jitter=Jitter.NONE).delay(attempt, 0) == SECOND
    assert Exponential(timedelta(), factor=2, jitter=Jitter.NONE).delay(attempt, 0) == timedelta()
    assert Linear(to_timedelta(bounds.MAX_DURATION), max_delay=to_timedelta(bounds.MAX_DURATION)).delay(attempt, 0)


def test_the_default_policy_covers_a_night_with_the_default_attempts():
    assert str(DEFAULT) == "exponential(2s, x2, max 1h, full jitter)"
    longest = sum(seconds(DEFAULT, DEFAULT_MAX_ATTEMPTS - 1, random=1 - 1e-9))
    assert 14 * 3600 < longest < 14.2 * 3600


@given(policies())
def test_parse_reads_back_what_format_policy_returns(policy: NoDelay | Fixed | Linear | Exponential):
    assert parse(format_policy(policy)) == policy
    assert len(format_policy(policy)) <= bounds.MAX_TEXT_BYTES


@pytest.mark.parametrize(
    ("text", "policy"),
    [
        ("none", NoDelay()),
        ("fixed(30s)", Fixed(30 * SECOND)),
        ("fixed(0s)", Fixed(timedelta())),
        ("linear( 1.5m , max 2h, equal jitter)", Linear(90 * SECOND, max_delay=7200 * SECOND, jitter=Jitter.EQUAL)),
        ("exponential(500ms)", Exponential(SECOND / 2)),
        (" Exponential(no jitter, x1.5, 2s)", Exponential(2 * SECOND, factor=1.5, jitter=Jitter.NONE)),
        ("exponential(250us, max 1d)", Exponential(SECOND / 4000, max_delay=timedelta(days=1))),
    ],
)
def test_only_the_duration_is_required_and_the_order_is_free(text: str, policy: RetryPolicy):
    assert parse(text) == policy


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "wanted text of 1 to 256 bytes"),
        ("x" * 300, "wanted text of 1 to 256 bytes"),
        ("sometimes", "wanted a policy such as none, fixed"),
        ("fixed", "wanted a policy such as none, fixed"),
        ("none(2s)", "wanted a policy such as none, fixed"),
        ("custom(f, max 1h)", "wanted a policy such as none, fixed"),
        ("fixed()", "wanted a length such as 1500ms, 30s, .*, got ''"),
        ("fixed(2)", "wanted a length such as .*, got 2"),
        ("fixed(-2s)", "wanted a length such as .*, got -2s"),
        ("fixed(٢s)", "wanted a length such as .*, got ٢s"),
        ("exponential(x2)", r"wanted a length in exponential\(\.\.\.\), such as 2s"),
        ("fixed(2s, x2)", r"wanted each part of fixed\(\.\.\.\) once, and no others, got x2"),
        ("linear(2s, 3s)", r"wanted each part of linear\(\.\.\.\) once, and no others, got 3s"),
        ("linear(2s, max 1s)", "max_delay: wanted at least the base, 2s, got 1s"),
        ("exponential(2s, x0.5)", "factor: wanted a number from 1 to 1000, got 0.5"),
        (f"fixed({bounds.MAX_DURATION // DAY + 1}d)", "wanted at most 36600 days, got 36601d"),
    ],
)
def test_a_text_that_is_not_a_policy_is_refused_with_what_was_wanted(text: str, complaint: str):
    with pytest.raises(InvalidInput, match=complaint):
        parse(text)


def test_a_policy_checks_its_values():
    with pytest.raises(InvalidInput, match="base: wanted a timedelta, got 2"):
        Fixed(2)  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match=r"jitter: wanted Jitter\.NONE"):
        Linear(SECOND, jitter="full jitter")  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match="factor: wanted a number from 1 to 1000, got nan"):
        Exponential(factor=float("nan"))
    with pytest.raises(InvalidInput, match="function: wanted a function"):
        Custom(SECOND)  # type: ignore[arg-type]


class Patient(Exponential):
    def delay(self, attempt: int, random: float) -> timedelta:
        return 2 * super().delay(attempt, random)


@pytest.mark.parametrize("policy", [Custom(lambda _: SECOND), Patient(SECOND), "fixed(3s)", Fixed, 3, None])
def test_only_built_in_policies_have_a_text(policy: object):
    wanted = r"retry: wanted NoDelay, Fixed, Linear or Exponential \(a job carries its policy as text; .*\), got "
    with pytest.raises(InvalidInput, match=wanted):
        format_policy(policy)


def test_a_custom_policy_shows_the_name_of_its_function():
    assert str(Custom(fibonacci)) == "custom(fibonacci, max 1d, no jitter)"


def fibonacci(attempt: int) -> timedelta:
    return SECOND if attempt < 3 else fibonacci(attempt - 1) + fibonacci(attempt - 2)
