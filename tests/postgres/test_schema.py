"""The tables are installed once, by the first process that connects; a store that does not fit is refused."""

import json
import re
import subprocess
import sys

import psycopg
import pytest

import holdfast
from holdfast.drivers.postgres.columns import sql_type
from holdfast.drivers.postgres.migrations import migrations
from holdfast.drivers.postgres.url import read_url
from holdfast.drivers.requests import Configure, Scan, Settings, Write
from holdfast.drivers.statements import ENDED_ONLY
from holdfast.errors import ConnectError, InvalidInput, SchemaMismatch, StoreUnavailable
from holdfast.model.columns import JOB_COLUMNS, LEDGER_COLUMNS
from holdfast.model.lease import Enqueued
from holdfast.model.queue_settings import LimitOrigin, QueueSettings
from holdfast.model.registry import Change
from holdfast.model.settlement import Ack, Retry
from tests.postgres.conftest import NOW, WITHOUT_PAYLOADS

CONNECT = "import holdfast, sys; holdfast.connect(sys.argv[1]).close()"


def test_many_processes_can_start_at_once_on_an_empty_database(empty_url):
    started = [subprocess.Popen([sys.executable, "-c", CONNECT, empty_url]) for _ in range(6)]
    assert [process.wait(60) for process in started] == [0] * 6
    with psycopg.connect(empty_url) as connection:
        applied = connection.execute("SELECT version, name, checksum FROM holdfast.migrations ORDER BY 1").fetchall()
    assert applied == [(one.version, one.name, one.checksum) for one in migrations()]


def test_a_migration_that_changed_after_it_was_applied_is_refused(store, session, url):
    session.execute("UPDATE migrations SET checksum = 'another' WHERE version = 1")
    with pytest.raises(SchemaMismatch, match=r"001_init.*another checksum"):
        holdfast.connect(url)


OTHER_LAYOUT = """
CREATE SCHEMA holdfast;
CREATE TABLE holdfast.migrations (version integer PRIMARY KEY, name text NOT NULL, checksum text NOT NULL,
                                  oldest integer NOT NULL, applied_at timestamptz NOT NULL DEFAULT now());
INSERT INTO holdfast.migrations VALUES (1, '001_tables', 'x', 1), (16, '016_leased', 'x', 1);
"""


def test_a_development_store_of_another_layout_is_refused_with_what_to_do(empty_url):
    """A store with another first migration is never converted: its owner creates it again."""
    with psycopg.connect(empty_url, autocommit=True) as connection:
        connection.execute(OTHER_LAYOUT)
        with pytest.raises(SchemaMismatch, match=r"001_init.*another checksum.*different build.*make it again"):
            holdfast.connect(empty_url)
        tables = connection.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'holdfast'").fetchall()
    assert tables == [("migrations",)]


def test_the_tables_have_every_column_of_a_job_and_of_a_ledger_row(store, session):
    columns = {}
    for table, name, type_ in session.execute(
        "SELECT table_name, column_name, data_type FROM information_schema.columns WHERE table_schema = 'holdfast'"
    ):
        columns.setdefault(table, {})[name] = type_
    for table, wanted in (
        ("jobs", [column for column in JOB_COLUMNS if column.name not in ENDED_ONLY]),
        ("ended", JOB_COLUMNS),
        ("ledger", LEDGER_COLUMNS),
    ):
        assert {column.name: sql_type(column) for column in wanted}.items() <= columns[table].items()


def test_a_store_of_an_older_version_is_upgraded_with_its_jobs_and_keys(store, session, url, job):
    """The tables before 005, and a revision without ``enqueue_one``."""
    store.enqueue([job(id="older", idempotency_key="k")], now=NOW)
    store.close()
    session.execute("ALTER TABLE jobs DROP COLUMN unique_for; ALTER TABLE ended DROP COLUMN unique_for")
    session.execute("ALTER TABLE dedupe DROP COLUMN while_queued; DROP FUNCTION enqueue_one, enqueue")
    session.execute("DELETE FROM migrations WHERE version = 5")
    session.execute("DELETE FROM functions WHERE name = 'enqueue_one'")
    session.execute("UPDATE functions SET revision = 3, oldest = 3, checksum = 'older' WHERE name <> 'purge'")
    with holdfast.connect(url, caller_clock=True) as upgraded:
        found = upgraded.get("older")
        assert found is not None
        assert found.unique_for is None
        assert upgraded.enqueue([job(idempotency_key="k")], now=NOW) == [Enqueued(id="older", existed=True)]
        [reservation] = upgraded.reserve(["q"], limit=1, lease_for=1000, now=NOW)
        assert upgraded.enqueue([job(idempotency_key="k")], now=NOW)[0].existed
        assert upgraded.settle([Ack(reservation.lease)], now=NOW) == [None]


