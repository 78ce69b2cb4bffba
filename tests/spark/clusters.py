"""Shared by the cluster tests: a packed environment for executors, and programs that are Spark drivers.

Each Spark driver is a separate process, because the process of the tests already has a local session.
"""

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import sysconfig
import tempfile
import time
import venv
from pathlib import Path

import holdfast
from holdfast.spark.java import java_home
from holdfast.spark.session import JAVA_OPTIONS
from holdfast.testing.servers.spark_process import spark_home
from tests.interrupts import default_interrupt

PROGRAMS = Path(__file__).with_name("programs")
TIMEOUT_SECONDS = 500  # for work that takes twenty seconds on an idle machine
LEAN = {
    "spark.executor.memory": "512m",
    "spark.executor.cores": "1",
    "spark.executor.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.driver.extraJavaOptions": JAVA_OPTIONS,
    "spark.sql.shuffle.partitions": "2",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}


def packed_environment(folder):
    """Return an archive of a Python environment with Holdfast. Its dependencies come from the Python of the tests.

    The tests use an editable installation, which is not importable through its site-packages folder: so an executor has
    Holdfast from this archive or not at all.
    """
    place = folder / "environment"
    venv.create(place, symlinks=True, with_pip=False)
    [packages] = place.glob("lib/python*/site-packages")
    shutil.copytree(Path(holdfast.__file__).parent, packages / "holdfast")
    (packages / "borrowed.pth").write_text(sysconfig.get_path("purelib"))
    return shutil.make_archive(str(place), "gztar", place)


def settings(**more):
    """Return the settings of a small application as arguments of a command."""
    conf = LEAN | more
    return [part for key, value in conf.items() for part in ("--conf", f"{key}={value}")]


def environment(**more):
    """Return the environment without the machine's Spark settings: an application sets its executors' Python."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("SPARK_", "PYSPARK_"))}
    return inherited | {"PYTHONWARNINGS": "ignore"} | more


def spark_submit(*arguments):
    """Run ``spark-submit`` to its end, and return what it printed."""
    command = [spark_home() / "bin" / "spark-submit", *map(str, arguments)]
    run = subprocess.run(
        command,
        env=environment(JAVA_HOME=java_home()),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        check=False,
        text=True,
        timeout=TIMEOUT_SECONDS,
    )
    assert run.returncode == 0, run.stdout
    return run.stdout


def wait_until(condition):
    """Wait until a condition is true."""
    deadline = time.monotonic() + TIMEOUT_SECONDS
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


class Program:
    """A Python process, killed at the end of the ``with`` block so that it frees its part of the cluster."""

    def __init__(self, *command, folder, **variables):
        self._out = tempfile.TemporaryFile("w+")  # noqa: SIM115 - closed when the block is left
        self._err = tempfile.TemporaryFile("w+")  # noqa: SIM115 - the same
        self._process = subprocess.Popen(
            [sys.executable, *map(str, command)],
            cwd=folder,
            env=environment(**variables),
            stdin=subprocess.DEVNULL,
            stdout=self._out,
            stderr=self._err,
            preexec_fn=default_interrupt,  # noqa: PLW1509 - calls one function of the C library
        )

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait()
        self._out.close()
        self._err.close()

    def interrupt(self):
        """Send SIGINT, as Ctrl-C does."""
        self._process.send_signal(signal.SIGINT)

    def until(self, condition):
        """Wait until a condition is true while the program runs, and return its value."""
        deadline = time.monotonic() + TIMEOUT_SECONDS
        while not (value := condition()):
            assert self._process.poll() is None, self.error_output()
            assert time.monotonic() < deadline, self.error_output()
            time.sleep(0.05)
        return value

    def output(self, code=0):
        """Return the standard output, after the program has exited with this code."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(TIMEOUT_SECONDS)
        assert self._process.poll() == code, self.error_output()
        self._out.seek(0)
        return self._out.read()

    def error_output(self):
        """Return the end of what the program has written to stderr."""
        self._err.seek(0)
        return self._err.read()[-6000:]
