"""The options --all and --random, and one PostgreSQL server for the whole run: the first test to need it starts it."""

from __future__ import annotations

import fcntl
import os
import secrets
import shutil
import subprocess
import sys
import tempfile
import time
from functools import cache
from pathlib import Path
from random import Random

import pytest

import holdfast
from holdfast.testing.servers.postgres import START_TIMEOUT_SECONDS, URL_VARIABLE

RUN_FOLDER_VARIABLE = "TEST_RUN_OF_HOLDFAST"  # names a folder that all processes of the run share
GIVEN_SERVER_URL = os.environ.get(URL_VARIABLE)  # read at import: tests of the command remove all HOLDFAST_ variables
OWN_OID = "SELECT oid::bigint FROM pg_database WHERE datname = current_database()"
LONGEST_GROUPS = ("spark", "spark-history", "spark-programs", "packaging", "test_site", "faulty")
LEFT_OUT = pytest.StashKey[int]()


# Long tests ---------------------------------------------------------------------------------------------------------


def pytest_addoption(parser):
    parser.addoption("--all", action="store_true", help="also run the tests marked long: the same in larger numbers")
    new_seed = secrets.randbelow(10**9)
    parser.addoption(
        "--random",
        nargs="?",
        type=int,
        const=new_seed,
        metavar="SEED",
        help="random order; SEED repeats an earlier one",
    )


@pytest.hookimpl(tryfirst=True)  # before the hook of xdist, which reads the groups
def pytest_collection_modifyitems(config, items):
    for item in items:
        if (group := group_of_module_fixtures(item)) is not None:
            item.add_marker(pytest.mark.xdist_group(group))
    shuffle(items, getattr(config, "workerinput", {}).get("seed", config.getoption("--random")))
    long = [] if config.getoption("--all") else [item for item in items if item.get_closest_marker("long")]
    if long:
        left_out = set(long)
        items[:] = [item for item in items if item not in left_out]
        config.hook.pytest_deselected(items=long)
    config.stash[LEFT_OUT] = len(long)
    items.sort(key=place_of_group)


def group_of_module_fixtures(item):
    """Return a group for the tests that share a fixture of their module: one process sets it up, once."""
    if item.get_closest_marker("xdist_group"):
        return None
    fixtures = item._fixtureinfo.name2fixturedefs.values()  # no public API tells the scope of a fixture
    shared = [definitions[-1] for definitions in fixtures if definitions[-1].scope == "module"]
    if not shared:
        return None
    parameters = [item.callspec.params[each.argname] for each in shared if each.params is not None]
    return "-".join([item.path.stem, *map(str, parameters)])


def place_of_group(item):
    """Sort the longest groups first: at the end of a run, no process should have a long group alone."""
    marker = item.get_closest_marker("xdist_group")
    group = marker.args[0] if marker else None
    return LONGEST_GROUPS.index(group) if group in LONGEST_GROUPS else len(LONGEST_GROUPS)


def pytest_sessionfinish(session):
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput["left out"] = session.config.stash.get(LEFT_OUT, 0)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node):
    """Take the count from a process of xdist: every process collects all tests, the main process collects none."""
    node.config.stash[LEFT_OUT] = getattr(node, "workeroutput", {}).get("left out", 0)


def pytest_terminal_summary(terminalreporter, config):
    if count := config.stash.get(LEFT_OUT, 0):
        terminalreporter.write_line(f"{count} long tests left out; --all runs them too")


# Random order -------------------------------------------------------------------------------------------------------


def pytest_report_header(config):
    if (seed := config.getoption("--random")) is not None:
        return f"random order: --random={seed} repeats it (exactly with -n 0)"
    return None


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node):
    """Give the seed to a process of xdist: all processes must collect the same order."""
    node.workerinput["seed"] = node.config.getoption("--random")


def shuffle(items, seed):
    """Shuffle the files, and the tests in each file. Tests of a file stay together, for the fixtures of the file."""
    if seed is not None:
        random, places = Random(seed), {}
        items.sort(key=lambda item: (places.setdefault(item.path, random.random()), random.random()))


