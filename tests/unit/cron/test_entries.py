"""The index of what is due: its keys, and keys that do not count."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import timedelta

from holdfast.clock import MINUTE, SECOND
from holdfast.cron import Schedule
from holdfast.cron.entries import (
    DUE_KIND,
    STATE_KIND,
    WATCH_KIND,
    Stored,
    changes_of,
    make_due_key,
    read_due_key,
    with_next_fire,
)
from holdfast.cron.runner import CronRunner
from holdfast.cron.store import ScheduleStore
from holdfast.drivers.requests import Read, Scan, Write
from holdfast.model.bounds import MAX_INSTANT
from holdfast.model.registry import Change

NIGHTLY = Schedule(name="a.b:c-d_e", expression="0 7 * * *", type="report", queue="reports")


def due_keys(store) -> list[str]:
    return [entry.key for entry in store.do(Scan(kind=DUE_KIND))]


def test_keys_sort_as_instants_and_name_their_entry():
    instants = [0, 999, 10**15, 10**15 + 1, MAX_INSTANT]
    keys = [make_due_key(NIGHTLY.name, instant) for instant in instants]
    assert keys == sorted(keys)
    assert [read_due_key(key)[1:] for key in keys] == [(instant, STATE_KIND, NIGHTLY.name) for instant in instants]
    assert make_due_key("a", 1) != make_due_key("a", 1)


def test_a_key_of_a_later_version_is_left_alone(app, store, runner):
    key = f"{1:018d}.x.something"
    store.do(Write(changes=[Change(kind=DUE_KIND, key=key, value=b"")]))
    assert runner.run() == []
    assert due_keys(store) == [key]


def test_a_key_that_does_not_count_is_removed_and_fires_nothing(app, store, clock, runner):
    app.schedules.put(NIGHTLY)
    [valid] = due_keys(store)
    stale = [make_due_key(name, clock.now() - SECOND) for name in (NIGHTLY.name, "unknown")]
    store.do(Write(changes=[Change(kind=DUE_KIND, key=key, value=b"") for key in stale]))
    assert runner.run() == []
    assert due_keys(store) == [valid]


def test_what_an_older_version_left_behind_fires_nothing_and_is_removed(app, store, clock, runner, events):
    """Fires that waited for jobs, and a dynamic schedule with fields that no schedule has any more."""
    job, hook = "01a5441d-4300-7919-9b5f-db9394f6611b.fire", "01a5441d-4300-7da4-8673-bebe2f0809ca.hook"
    definition = {**NIGHTLY.to_json(), "depends_on": ["load"], "completed": True, "on_complete": "report"}
    at_seven = clock.now() + (60 * MINUTE + 30 * SECOND)
    due = f"{at_seven:018d}"
    state = {
        "source": "dynamic",
        "definition": definition,
        "fingerprint": "b5d1c3104e221b37",
        "declared_at": 1,
        "next_fire": at_seven,
        "due": f"{due}.s.{NIGHTLY.name}.cc23f5f6",
    }
    watch = {"schedule": NIGHTLY.name, "definition": definition, "fire": 1, "job_ids": ["1"], "since": 1}
    left = {
        (WATCH_KIND, job): {**watch, "is_fire": True, "due": f"{due}.w.{job}.cd6471d1"},
        (WATCH_KIND, hook): {**watch, "is_fire": False, "due": f"{due}.w.{hook}.3f9245af"},
        (STATE_KIND, NIGHTLY.name): state,
    }
    store.do(
        Write(
            changes=[
                Change(kind=kind, key=key, value=json.dumps(value).encode()) for (kind, key), value in left.items()
            ]
        )
    )
    keys = [*(str(value["due"]) for value in left.values()), f"{due}.w.{hook}.00000000"]  # two of one watch
    store.do(Write(changes=[Change(kind=DUE_KIND, key=key, value=b"") for key in keys]))
    assert app.schedules.get(NIGHTLY.name).schedule == replace(NIGHTLY, depends_on=("load",))
    clock.advance(timedelta(minutes=61))
    assert [fired.schedule for fired in runner.run()] == [NIGHTLY.name]
    assert store.do(Scan(kind=WATCH_KIND)) == []
    assert due_keys(store) == [json.loads(store.do(Scan(kind=STATE_KIND))[0].value)["due"]]
    assert not events.named("schedule.failed")


def test_a_refused_write_leaves_nothing_behind(app, store):
    app.schedules.put(NIGHTLY)
    schedules = ScheduleStore(store)
    old = schedules.states([NIGHTLY.name])[NIGHTLY.name]
    app.schedules.pause(NIGHTLY.name)
    app.schedules.resume(NIGHTLY.name)
    [valid] = due_keys(store)
    late = with_next_fire(NIGHTLY.name, replace(old.value, last_fire=1), 5 * MINUTE)
    assert not schedules.write(changes_of(old, Stored(key=NIGHTLY.name, value=late)))
    assert due_keys(store) == [valid]
    assert app.schedules.get(NIGHTLY.name).last_fire is None


def test_an_entry_that_cannot_be_read_is_reported_and_left_alone(app, store, clock, events):
    app.schedules.put(NIGHTLY)
    [entry] = store.do(Read(kind=STATE_KIND, keys=[NIGHTLY.name]))
    store.do(Write(changes=[Change(kind=STATE_KIND, key=NIGHTLY.name, value=b'{"source": "later"}')]))
    clock.advance(timedelta(hours=2))
    before = due_keys(store)
    runner = CronRunner(app)
    assert runner.run() == []
    assert runner.run() == []
    assert due_keys(store) == before
    [failed] = events.named("schedule.failed")  # once a minute
    assert failed.schedule == NIGHTLY.name
    assert app.schedules.list() == []
    store.do(Write(changes=[Change(kind=STATE_KIND, key=NIGHTLY.name, value=entry.value)]))
    clock.advance(timedelta(minutes=2))
    assert [fired.schedule for fired in runner.run()] == [NIGHTLY.name]
