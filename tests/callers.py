"""Transactions of the libraries that applications use, each behind the same few functions."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import (
    AbstractAsyncContextManager,
    AbstractContextManager,
    asynccontextmanager,
    contextmanager,
    suppress,
)
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit


class UndoError(Exception):
    """Raised inside a savepoint to roll it back."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    connection: Any  # what the application passes to ``enqueue``
    execute: Callable[[str], object]
    commit: Callable[[], object]
    rollback: Callable[[], object]
    savepoint: Callable[[], AbstractContextManager[object]]


@dataclass(frozen=True, slots=True, kw_only=True)
class AsyncCaller:
    connection: Any
    execute: Callable[[str], Awaitable[object]]
    commit: Callable[[], Awaitable[object]]
    rollback: Callable[[], Awaitable[object]]
    savepoint: Callable[[], AbstractAsyncContextManager[object]]


Open = Callable[..., AbstractContextManager[Caller]]  # open(url, isolation=None)
OpenAsync = Callable[..., AbstractAsyncContextManager[AsyncCaller]]


def to_sqlalchemy(url: str, driver: str = "psycopg") -> str:
    return url.replace("postgresql://", f"postgresql+{driver}://")


# Synchronous -------------------------------------------------------------------------------------------------


@contextmanager
def sqlalchemy_engine(url: str, isolation: str | None) -> Iterator[Any]:
    import sqlalchemy

    keywords: dict[str, Any] = {} if isolation is None else {"isolation_level": isolation}
    engine = sqlalchemy.create_engine(to_sqlalchemy(url), **keywords)
    try:
        yield engine
    finally:
        engine.dispose()


def caller_of_session(session: Any) -> Caller:
    import sqlalchemy

    return Caller(
        connection=session,
        execute=lambda statement: session.connection().execute(sqlalchemy.text(statement)),
        commit=session.commit,
        rollback=session.rollback,
        savepoint=session.begin_nested,
    )


@contextmanager
def sqlalchemy_session(url: str, isolation: str | None = None) -> Iterator[Caller]:
    from sqlalchemy.orm import Session

    with sqlalchemy_engine(url, isolation) as engine, Session(engine) as session:
        yield caller_of_session(session)


@contextmanager
def sqlalchemy_scoped_session(url: str, isolation: str | None = None) -> Iterator[Caller]:
    from sqlalchemy.orm import scoped_session, sessionmaker

    with sqlalchemy_engine(url, isolation) as engine:
        session = scoped_session(sessionmaker(engine))
        try:
            yield caller_of_session(session)
        finally:
            session.remove()


@contextmanager
def sqlmodel_session(url: str, isolation: str | None = None) -> Iterator[Caller]:
    from sqlmodel import Session

    with sqlalchemy_engine(url, isolation) as engine, Session(engine) as session:
        yield caller_of_session(session)


@contextmanager
def sqlalchemy_connection(url: str, isolation: str | None = None) -> Iterator[Caller]:
    import sqlalchemy

    with sqlalchemy_engine(url, isolation) as engine, engine.connect() as connection:
        yield Caller(
            connection=connection,
            execute=lambda statement: connection.execute(sqlalchemy.text(statement)),
            commit=connection.commit,
            rollback=connection.rollback,
            savepoint=connection.begin_nested,
        )


@contextmanager
def django_database(url: str, isolation: str | None = None) -> Iterator[Any]:
    """Add a database to Django's connections; yields its connection, like ``django.db.connection``."""
    import django
    from django.apps import apps
    from django.conf import settings
    from django.db import connections
    from django.utils.connection import ConnectionProxy

    if not settings.configured:
        settings.configure(LOGGING_CONFIG=None)
    if not apps.ready:
        django.setup()
    parts = urlsplit(url)
    if parts.scheme == "sqlite":
        database: dict[str, Any] = {"ENGINE": "django.db.backends.sqlite3", "NAME": parts.path[1:]}
    else:
        database = {
            "ENGINE": "django.db.backends.postgresql",
            "NAME": parts.path[1:],
            "USER": parts.username or "",
            "PASSWORD": parts.password or "",
            "HOST": parts.hostname or "",
            "PORT": parts.port or "",
        }
    if isolation not in (None, "AUTOCOMMIT"):
        import psycopg

        database["OPTIONS"] = {"isolation_level": psycopg.IsolationLevel[isolation.replace(" ", "_")]}
    alias = "caller"
    connections.settings[alias] = connections.configure_settings({"default": {}, alias: database})[alias]
    try:
        yield ConnectionProxy(connections, alias)
    finally:
        connections[alias].close()
        del connections[alias]
        del connections.settings[alias]


@contextmanager
def django_connection(url: str, isolation: str | None = None) -> Iterator[Caller]:
    from django.db import transaction

    with django_database(url, isolation) as connection:
        atomic = transaction.atomic(using=connection.alias)
        if isolation != "AUTOCOMMIT":
            atomic.__enter__()

        def execute(statement: str) -> None:
            with connection.cursor() as cursor:
                cursor.execute(statement)

        def rollback() -> None:
            transaction.set_rollback(True, using=connection.alias)
            atomic.__exit__(None, None, None)

        yield Caller(
            connection=connection,
            execute=execute,
            commit=lambda: atomic.__exit__(None, None, None),
            rollback=rollback,
            savepoint=lambda: transaction.atomic(using=connection.alias),
        )


