"""``app.cron``: the fluent form, the short form of a handler, and the tables of the settings."""

from __future__ import annotations

import pickle
from dataclasses import dataclass
from datetime import UTC, datetime, time, timedelta

import pytest

from holdfast import Holdfast, JobBuilder, JobDefinition
from holdfast import settings as settings_module
from holdfast.cron import ScheduleBuilder
from holdfast.cron.schedule import Missed, Schedule
from holdfast.cron.window import TimeWindow
from holdfast.errors import InvalidInput
from holdfast.retry import Fixed


@pytest.fixture
def app() -> Holdfast:
    return Holdfast("memory://")


FREQUENCIES = [
    (lambda cron: cron.every_minute(), "* * * * *"),
    (lambda cron: cron.every_minutes(15), "*/15 * * * *"),
    (lambda cron: cron.hourly(), "0 * * * *"),
    (lambda cron: cron.hourly(at=17), "17 * * * *"),
    (lambda cron: cron.every_hours(6), "0 */6 * * *"),
    (lambda cron: cron.every_hours(2, at=30), "30 */2 * * *"),
    (lambda cron: cron.daily(), "0 0 * * *"),
    (lambda cron: cron.daily(at="06:05"), "5 6 * * *"),
    (lambda cron: cron.daily(at=time(18, 30)), "30 18 * * *"),
    (lambda cron: cron.weekdays(), "0 0 * * 1-5"),
    (lambda cron: cron.weekends().at("9:00"), "0 9 * * 0,6"),
    (lambda cron: cron.daily(at="06:00").weekdays(), "0 6 * * 1-5"),
    (lambda cron: cron.mondays(), "0 0 * * 1"),
    (lambda cron: cron.tuesdays(), "0 0 * * 2"),
    (lambda cron: cron.wednesdays(), "0 0 * * 3"),
    (lambda cron: cron.thursdays(), "0 0 * * 4"),
    (lambda cron: cron.fridays(), "0 0 * * 5"),
    (lambda cron: cron.saturdays(), "0 0 * * 6"),
    (lambda cron: cron.sundays(), "0 0 * * 0"),
    (lambda cron: cron.mondays().thursdays().at("10:00"), "0 10 * * 1,4"),
    (lambda cron: cron.days("monday", "Wed", 7), "0 0 * * 0,1,3"),
    (lambda cron: cron.hourly().months("jan", 7), "0 * * 1,7 *"),
    (lambda cron: cron.monthly(), "0 0 1 * *"),
    (lambda cron: cron.monthly(day=15, at="12:00"), "0 12 15 * *"),
    (lambda cron: cron.monthly(day="last"), "0 0 L * *"),
    (lambda cron: cron.monthly().months(6, 12), "0 0 1 6,12 *"),
    (lambda cron: cron.quarterly(), "0 0 1 1,4,7,10 *"),
    (lambda cron: cron.yearly(), "0 0 1 1 *"),
    (lambda cron: cron.yearly("march", 5, "12:00"), "0 12 5 3 *"),
    (lambda cron: cron.every_minutes(10).between_hours(8, 17), "*/10 8-17 * * *"),
    (lambda cron: cron.every_minutes(10).between_minutes(10, 40), "10-40/10 * * * *"),
    (lambda cron: cron.every_minute().between_minutes(0, 4).fridays(), "0-4 * * * 5"),
    (lambda cron: cron.expression("*/10 * * * * *"), "*/10 * * * * *"),
]


@pytest.mark.parametrize(("describe", "expression"), FREQUENCIES, ids=[expression for _, expression in FREQUENCIES])
def test_helpers_make_one_expression(app, describe, expression):
    assert describe(app.cron("s")).run("t").expression == expression


