"""The first process creates the tables; tables of another version are refused."""

import hashlib
import json
import sqlite3
import subprocess
import sys
import threading
from contextlib import closing
from dataclasses import replace

import pytest

import holdfast
from holdfast.clock import SECOND
from holdfast.drivers.packing import digest_of
from holdfast.drivers.requests import Scan, Settings
from holdfast.drivers.sqlite.migrations import load, migrate
from holdfast.drivers.statements import ENDED_ONLY
from holdfast.errors import ConnectError, InvalidInput, SchemaMismatch, StoreBusy
from holdfast.model.columns import JOB_COLUMNS, LEDGER_COLUMNS, names_of
from holdfast.model.lease import Enqueued
from holdfast.model.queue_settings import LimitOrigin
from tests.sqlite.conftest import NOW

OPEN = "import holdfast, sys; holdfast.connect(sys.argv[1]).close()"


def test_many_processes_may_start_at_once_on_an_empty_file(path):
    started = [subprocess.Popen([sys.executable, "-c", OPEN, f"sqlite:///{path}"]) for _ in range(8)]
    assert [process.wait(60) for process in started] == [0] * 8
    with sqlite3.connect(path) as connection:
        applied = connection.execute("SELECT version, name, checksum FROM holdfast_migrations").fetchall()
    connection.close()
    assert applied == [(one.version, one.name, one.checksum) for one in load()]


def test_a_file_that_another_process_is_just_writing_to_is_waited_for(path):
    """A writer prevents the switch to WAL mode, and SQLite does not call its own busy handler for that switch."""
    with closing(sqlite3.connect(path, isolation_level=None, check_same_thread=False)) as other:
        other.execute("CREATE TABLE mine (x)")
        other.execute("BEGIN IMMEDIATE")
        let_go = threading.Timer(0.2, other.execute, ["COMMIT"])
        let_go.start()
        holdfast.connect(f"sqlite:///{path}").close()
        let_go.join()


def test_a_file_that_stays_locked_is_given_up_on_in_time(path):
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("CREATE TABLE mine (x)")
        other.execute("BEGIN IMMEDIATE")
        with holdfast.connect(f"sqlite:///{path}?busy_for=0.05") as store:
            for call in (store.counts, lambda: store.enqueue([])):
                with pytest.raises(StoreBusy):
                    call()
            other.execute("COMMIT")
            assert store.counts() == []


def test_a_checksum_does_not_depend_on_line_ends():
    [first, *_] = load()
    on_windows = replace(first, text=first.text.replace("\n", "\r\n"))
    assert on_windows.checksum == first.checksum
    assert len(first.checksum) == hashlib.sha256().digest_size * 2


def test_a_script_that_changed_after_it_was_applied_is_refused(store, path):
    store.close()
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE holdfast_migrations SET checksum = 'another'")
    connection.close()
    with pytest.raises(SchemaMismatch, match=r"001_init.*another checksum"):
        holdfast.connect(f"sqlite:///{path}")


def test_a_store_of_the_first_version_is_upgraded_with_its_jobs(path, job):
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        migrate(connection, load()[:1], NOW)
        for id_, crashes, attempts in [("fresh", 0, 0), ("crashed", 1, 1), ("on-its-last-attempt", 0, 2)]:
            connection.execute(
                "INSERT INTO holdfast_jobs (space, id, queue, type, priority, available_at, enqueued_at, attempts, "
                "max_attempts, crashes, created_at, payload) VALUES ('main', ?, 'q', 't', 0, ?, ?, ?, 3, ?, ?, x'31')",
                (id_, NOW, NOW, attempts, crashes, NOW),
            )
        connection.execute("INSERT INTO holdfast_lanes VALUES ('main', 'q', 't', 0)")
        digest = digest_of(job().payload)
        connection.execute("INSERT INTO holdfast_dedupe VALUES ('main', 'q', 'k', 'fresh', ?, ?)", (digest, NOW))
    with holdfast.connect(f"sqlite:///{path}", caller_clock=True) as store:
        store.enqueue([job(id="new")], now=NOW)
        reservations = store.reserve(["q"], limit=10, lease_for=SECOND, now=NOW)
        assert store.enqueue([job(idempotency_key="k")], now=NOW) == [Enqueued(id="fresh", existed=True)]
    isolated = {reservation.job.id: reservation.isolated for reservation in reservations}
    assert isolated == {"fresh": False, "crashed": True, "on-its-last-attempt": False, "new": False}


