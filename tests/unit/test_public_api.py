"""``import holdfast`` and ``import holdfast.driver``: the public names, without drivers or optional packages."""

from __future__ import annotations

import ast
import inspect
import pickle
import subprocess
import sys

import pytest

import holdfast
import holdfast.cron
import holdfast.driver
import holdfast.fencing
import holdfast.handlers
import holdfast.ordering
import holdfast.retry
import holdfast.signing
import holdfast.testing

PACKAGES = [
    holdfast,
    *(holdfast.cron, holdfast.driver, holdfast.fencing, holdfast.handlers, holdfast.ordering),
    *(holdfast.retry, holdfast.signing, holdfast.testing),
]


@pytest.mark.parametrize("package", PACKAGES)
def test_every_public_name_exists_and_is_documented(package):
    for name in package.__all__:
        value = getattr(package, name)
        assert isinstance(value, int | str | tuple) or value.__doc__


@pytest.mark.parametrize(
    ("package", "others"), [(holdfast, {"connect", "__version__"}), (holdfast.cron, set()), (holdfast.testing, set())]
)
def test_the_names_for_type_checkers_are_the_names_at_run_time(package, others):
    tree = ast.parse(inspect.getsource(package))
    [block] = [node for node in tree.body if isinstance(node, ast.If)]
    declared = {
        alias.name: node.module for node in block.body if isinstance(node, ast.ImportFrom) for alias in node.names
    }
    assert declared == {name: module for module, names in package._MODULES.items() for name in names}
    assert {*declared, *others} == set(package.__all__)


def test_a_traceback_shows_a_public_error_by_the_module_that_users_import_it_from():
    public = {"holdfast", "holdfast.errors"}
    errors = [value for name in holdfast.__all__ if _is_error(value := getattr(holdfast, name))]
    assert {error.__module__ for error in errors} <= public
    assert pickle.loads(pickle.dumps(holdfast.Unrecoverable("no customer"))).reason == "no customer"

    class Gone(holdfast.Unrecoverable):
        pass

    assert Gone.__module__ == __name__
    code = "from holdfast.worker.control import Retry, Snooze, Unrecoverable as U; print(Retry, Snooze, U)"
    names = _output(code)
    assert names == [
        "<class",
        "'holdfast.Retry'>",
        "<class",
        "'holdfast.Snooze'>",
        "<class",
        "'holdfast.Unrecoverable'>",
    ]


def _is_error(value):
    return isinstance(value, type) and issubclass(value, BaseException)


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'Holdfats'"):
        holdfast.Holdfats  # noqa: B018


def test_connect_stays_a_function_after_its_module_is_imported():
    code = "import holdfast.app, holdfast.connect; print(callable(holdfast.connect), holdfast.connect.__name__)"
    assert _output(code) == ["True", "connect"]


def test_importing_holdfast_imports_almost_nothing():
    imported = set(_output("import sys, holdfast; print(*sys.modules)"))
    assert "holdfast.connect" in imported
    assert not imported & {
        "asyncio",
        "dataclasses",
        "msgspec",
        "numpy",
        "pandas",
        "pickle",
        "pyspark",
        "rich",
        "sqlite3",
    }
    assert not [name for name in imported if name.startswith(("holdfast.drivers", "holdfast.worker", "holdfast.model"))]


def test_an_app_needs_no_driver_and_no_optional_package_before_its_store_is_opened():
    imported = set(_output("import sys, holdfast; holdfast.Holdfast('memory://'); print(*sys.modules)"))
    assert not imported & {"numpy", "pandas", "pyspark", "rich", "sqlite3"}
    assert not [name for name in imported if name.startswith(("holdfast.drivers.memory", "holdfast.drivers.sqlite"))]


def _output(code: str) -> list[str]:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
