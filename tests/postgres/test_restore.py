"""A store that was restored from ``pg_dump`` into another server keeps its ledger and the cursors of its readers."""

import re
from pathlib import Path

import psycopg
import pytest

import holdfast
from holdfast.drivers.requests import LedgerEnd, LedgerMarks, ReadTuples, Trim
from holdfast.errors import JobNotInflight, LeaseMismatch, SchemaMismatch
from holdfast.model.settlement import Ack
from holdfast.testing.servers.postgres import PostgresServer
from tests.postgres.conftest import NOW

GUIDE = Path(__file__).parents[2] / "docs" / "guides" / "backup.md"
BURN_NUMBERS = "DO $$ BEGIN FOR i IN 1..3000 LOOP PERFORM pg_current_xact_id(); COMMIT; END LOOP; END $$"


def run_job(store, record):
    store.enqueue([record], now=NOW)
    [reservation] = store.reserve(["q"], limit=1, lease_for=1000, now=NOW)
    assert store.settle([Ack(reservation.lease)], now=NOW) == [None]


def read_ids(store, after=None):
    """Return the jobs of all ledger rows behind a cursor, read in each of the ways that a reader has."""
    page = store.ledger(after=after)
    rows, cursor = store.do(ReadTuples(after=after, limit=1000))
    assert (len(rows), cursor) == (len(page.items), page.cursor)
    assert sum(count for _, count in store.do(LedgerMarks(after=after, every=2, most=1000))) == len(page.items)
    if page.items:
        assert store.do(LedgerEnd()) == page.cursor
    return [row.job_id for row in page]


def test_rows_and_cursors_survive_two_restores_into_new_servers(server, job):
    """The transaction numbers of the first server are larger than those of the servers that get its dump."""
    url = server.create_database("first")
    with psycopg.connect(url, autocommit=True) as session:
        session.execute(BURN_NUMBERS)
    with holdfast.connect(url, caller_clock=True) as store:
        for name in "ab":
            run_job(store, job(id=name))
        cursor = store.ledger(limit=1).cursor
        held_by = "first"
    known, source = ["a", "b"], server
    for name in ("second", "third"):
        script = source.dump(held_by)
        with PostgresServer() as other:
            with holdfast.connect(other.restore(name, script), caller_clock=True) as store:
                assert read_ids(store) == known
                assert read_ids(store, cursor) == known[1:]
                run_job(store, job(id=name))
                known.append(name)
                assert read_ids(store) == known
                assert read_ids(store, cursor) == known[1:]
            with holdfast.connect(other.url_of(name), caller_clock=True) as store:  # it is not restored again
                assert read_ids(store) == known
                assert store.do(Trim(ledger_for=1, limit=1, now=NOW + 10)).ledger == 1
            script = other.dump(name)
        del known[0]
        held_by = f"{name}_back"
        server.restore(held_by, script)
        with holdfast.connect(server.url_of(held_by), caller_clock=True) as store:
            assert read_ids(store) == known
            cursor = store.ledger(limit=1).cursor


def test_a_restored_store_is_not_read_before_a_process_has_connected(store, session, url, job):
    run_job(store, job(id="a"))
    session.execute("UPDATE origin SET system_identifier = 1")
    for read in (
        store.ledger,
        lambda: store.do(LedgerEnd()),
        lambda: store.do(ReadTuples(limit=1)),
        lambda: store.do(Trim(now=NOW)),
    ):
        with pytest.raises(SchemaMismatch, match=r"restored.*connect once"):
            read()
    holdfast.connect(url).close()
    run_job(store, job(id="b"))
    assert read_ids(store) == ["a", "b"]


def test_a_copy_of_a_database_on_the_same_server_is_a_restored_store_too(server, job):
    with holdfast.connect(server.create_database("original"), caller_clock=True) as store:
        run_job(store, job(id="a"))
    with psycopg.connect(server.url, autocommit=True) as session:
        session.execute("CREATE DATABASE copied TEMPLATE original")
    with holdfast.connect(server.url_of("copied"), caller_clock=True) as store:
        run_job(store, job(id="b"))
        assert read_ids(store) == ["a", "b"]


def test_a_role_that_does_not_own_the_tables_is_told_what_to_do(store, session, url):
    session.execute("UPDATE origin SET system_identifier = 1")
    session.execute("CREATE ROLE restored_guest LOGIN")
    try:
        session.execute("GRANT USAGE ON SCHEMA holdfast TO restored_guest")
        session.execute("GRANT SELECT ON ALL TABLES IN SCHEMA holdfast TO restored_guest")
        with pytest.raises(SchemaMismatch, match=r"restored.*schema install"):
            holdfast.connect(url.replace("postgres@", "restored_guest@"))
    finally:
        session.execute("DROP OWNED BY restored_guest")
        session.execute("DROP ROLE restored_guest")


def test_after_a_restore_the_counter_is_raised_as_the_guide_says_and_old_workers_are_refused(server, job):
    url = server.create_database("before")
    with holdfast.connect(url, caller_clock=True) as store:
        run_job(store, job(id="a"))
        store.enqueue([job(id="b")], now=NOW)
        script = server.dump("before")
        [lost] = store.reserve(["q"], limit=1, lease_for=1000, now=NOW)  # after the backup
    restored_url = server.restore("after", script)
    [statement] = re.findall(r"(?s)```sql\n(.*?)```", GUIDE.read_text(encoding="utf-8"))
    with psycopg.connect(restored_url, autocommit=True) as session:
        session.execute(statement)
    with holdfast.connect(restored_url, caller_clock=True) as store:
        [refusal] = store.settle([Ack(lost.lease)], now=NOW)
        assert isinstance(refusal, JobNotInflight)
        [again] = store.reserve(["q"], limit=1, lease_for=1000, now=NOW)
        assert (again.job.id, again.job.attempts) == ("b", 1)
        assert again.lease.fence > lost.lease.fence + 1_000_000
        [refusal] = store.settle([Ack(lost.lease)], now=NOW)
        assert isinstance(refusal, LeaseMismatch)
