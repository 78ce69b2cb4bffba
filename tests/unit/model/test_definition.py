"""A builder makes a definition, a definition makes requests."""

from __future__ import annotations

from dataclasses import FrozenInstanceError, fields
from datetime import UTC, datetime, timedelta

import pytest

from holdfast.errors import InvalidInput
from holdfast.model.definition import JobBuilder, JobDefinition
from holdfast.model.request import JobRequest
from holdfast.model.retry import Custom, Fixed, Linear, NoDelay

FULL = JobDefinition(
    type="mail.send",
    payload={"to": "ada"},
    queue="mail",
    priority=5,
    timeout=timedelta(seconds=30),
    max_attempts=8,
    retry=Fixed(timedelta(seconds=3)),
    name="welcome mail",
    meta={"team": "growth", "tier": 1},
    webhook="https://example.org/hook",
)


def test_a_builder_builds_a_definition():
    built = (
        JobBuilder("mail.send")
        .payload({"to": "ada"})
        .queue("mail")
        .priority(5)
        .timeout(timedelta(seconds=30))
        .max_attempts(8)
        .retry(Fixed(timedelta(seconds=3)))
        .named("welcome mail")
        .meta(team="growth")
        .meta(tier=1)
        .webhook("https://example.org/hook")
        .build()
    )
    assert built == FULL


def test_an_empty_builder_has_the_defaults_of_a_request():
    definition, request = JobBuilder("t").build(), JobRequest(type="t")
    for field in fields(JobDefinition):
        assert getattr(definition, field.name) == getattr(request, field.name)


def test_changing_a_builder_does_not_change_what_it_has_built():
    builder = JobBuilder("t").meta(a=1)
    first = builder.build()
    second = builder.meta(b=2).priority(3).build()
    assert (first.meta, first.priority) == ({"a": 1}, 0)
    assert (second.meta, second.priority) == ({"a": 1, "b": 2}, 3)


@pytest.mark.parametrize(
    ("changed", "field", "value"),
    [
        (FULL.with_payload(None), "payload", None),
        (FULL.with_queue("other"), "queue", "other"),
        (FULL.with_priority(9), "priority", 9),
        (FULL.with_timeout(None), "timeout", None),
        (FULL.with_max_attempts(1), "max_attempts", 1),
        (FULL.with_retry(None), "retry", None),
        (FULL.with_retry(NoDelay()), "retry", NoDelay()),
        (FULL.with_name(None), "name", None),
        (FULL.with_meta(tier=2, region="eu"), "meta", {"team": "growth", "tier": 2, "region": "eu"}),
        (FULL.with_webhook(None), "webhook", None),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)
def test_each_with_method_returns_a_copy_that_differs_in_one_field(changed: JobDefinition, field: str, value: object):
    assert getattr(changed, field) == value
    others = [name for name in FULL.__dataclass_fields__ if name != field]
    assert [getattr(changed, name) for name in others] == [getattr(FULL, name) for name in others]
    assert getattr(FULL, field) != value


def test_a_definition_is_immutable():
    with pytest.raises(FrozenInstanceError):
        FULL.queue = "other"  # type: ignore[misc]


def test_a_request_has_the_fields_of_the_definition_and_its_own():
    at = datetime(2027, 1, 15, tzinfo=UTC)
    request = FULL.request({"to": "eve"}, run_at=at, idempotency_key="k", domain="d", offset=3)
    assert request == JobRequest(
        type="mail.send",
        payload={"to": "eve"},
        queue="mail",
        priority=5,
        run_at=at,
        timeout=timedelta(seconds=30),
        max_attempts=8,
        retry=Fixed(timedelta(seconds=3)),
        idempotency_key="k",
        domain="d",
        offset=3,
        name="welcome mail",
        meta={"team": "growth", "tier": 1},
        webhook="https://example.org/hook",
    )
    assert FULL.request(delay=timedelta(seconds=1)).delay == timedelta(seconds=1)


def test_a_request_has_its_own_policy_or_the_definitions():
    assert FULL.request().retry == Fixed(timedelta(seconds=3))
    assert FULL.request(retry=Linear(timedelta(seconds=1))).retry == Linear(timedelta(seconds=1))
    assert FULL.with_retry(None).request().retry is None


def test_a_request_has_its_own_payload_or_the_definitions():
    assert FULL.request().payload == {"to": "ada"}
    assert FULL.request(None).payload is None


@pytest.mark.parametrize(
    "wrong",
    [
        {"type": "a b"},
        {"queue": ""},
        {"priority": 10},
        {"max_attempts": 0},
        {"retry": Custom(lambda _: timedelta())},
        {"meta": {"holdfast.x": 1}},
    ],
)
def test_a_definition_is_checked_when_it_is_made(wrong: dict[str, object]):
    with pytest.raises(InvalidInput):
        JobDefinition(**{"type": "t", **wrong})  # type: ignore[arg-type]


def test_a_builder_is_checked_when_it_is_built():
    builder = JobBuilder("t").priority(10)
    with pytest.raises(InvalidInput, match="priority: wanted a whole number from 0 to 9, got 10"):
        builder.build()


def test_a_change_is_checked_too():
    with pytest.raises(InvalidInput, match="priority"):
        FULL.with_priority(10)