# The server ---------------------------------------------------------------------------------------------------------


def pytest_configure(config):
    for name in [name for name in os.environ if name.startswith("HOLDFAST_") and not name.startswith("HOLDFAST_TEST_")]:
        del os.environ[name]  # a setting of the developer's shell would be a setting of the tests
    if not hasattr(config, "workerinput"):
        os.environ[RUN_FOLDER_VARIABLE] = tempfile.mkdtemp(prefix="holdfast-test-")


def pytest_unconfigure(config):
    if hasattr(config, "workerinput"):
        return
    folder = Path(os.environ.pop(RUN_FOLDER_VARIABLE))
    pid_file = folder / "server.pid"
    if pid_file.exists():
        _stop(int(pid_file.read_text()))
    shutil.rmtree(folder, ignore_errors=True)


def _stop(pid: int) -> None:
    """Send SIGTERM and wait until the process is gone."""
    os.kill(pid, 15)
    while True:
        try:
            os.kill(pid, 0)
            if os.waitpid(pid, os.WNOHANG)[0]:
                return
        except ChildProcessError:  # started by another pytest process: it is gone when os.kill fails
            pass
        except ProcessLookupError:
            return
        time.sleep(0.02)


@pytest.fixture(scope="session")
def postgres_server() -> str:
    """The URL of a server that allows CREATE DATABASE. If no server starts, the test fails and says what to install."""
    if GIVEN_SERVER_URL:
        return GIVEN_SERVER_URL
    folder = Path(os.environ[RUN_FOLDER_VARIABLE])
    url_file = folder / "url"
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not url_file.exists():
            _start_server(folder, url_file)
    return url_file.read_text()


def _start_server(folder: Path, url_file: Path) -> None:
    """Start the server as its own process, which serves the whole run and ends with the pytest main process."""
    main_pid = os.getppid() if "PYTEST_XDIST_WORKER" in os.environ else os.getpid()
    log_file = folder / "log"
    with log_file.open("w") as log:
        command = [sys.executable, "-m", "holdfast.testing.servers.postgres", str(url_file), str(main_pid)]
        server = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)
    server.returncode = 0  # otherwise Popen warns that the process is still running when this object is deleted
    (folder / "server.pid").write_text(str(server.pid))
    deadline = time.monotonic() + START_TIMEOUT_SECONDS
    while not url_file.exists():
        output = log_file.read_text()
        assert "Traceback" not in output, output
        assert time.monotonic() < deadline, f"no PostgreSQL after {START_TIMEOUT_SECONDS} s: {output}"
        time.sleep(0.02)


@pytest.fixture(scope="session")
def postgres_database(postgres_server):
    """A function that creates a database with the tables of Holdfast, or an empty one, and returns its URL."""
    import psycopg

    names = []

    def create(*, template: str = "template1") -> str:
        name = f"holdfast_{secrets.token_hex(6)}"
        with psycopg.connect(postgres_server, autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {name} TEMPLATE {template}")
        names.append(name)
        return f"{postgres_server.rsplit('/', 1)[0]}/{name}"

    @cache
    def installed() -> str:
        """The name of a database with tables. A copy of it takes a third of the time of a new installation."""
        url = create()
        holdfast.connect(url).close()
        return url.rsplit("/", 1)[1]

    def create_store(*, empty: bool = False) -> str:
        if empty:
            return create()
        url = create(template=installed())
        with psycopg.connect(url, autocommit=True) as connection:  # otherwise the copy would count as a restored store
            connection.execute(f"UPDATE holdfast.origin SET database_oid = ({OWN_OID})")
        return url

    yield create_store
    if GIVEN_SERVER_URL:
        with psycopg.connect(postgres_server, autocommit=True) as connection:
            for name in names:
                connection.execute(f"DROP DATABASE {name} WITH (FORCE)")
