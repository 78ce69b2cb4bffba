"""``holdfast ledger readers``, and a purge that waits for a reader."""

from __future__ import annotations

from dataclasses import replace

import psycopg
import pytest
from msgspec import structs

import holdfast
from holdfast.cli.output import Output
from holdfast.clock import HOUR, SystemClock
from holdfast.driver import Change, JobFilter, LedgerReader, State
from holdfast.drivers.postgres import PostgresEngine
from holdfast.drivers.requests import Write
from holdfast.model.ledger_reader import KIND


@pytest.fixture
def reader(filled):
    one = LedgerReader(filled, "billing")
    one.read()
    return one


def test_readers_are_listed_with_the_age_of_their_first_unread_row(run, filled, reader):
    assert run("ledger", "readers", "list").out.splitlines()[1].split()[0] == "billing"
    [item] = run("ledger", "readers", "list", "--json").json["items"]
    assert (item["name"], item["problem"], item["expires_at"]) == ("billing", None, None)
    assert item["unread_since"] is not None
    assert reader.advance(reader.read()[-1][0])
    [item] = run("ledger", "readers", "list", "--json").json["items"]
    assert item["unread_since"] is None


def test_an_unreadable_reader_is_listed_and_removed(run, filled):
    filled.do(Write(changes=[Change(kind=KIND, key="broken", value=b"?")]))
    [item] = run("ledger", "readers", "list", "--json").json["items"]
    assert (item["name"], item["problem"]) == ("broken", "unreadable")
    assert run("ledger", "readers", "remove", "broken").out == "removed the reader broken\n"
    assert "no reader is registered" in run("ledger", "readers", "list").err


def test_an_unknown_reader_is_not_removed(run, filled):
    assert "no reader nobody is registered" in run("ledger", "readers", "remove", "nobody", code=4).err


def test_a_purge_waits_until_the_reader_has_read_the_end_of_the_letter(run, filled, reader):
    dead = len(filled.find(where=_dead(), limit=100).items)
    assert "wait for a reader of the ledger" in run("dead", "purge", "--all", "--yes", code=1).err
    assert len(filled.find(where=_dead(), limit=100).items) == dead
    assert reader.advance(reader.read()[-1][0])
    assert run("dead", "purge", "--all", "--yes", "--json").json["purged"] == dead


def test_the_ledger_itself_is_shown_without_a_subcommand(run, filled):
    assert run("ledger", "--limit", "1", "--json").out.count("\n") == 2


def _dead():
    return JobFilter(states=(State.DEAD,))


def later(found):
    """The same delay of the ledger, an hour later."""
    delay = found.ledger_delay
    return structs.replace(found, ledger_delay=delay and replace(delay, age=delay.age + HOUR))


def test_doctor_names_the_transaction_that_delays_readers(run, postgres_database, monkeypatch):
    url = postgres_database()
    holdfast.connect(url).close()
    diagnose = PostgresEngine.diagnose
    monkeypatch.setattr(PostgresEngine, "diagnose", lambda engine, request: later(diagnose(engine, request)))
    with psycopg.connect(url, application_name="report") as other:
        other.execute("SELECT pg_current_xact_id()")
        pid = other.info.backend_pid
        [check] = [one for one in run("doctor", "--url", url, "--json").json["checks"] if one["name"] == "ledger"]
        assert f"the transaction of process {pid} of report is open for" in check["text"]
        assert check["advice"] == f"end it: SELECT pg_terminate_backend({pid})"
        assert check["health"] == "note"
    assert "ledger" not in [one["name"] for one in run("doctor", "--url", url, "--json").json["checks"]]


def test_doctor_names_readers_that_have_fallen_behind(run, filled, reader, monkeypatch):
    monkeypatch.setattr(Output, "now", lambda _: SystemClock().now() + HOUR)  # doctor also says that the clock is wrong
    [check] = [one for one in run("doctor", "--json", code=1).json["checks"] if one["name"] == "readers"]
    assert check["text"].startswith("billing: has rows to read since")
    assert reader.advance(reader.read()[-1][0])
    assert "readers" not in [one["name"] for one in run("doctor", "--json", code=1).json["checks"]]
