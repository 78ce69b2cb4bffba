"""The tables of the shop, in the database that is also the store of its jobs.

``python -m orders.tables`` creates them; with ``--grant ROLE`` it also lets a role read and write them.
"""

from __future__ import annotations

import argparse
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import Connection, DateTime, Engine, ForeignKey, String, create_engine, event, make_url, text
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

from holdfast import Holdfast


class Table(DeclarativeBase):
    """All tables of the shop."""


class Order(Table):
    """An order. It is ``new``, ``paying``, ``paid``, then ``confirmed``; or ``new``, then ``cancelled``."""

    __tablename__ = "orders"

    id: Mapped[str] = mapped_column(String(36), primary_key=True)
    item: Mapped[str] = mapped_column(String(100), index=True)
    quantity: Mapped[int]
    email: Mapped[str] = mapped_column(String(200))
    status: Mapped[str] = mapped_column(String(20), default="new")
    created_at: Mapped[datetime] = mapped_column(DateTime(timezone=True), default=lambda: datetime.now(UTC))


class Payment(Table):
    """What was charged: at most one row for each order. ``fence`` is that of the attempt that wrote the row."""

    __tablename__ = "payments"

    order_id: Mapped[str] = mapped_column(ForeignKey("orders.id"), primary_key=True)
    receipt_id: Mapped[str] = mapped_column(String(100))
    cents: Mapped[int]
    job_id: Mapped[str] = mapped_column(String(36))
    fence: Mapped[int]


class Sold(Table):
    """How many pieces of an item were ordered."""

    __tablename__ = "sold"

    item: Mapped[str] = mapped_column(String(100), primary_key=True)
    quantity: Mapped[int]


def open_engine(app: Holdfast) -> Engine:
    """Return an engine for the database of the app's store: rows and jobs can then share a transaction."""
    if app.url is None:
        raise SystemExit("no store: set HOLDFAST_URL, or write url into holdfast.toml")
    url = make_url(app.settings.resolve_url(app.url))
    if url.get_backend_name() == "sqlite":
        engine = create_engine(url)
        event.listen(engine, "connect", _begin_nothing)
        event.listen(engine, "begin", _begin_immediate)
        return engine
    options = ("schema", "connections", "patience", "listen")  # of Holdfast, unknown to psycopg
    return create_engine(url.set(drivername="postgresql+psycopg").difference_update_query(options))


def _begin_nothing(connection: Any, _record: object) -> None:
    """Leave transactions to ``_begin_immediate``: sqlite3 would begin them after the first read."""
    connection.isolation_level = None


def _begin_immediate(connection: Connection) -> None:
    """Wait for other writers before the first read: a transaction that reads first cannot wait for them later."""
    connection.exec_driver_sql("BEGIN IMMEDIATE")


def create_tables(engine: Engine, *, role: str | None) -> None:
    """Create the tables that are missing, and let a role read and write them."""
    with engine.begin() as connection:
        Table.metadata.create_all(connection)
        if role is not None:
            names = ", ".join(Table.metadata.tables)
            quoted = engine.dialect.identifier_preparer.quote(role)
            connection.execute(text(f"GRANT SELECT, INSERT, UPDATE ON {names} TO {quoted}"))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Create the tables of the shop.")
    parser.add_argument("--grant", metavar="ROLE", help="a role of PostgreSQL that may read and write them")
    create_tables(open_engine(Holdfast()), role=parser.parse_args().grant)
