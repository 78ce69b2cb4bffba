"""A harness for every store that exists. A new driver joins by a case of ``open_harness``."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager

import pytest

from holdfast.testing.drivers.harness import UrlHarness
from tests.service.http_service import running_service

STORES = ("memory", "sqlite", "postgres", "http")
SHARED_STORES = STORES[1:]  # child processes of a worker reach them


@contextmanager
def open_harness(store: str, request: pytest.FixtureRequest) -> Iterator[UrlHarness]:
    """Open a harness over an empty store of this kind."""
    with ExitStack() as stack:
        match store:
            case "sqlite":
                url = f"sqlite:///{request.getfixturevalue('tmp_path_factory').mktemp('sqlite')}/jobs.db"
            case "postgres":
                url = request.getfixturevalue("postgres_database")()
            case "http":
                url = stack.enter_context(running_service("memory://", caller_clock=True)).url
            case _:
                url = f"{store}://"
        yield stack.enter_context(closing(UrlHarness(url)))
