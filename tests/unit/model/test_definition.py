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
    of_a_schedule = {"schedule", "timezone", "enabled", "environments", "depends_on"}
    for field in fields(JobDefinition):
        assert field.name in of_a_schedule or getattr(definition, field.name) == getattr(request, field.name)
    assert definition.request() == request


def test_a_definition_keeps_its_values_when_the_caller_changes_his():
    payload, meta = {"to": ["ada"]}, {"tags": ["a"]}
    definition = JobDefinition(type="t", payload=payload, meta=meta)
    request = definition.request()
    payload["to"].append("eve")
    meta["tags"].append("b")
    request.payload["to"].append("mallory")
    request.meta["tags"].append("c")
    plain = JobBuilder("t").build()
    plain.request().meta["x"] = 1
    assert (definition.payload, definition.meta, plain.meta) == ({"to": ["ada"]}, {"tags": ["a"]}, {})
    assert definition.request().payload == {"to": ["ada"]}


def test_a_definition_carries_its_key_its_start_and_its_schedule():
    at = datetime(2027, 1, 15, tzinfo=UTC)
    built = (
        JobBuilder("t")
        .idempotency_key("k")
        .run_at(at)
        .schedule("0 6 * * *", "Europe/Berlin")
        .enabled(False)
        .environments("production", "staging")
        .depends_on("load")
        .build()
    )
    assert built == JobDefinition(
        type="t",
        idempotency_key="k",
        run_at=at,
        schedule="0 6 * * *",
        timezone="Europe/Berlin",
        enabled=False,
        environments=("production", "staging"),
        depends_on=("load",),
    )
    request = built.request()
    assert (request.idempotency_key, request.run_at) == ("k", at)
    soon = built.request(delay=timedelta(seconds=1), idempotency_key="other")
    assert (soon.run_at, soon.delay, soon.idempotency_key) == (None, timedelta(seconds=1), "other")
    delayed = JobBuilder("t").delay(timedelta(minutes=1)).build()
    assert (delayed.request().delay, delayed.with_run_at(at).request().run_at) == (timedelta(minutes=1), at)


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
        (FULL.with_idempotency_key("k"), "idempotency_key", "k"),
        (FULL.with_run_at(datetime(2027, 1, 15, tzinfo=UTC)), "run_at", datetime(2027, 1, 15, tzinfo=UTC)),
        (FULL.with_delay(timedelta(seconds=1)), "delay", timedelta(seconds=1)),
        (FULL.with_schedule("0 6 * * *"), "schedule", "0 6 * * *"),
        (FULL.with_enabled(False), "enabled", False),
        (FULL.with_environments("test"), "environments", ("test",)),
        (FULL.with_depends_on("load"), "depends_on", ("load",)),
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
        {"run_at": datetime(2027, 1, 15, tzinfo=UTC), "delay": timedelta(1)},
        {"enabled": "no"},
        {"environments": "production"},
        {"depends_on": ("a b",)},
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
