"""``holdfast cron``."""

from __future__ import annotations

import signal
from datetime import UTC, datetime, timedelta

import pytest

import holdfast
from holdfast import Holdfast
from holdfast.clock import HOUR, ManualClock, SystemClock
from holdfast.cron import Schedule
from tests.waiting import wait_until

MODULE = """
from holdfast import Holdfast

app = Holdfast()


@app.handler("report.daily", queue="reports", cron="0 6 * * 1-5", timezone="Europe/Berlin")
def report(payload):
    return "sent"


@app.handler("check")
def check(payload):
    if payload == "fail":
        raise ValueError("out of order")


app.cron("inline").daily(at="07:00").max_attempts(1).run(check, "ok")
app.cron("failing").daily(at="08:00").run(check, "fail")
app.cron("after").daily(at="08:00").depends_on("failing").run(check, "ok")
app.cron("canary").hourly().environments("staging").queue("reports").run("check")
"""
MONDAY = datetime(2027, 1, 4, tzinfo=UTC)


@pytest.fixture
def module(folder, url, monkeypatch):
    """An app in the working directory, named by the settings."""
    name = f"cron_{folder.name.replace('-', '_')}"  # modules of earlier tests stay imported
    (folder / f"{name}.py").write_text(MODULE, encoding="utf-8")
    monkeypatch.setenv("HOLDFAST_APP", f"{name}:app")
    return f"{name}:app"


@pytest.fixture
def nightly(store):
    """A dynamic schedule."""
    schedule = Schedule(name="nightly", expression="30 2 * * *", timezone="America/New_York", type="clean", queue="ops")
    return Holdfast(driver=store).schedules.put(schedule).schedule


def test_a_missing_store_or_app_says_how_to_give_one(run):
    for command in (["list"], ["next", "x"], ["enable", "x"], ["disable", "x"], ["trigger", "x"], ["history", "x"]):
        assert "no store: give --url" in run("cron", *command, code=2).err, command
    assert "wanted MODULE:APP such as tasks:app" in run("cron", "run", code=2).err


# Next fires ---------------------------------------------------------------------------------------------------


def test_the_next_fires_of_an_expression_are_shown_in_words_and_local_time(run):
    arguments = ["--timezone", "Europe/Berlin", "--from", "2026-10-24T00:00:00Z", "--count", "3"]
    lines = run("cron", "next", "30 2 * * *", *arguments).out.splitlines()
    assert lines[0] == "At 02:30 every day, Europe/Berlin"
    assert [line.partition(" (")[0] for line in lines[1:]] == [
        "Sat 2026-10-24 02:30 CEST",
        "Sun 2026-10-25 02:30 CEST",
        "Mon 2026-10-26 02:30 CET",
    ]
    found = run("cron", "next", "30 2 * * *", *arguments, "--json").json
    assert (found["words"], found["timezone"]) == ("At 02:30 every day", "Europe/Berlin")
    assert found["fires"][2] == {"fire": "2026-10-26T01:30:00Z", "local": "2026-10-26T02:30:00+01:00"}


def test_the_age_of_a_next_fire_is_shown(run):
    line = run("cron", "next", "*/20 * * * * *", "--count", "1").out.splitlines()[1]
    assert " UTC (in " in line


def test_a_wrong_expression_or_zone_is_bad_usage(run, url, store):
    assert "hour of the expression: wanted 0-23" in run("cron", "next", "0 25 * * *", code=2).err
    assert "timezone: wanted" in run("cron", "next", "@daily", "--timezone", "Mars", code=2).err
    assert "a time zone of its own" in run("cron", "next", "nightly", "--timezone", "UTC", code=2).err


def test_the_next_fires_of_a_schedule_use_its_own_zone(run, nightly):
    found = run("cron", "next", "nightly", "--from", "2026-11-01T00:00:00Z", "--count", "1", "--json").json
    assert found["fires"] == [{"fire": "2026-11-01T07:30:00Z", "local": "2026-11-01T02:30:00-05:00"}]


# List, enable, disable ----------------------------------------------------------------------------------------


