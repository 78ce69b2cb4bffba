"""``holdfast schema`` and ``holdfast doctor`` on PostgreSQL."""

from __future__ import annotations

import psycopg
import pytest

from holdfast.drivers.postgres.migrations import migrations

NEWEST = migrations()[-1].version


@pytest.fixture
def store_url(postgres_database):
    return postgres_database(empty=True)


def test_tables_are_installed_checked_and_upgraded(run, store_url):
    assert "no tables: run `holdfast schema install`" in run("schema", "check", "--url", store_url, code=1).err
    assert "no store at" in run("schema", "upgrade", "--url", store_url, code=4).err
    assert f"version {NEWEST}, new" in run("schema", "install", "--url", store_url).out
    assert run("schema", "check", "--json", "--url", store_url).json == {
        "applied": NEWEST,
        "newest": NEWEST,
        "current": True,
    }
    assert "nothing to do" in run("schema", "upgrade", "--url", store_url).out


def test_functions_of_another_version_are_out_of_date(run, store_url):
    run("schema", "install", "--url", store_url)
    with psycopg.connect(store_url) as session:
        session.execute("UPDATE holdfast.functions SET revision = 0, checksum = 'older'")
    assert "with other functions" in run("schema", "check", "--url", store_url, code=1).err
    assert run("schema", "upgrade", "--url", store_url).out == f"version {NEWEST}, brought up to date\n"
    assert "up to date" in run("schema", "check", "--url", store_url).out


def test_newer_tables_that_this_version_can_use_are_up_to_date(run, store_url):
    """So a program of the older version can be restarted while the others are upgraded."""
    run("schema", "install", "--url", store_url)
    with psycopg.connect(store_url) as session:
        session.execute("INSERT INTO holdfast.migrations VALUES (999, '999_future', 'x', 1)")
    assert run("schema", "check", "--url", store_url).out == "version 999, up to date\n"
    assert run("schema", "install", "--url", store_url).out == "version 999 already, nothing to do\n"


def test_the_schema_is_printed_without_a_server(run):
    out = run("schema", "sql", "--url", "postgresql://nobody@127.0.0.1:1/nowhere").out
    assert "CREATE TABLE jobs" in out
    assert "FUNCTION reserve(" in out


def test_doctor_shows_dead_rows_and_the_oldest_transaction(run, store_url):
    run("schema", "install", "--url", store_url)
    with psycopg.connect(store_url) as old:
        old.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        old.execute("SELECT 1")
        checks = {one["name"]: one for one in run("doctor", "--json", "--url", store_url).json["checks"]}
    assert checks["rows"]["health"] == "ok"
    assert "live rows in the hot tables" in checks["rows"]["text"]
    assert checks["transaction"]["text"].startswith("the oldest is open for ")
    assert checks["driver"]["text"] == "postgres"


def test_an_unreachable_server_is_reported_in_one_line_without_the_password(run):
    result = run("schema", "check", "--url", "postgresql://me:hunter2@127.0.0.1:1/db?connect_timeout=2", code=3)
    assert "cannot be reached" in result.err
    assert "hunter2" not in result.err
    assert len(result.err.splitlines()) == 1


def test_an_unknown_database_or_role_is_not_an_unreachable_server(run, store_url):
    """The server has answered, so nobody should look at the network; nor does the command wait for it."""
    unknown = store_url.rpartition("/")[0] + "/ordrs"
    for arguments in (("schema", "check"), ("enqueue", "t", "{}"), ("doctor",)):
        result = run(*arguments, "--url", unknown, code=None)
        assert 'the PostgreSQL server has no database "ordrs"' in result.err + result.out
        assert "cannot be reached" not in result.err + result.out
    stranger = store_url.replace("postgres@", "stranger@")
    result = run("enqueue", "t", "{}", "--url", stranger, code=3)
    assert 'the PostgreSQL server has no role "stranger"' in result.err
    assert "cannot be reached" not in result.err


def test_the_rights_of_a_role_are_printed_without_a_server(run):
    url = "postgresql://nobody@127.0.0.1:1/nowhere"
    assert (
        'GRANT USAGE ON SCHEMA "holdfast" TO "o""rders";'
        in run("schema", "grants", "--role", 'o"rders', "--url", url).out
    )
    assert 'ON SCHEMA "mine" TO "w"' in run("schema", "grants", "--role", "w", "--url", f"{url}?schema=mine").out
    assert "wanted the name of a role" in run("schema", "grants", "--role", "", "--url", url, code=2).err
    assert "has no roles" in run("schema", "grants", "--role", "w", "--url", "sqlite:///jobs.db", code=1).err
    assert "--role" in run("schema", "grants", "--url", url, code=2).err
