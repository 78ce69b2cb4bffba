"""pytest fixtures for users of Holdfast: their app on a store in memory, under a clock that the test moves.

pytest loads this module by its entry point, in every test run of every user who has Holdfast installed. So it imports
Holdfast only when a fixture is used.
"""

from __future__ import annotations

import importlib
import operator
from collections import Counter
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from holdfast.app import Holdfast
    from holdfast.clock import ManualClock
    from holdfast.drivers.store import Store
    from holdfast.testing.inline import Inline, StoredJob
    from holdfast.worker.status import WorkerResult

OPTION = "holdfast_app"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the ini option that names the app under test."""
    parser.addini(OPTION, "the app that the Holdfast fixtures use, as module:app", default="")


# The app, its store and its clock ---------------------------------------------------------------------------


@pytest.fixture(scope="session")
def holdfast_app_path(pytestconfig: pytest.Config) -> str | Holdfast:
    """The app under test, ``module:app``, from the ini option ``holdfast_app``. May be overridden, also with an app."""
    return str(pytestconfig.getini(OPTION))


@pytest.fixture
def holdfast_clock() -> ManualClock:
    """The clock of the store. It starts at the present time, and moves only by ``advance``."""
    from holdfast.clock import ManualClock, SystemClock  # noqa: PLC0415 - see the top of the file

    return ManualClock(SystemClock().now())


@pytest.fixture
def holdfast_store(holdfast_clock: ManualClock) -> Iterator[Store]:
    """A new store in memory for each test. Override it to test on another store."""
    from holdfast.connect import connect  # noqa: PLC0415

    with connect("memory://", clock=holdfast_clock) as store:
        yield store


@pytest.fixture
def holdfast_app(
    holdfast_app_path: str | Holdfast, holdfast_store: Store, holdfast_clock: ManualClock
) -> Iterator[Holdfast]:
    """The app under test. It uses ``holdfast_store`` for the time of the test."""
    app = _load_app(holdfast_app_path)
    with app.using(holdfast_store, clock=holdfast_clock):
        yield app


def _load_app(named: str | Holdfast) -> Holdfast:
    from holdfast.app import Holdfast  # noqa: PLC0415

    if isinstance(named, Holdfast):
        return named
    module, _, name = named.partition(":")
    if not (module and name):
        got = repr(named) if named else "nothing"
        pytest.fail(
            f"wanted the app under test as module:app, got {got}; set {OPTION} in the pytest section of "
            "pyproject.toml or pytest.ini, or override the fixture holdfast_app_path",
            pytrace=False,
        )
    try:
        app: Any = operator.attrgetter(name)(importlib.import_module(module))
    except ModuleNotFoundError as error:
        if error.name is None or not f"{module}.".startswith(f"{error.name}."):
            raise  # the module exists, but a module that it imports does not
        pytest.fail(f"{OPTION} = {named}: there is no module {error.name}; is it in pythonpath?", pytrace=False)
    except AttributeError as error:
        pytest.fail(f"{OPTION} = {named}: {error}", pytrace=False)
    if not isinstance(app, Holdfast):
        pytest.fail(f"{OPTION} = {named}: wanted a Holdfast app, got {type(app).__name__}", pytrace=False)
    return app


# Actions on the app -----------------------------------------------------------------------------------------


@pytest.fixture
def _holdfast_inline(holdfast_app: Holdfast, holdfast_clock: ManualClock) -> Inline:
    from holdfast.testing.inline import Inline  # noqa: PLC0415

    return Inline(holdfast_app, holdfast_clock)


@pytest.fixture
def enqueued(_holdfast_inline: Inline) -> Callable[..., list[StoredJob]]:
    """``enqueued(type=None, payload=..., queue=...)`` returns the enqueued jobs. See ``Inline.enqueued``."""
    return _holdfast_inline.enqueued


@pytest.fixture
def assert_enqueued(_holdfast_inline: Inline) -> Callable[..., list[StoredJob]]:
    """``assert_enqueued(type, payload=..., queue=..., count=...)``: there is one. See ``Inline.assert_enqueued``."""
    return _holdfast_inline.assert_enqueued


@pytest.fixture
def drain(_holdfast_inline: Inline) -> Callable[..., Counter[str]]:
    """``drain(advance=False)`` runs due jobs until none is due. See ``Inline.drain``."""
    return _holdfast_inline.drain


@pytest.fixture
def run_job(_holdfast_inline: Inline) -> Callable[..., Any]:
    """``run_job(handler, payload)`` runs one job without a store. See ``Inline.run_job``."""
    return _holdfast_inline.run_job


@pytest.fixture
def crash_before_ack(_holdfast_inline: Inline) -> Callable[..., WorkerResult]:
    """``crash_before_ack(type=None)`` runs a job whose first worker dies. See ``Inline.crash_before_ack``."""
    return _holdfast_inline.crash_before_ack
