"""The functions of a store are those of ``functions/``: replaced when their text changed, never by older code."""

import re
import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path

import psycopg
import pytest

import holdfast
from holdfast.drivers.migrations import SqlFile
from holdfast.drivers.postgres import functions
from holdfast.drivers.postgres.functions import SETTINGS, Function, load_functions
from holdfast.drivers.postgres.migrations import schema_sql
from holdfast.drivers.statements import read_sql_files
from holdfast.errors import SchemaMismatch, StoreError
from holdfast.model.settlement import Ack
from tests.postgres.conftest import NOW

DRIVER = Path(functions.__file__).parent
# The checksum of all functions of a revision. A change of a function needs a new revision: raise functions.REVISION,
# decide about functions.OLDEST_REVISION (may code of the last revision still call the functions?), and enter both here.
REVISION_CHECKSUM = (19, "79903460450df7a48b34f4e47196cce5c6af5dacab77941d81387d2f7159b216")

INSTALLED = """
SELECT p.proname, p.proconfig FROM pg_proc AS p WHERE p.pronamespace = 'holdfast'::regnamespace
"""


def read_installed(session):
    return dict(session.execute(INSTALLED).fetchall())


def change(monkeypatch, name, text, *, revision=None):
    """Make this process believe that one function has another text."""
    changed = tuple(replace(each, text=text) if each.name == name else each for each in load_functions.__wrapped__())
    monkeypatch.setattr(functions, "load_functions", lambda: changed)
    if revision is not None:
        monkeypatch.setattr(functions, "REVISION", revision)


def test_every_function_is_installed_and_no_other(store, session):
    names = [function.name for function in load_functions()]
    assert len(names) == len(set(names))
    assert set(read_installed(session)) == set(names)
    for function in load_functions():
        assert f"FUNCTION {function.name}(" in function.text


def test_every_verb_and_no_internal_function_has_the_settings(store, session):
    installed = read_installed(session)
    wanted = {setting.split()[0] for setting in SETTINGS}
    for function in load_functions():
        names = {setting.split("=")[0] for setting in installed[function.name] or ()}
        if function.is_internal:
            assert names == set()
        else:
            assert wanted <= names


def test_every_function_is_called():
    """A verb by Python code, an internal function by another function or by a query."""
    python = "\n".join(path.read_text() for path in DRIVER.glob("*.py"))
    queries = "\n".join(path.read_text() for path in (DRIVER / "queries").rglob("*.sql"))
    for function in load_functions():
        others = "\n".join(other.text for other in load_functions() if other is not function)
        calls = re.findall(rf"\b{function.name}\(", _without_comments(others + queries))
        assert calls or f'"{function.name}"' in python, function.name


def _without_comments(text):
    return re.sub(r"--.*", "", text)


def test_no_query_is_unused():
    python = "\n".join(path.read_text() for path in DRIVER.glob("*.py"))
    statements = read_sql_files("holdfast.drivers.postgres", "queries")
    texts = "\n".join(statements.values())
    for name in statements:
        assert f'"{name}"' in python or f"{{{name.rpartition('/')[2]}}}" in texts, name


def test_a_changed_function_has_a_new_revision():
    checksum = SqlFile("all", "".join(function.checksum for function in load_functions())).checksum
    assert (functions.REVISION, checksum) == REVISION_CHECKSUM, "see the comment above REVISION_CHECKSUM"


def test_a_changed_body_is_replaced_at_the_next_connect(store, session, url, monkeypatch):
    text = (
        "CREATE OR REPLACE FUNCTION effective_now(_caller_now bigint) RETURNS bigint LANGUAGE sql VOLATILE RETURN 77;"
    )
    change(monkeypatch, "effective_now", text)
    assert store.engine._database.now() != 77
    holdfast.connect(url).close()
    assert store.engine._database.now() == 77
    monkeypatch.undo()
    holdfast.connect(url).close()
    assert store.engine._database.now() > 77


@pytest.mark.parametrize(
    "signature",
    [
        "(_other_name bigint) RETURNS bigint",  # another parameter name
        "(_caller_now bigint) RETURNS TABLE (now bigint)",  # another result
        "(_caller_now integer) RETURNS bigint",  # other parameter types
        "(_caller_now bigint, _more text DEFAULT NULL) RETURNS bigint",
    ],
)
@pytest.mark.parametrize("function", ["effective_now", "next_due"])  # without settings, and with
def test_a_changed_signature_replaces_the_old_function(session, url, monkeypatch, function, signature):
    text = f"CREATE OR REPLACE FUNCTION {function}{signature} LANGUAGE sql AS 'SELECT 77::bigint';"
    if function == "next_due":
        text = functions._with_settings(function, text)
    change(monkeypatch, function, text)
    holdfast.connect(url).close()
    rows = session.execute("SELECT prosrc FROM pg_proc WHERE proname = %s", [function]).fetchall()
    assert rows == [("SELECT 77::bigint",)]
    monkeypatch.undo()
    holdfast.connect(url).close()
    rows = session.execute("SELECT prosrc FROM pg_proc WHERE proname = %s", [function]).fetchall()
    assert len(rows) == 1
    assert rows != [("SELECT 77::bigint",)]


