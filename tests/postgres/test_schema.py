"""Tables are made once, by whoever comes first, and are never silently the wrong ones."""

import subprocess
import sys

import psycopg
import pytest

import holdfast
from holdfast.drivers.postgres.migrations import migrations
from holdfast.drivers.postgres.url import read
from holdfast.errors import ConnectError, InvalidInput, SchemaMismatch, StoreUnavailable
from holdfast.model.settlement import Ack
from tests.postgres.conftest import NOW

OPEN = "import holdfast, sys; holdfast.connect(sys.argv[1]).close()"


def test_many_processes_may_start_at_once_on_an_empty_database(url):
    started = [subprocess.Popen([sys.executable, "-c", OPEN, url]) for _ in range(6)]
    assert [process.wait(60) for process in started] == [0] * 6
    with psycopg.connect(url) as connection:
        applied = connection.execute("SELECT version, name, checksum FROM holdfast.migrations ORDER BY 1").fetchall()
    assert applied == [(one.version, one.name, one.checksum) for one in migrations()]


def test_a_script_that_changed_after_it_was_applied_is_refused(store, session, url):
    session.execute("UPDATE migrations SET checksum = 'another' WHERE version = 1")
    with pytest.raises(SchemaMismatch, match=r"001_tables.*another checksum"):
        holdfast.connect(url)


def test_old_code_goes_on_on_a_newer_schema_that_allows_it(store, session, url, job):
    """A migration only adds: another column, another table, another shape of a function."""
    session.execute("ALTER TABLE jobs ADD COLUMN later text")
    session.execute("ALTER TABLE ended ADD COLUMN later text")
    session.execute("ALTER TABLE ledger ADD COLUMN later text")
    session.execute("CREATE FUNCTION reserve_2() RETURNS integer LANGUAGE sql AS 'SELECT 1'")
    session.execute("INSERT INTO migrations VALUES (999, '999_future', 'x', 1)")
    for one in (store, holdfast.connect(url, caller_clock=True)):
        one.enqueue([job()], now=NOW)
        [reservation] = one.reserve(["q"], limit=1, lease_for=1000, now=NOW)
        assert one.settle([Ack(reservation.lease)], now=NOW) == [None]
        one.close()


def test_a_schema_that_forbids_old_code_is_refused_with_what_to_do(store, session, url):
    session.execute("INSERT INTO migrations VALUES (999, '999_future', 'x', 999)")
    with pytest.raises(SchemaMismatch, match=r"got version 999.*upgrade"):
        holdfast.connect(url)


def test_two_schemas_in_one_database_know_nothing_of_each_other(url, job):
    one = holdfast.connect(url, caller_clock=True)
    other = holdfast.connect(f"{url}?schema=other_queue", caller_clock=True)
    one.enqueue([job(id="a", domain="d")], now=NOW)
    assert other.get("a") is None
    assert other.reserve(["q"], limit=1, lease_for=1000, now=NOW) == []
    other.enqueue([job(id="b")], now=NOW)
    assert [found.job.id for found in other.reserve(["q"], limit=9, lease_for=1000, now=NOW)] == ["b"]
    one.close()
    other.close()


def test_a_table_of_the_users_is_left_alone(url):
    with psycopg.connect(url) as connection:
        connection.execute("CREATE TABLE jobs (mine text)")
    store = holdfast.connect(url)
    assert store.counts() == []
    store.close()


@pytest.mark.parametrize(
    ("query", "error", "says"),
    [
        ("schema=Bad-Name", InvalidInput, "schema"),
        ("schema=pg_mine", InvalidInput, "schema"),
        ('schema=x";drop table y;--', InvalidInput, "schema"),
        ("patience=long", InvalidInput, "patience"),
        ("connections=0", InvalidInput, "connections"),
        ("listen=host", InvalidInput, "listen"),
        ("no_such_option=1", ConnectError, "connections, listen, patience, schema"),
    ],
)
def test_a_url_that_does_not_fit_says_what_would_and_keeps_the_password(query, error, says):
    with pytest.raises(error, match=says) as refused:
        holdfast.connect(f"postgresql://me:hunter2@127.0.0.1:1/db?{query}")
    assert "hunter2" not in str(refused.value)


def test_a_server_that_is_not_there_is_named_without_the_password():
    with pytest.raises(StoreUnavailable, match=r"127\.0\.0\.1") as refused:
        holdfast.connect("postgresql://me:hunter2@127.0.0.1:1/db?connect_timeout=2")
    assert "hunter2" not in str(refused.value)


def test_options_show_no_password():
    from urllib.parse import urlsplit

    assert "hunter2" not in repr(read(urlsplit("postgresql://me:hunter2@host/db")))


def test_another_isolation_level_is_refused(url):
    with pytest.raises(StoreUnavailable, match="read committed"):
        holdfast.connect(f"{url}?options=-c%20default_transaction_isolation%3Dserializable")
