"""A request accepts every value within its bounds, and refuses others with the wanted and the given value."""

from __future__ import annotations

import unicodedata
from dataclasses import FrozenInstanceError
from datetime import UTC, datetime, timedelta, timezone
from types import MappingProxyType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.clock import to_timedelta
from holdfast.errors import InvalidInput
from holdfast.model import bounds
from holdfast.model.request import JobRequest
from holdfast.model.retry import Custom, Exponential, NoDelay

NAME = "1 to 128 of the characters A-Z a-z 0-9 . _ : -"
TEXT = "text of 1 to 256 bytes without control characters"
COUNT = "a whole number from 1 to 2147483647"
LENGTH = "a length from {} to 36600d"
URL = "an http or https URL of at most 2048 characters"
POLICY = (
    "NoDelay, Fixed, Linear or Exponential (a job carries its policy as text; one that is code belongs to the handler)"
)
MOST = to_timedelta(bounds.MAX_DURATION)
TICK = timedelta(microseconds=1)


def test_only_the_type_is_required():
    request = JobRequest(type="mail.send")
    assert (request.queue, request.priority, request.max_attempts) == ("default", 0, None)
    assert (request.payload, request.run_at, request.delay, request.timeout) == (None, None, None, None)
    assert request.meta == {}


def test_a_request_is_immutable():
    with pytest.raises(FrozenInstanceError):
        JobRequest(type="t").priority = 3  # type: ignore[misc]


@pytest.mark.parametrize(
    "fields",
    [
        {"type": "A-Z.a_z:09"},
        {"type": "x" * 128},
        {"queue": "x" * 128},
        {"priority": 0},
        {"priority": 9},
        {"run_at": datetime(1970, 1, 1, tzinfo=UTC)},
        {"run_at": datetime(9999, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC)},
        {"run_at": datetime(2027, 1, 1, tzinfo=timezone(timedelta(hours=-9, minutes=30)))},
        {"delay": timedelta(0)},
        {"delay": MOST},
        {"timeout": TICK},
        {"timeout": MOST},
        {"max_attempts": 1},
        {"max_attempts": 2**31 - 1},
        {"retry": NoDelay()},
        {"retry": Exponential(TICK, factor=1.0000000000000002, max_delay=MOST)},
        {"idempotency_key": "é" * 128},
        {"domain": "客户 17"},
        {"domain": "d", "offset": 0},
        {"domain": "d", "offset": 2**63 - 1},
        {"name": "x" * 256},
        {"meta": {"k": object()}},
        {"meta": MappingProxyType({"holdfast": 1})},
        {"webhook": "http://h"},
        {"webhook": "https://" + "h" * 2040},
    ],
)
def test_values_at_the_bounds_are_accepted(fields: dict[str, object]):
    request = JobRequest(**{"type": "t", **fields})  # type: ignore[arg-type]
    for name, value in fields.items():
        assert getattr(request, name) == value


