"""``Schedule``: its checks, its JSON, its fingerprint, and the key and the start of a fire."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from holdfast.cron.schedule import Missed, Schedule
from holdfast.cron.window import TimeWindow
from holdfast.errors import InvalidInput

PLAIN = Schedule(name="report", expression="0 6 * * *", type="report.daily")
FULL = Schedule(
    name="report.full",
    expression="*/5 * * * *",
    timezone="Europe/Berlin",
    window=TimeWindow.parse("08:30", "17:45"),
    type="report.daily",
    payload={"pages": (1, 2), "title": "Ümlaut"},
    queue="reports",
    priority=3,
    max_attempts=2,
    timeout=timedelta(minutes=5),
    meta={"team": "sales"},
    single_instance="reports",
    jitter=timedelta(seconds=90),
    enabled=False,
    environments=("production",),
    depends_on=("load", "clean"),
    missed=Missed.ALL,
    max_missed=7,
    grace=timedelta(seconds=30),
)


@pytest.mark.parametrize("schedule", [PLAIN, FULL], ids=lambda schedule: schedule.name)
def test_a_schedule_is_read_back_from_its_json(schedule):
    assert Schedule.from_json(json.loads(json.dumps(schedule.to_json()))) == schedule


def test_json_has_only_what_differs_from_the_defaults():
    assert PLAIN.to_json() == {"name": "report", "expression": "0 6 * * *", "type": "report.daily"}


def test_the_payload_is_plain_json_and_not_shared_with_the_caller():
    payload = {"pages": [1]}
    schedule = Schedule(name="a", expression="@daily", type="t", payload=payload)
    payload["pages"].append(2)
    assert schedule.payload == {"pages": [1]}


def test_the_fingerprint_covers_everything_but_enabled():
    values = FULL.to_json()
    others = {
        "name": "other",
        "expression": "*/6 * * * *",
        "timezone": "UTC",
        "window": "08:30-17:46",
        "type": "t",
        "payload": None,
        "queue": "q",
        "priority": 4,
        "max_attempts": 3,
        "timeout": 1,
        "meta": {},
        "single_instance": True,
        "jitter": 0,
        "environments": [],
        "depends_on": ["load"],
        "missed": "skip",
        "max_missed": 8,
        "grace": 0,
    }
    assert values.keys() == others.keys() | {"enabled"}
    for name, value in others.items():
        assert Schedule.from_json({**values, name: value}).fingerprint() != FULL.fingerprint(), name
    assert Schedule.from_json({**values, "enabled": True}).fingerprint() == FULL.fingerprint()
    assert PLAIN.fingerprint() == "c34e8f84390bb434"  # a stored one: it must not change between versions


def test_the_key_of_a_fire_names_the_schedule_the_zone_and_the_instant():
    fire = datetime(2026, 10, 25, 2, 30, tzinfo=ZoneInfo("Europe/Berlin"))
    assert FULL.fire_key(fire) == "cron:report.full:Europe/Berlin:2026-10-25T00:30:00Z"
    assert FULL.fire_key(fire.replace(fold=1)) == "cron:report.full:Europe/Berlin:2026-10-25T01:30:00Z"
    longest = Schedule(name="n" * 128, expression="@daily", type="t", timezone="America/Argentina/ComodRivadavia")
    assert len(longest.fire_key(fire)) <= 256


def test_jitter_is_the_same_on_every_node_and_spread_over_the_fires():
    fires = [datetime(2027, 1, 1, hour, tzinfo=UTC) for hour in range(24)]
    delays = [FULL.run_at(fire) - fire for fire in fires]
    assert delays == [FULL.run_at(fire.astimezone(ZoneInfo("Asia/Tokyo"))) - fire for fire in fires]
    assert all(timedelta(0) <= delay < timedelta(seconds=90) for delay in delays)
    assert len(set(delays)) == 24
    assert PLAIN.run_at(fires[0]) == fires[0]


def test_jitter_is_elapsed_time():
    schedule = Schedule(name="j", expression="@hourly", type="t", timezone="Europe/Berlin", jitter=timedelta(days=30))
    fire = datetime(2026, 10, 24, 12, tzinfo=ZoneInfo("Europe/Berlin"))
    assert schedule.run_at(fire) - fire.astimezone(UTC) == schedule.run_at(fire.astimezone(UTC)) - fire.astimezone(UTC)


def test_a_schedule_with_environments_fires_only_there():
    assert PLAIN.fires_in("")
    assert PLAIN.fires_in("staging")
    assert FULL.fires_in("production")
    assert not FULL.fires_in("staging")
    assert not FULL.fires_in("")


def test_only_what_the_schedule_sets_goes_into_its_requests():
    assert PLAIN.request_keywords() == {}
    assert FULL.request_keywords() == {
        "queue": "reports",
        "priority": 3,
        "max_attempts": 2,
        "timeout": timedelta(minutes=5),
        "single_instance": "reports",
        "meta": {"team": "sales"},
    }


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"name": "a b"}, "schedule: wanted 1 to 128"),
        ({"name": "n" * 129}, "schedule: wanted 1 to 128"),
        ({"expression": "0 25 * * *"}, "hour of the expression"),
        ({"timezone": "Nowhere"}, "timezone"),
        ({"type": ""}, "type"),
        ({"queue": "a b"}, "queue"),
        ({"priority": 10}, "priority"),
        ({"max_attempts": 0}, "max_attempts"),
        ({"timeout": 0}, "timeout"),
        ({"jitter": -1}, "jitter"),
        ({"enabled": 1}, "enabled: wanted true or false"),
        ({"environments": "production"}, "environments: wanted at most 32 names"),
        ({"depends_on": ["report"]}, "depends_on: wanted other schedules, got report itself"),
        ({"missed": "some"}, "missed: wanted one of skip, last, all, got some"),
        ({"max_missed": 10_001}, "max_missed"),
        ({"payload": "x" * 40_000}, "payload: wanted at most 32768 bytes"),
        ({"meta": {"k": "x" * 10_000}}, "meta: wanted at most 8192 bytes"),
        ({"meta": {"holdfast.fire": 1}}, "meta key"),
        ({"window": "8-9"}, "between: wanted a time of day"),
        ({"colour": "red"}, "schedule: wanted the fields .*, got the unknown 'colour'"),
    ],
)
def test_a_wrong_field_is_refused(values, message):
    with pytest.raises(InvalidInput, match=message):
        Schedule.from_json({**PLAIN.to_json(), **values})


@pytest.mark.parametrize("value", [None, [], "report", {"name": "a", "type": "t"}])
def test_json_that_is_no_schedule_is_refused(value):
    with pytest.raises(InvalidInput, match="schedule: wanted a"):
        Schedule.from_json(value)
