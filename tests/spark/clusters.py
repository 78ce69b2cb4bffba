"""What the tests on a cluster share: an environment that executors unpack, and programs that drive Spark.

Spark drivers are processes of their own here, because the process of the tests has a local session already.
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
from holdfast.spark.session import JAVA_OPTIONS

PROGRAMS = Path(__file__).with_name("programs")
PATIENCE = 500  # seconds for what takes twenty on a machine that does nothing else
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
    """A Python with Holdfast in it, as an archive. What Holdfast needs is borrowed from the Python of the tests.

    The installation of the tests is an editable one, which a path to its folder does not bring along: so an executor
    has Holdfast from this archive or not at all.
    """
    place = folder / "environment"
    venv.create(place, symlinks=True, with_pip=False)
    [packages] = place.glob("lib/python*/site-packages")
    shutil.copytree(Path(holdfast.__file__).parent, packages / "holdfast")
    (packages / "borrowed.pth").write_text(sysconfig.get_path("purelib"))
    return shutil.make_archive(str(place), "gztar", place)


def settings(**more):
    """The settings of a small application, as arguments of a command."""
    made = LEAN | more
    return [part for key, value in made.items() for part in ("--conf", f"{key}={value}")]


def environment(**more):
    """Without the settings of the machine; the Python of executors is a setting of each application."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("SPARK_", "PYSPARK_"))}
    return kept | {"PYTHONWARNINGS": "ignore"} | more


class Program:
    """Python, doing something; ended when the block is left, so that it holds no part of the cluster any longer."""

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
        """Ctrl-C."""
        self._process.send_signal(signal.SIGINT)

    def until(self, what):
        """Wait for something to be so, while it runs; gives what it was."""
        deadline = time.monotonic() + PATIENCE
        while not (found := what()):
            assert self._process.poll() is None, self._complaint()
            assert time.monotonic() < deadline, self._complaint()
            time.sleep(0.05)
        return found

    def output(self, code=0):
        """What it said, once it has ended as it should."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(PATIENCE)
        assert self._process.poll() == code, self._complaint()
        self._out.seek(0)
        return self._out.read()

    def _complaint(self):
        self._err.seek(0)
        return self._err.read()[-6000:]