def test_a_function_that_is_no_longer_known_is_dropped(store, session, url, monkeypatch):
    extra = Function("extra", "CREATE OR REPLACE FUNCTION extra() RETURNS integer LANGUAGE sql AS 'SELECT 1';")
    known = (*load_functions(), extra)
    monkeypatch.setattr(functions, "load_functions", lambda: known)
    holdfast.connect(url).close()
    assert "extra" in read_installed(session)
    monkeypatch.undo()
    holdfast.connect(url).close()
    assert "extra" not in read_installed(session)


def test_a_function_of_the_user_in_the_schema_is_not_dropped(store, session, url, monkeypatch):
    session.execute("CREATE FUNCTION mine() RETURNS integer LANGUAGE sql AS 'SELECT 1'")
    change(monkeypatch, "purge", load_functions()[0].text, revision=functions.REVISION + 1)
    holdfast.connect(url).close()
    assert "mine" in read_installed(session)


def test_older_code_does_not_overwrite_newer_functions(store, session, url, job, monkeypatch):
    text = next(function.text for function in load_functions() if function.name == "effective_now")
    newer = text.replace("coalesce(_caller_now,", "coalesce(_caller_now, 77 +")
    change(monkeypatch, "effective_now", newer, revision=functions.REVISION + 1)
    holdfast.connect(url).close()
    monkeypatch.undo()
    [before] = session.execute("SELECT pg_get_functiondef('effective_now'::regproc)").fetchone()
    with holdfast.connect(url, caller_clock=True) as older:
        older.enqueue([job()], now=NOW)
        [reservation] = older.reserve(["q"], limit=1, lease_for=1000, now=NOW)
        assert older.settle([Ack(reservation.lease)], now=NOW) == [None]
    [after] = session.execute("SELECT pg_get_functiondef('effective_now'::regproc)").fetchone()
    assert before == after
    assert "77" in after


def test_newer_functions_that_forbid_older_code_are_refused_with_what_to_do(store, session, url):
    session.execute("UPDATE functions SET revision = 999, oldest = 999")
    with pytest.raises(SchemaMismatch, match=r"got revision 999.*upgrade"):
        holdfast.connect(url)


RESERVE_6 = "SELECT * FROM reserve('main', ARRAY['q'], NULL, 9, 1000, '', %s, NULL, 'share', false, %s)"
SETTLE_6 = f"SELECT * FROM settle('main', %s, '{{1}}', ARRAY[%s], ARRAY[%s], '{{release}}'{', NULL' * 15})"


def test_code_from_before_an_upgrade_can_end_its_jobs_and_leases_none_that_it_cannot_read(store, session, job):
    """Calls of revision 6, whose reserve returned no limit key."""
    store.enqueue([job(), job()], now=NOW)
    [held] = store.reserve(["q"], limit=1, lease_for=1000, now=NOW)
    with pytest.raises(psycopg.errors.UndefinedFunction):
        session.execute(RESERVE_6, [bytes(9 * 16), NOW])
    assert session.execute(SETTLE_6, [NOW, held.job.id, held.lease.token]).fetchall() == []
    assert len(store.reserve(["q"], limit=9, lease_for=1000, now=NOW)) == 2


def test_processes_that_upgrade_the_functions_at_once_do_not_fail(store, session, url):
    session.execute("UPDATE functions SET checksum = 'older', revision = 0")
    connect = "import holdfast, sys; holdfast.connect(sys.argv[1]).close()"
    started = [subprocess.Popen([sys.executable, "-c", connect, url]) for _ in range(5)]
    assert [process.wait(60) for process in started] == [0] * 5
    rows = session.execute("SELECT name, checksum FROM functions").fetchall()
    assert dict(rows) == {function.name: function.checksum for function in load_functions()}


def test_the_functions_can_be_replaced_under_load(store, session, url, job):
    """Calls that run meanwhile succeed: a function is replaced in place and never missing."""
    done, errors, passed = threading.Event(), [], []

    def work():
        with holdfast.connect(f"{url}?listen=off", caller_clock=True) as worker:
            while not done.is_set():
                try:
                    worker.enqueue([job()], now=NOW)
                    held = worker.reserve(["q"], limit=1, lease_for=10**9, now=NOW)
                    passed.extend(worker.settle([Ack(one.lease) for one in held], now=NOW))
                except StoreError as error:
                    errors.append(error)

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for _ in range(5):
        before = len(passed)
        session.execute("UPDATE functions SET checksum = 'older'")
        holdfast.connect(url).close()
        while len(passed) < before + 20 and not errors:
            done.wait(0.01)
    done.set()
    for thread in threads:
        thread.join()
    assert errors == []
    assert set(passed) == {None}


def test_the_printed_script_makes_the_same_functions(url, session):
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("CREATE SCHEMA by_hand")
        connection.execute("SET search_path = by_hand, pg_temp")
        connection.execute(schema_sql().encode())
        by_hand = connection.execute(
            "SELECT count(*) FROM pg_proc WHERE pronamespace = 'by_hand'::regnamespace"
        ).fetchone()
    assert by_hand == (len(load_functions()),)
