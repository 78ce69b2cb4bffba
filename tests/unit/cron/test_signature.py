"""A definition that the store has changed is not fired: its scheduler would sign the jobs of whoever changed it."""

from __future__ import annotations

import json
from datetime import timedelta

import pytest

from holdfast.app import Holdfast
from holdfast.cron import Schedule
from holdfast.cron.entries import STATE_KIND
from holdfast.cron.runner import CronRunner
from holdfast.drivers.requests import Scan, Write
from holdfast.errors import InvalidInput
from holdfast.model.registry import Change
from holdfast.settings import read
from holdfast.wire.signing import Verdict

MINUTE = timedelta(minutes=1)
EVERY = Schedule(name="every", expression="* * * * *", type="report", queue="reports", payload="mine")


@pytest.fixture
def signed_app(store, clock, tmp_path, monkeypatch):
    """A function that returns an app with these keys, the newest first."""
    monkeypatch.chdir(tmp_path)

    def make(*keys: str, mode: str = "required") -> Holdfast:
        given = {"signing": mode, "signing_key": ",".join(keys)} if keys else {}
        for name, value in given.items():
            monkeypatch.setenv(f"HOLDFAST_{name.upper()}", value)
        app = Holdfast(driver=store, clock=clock)
        app.use_settings(read())
        assert app.client.driver is store
        for name in given:
            monkeypatch.delenv(f"HOLDFAST_{name.upper()}")
        return app

    return make


OLD, NEW = "an old secret of at least 32 bytes", "a new secret of at least 32 bytes!"


def tamper(store, kind, **fields) -> None:
    """Change the definition of an entry, as one who can write to the store could."""
    [entry] = store.do(Scan(kind=kind))
    value = json.loads(entry.value)
    value["definition"] |= fields
    store.do(Write(changes=[Change(kind=kind, key=entry.key, value=json.dumps(value).encode())]))


def test_a_dynamic_schedule_and_its_jobs_are_signed(signed_app, clock, store):
    app = signed_app(OLD)
    app.schedules.put(EVERY)
    clock.advance(MINUTE)
    [fired] = CronRunner(app).run()
    assert app.client.signer.verify(store.get(fired.job_id)) is Verdict.VALID


@pytest.mark.parametrize("change", [{"payload": "theirs"}, {"type": "shell"}, {"queue": "other"}])
def test_a_definition_that_was_changed_in_the_store_does_not_fire(signed_app, clock, store, events, change):
    app = signed_app(OLD)
    app.schedules.put(EVERY)
    tamper(store, STATE_KIND, **change)
    clock.advance(MINUTE)
    assert CronRunner(app).run() == []
    assert "not the one that was signed" in events.named("schedule.failed")[0].reason
    with pytest.raises(InvalidInput, match="valid signature"):
        app.schedules.trigger("every")
    app.schedules.put(EVERY)  # the owner repairs it
    assert [fired.schedule for fired in CronRunner(app).run()] == ["every"]


def test_a_definition_without_a_signature_fires_only_where_none_is_required(signed_app, clock, events):
    signed_app().schedules.put(EVERY)
    clock.advance(MINUTE)
    assert CronRunner(signed_app(OLD)).run() == []
    assert "no signature" in events.named("schedule.failed")[0].reason
    assert [fired.schedule for fired in CronRunner(signed_app(OLD, mode="accept")).run()] == ["every"]


def test_a_fire_signs_the_definition_with_the_newest_key(signed_app, clock):
    signed_app(OLD).schedules.put(EVERY)
    clock.advance(MINUTE)
    assert CronRunner(signed_app(NEW, OLD)).run()
    clock.advance(MINUTE)
    assert CronRunner(signed_app(NEW)).run()  # the old key is gone


def test_a_signed_definition_with_fields_of_an_older_version_fires(signed_app, clock, store, events):
    """The signature, which an older version made, covers fields that no schedule has any more."""
    app = signed_app(OLD)
    app.schedules.put(EVERY)
    tamper(store, STATE_KIND, depends_on=["load"], completed=True, on_complete="report")
    clock.advance(MINUTE)
    assert CronRunner(app).run() == []
    assert "not the one that was signed" in events.named("schedule.failed")[0].reason
    signature = "k-08ce8f0fdc35:v1.Ocm16igChNyLlkfCJeT5Z2mzj_P7RGPsXq3mIMYFy14"
    [entry] = store.do(Scan(kind=STATE_KIND))
    value = json.dumps({**json.loads(entry.value), "signature": signature}).encode()
    store.do(Write(changes=[Change(kind=STATE_KIND, key=entry.key, value=value)]))
    for _ in range(2):  # a fire signs the definition again
        assert [fired.schedule for fired in CronRunner(app).run()] == ["every"]
        clock.advance(MINUTE)
