"""One row that cannot be read among good ones: it is a dead letter ``unreadable``, and nobody else notices (L9)."""

from __future__ import annotations

import sqlite3

import pytest

from holdfast.drivers.sqlite.migrations import load, migrate
from holdfast.model.settlement import Fail
from tests import unreadable_rows

TEXTS = ("cast(x'61fffe' as text)", "cast(x'610062' as text)", "''", f"'{'x' * 300}'", "'ü b'", "x'00ff'", "7")
INTEGERS = (f"-{2**63 - 1}", f"{2**63 - 1}", "-1", "0", f"{2**31 - 1}", f"{2**31}", "'text'", "1.5")
BLOBS = ("x'fffe'", "x''", "x'5b5d'", "x'7b2261223a22ff227d'", f"cast('{'[' * 100_000}' as blob)", "'text'", "7")
VALUES = {"TEXT": TEXTS, "INTEGER": INTEGERS, "BLOB": BLOBS}


def columns_of(table: str) -> list[tuple[str, str]]:
    """Return the columns of a table with their types."""
    connection = sqlite3.connect(":memory:", isolation_level=None)
    connection.execute("BEGIN")
    migrate(connection, load(), 0)
    rows = connection.execute("SELECT name, type FROM pragma_table_info(?) WHERE pk = 0", (table,)).fetchall()
    connection.close()
    return [(name, type_) for name, type_ in rows if name != "space"]


def damage(path, space: str, table: str, column: str, value: str) -> bool:
    """Write a value into the row ``bad``, as a person with a shell does; return False if the table refuses it."""
    connection = sqlite3.connect(path)
    try:
        with connection:
            update = f'UPDATE {table} SET "{column}" = {value} WHERE space = ? AND name = ?'
            assert connection.execute(update, (space, "bad")).rowcount == 1
    except sqlite3.IntegrityError:
        return False
    finally:
        connection.close()
    return True


def damaged_spaces(store, path, table: str, column: str, fill):
    """Yield a space for each hostile value of a column, in which the row ``bad`` has that value."""
    for number, value in enumerate((*VALUES[dict(columns_of(table))[column]], "NULL")):
        space = store.space(f"s{number}")
        fill(space)
        is_empty_id = (column, value) == ("id", "''")  # pages begin behind it
        if damage(path, space.space_name, table, column, value) and not is_empty_id:
            yield space


@pytest.mark.parametrize("column", dict(columns_of("holdfast_jobs")))
def test_a_ready_row(store, path, column):
    for space in damaged_spaces(store, path, "holdfast_jobs", column, unreadable_rows.fill):
        unreadable_rows.check_ready_row(space, column)


@pytest.mark.parametrize("column", dict(columns_of("holdfast_jobs")))
def test_a_leased_row(store, path, column):
    leases = {}

    def lease(space):
        leases.update({space.space_name: unreadable_rows.lease_all(space)})

    for space in damaged_spaces(store, path, "holdfast_jobs", column, lease):
        unreadable_rows.check_leased_row(space, leases[space.space_name])


@pytest.mark.parametrize("column", dict(columns_of("holdfast_ended")))
def test_an_ended_row(store, path, column):
    def end(space):
        leases = unreadable_rows.lease_all(space)
        space.settle([Fail(lease, "no", "error") for lease in leases.values()], now=unreadable_rows.NOW)

    for space in damaged_spaces(store, path, "holdfast_ended", column, end):
        unreadable_rows.check_ended_row(space)