@pytest.mark.parametrize(
    ("describe", "message"),
    [
        (lambda cron: cron, "schedule: wanted an expression, or how often"),
        (lambda cron: cron.daily().hourly(), "schedule: wanted one of its frequencies, got daily and every_hours"),
        (lambda cron: cron.expression("@daily").daily(), "got expression and daily"),
        (lambda cron: cron.expression("@daily").mondays(), "expression: wanted no days, months or times beside it"),
        (lambda cron: cron.monthly().mondays(), "days: wanted days of the week or a day of the month"),
        (lambda cron: cron.quarterly().months(2), "months: wanted the months in one call"),
        (lambda cron: cron.months(), "months: .* got none"),
        (lambda cron: cron.days(), "days: wanted at least one"),
        (lambda cron: cron.days("someday"), "day: wanted 0 to 7, or a name such as mon, got someday"),
        (lambda cron: cron.months(13), "month: wanted 1 to 12"),
        (lambda cron: cron.monthly(day=32), "day: wanted a whole number from 1 to 31"),
        (lambda cron: cron.every_minutes(7), "every_minutes: wanted one of 1, 2, 3, 4, 5, 6, 10, 12, 15, 20, 30"),
        (lambda cron: cron.every_hours(5), "every_hours: wanted one of 1, 2, 3, 4, 6, 8, 12"),
        (lambda cron: cron.hourly(at=60), "at: wanted a whole number from 0 to 59"),
        (lambda cron: cron.every_minutes(5).at("06:00"), "at: wanted no time of day beside every_minutes"),
        (lambda cron: cron.daily("06:00").at("07:00"), "at: wanted one time of day"),
        (lambda cron: cron.daily("24:00"), "at: wanted a time of day"),
        (lambda cron: cron.daily("06:00").between("08:00", "18:00"), "between: wanted a window in which"),
        (lambda cron: cron.daily().between_hours(8, 17), "between_hours: wanted every_minutes or every_hours"),
        (lambda cron: cron.hourly(at=5).between_minutes(0, 9), "between_minutes: wanted every_minutes beside it"),
        (lambda cron: cron.every_minute().between_hours(17, 8), "between_hours: wanted a whole number from 17 to 23"),
        (lambda cron: cron.daily().payload(1), "payload: wanted payload\\(\\) or an argument of run"),
    ],
)
def test_contradictions_are_refused(app, describe, message):
    with pytest.raises(InvalidInput, match=message):
        describe(app.cron("s")).run("t", 2)
    assert not app.code_schedules


def test_every_field_can_be_described(app):
    app.cron("load").hourly().run("load")
    schedule = (
        app.cron("report")
        .every_minutes(5)
        .between("08:30", "17:45")
        .timezone("Europe/Berlin")
        .jitter(timedelta(seconds=90))
        .enabled(False)
        .environments("production", "staging")
        .depends_on("load")
        .single_instance("reports")
        .missed("all", cap=7)
        .grace(timedelta(seconds=30))
        .queue("reports")
        .priority(3)
        .max_attempts(2)
        .timeout(timedelta(minutes=5))
        .meta(team="sales")
        .meta(level=1)
        .payload({"page": 1})
        .run("report.daily")
    )
    assert schedule == Schedule(
        name="report",
        expression="*/5 * * * *",
        timezone="Europe/Berlin",
        window=TimeWindow.parse("08:30", "17:45"),
        type="report.daily",
        payload={"page": 1},
        queue="reports",
        priority=3,
        max_attempts=2,
        timeout=timedelta(minutes=5),
        meta={"team": "sales", "level": 1},
        single_instance="reports",
        jitter=timedelta(seconds=90),
        enabled=False,
        environments=("production", "staging"),
        depends_on=("load",),
        missed=Missed.ALL,
        max_missed=7,
        grace=timedelta(seconds=30),
    )
    assert [each.name for each in app.declared_schedules()] == ["load", "report"]


@dataclass
class Page:
    number: int


def test_a_task_takes_only_its_own_payload(app):
    @app.handler("page")
    def show(payload: Page) -> None: ...

    assert app.cron("first").daily().run(show, Page(1)).payload == {"number": 1}
    with pytest.raises(InvalidInput, match="payload"):
        app.cron("second").daily().run(show, "one")  # type: ignore[call-overload]


def test_a_schedule_may_depend_on_another_value(app):
    load = app.cron("load").daily().run("load")
    assert app.cron("report").daily().depends_on(load).run("report").depends_on == ("load",)


def test_two_schedules_of_one_name_are_refused(app):
    app.cron("report").daily().run("report")
    with pytest.raises(InvalidInput, match="schedule: wanted one schedule of each name, got a second report"):
        app.cron("report").hourly().run("report")