def test_limits_of_an_older_version_keep_their_origin(path):
    """An entry of the registry had the origin and the proposed limits."""
    rows = {  # queue: its rate, the origin and the rate in the entry, the origin after the upgrade
        "handler": (5.0, "handler", 5, LimitOrigin.HANDLER),
        "changed": (9.0, "settings", 5, None),  # by an operator, since
        "operator": (None, "operator", None, LimitOrigin.OPERATOR),
        "without-entry": (1.0, None, None, None),
    }
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        migrate(connection, load()[:9], NOW)
        insert = "INSERT INTO holdfast_registry (space, kind, key, value, version) VALUES ('main', 'limits', ?, ?, 1)"
        for queue, (rate, origin, proposed, _) in rows.items():
            connection.execute(
                "INSERT INTO holdfast_settings (space, queue, type, rate, on_exhausted, dedupe_window) "
                "VALUES ('main', ?, 't', ?, 'skip', 1)",
                (queue, rate),
            )
            if origin is not None:
                limits = {"rate": proposed} if proposed else None
                entry = {"queue": queue, "type": "t", "origin": origin, "limits": limits}
                connection.execute(insert, (queue, json.dumps(entry).encode()))
        connection.execute(insert, ("unreadable", b"\xff{"))
    with holdfast.connect(f"sqlite:///{path}") as store:
        found = {queue: store.do(Settings(queue=queue, type="t")).limits_from for queue in rows}
        assert store.do(Scan(kind="limits")) == []
    assert found == {queue: wanted for queue, (*_, wanted) in rows.items()}


def test_a_store_of_a_newer_version_is_refused_with_what_to_do(store, path):
    store.close()
    with sqlite3.connect(path) as connection:
        connection.execute("INSERT INTO holdfast_migrations VALUES (999, '999_future', 'x', 0)")
    connection.close()
    with pytest.raises(SchemaMismatch, match=r"got version 999.*upgrade"):
        holdfast.connect(f"sqlite:///{path}")


def test_tables_of_the_user_in_the_same_file_are_left_alone(path):
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE jobs (mine TEXT)")
    connection.close()
    store = holdfast.connect(f"sqlite:///{path}")
    assert store.counts() == []
    store.close()


@pytest.mark.parametrize(
    ("url", "error", "message"),
    [
        ("sqlite://", ConnectError, "sqlite:///relative.db"),
        ("sqlite:///", ConnectError, "sqlite:///relative.db"),
        ("sqlite:///:memory:", ConnectError, "memory://"),
        ("sqlite://host/jobs.db", ConnectError, "sqlite:///relative.db"),
        ("sqlite:///jobs.db?sync=FULL", ConnectError, "it takes: busy_for, min_free_bytes, synchronous"),
        ("sqlite:///jobs.db?synchronous=OFF", InvalidInput, "FULL"),
        ("sqlite:///jobs.db?busy_for=long", InvalidInput, "busy_for"),
    ],
)
def test_a_refused_url_is_answered_with_what_would_fit(url, error, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(error, match=message):
        holdfast.connect(url)
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_is_no_database_is_refused(path):
    path.write_text("hello, I am a text file and have always been one\n" * 50)
    with pytest.raises(holdfast.HoldfastError, match="not a database"):
        holdfast.connect(f"sqlite:///{path}")


def test_a_folder_that_is_not_there_is_named(tmp_path):
    with pytest.raises(holdfast.HoldfastError, match="nowhere"):
        holdfast.connect(f"sqlite:///{tmp_path}/nowhere/jobs.db")


def test_the_tables_have_every_column_of_a_job_and_of_a_ledger_row(store):
    def columns(table: str) -> set[str]:
        with store.engine._database.reading() as connection:
            return {name for _, name, *_ in connection.execute(f"PRAGMA table_info({table})")}

    job = set(names_of(JOB_COLUMNS))
    assert job <= columns("holdfast_ended")
    assert job - ENDED_ONLY <= columns("holdfast_jobs")
    assert set(names_of(LEDGER_COLUMNS)) <= columns("holdfast_ledger")
