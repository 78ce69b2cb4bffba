"""A job that exists if, and only if, your own rows do: enqueue inside your transaction.

An order and the job that ships it are written together: neither a crash nor a rollback leaves one without the other.
"""

from __future__ import annotations

import contextlib
import sqlite3
import tempfile
from pathlib import Path

from holdfast import Client, JobRequest, connect
from holdfast.drivers.contract import Store


class OutOfStock(Exception):
    """The order cannot be accepted."""


def accept_order(connection: sqlite3.Connection, store: Store, item: str) -> str:
    """Write the order and enqueue its shipping; the caller commits both, or neither."""
    order = connection.execute("INSERT INTO orders (item) VALUES (?)", (item,)).lastrowid
    client = Client(store.joined(connection))
    job = client.enqueue(JobRequest(type="order.ship", payload={"order": order}))
    if item == "unicorn":
        raise OutOfStock(item)
    return job.id


def count(connection: sqlite3.Connection, store: Store) -> tuple[int, int]:
    [orders] = connection.execute("SELECT count(*) FROM orders").fetchone()
    return orders, sum(row.ready for row in store.counts())


with tempfile.TemporaryDirectory() as folder:
    path = Path(folder, "shop.db")  # one file for the shop's tables and for the queue
    with (
        contextlib.closing(connect(f"sqlite:///{path}")) as store,
        contextlib.closing(sqlite3.connect(path)) as connection,
    ):
        connection.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY, item TEXT NOT NULL)")

        with connection:  # commits at its end
            job_id = accept_order(connection, store, "teapot")
            assert store.get(job_id) is None  # not yet: nobody sees it before the commit
        print("committed:   {} order, {} job".format(*count(connection, store)))
        assert count(connection, store) == (1, 1)

        try:
            with connection:  # rolls back when it is left with an error
                accept_order(connection, store, "unicorn")
        except OutOfStock:
            print("rolled back: {} order, {} job".format(*count(connection, store)))
        assert count(connection, store) == (1, 1)