def test_the_short_form_of_a_handler(app):
    @app.handler("report.daily", queue="reports", cron="0 6 * * 1-5", timezone="Europe/Berlin")
    def report(payload: None) -> None: ...

    assert app.declared_schedules() == [
        Schedule(
            name="report.daily",
            expression="0 6 * * 1-5",
            timezone="Europe/Berlin",
            type="report.daily",
            queue="reports",
        )
    ]


NEEDS_A_PAYLOAD = "payload of the schedule page: wanted Page, which the handler of page takes, got no payload"


def test_the_short_form_needs_a_handler_without_a_payload(app):
    with pytest.raises(InvalidInput, match=f"{NEEDS_A_PAYLOAD}: handler.cron=.... sends none, app.cron"):

        @app.handler("page", cron="@daily")
        def refused(payload: Page) -> None: ...

    @app.handler("page")  # the refused one left nothing behind
    def show(payload: Page) -> None: ...

    with pytest.raises(InvalidInput, match=NEEDS_A_PAYLOAD):
        app.cron("page").daily().run(show)  # type: ignore[call-overload]
    assert app.declared_schedules() == []


def test_a_schedule_by_type_needs_a_payload_that_the_handler_takes(app):
    app.cron("page").daily().run("page")

    @app.handler("page")
    def show(payload: Page) -> None: ...

    with pytest.raises(InvalidInput, match=NEEDS_A_PAYLOAD):
        app.declared_schedules()


def test_a_table_needs_a_payload_that_the_handler_takes(app, tmp_path):
    app.use_settings(read(tmp_path, '[schedules.page]\ncron = "@daily"\ntype = "page"\npayload = { number = "one" }'))

    @app.handler("page")
    def show(payload: Page) -> None: ...

    with pytest.raises(InvalidInput, match=r"payload of the schedule page: wanted Page, got .*str"):
        app.declared_schedules()


def test_a_time_zone_alone_is_refused(app):
    with pytest.raises(InvalidInput, match="timezone: wanted a cron expression beside it"):
        app.handler("page", timezone="Europe/Berlin")


# Settings -----------------------------------------------------------------------------------------------------

TABLES = """
environment = "production"

[schedules.report]
cron = "*/5 * * * *"
timezone = "Europe/Berlin"
between = ["08:30", "17:45"]
type = "report.daily"
queue = "reports"
payload = { page = 1 }
jitter = "90s"
depends_on = ["load"]
environments = ["production"]
missed = "all"

[schedules.load]
cron = "@hourly"
type = "load"
"""


def read(tmp_path, text):
    file = tmp_path / "holdfast.toml"
    file.write_text(text)
    return settings_module.read(file=file, environ={})


def test_schedules_of_the_settings_come_after_their_dependencies(app, tmp_path):
    app.use_settings(read(tmp_path, TABLES))
    load, report = app.declared_schedules()
    assert app.settings.environment == "production"
    assert load == Schedule(name="load", expression="@hourly", type="load")
    assert report == Schedule(
        name="report",
        expression="*/5 * * * *",
        timezone="Europe/Berlin",
        window=TimeWindow.parse("08:30", "17:45"),
        type="report.daily",
        queue="reports",
        payload={"page": 1},
        jitter=timedelta(seconds=90),
        depends_on=("load",),
        environments=("production",),
        missed=Missed.ALL,
    )


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ('type = "t"', r"schedules.s in .*holdfast.toml: wanted a cron, got none"),
        ('cron = "@daily"', r"schedules.s in .*: wanted a type, got none"),
        ('cron = "0 25 * * *"\ntype = "t"', r"hour of the expression of schedules.s in .*: wanted 0-23"),
        ('cron = "@daily"\ntype = "t"\ncolour = 1', r"schedules.s in .*: wanted the keys cron, .* unknown 'colour'"),
        ('cron = "@daily"\ntype = "t"\njitter = 5', r"jitter of schedules.s in .*: wanted a length such as"),
        ('cron = "@daily"\ntype = "t"\nbetween = "08:00"', r"between of schedules.s in .*: wanted two times"),
        ('cron = "@daily"\ntype = "t"\nbetween = ["8", "9"]', r"between of schedules.s in .*: wanted a time of day"),
        ('cron = "@daily"\ntype = "t"\ndepends_on = "a"', r"depends_on of schedules.s in .*: wanted at most 100 names"),
        ('cron = "@daily"\ntype = "t"\ndepends_on = ["a"]', r"depends_on of schedule s: .* got 'a'"),
    ],
)
def test_a_wrong_table_is_named(app, tmp_path, table, message):
    app.use_settings(read(tmp_path, f"[schedules.s]\n{table}"))
    with pytest.raises(InvalidInput, match=message):
        app.declared_schedules()


