"""Durations and rates as people write them."""

from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.clock import DAY, HOUR, MILLISECOND, MINUTE, SECOND, from_timedelta, to_timedelta
from holdfast.errors import InvalidInput
from holdfast.model import bounds
from holdfast.model.duration import format_exact, format_rounded, parse, parse_rate


@pytest.mark.parametrize(
    ("text", "length"),
    [
        ("1500ms", 1500 * MILLISECOND),
        ("30s", 30 * SECOND),
        ("5m", 5 * MINUTE),
        ("2h", 2 * HOUR),
        ("1d", DAY),
        ("1w", 7 * DAY),
        ("1h30m", HOUR + 30 * MINUTE),
        ("1.5s", 1500 * MILLISECOND),
        ("0.25d", 6 * HOUR),
        ("7us", 7),
        ("7µs", 7),
        (" 5M ", 5 * MINUTE),
        ("0s", 0),
    ],
)
def test_a_duration_is_parsed_exactly(text, length):
    assert from_timedelta(parse("x", text)) == length


@pytest.mark.parametrize(
    "text", ["", "5", "m", "5 m", "-5m", "5x", "5m!", "1.s", ".5s", "1e3s", "5m 3s", "\u0665s", "99999999d"]
)
def test_other_texts_are_refused(text):
    with pytest.raises(InvalidInput) as caught:
        parse("timeout", text)
    assert caught.value.field == "timeout"


@given(st.integers(0, bounds.MAX_DURATION))
def test_parse_reads_back_what_format_exact_returns(length):
    assert parse("x", format_exact(to_timedelta(length))) == to_timedelta(length)


@given(st.integers(0, bounds.MAX_DURATION))
def test_rounded_texts_are_short_and_close(length):
    text = format_rounded(length)
    assert len(text) <= 9
    read = from_timedelta(parse("x", text))
    assert read <= length
    assert length < 2 * read or length == 0


@pytest.mark.parametrize(
    ("length", "text"),
    [
        (0, "0s"),
        (-5, "0s"),
        (15, "15us"),
        (15_000, "15ms"),
        (1_500_000, "1.5s"),
        (12_900_000, "12s"),
        (200 * SECOND, "3m20s"),
        (HOUR, "1h"),
        (26 * HOUR + MINUTE, "1d2h"),
    ],
)
def test_format_rounded(length, text):
    assert format_rounded(length) == text


def test_rates_are_parsed():
    assert [parse_rate("r", text) for text in ("10", "10/s", "600/m", "36000/h", "0.5")] == [10, 10, 10, 10, 0.5]
    for text in ("", "0", "fast", "-1", "1/x", "1/2s", "nan", "inf"):
        with pytest.raises(InvalidInput, match="wanted a rate such as"):
            parse_rate("rate", text)


def test_a_parsed_duration_is_a_timedelta():
    assert parse("x", "90s") == timedelta(minutes=1, seconds=30)
