"""Enqueue inside your own transaction: the job exists if and only if your rows are committed.

An order and the job that ships it are written together. Neither a crash nor a rollback leaves one without the other.
"""

from __future__ import annotations

import contextlib
import sqlite3
import tempfile
from pathlib import Path

from holdfast import Client, JobRequest, connect
from holdfast.driver import Store


class OutOfStock(Exception):
    """The order cannot be accepted."""


def accept_order(connection: sqlite3.Connection, store: Store, item: str) -> str:
    """Insert the order and enqueue the job that ships it; the caller commits or rolls back both."""
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
    path = Path(folder, "shop.db")  # the shop's tables and the queue share one file
    with (
        connect(f"sqlite:///{path}") as store,
        contextlib.closing(sqlite3.connect(path)) as connection,
    ):
        connection.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY, item TEXT NOT NULL)")

        with connection:  # commits at the end of the block
            job_id = accept_order(connection, store, "teapot")
            assert store.get(job_id) is None  # the job is not visible before the commit
        print("after the commit:   {} order, {} job".format(*count(connection, store)))
        assert count(connection, store) == (1, 1)

        try:
            with connection:  # rolls back if the block raises
                accept_order(connection, store, "unicorn")
        except OutOfStock:
            print("after the rollback: still {} order, {} job".format(*count(connection, store)))
        assert count(connection, store) == (1, 1)