def test_a_store_without_limit_keys_is_upgraded_while_jobs_wait_and_run(store, session, url, job):
    """The tables before 007; the limits apply to the jobs from before."""
    store.enqueue([job(id="running"), job(id="waiting", domain="d")], now=NOW)
    [held] = store.reserve(["q"], limit=1, lease_for=1000, now=NOW)
    store.do(Configure(queue="q", settings=QueueSettings(max_inflight=2)))
    store.close()
    session.execute(
        "ALTER TABLE jobs DROP COLUMN limit_key, DROP COLUMN parked_from; DROP TABLE limit_keys, key_changes"
    )
    session.execute("ALTER TABLE ended DROP COLUMN limit_key")
    session.execute(
        "ALTER TABLE settings DROP COLUMN key_max_inflight, DROP COLUMN key_rate, DROP COLUMN key_burst, "
        "DROP COLUMN keyed, ALTER COLUMN on_exhausted DROP DEFAULT, ALTER COLUMN dedupe_window DROP DEFAULT"
    )
    session.execute("DELETE FROM migrations WHERE version = 7")
    session.execute("UPDATE functions SET revision = 6, oldest = 4, checksum = 'older'")
    with holdfast.connect(url, caller_clock=True) as upgraded:
        assert upgraded.settle([Ack(held.lease)], now=NOW) == [None]
        assert upgraded.do(Settings(queue="q")) == QueueSettings(max_inflight=2)
        upgraded.do(Configure(queue="q", settings=QueueSettings(key_max_inflight=1)))
        upgraded.enqueue([job(limit_key="a"), job(limit_key="a")], now=NOW)
        reserved = upgraded.reserve(["q"], limit=9, lease_for=1000, now=NOW)
        assert [one.job.limit_key for one in reserved] == [None, "a"]


def test_a_store_in_which_last_attempts_were_isolated_is_upgraded(store, session, url, job):
    """The tables before 010, whose code must not use them any more."""
    store.enqueue([job(id="crashed")], now=NOW)
    [crashed] = store.reserve(["q"], limit=1, lease_for=1000, now=NOW)
    store.settle([Retry(crashed.lease, crashed=True)], now=NOW)
    store.enqueue([job(id="last", max_attempts=1)], now=NOW)
    store.close()
    session.execute("DROP INDEX jobs_lane, jobs_key_ready, jobs_parked")
    session.execute(
        "ALTER TABLE jobs DROP COLUMN isolated, ADD COLUMN isolated boolean NOT NULL "
        "GENERATED ALWAYS AS (suspect OR crashes > 0 OR attempts >= max_attempts - 1) STORED"
    )
    for migration in migrations():
        if migration.version in (3, 7):
            for index in re.findall(r"CREATE INDEX jobs_(?:lane|key_ready|parked)[^;]*;", migration.text):
                session.execute(index)
    session.execute("ALTER TABLE settings DROP COLUMN limits_from")
    session.execute(WITHOUT_PAYLOADS)
    session.execute("DELETE FROM migrations WHERE version >= 10")
    session.execute("UPDATE functions SET revision = 17, oldest = 7, checksum = 'older'")
    with holdfast.connect(url, caller_clock=True) as upgraded:
        reserved = upgraded.reserve(["q"], limit=9, lease_for=1000, now=NOW)
        assert {one.job.id: one.isolated for one in reserved} == {"last": False, "crashed": True}
    assert session.execute("SELECT oldest FROM migrations WHERE version = 10").fetchone() == (10,)