def test_schedules_of_the_app_and_of_the_store_are_listed(run, module, nightly):
    rows = {row["name"]: row for row in run("cron", "list", "--json").json}
    assert list(rows) == ["after", "canary", "failing", "inline", "nightly", "report.daily"]
    assert (rows["nightly"]["status"], rows["nightly"]["source"]) == ("active", "dynamic")
    assert rows["nightly"]["next_fire"].endswith(":30:00.000000Z")
    assert (rows["report.daily"]["status"], rows["report.daily"]["source"]) == ("not started", "code")
    assert rows["report.daily"]["words"] == "At 06:00 on Monday through Friday"
    assert rows["after"]["depends_on"] == ["failing"]
    lines = run("cron", "list").out.splitlines()
    assert lines[0].split() == ["NAME", "STATUS", "NEXT", "LAST", "WHEN", "ZONE", "TYPE"]
    assert any(line.startswith("nightly") and "At 02:30 every day" in line and " E" in line for line in lines)


def test_without_an_app_the_schedules_of_the_store_are_listed(run, nightly):
    assert [row["name"] for row in run("cron", "list", "--json").json] == ["nightly"]


def test_an_empty_space_has_no_schedules(run, url, store):
    assert run("cron", "list").err == "no schedules in this space\n"


def test_a_schedule_of_another_environment_is_elsewhere(run, module, store, monkeypatch):
    monkeypatch.setenv("HOLDFAST_ENVIRONMENT", "staging")
    run("cron", "run", "--json")
    rows = {row["name"]: row["status"] for row in run("cron", "list", "--json").json}
    assert rows["canary"] == "active"
    monkeypatch.setenv("HOLDFAST_ENVIRONMENT", "production")
    assert {row["name"]: row["status"] for row in run("cron", "list", "--json").json}["canary"] == "elsewhere"


def test_a_schedule_is_disabled_and_enabled(run, nightly):
    result = run("cron", "disable", "nightly")
    assert (result.out, result.err) == ("nightly: paused\n", "")
    assert run("cron", "list", "--json").json[0]["next_fire"] is None
    assert run("cron", "enable", "nightly").out.startswith("nightly: active, next ")
    assert run("cron", "disable", "nightly", "--json").json["status"] == "paused"


def test_a_schedule_that_no_scheduler_fires_is_overdue(run, folder, url):
    with holdfast.connect(url, clock=ManualClock(SystemClock().now() - HOUR)) as past:
        Holdfast(driver=past).schedules.put(Schedule(name="often", expression="* * * * *", type="tick"))
    assert run("cron", "list", "--json").json[0]["status"] == "overdue"
    [check] = [one for one in run("doctor", "--json").json["checks"] if one["name"] == "schedules"]
    assert (check["health"], check["text"]) == ("note", "schedules that are overdue: often")


def test_an_unknown_schedule_is_an_error_that_names_similar_ones(run, module, nightly):
    for command in (["next"], ["enable"], ["disable"], ["trigger"], ["history"]):
        err = run("cron", *command, "nightlly", code=4).err
        assert "no schedule nightlly in this space; did you mean nightly?" in err
    assert "no scheduler has started inline yet" in run("cron", "disable", "inline", code=1).err


# Fires --------------------------------------------------------------------------------------------------------


def test_run_declares_first_and_fires_what_is_due_at_an_instant(run, module, store):
    assert run("cron", "run", "--now", MONDAY.isoformat()).err == "nothing is due\n"
    found = run("cron", "run", "--once", "--now", "2027-01-04T05:00:30Z", "--json").json
    [fired] = found
    assert (fired["schedule"], fired["fire"], fired["status"]) == ("report.daily", "2027-01-04T05:00:00Z", "enqueued")
    assert store.get(fired["job_id"]).queue == "reports"
    assert run("cron", "run", "--now", "2027-01-04T05:00:30Z", "--json").json == []


def test_run_once_runs_schedules_without_a_queue_and_fails_with_them(run, module, store):
    run("cron", "run", "--now", MONDAY.isoformat())
    fired = run("cron", "run", "--now", "2027-01-04T07:00:05Z", "--json").json
    assert {one["schedule"]: one["status"] for one in fired} == {"inline": "done", "report.daily": "enqueued"}
    result = run("cron", "run", "--now", "2027-01-04T08:00:05Z", code=1)
    assert "holdfast: failed: failing, after" in result.err.replace("\n", " ")
    words = {line.split()[0]: line for line in result.out.splitlines()}
    assert " failed " in words["failing"]
    assert "out of order" in words["failing"]
    assert " blocked " in words["after"]


