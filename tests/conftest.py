"""One PostgreSQL for a whole run, however many processes pytest uses: started by the first test that needs it."""

import fcntl
import os
import secrets
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from holdfast.testing.servers.postgres import START_TIMEOUT_SECONDS, URL_VARIABLE

RUN = "TEST_RUN_OF_HOLDFAST"  # a folder that all processes of a run share
GIVEN = os.environ.get(URL_VARIABLE)  # read once: tests of settings clear what begins with HOLDFAST_


def pytest_configure(config):
    if not hasattr(config, "workerinput"):
        os.environ[RUN] = tempfile.mkdtemp(prefix="holdfast-test-")


def pytest_unconfigure(config):
    if hasattr(config, "workerinput"):
        return
    folder = Path(os.environ.pop(RUN))
    keeper = folder / "keeper"
    if keeper.exists():
        pid = int(keeper.read_text())
        os.kill(pid, 15)
        while True:
            try:
                os.kill(pid, 0)
                if os.waitpid(pid, os.WNOHANG)[0]:
                    break
            except ChildProcessError:  # a worker's child: gone once it can no longer be signalled
                pass
            except ProcessLookupError:
                break
            time.sleep(0.02)
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def postgres_server() -> str:
    """The URL of a server on which databases may be made. Without one the tests fail, and say what to install."""
    if GIVEN:
        return GIVEN
    folder = Path(os.environ[RUN])
    place = folder / "url"
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not place.exists():
            watched = os.getppid() if "PYTEST_XDIST_WORKER" in os.environ else os.getpid()
            with (folder / "log").open("w") as log:
                argv = [sys.executable, "-m", "holdfast.testing.servers.postgres", place, watched]
                keeper = subprocess.Popen([str(part) for part in argv], stdout=log, stderr=log, start_new_session=True)
            keeper.returncode = 0  # not ours to wait for: it serves the whole run
            (folder / "keeper").write_text(str(keeper.pid))
            deadline = time.monotonic() + START_TIMEOUT_SECONDS
            while not place.exists():
                said = (folder / "log").read_text()
                assert "Traceback" not in said, said
                assert time.monotonic() < deadline, f"no PostgreSQL after {START_TIMEOUT_SECONDS} s: {said}"
                time.sleep(0.02)
    return place.read_text()


@pytest.fixture(scope="session")
def postgres_database(postgres_server):
    """Makes empty databases; gives their URLs."""
    import psycopg

    made = []

    def make() -> str:
        name = f"holdfast_{secrets.token_hex(6)}"
        with psycopg.connect(postgres_server, autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {name}")
        made.append(name)
        return f"{postgres_server.rsplit('/', 1)[0]}/{name}"

    yield make
    if GIVEN:
        with psycopg.connect(postgres_server, autocommit=True) as connection:
            for name in made:
                connection.execute(f"DROP DATABASE {name} WITH (FORCE)")