def test_limits_of_an_older_version_keep_their_origin(store, session, url):
    """An entry of the registry had the origin and the proposed limits."""
    rows = {  # queue: its rate, the origin and the rate in the entry, the origin after the upgrade
        "handler": (5.0, "handler", 5, LimitOrigin.HANDLER),
        "changed": (9.0, "settings", 5, None),  # by an operator, since
        "operator": (None, "operator", None, LimitOrigin.OPERATOR),
        "without-entry": (1.0, None, None, None),
    }
    for queue, (rate, origin, proposed, _) in rows.items():
        store.do(Configure(queue=queue, settings=QueueSettings(rate=rate, paused_until=7), type="t"))
        if origin is not None:
            limits = {"rate": proposed} if proposed else None
            entry = {"queue": queue, "type": "t", "origin": origin, "limits": limits}
            store.do(Write(changes=[Change(kind="limits", key=queue, value=json.dumps(entry).encode())]))
    store.do(Write(changes=[Change(kind="limits", key="unreadable", value=b"\xff{")]))
    store.close()
    session.execute("ALTER TABLE settings DROP COLUMN limits_from")
    session.execute(WITHOUT_PAYLOADS)
    session.execute("DELETE FROM migrations WHERE version >= 11")
    session.execute("UPDATE functions SET revision = 18, checksum = 'older'")
    with holdfast.connect(url) as upgraded:
        found = {queue: upgraded.do(Settings(queue=queue, type="t")).limits_from for queue in rows}
        assert upgraded.do(Scan(kind="limits")) == []
    assert found == {queue: wanted for queue, (*_, wanted) in rows.items()}


def test_older_code_works_on_newer_tables_that_allow_it(store, session, url, job):
    """A migration only adds: a column, a table, a function."""
    session.execute("ALTER TABLE jobs ADD COLUMN later text")
    session.execute("ALTER TABLE ended ADD COLUMN later text")
    session.execute("ALTER TABLE ledger ADD COLUMN later text")
    session.execute("CREATE FUNCTION later() RETURNS integer LANGUAGE sql AS 'SELECT 1'")
    session.execute("INSERT INTO migrations VALUES (999, '999_future', 'x', 1)")
    for one in (store, holdfast.connect(url, caller_clock=True)):
        one.enqueue([job()], now=NOW)
        [reservation] = one.reserve(["q"], limit=1, lease_for=1000, now=NOW)
        assert one.settle([Ack(reservation.lease)], now=NOW) == [None]
        one.close()


def test_newer_tables_that_forbid_older_code_are_refused_with_what_to_do(store, session, url):
    session.execute("INSERT INTO migrations VALUES (999, '999_future', 'x', 999)")
    with pytest.raises(SchemaMismatch, match=r"got version 999.*upgrade"):
        holdfast.connect(url)


def test_two_schemas_in_one_database_are_independent(empty_url, job):
    one = holdfast.connect(empty_url, caller_clock=True)
    other = holdfast.connect(f"{empty_url}?schema=other_queue", caller_clock=True)
    one.enqueue([job(id="a", domain="d")], now=NOW)
    assert other.get("a") is None
    assert other.reserve(["q"], limit=1, lease_for=1000, now=NOW) == []
    other.enqueue([job(id="b")], now=NOW)
    assert [reserved.job.id for reserved in other.reserve(["q"], limit=9, lease_for=1000, now=NOW)] == ["b"]
    one.close()
    other.close()


def test_a_table_of_the_user_is_not_touched(empty_url):
    with psycopg.connect(empty_url) as connection:
        connection.execute("CREATE TABLE jobs (mine text)")
    store = holdfast.connect(empty_url)
    assert store.counts() == []
    store.close()


@pytest.mark.parametrize(
    ("query", "error", "message"),
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
def test_an_invalid_url_is_refused_with_what_was_wanted_and_without_the_password(query, error, message):
    with pytest.raises(error, match=message) as refused:
        holdfast.connect(f"postgresql://me:hunter2@127.0.0.1:1/db?{query}")
    assert "hunter2" not in str(refused.value)


def test_an_unreachable_server_is_named_without_the_password():
    with pytest.raises(StoreUnavailable, match=r"127\.0\.0\.1") as refused:
        holdfast.connect("postgresql://me:hunter2@127.0.0.1:1/db?connect_timeout=2")
    assert "hunter2" not in str(refused.value)


def test_options_show_no_password():
    from urllib.parse import urlsplit

    assert "hunter2" not in repr(read_url(urlsplit("postgresql://me:hunter2@host/db")))


def test_another_isolation_level_is_refused(url):
    with pytest.raises(StoreUnavailable, match="read committed"):
        holdfast.connect(f"{url}?options=-c%20default_transaction_isolation%3Dserializable")