def test_a_loop_fires_until_a_signal_and_exits_with_0(start, module, store):
    Holdfast(driver=store).schedules.put(Schedule(name="often", expression="* * * * * *", type="tick", queue="ticks"))
    process = start("cron", "run", "--loop")
    wait_until(lambda: sum(row.ready for row in store.counts(["ticks"])) >= 2)
    process.send_signal(signal.SIGTERM)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    assert "firing 5 schedules" in err
    assert "schedule.fired" in err


def test_once_and_loop_contradict(run, module):
    assert "--loop: wanted neither" in run("cron", "run", "--loop", "--now", "2027-01-01T00:00:00Z", code=2).err


def test_a_trigger_enqueues_one_job_now(run, nightly, store):
    job_id = run("cron", "trigger", "nightly").out.strip()
    assert store.get(job_id).queue == "ops"
    [fired] = run("cron", "trigger", "nightly", "--json").json
    assert (fired["schedule"], fired["status"]) == ("nightly", "enqueued")
    assert fired["job_id"] != job_id


def test_a_backfill_is_shown_and_confirmed(run, nightly, store):
    period = ["--from", "2026-10-30T00:00:00Z", "--to", "2026-11-03T00:00:00Z"]
    shown = run("cron", "backfill", "nightly", *period, "--dry-run").out.splitlines()
    assert shown[0].split() == ["SCHEDULE", "FIRE", "STATUS", "JOB", "WHY"]
    assert [line.split()[2] for line in shown[1:]] == ["2026-10-30", "2026-10-31", "2026-11-01", "2026-11-02"]
    assert "not confirmed" in run("cron", "backfill", "nightly", *period, stdin="no\n", code=1).err
    assert store.counts(["ops"]) == []
    assert run("cron", "backfill", "nightly", *period, "--yes").out.endswith("enqueued 4\n")
    assert run("cron", "backfill", "nightly", *period, "--yes").out.endswith("enqueued 0, 4 had a job already\n")
    found = run("cron", "backfill", "nightly", *period, "--yes", "--json").json
    assert [one["status"] for one in found] == ["existed"] * 4
    assert "at most 3 fires" in run("cron", "backfill", "nightly", *period, "--limit", "3", code=2).err


def test_a_backfill_without_fires_says_so(run, nightly):
    period = ["--from", "2026-11-01T12:00:00Z", "--to", "2026-11-01T13:00:00Z"]
    assert run("cron", "backfill", "nightly", *period).err == "nightly does not fire in this period\n"


def test_history_has_the_ends_of_the_jobs_of_a_schedule(run, store, url):
    app = Holdfast(driver=store)

    @app.handler("clean", queue="ops")
    def clean(payload):
        if payload == "fail":
            raise holdfast.Unrecoverable("disk full")

    app.schedules.put(Schedule(name="good", expression="@daily", timezone="Asia/Tokyo", type="clean", queue="ops"))
    app.schedules.put(Schedule(name="bad", expression="@daily", type="clean", payload="fail", queue="ops"))
    assert run("cron", "history", "good").err == "no job of good has ended yet\n"
    for name in ("good", "bad"):
        app.schedules.backfill(name, MONDAY - timedelta(days=90), MONDAY - timedelta(days=89), preview=False)
    triggered = app.schedules.trigger("good")
    clean.enqueue(None)  # of the same type, and of no schedule
    worker = app.worker(queues=("ops",))
    while worker.process_once().status != "empty":
        pass
    rows = run("cron", "history", "good", "--json").lines
    assert {row["ending"] for row in rows} == {"acked"}
    assert triggered.job_id in {row["job_id"] for row in rows}
    assert len(rows) == 2
    assert [row["fire"] for row in rows if row["job_id"] != triggered.job_id] == ["2026-10-06T15:00:00Z"]
    shown = run("cron", "history", "bad").out.splitlines()
    assert shown[0].split() == ["FIRE", "ENDING", "RUN", "TOOK", "JOB", "WHY"]
    assert "failed" in shown[1]
    assert "disk full" in shown[1]
