"""A worker among rows that cannot be read: the good jobs run once, and the others are dead letters (L9)."""

import logging
import sqlite3

import pytest

from holdfast import Holdfast
from holdfast.driver import JobFilter, State
from holdfast.observability import InMemoryMetrics
from holdfast.observability import metric_table as table
from tests.worker.conftest import QUICK

HOSTILE = {
    "meta": "x'fffe'",
    "name": "cast(x'61ff' as text)",
    "attempts": "9223372036854775807",
    "id": "cast(x'610062' as text)",
    "offset": "7",
    "created_at": "-9223372036854775807",
}


def make_app(tmp_path):
    app = Holdfast(f"sqlite:///{tmp_path}/jobs.db")

    @app.handler("note")
    def note(payload):
        return payload

    return app


def change(tmp_path, column, value, job_id):
    with sqlite3.connect(tmp_path / "jobs.db") as connection:
        connection.execute(f'UPDATE holdfast_jobs SET "{column}" = {value} WHERE id = ?', [job_id])
    connection.close()


@pytest.mark.parametrize("signing", ["off", "required"])
def test_good_jobs_run_once_and_the_others_are_dead_letters(tmp_path, caplog, monkeypatch, signing):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOLDFAST_SIGNING", signing)
    monkeypatch.setenv("HOLDFAST_SIGNING_KEY", "correct horse battery staple")
    app = make_app(tmp_path)
    for column, value in HOSTILE.items():
        change(tmp_path, column, value, app.enqueue("note", column).id)
        app.enqueue("note", 1)
    app.metrics = metrics = InMemoryMetrics()
    with caplog.at_level(logging.INFO, "holdfast.worker"):
        assert app.worker(processes=1, retry=QUICK).run(until_drained=True) == {"acked": len(HOSTILE)}
    assert {job.attempts for job in app.driver.find(JobFilter(states={State.DONE}))} == {1}
    dead = app.driver.find(JobFilter(states={State.DEAD})).items
    assert {job.dead_reason for job in dead} == {"unreadable"}
    assert {column for job in dead for column in HOSTILE if f"{column}: wanted" in job.last_error} == set(HOSTILE)
    logged = [record for record in caplog.records if record.event == "job.dead"]
    assert {record.job_id for record in logged} == {job.id for job in dead}
    assert {record.reason for record in logged} == {"unreadable"}
    assert not any(record.event == "lease.expired" for record in caplog.records)
    labels = {"queue": "default", "type": "note", "reason": "unreadable"}
    assert metrics.value(table.DEAD.name, **labels) == len(HOSTILE)
    app.close()
