"""A ``WorkLease`` on each kind of storage: in the process, and in the registries of memory, SQLite and PostgreSQL."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import settings

import holdfast
from holdfast.clock import ManualClock
from holdfast.ordering import WorkLease

settings.register_profile("ordering", deadline=None)  # how long an example takes says nothing about the code
settings.load_profile("ordering")

SPACES = itertools.count()


@pytest.fixture(scope="session")
def sqlite_store(tmp_path_factory):
    with holdfast.connect(f"sqlite:///{tmp_path_factory.mktemp('ordering')}/jobs.db", caller_clock=True) as store:
        yield store


@pytest.fixture(scope="session")
def postgres_store(postgres_database):
    with holdfast.connect(postgres_database(), caller_clock=True) as store:
        yield store


@pytest.fixture
def open_space(request):
    """A function that opens an empty space of a store; None for no store."""

    def open_one(kind: str):
        match kind:
            case "local":
                return None
            case "memory":
                return holdfast.connect("memory://", caller_clock=True)
            case _:
                return request.getfixturevalue(f"{kind}_store").space(f"s{next(SPACES)}")

    return open_one


@pytest.fixture(params=["local", "memory", "sqlite", "postgres"])
def store(request, open_space):
    return open_space(request.param)


@pytest.fixture
def clock():
    return ManualClock()


@pytest.fixture
def open_lease(store, clock):
    """A function that opens a ``WorkLease`` on the storage of the test."""

    def make(**options) -> WorkLease:
        return WorkLease(**{"max_retries": 2, "store": store, "clock": clock, **options})

    return make
