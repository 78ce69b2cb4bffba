"""A service over SQLite and one over PostgreSQL, each for all tests of a module."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import pytest

from holdfast.service.timing import ServiceTiming
from tests.service.http_service import RunningService, running_service, sqlite_url


@pytest.fixture(scope="module")
def timing() -> ServiceTiming:
    """The time constants of the services of a module, which may override it."""
    return ServiceTiming()


@pytest.fixture(scope="module", params=["sqlite", "postgres"])
def service(request, tmp_path_factory, timing) -> Iterator[RunningService]:
    """A service without tokens."""
    if request.param == "sqlite":
        url = sqlite_url(tmp_path_factory.mktemp("service"))
    else:
        url = request.getfixturevalue("postgres_database")()
    with running_service(url, timing=timing) as running:
        yield running


@pytest.fixture(scope="module")
def sqlite_service(tmp_path_factory, timing) -> Iterator[RunningService]:
    """A service without tokens, over SQLite."""
    with running_service(sqlite_url(tmp_path_factory.mktemp("service")), timing=timing) as running:
        yield running


@pytest.fixture
def command() -> str:
    """A command that no other test uses: tests share a store."""
    return f"test.{uuid.uuid4().hex}"