def test_a_schedule_that_is_no_table_is_refused(tmp_path):
    with pytest.raises(InvalidInput, match=r"schedules.NAME in .*: wanted a table"):
        read(tmp_path, 'schedules = { s = "@daily" }')


def test_a_name_in_code_and_settings_is_refused(app, tmp_path):
    app.use_settings(read(tmp_path, '[schedules.s]\ncron = "@daily"\ntype = "t"'))
    app.cron("s").daily().run("t")
    with pytest.raises(InvalidInput, match="wanted a name that no schedule in code has, got s"):
        app.declared_schedules()


def test_the_environment_is_read_from_its_variable():
    assert settings_module.read(environ={"HOLDFAST_ENVIRONMENT": "staging"}).environment == "staging"


def test_an_app_with_schedules_can_be_pickled(app):
    app.cron("s").daily().run("t")
    assert pickle.loads(pickle.dumps(app)).code_schedules == app.code_schedules


# Definitions ------------------------------------------------------------------------------------------------


def test_a_definition_with_a_schedule_is_a_schedule_of_the_app(app):
    builder = (
        JobBuilder("report.make")
        .schedule("0 6 * * *", "Europe/Berlin")
        .payload({"kind": "all"})
        .queue("reports")
        .priority(3)
        .max_attempts(2)
        .meta(team="a")
        .enabled(False)
        .environments("production")
    )
    schedule = app.cron(builder.build())
    later = app.cron(builder.named("later").depends_on("report.make"))
    assert schedule == Schedule(
        name="report.make",
        expression="0 6 * * *",
        timezone="Europe/Berlin",
        type="report.make",
        payload={"kind": "all"},
        queue="reports",
        priority=3,
        max_attempts=2,
        meta={"team": "a"},
        enabled=False,
        environments=("production",),
    )
    assert (later.name, later.depends_on) == ("later", ("report.make",))
    assert app.declared_schedules() == [schedule, later]


def test_the_builder_of_schedules_builds_definitions_too(app):
    builder = ScheduleBuilder("report.make").daily(at="06:00").timezone("Europe/Berlin").queue("reports")
    assert isinstance(builder, JobBuilder)
    assert builder.build() == JobDefinition(
        type="report.make", name="report.make", queue="reports", schedule="0 6 * * *", timezone="Europe/Berlin"
    )
    assert app.cron(builder).expression == "0 6 * * *"
    with pytest.raises(InvalidInput, match="jitter: wanted run"):
        builder.jitter(timedelta(seconds=1)).build()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda job: job, "definition: wanted one with a schedule"),
        (lambda job: job.schedule("at six"), "expression"),
        (lambda job: job.schedule("0 6 * * *", "Mars"), "zone"),
        (lambda job: job.schedule("0 6 * * *").idempotency_key("k"), "idempotency_key of the schedule t: wanted none"),
        (lambda job: job.schedule("0 6 * * *").delay(timedelta(1)), "delay of the schedule t"),
        (lambda job: job.schedule("0 6 * * *").retry(Fixed(timedelta(1))), "retry of the schedule t"),
        (lambda job: job.schedule("0 6 * * *").named("two words"), "schedule: wanted 1 to 128"),
    ],
)
def test_a_definition_that_cannot_be_a_schedule_is_refused(app, change, message):
    with pytest.raises(InvalidInput, match=message):
        app.cron(change(JobBuilder("t")).build())
    assert app.code_schedules == {}


def test_a_fluent_schedule_refuses_what_belongs_to_one_job(app):
    with pytest.raises(InvalidInput, match="run_at of the schedule report"):
        app.cron("report").daily().run_at(datetime(2027, 1, 15, tzinfo=UTC)).run("t")