@pytest.mark.parametrize(
    ("fields", "field", "wanted", "got"),
    [
        ({"type": ""}, "type", NAME, "''"),
        ({"type": "x" * 129}, "type", NAME, "x" * 129),
        ({"type": "a b"}, "type", NAME, "a b"),
        ({"type": "é"}, "type", NAME, "é"),
        ({"type": "a\n"}, "type", NAME, "a\n"),
        ({"type": None}, "type", NAME, "None"),
        ({"queue": "a/b"}, "queue", NAME, "a/b"),
        ({"priority": -1}, "priority", "a whole number from 0 to 9", "-1"),
        ({"priority": 10}, "priority", "a whole number from 0 to 9", "10"),
        ({"priority": True}, "priority", "a whole number from 0 to 9", "True"),
        ({"priority": 1.0}, "priority", "a whole number from 0 to 9", "1.0"),
        ({"run_at": datetime(2027, 1, 1)}, "run_at", "a datetime with a time zone", None),  # noqa: DTZ001
        ({"run_at": 5}, "run_at", "a datetime with a time zone", "5"),
        (
            {"run_at": datetime(1969, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC)},
            "run_at",
            "a whole number from 0 to 253402300799999999",
            "-1",
        ),
        ({"run_at": datetime(2027, 1, 1, tzinfo=UTC), "delay": TICK}, "delay", "either run_at or delay", "both"),
        ({"delay": -TICK}, "delay", LENGTH.format("0s"), "-1us"),
        ({"delay": MOST + TICK}, "delay", LENGTH.format("0s"), "36600d1us"),
        ({"delay": 5}, "delay", "a timedelta", "5"),
        ({"timeout": timedelta(0)}, "timeout", LENGTH.format("1us"), "0s"),
        ({"timeout": MOST + TICK}, "timeout", LENGTH.format("1us"), "36600d1us"),
        ({"timeout": 30}, "timeout", "a timedelta", "30"),
        ({"max_attempts": 0}, "max_attempts", COUNT, "0"),
        ({"max_attempts": 2**31}, "max_attempts", COUNT, "2147483648"),
        ({"retry": Custom(lambda attempt: attempt * TICK)}, "retry", POLICY, None),
        ({"retry": "fixed(3s)"}, "retry", POLICY, "fixed(3s)"),
        ({"idempotency_key": ""}, "idempotency_key", TEXT, "''"),
        ({"idempotency_key": "é" * 129}, "idempotency_key", TEXT, "258 bytes"),
        ({"domain": "a\x00b"}, "domain", TEXT, "'a\\x00b'"),
        ({"domain": "\ud800"}, "domain", TEXT, "'\\ud800'"),
        ({"offset": 1}, "offset", "a domain beside it", "an offset alone"),
        ({"domain": "d", "offset": -1}, "offset", "a whole number from 0 to 9223372036854775807", "-1"),
        ({"domain": "d", "offset": "1"}, "offset", "a whole number from 0 to 9223372036854775807", "'1'"),
        ({"domain": "d", "offset": 2**63}, "offset", "a whole number from 0 to 9223372036854775807", None),
        ({"name": 5}, "name", TEXT, "5"),
        ({"meta": []}, "meta", "a mapping with text keys", "[]"),
        ({"meta": {1: 2}}, "meta key", TEXT, "1"),
        ({"meta": {"": 2}}, "meta key", TEXT, "''"),
        ({"meta": {"holdfast.codec": 2}}, "meta key", "a key that does not begin with 'holdfast.'", "holdfast.codec"),
        ({"meta": {"holdfast.retry": "none"}}, "meta key", "a key that does not begin with 'holdfast.'", None),
        ({"webhook": "ftp://h"}, "webhook", URL, "ftp://h"),
        ({"webhook": "https://h/a b"}, "webhook", URL, "https://h/a b"),
        ({"webhook": "https://é"}, "webhook", URL, "https://é"),
        ({"webhook": "https://" + "h" * 2041}, "webhook", URL, None),
    ],
)
def test_an_invalid_value_is_refused_with_what_was_wanted_and_got(
    fields: dict[str, object], field: str, wanted: str, got: str | None
):
    with pytest.raises(InvalidInput) as refused:
        JobRequest(**{"type": "t", **fields})  # type: ignore[arg-type]
    error = refused.value
    assert (error.field, error.wanted) == (field, wanted)
    assert got in (None, error.got)
    assert str(error) == f"{field}: wanted {wanted}, got {error.got}"


NAME_CHARACTERS = set("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._:-")


@given(st.text(max_size=140) | st.text(st.sampled_from(sorted(NAME_CHARACTERS)), max_size=140))
def test_a_type_is_a_name_or_is_refused(text: str):
    fits = 1 <= len(text) <= bounds.MAX_NAME_CHARACTERS and set(text) <= NAME_CHARACTERS
    assert accepted(type=text) == fits


@given(st.text(max_size=300) | st.text(st.characters(exclude_categories=["C"]), max_size=300))
def test_a_domain_is_a_text_or_is_refused(text: str):
    printable = all(unicodedata.category(character) not in ("Cc", "Cs") for character in text)
    fits = bool(text) and printable and len(text.encode("utf-8", "surrogatepass")) <= bounds.MAX_TEXT_BYTES
    assert accepted(domain=text) == fits


@given(st.integers() | st.integers(-1, 11))
def test_a_priority_is_one_digit_or_is_refused(priority: int):
    assert accepted(priority=priority) == (0 <= priority <= 9)


@given(st.timedeltas())
def test_a_timeout_is_a_bounded_duration_or_is_refused(timeout: timedelta):
    assert accepted(timeout=timeout) == (TICK <= timeout <= MOST)


@given(st.datetimes(timezones=st.none() | st.timezones()))
def test_a_run_at_is_an_instant_or_is_refused(run_at: datetime):
    aware = run_at.utcoffset() is not None
    assert accepted(run_at=run_at) == (aware and run_at >= datetime(1970, 1, 1, tzinfo=UTC))


def accepted(**fields: object) -> bool:
    try:
        JobRequest(**{"type": "t", **fields})  # type: ignore[arg-type]
    except InvalidInput:
        return False
    return True