CALLERS: list[Open] = [
    sqlalchemy_session,
    sqlalchemy_scoped_session,
    sqlalchemy_connection,
    sqlmodel_session,
    django_connection,
]


# Async, on PostgreSQL -----------------------------------------------------------------------------------------


@asynccontextmanager
async def psycopg_async(url: str, isolation: str | None = None) -> AsyncIterator[AsyncCaller]:
    import psycopg
    from psycopg.rows import dict_row

    async with await psycopg.AsyncConnection.connect(url, row_factory=dict_row) as connection:
        if isolation == "AUTOCOMMIT":
            await connection.set_autocommit(True)
        elif isolation is not None:
            await connection.set_isolation_level(psycopg.IsolationLevel[isolation.replace(" ", "_")])
        yield AsyncCaller(
            connection=connection,
            execute=connection.execute,
            commit=connection.commit,
            rollback=connection.rollback,
            savepoint=connection.transaction,
        )
        await connection.rollback()


@asynccontextmanager
async def asyncpg_connection(url: str, isolation: str | None = None) -> AsyncIterator[AsyncCaller]:
    import asyncpg

    connection = await asyncpg.connect(url)
    try:
        async with asyncpg_transaction(connection, connection, isolation) as caller:
            yield caller
    finally:
        await connection.close()


@asynccontextmanager
async def asyncpg_pool(url: str, isolation: str | None = None) -> AsyncIterator[AsyncCaller]:
    import asyncpg

    async with (
        asyncpg.create_pool(url, min_size=1, max_size=1) as pool,
        pool.acquire() as connection,
        asyncpg_transaction(connection, connection, isolation) as caller,
    ):
        yield caller


@asynccontextmanager
async def asyncpg_transaction(connection: Any, passed: Any, isolation: str | None) -> AsyncIterator[AsyncCaller]:
    transaction = connection.transaction(
        isolation=None if isolation in (None, "AUTOCOMMIT") else isolation.lower().replace(" ", "_")
    )
    if isolation != "AUTOCOMMIT":
        await transaction.start()
    yield AsyncCaller(
        connection=passed,
        execute=connection.execute,
        commit=transaction.commit,
        rollback=transaction.rollback,
        savepoint=connection.transaction,
    )


@asynccontextmanager
async def sqlalchemy_async_engine(url: str, driver: str, isolation: str | None) -> AsyncIterator[Any]:
    from sqlalchemy.ext.asyncio import create_async_engine

    keywords: dict[str, Any] = {} if isolation is None else {"isolation_level": isolation}
    engine = create_async_engine(to_sqlalchemy(url, driver), **keywords)
    try:
        yield engine
    finally:
        await engine.dispose()


def open_async_session(session_class: str, driver: str) -> OpenAsync:
    @asynccontextmanager
    async def open_session(url: str, isolation: str | None = None) -> AsyncIterator[AsyncCaller]:
        import sqlalchemy
        import sqlalchemy.ext.asyncio
        import sqlmodel.ext.asyncio.session

        modules = {"sqlalchemy": sqlalchemy.ext.asyncio, "sqlmodel": sqlmodel.ext.asyncio.session}
        async with (
            sqlalchemy_async_engine(url, driver, isolation) as engine,
            modules[session_class].AsyncSession(engine) as session,
        ):

            async def execute(statement: str) -> None:
                await (await session.connection()).execute(sqlalchemy.text(statement))

            yield AsyncCaller(
                connection=session,
                execute=execute,
                commit=session.commit,
                rollback=session.rollback,
                savepoint=session.begin_nested,
            )

    open_session.__name__ = f"{session_class}_async_session_on_{driver}"
    return open_session


def open_async_connection(driver: str) -> OpenAsync:
    @asynccontextmanager
    async def open_connection(url: str, isolation: str | None = None) -> AsyncIterator[AsyncCaller]:
        import sqlalchemy

        async with sqlalchemy_async_engine(url, driver, isolation) as engine, engine.connect() as connection:
            yield AsyncCaller(
                connection=connection,
                execute=lambda statement: connection.execute(sqlalchemy.text(statement)),
                commit=connection.commit,
                rollback=connection.rollback,
                savepoint=connection.begin_nested,
            )

    open_connection.__name__ = f"sqlalchemy_async_connection_on_{driver}"
    return open_connection


ASYNC_CALLERS: list[OpenAsync] = [
    psycopg_async,
    asyncpg_connection,
    asyncpg_pool,
    *(open_async_connection(driver) for driver in ("psycopg", "asyncpg")),
    *(open_async_session("sqlalchemy", driver) for driver in ("psycopg", "asyncpg")),
    open_async_session("sqlmodel", "asyncpg"),
]


def name_of(open_caller: Open | OpenAsync) -> str:
    """For the id of a parametrised test."""
    return open_caller.__name__


@contextmanager
def undone(savepoint: AbstractContextManager[object]) -> Iterator[None]:
    """Roll the savepoint back at the end of the block."""
    with suppress(UndoError), savepoint:
        yield
        raise UndoError


@asynccontextmanager
async def undone_async(savepoint: AbstractAsyncContextManager[object]) -> AsyncIterator[None]:
    with suppress(UndoError):
        async with savepoint:
            yield
            raise UndoError
