"""One program of Spark, such as a master: a process of its own from the installed pyspark, ended by its process id.

pyspark is not imported, only found: its jars and its launcher are all that is needed.
"""

from __future__ import annotations

import importlib.util
import os
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from holdfast.clock import monotonic

START_WITHIN = 90.0  # seconds, on a machine that does much else
STOP_WITHIN = 15.0
LOG_SHOWN = 4000  # characters of a log that an error repeats
LOOPBACK = "127.0.0.1"

# The simplest compiler and collector: these processes live for seconds, and share two cores with what they serve.
LEAN = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"


class SparkMissing(RuntimeError):
    """There is no Spark to start, or it did not start; the message says why."""


class SparkProcess:
    """``spark-class MAIN ARGUMENTS``, in a folder that is given to it. Its log is ``<name>.log`` there."""

    def __init__(self, name: str, folder: Path, command: list[str], environment: Mapping[str, str]) -> None:
        self.name = name
        self.log = folder / f"{name}.log"
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(  # noqa: S603 - our own arguments
                [spark_home() / "bin" / "spark-class", *command],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=folder,
                env={**_environment(folder), **environment},
                start_new_session=True,  # an interrupt of the terminal is for the tests, which stop it in order
            )

    @property
    def pid(self) -> int:
        """Of the JVM: the launcher becomes it."""
        return self._process.pid

    def wait_until(self, ready: Callable[[], bool]) -> None:
        """Wait for it to be ready. Raises ``SparkMissing``, with the end of the log, if it ends or takes too long."""
        deadline = monotonic() + START_WITHIN
        while not ready():
            if self._process.poll() is not None or monotonic() > deadline:
                raise SparkMissing(f"Spark's {self.name} did not start; its log ends:\n{self._log_end()}")
            time.sleep(0.05)

    def end(self) -> None:
        """Ask it to go, which takes its own children along; after some patience, kill it."""
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
        try:
            self._process.wait(STOP_WITHIN)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _log_end(self) -> str:
        return self.log.read_text(encoding="utf-8", errors="replace")[-LOG_SHOWN:]


def spark_home() -> Path:
    """The folder of the installed pyspark, which is a whole Spark."""
    found = importlib.util.find_spec("pyspark")
    if found is None or found.origin is None:
        raise SparkMissing("no Spark to test with: pip install 'holdfast[spark-local]'")
    return Path(found.origin).parent


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.socket() as probe:
        probe.bind((LOOPBACK, 0))
        port: int = probe.getsockname()[1]
        return port


def listens(port: int) -> bool:
    """Whether somebody listens on it."""
    with socket.socket() as probe:
        probe.settimeout(1.0)
        return probe.connect_ex((LOOPBACK, port)) == 0


def children(pid: int) -> list[int]:
    """The processes that any thread of a process has started; none if it is gone."""
    found: list[int] = []
    for file in Path("/proc", str(pid), "task").glob("*/children"):
        try:
            found += map(int, file.read_text(encoding="ascii").split())
        except OSError:
            continue  # a thread that has ended meanwhile
    return found


def command_of(pid: int) -> str:
    """What a process runs; empty if it is gone."""
    try:
        return Path("/proc", str(pid), "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        return ""


def _environment(folder: Path) -> dict[str, str]:
    from holdfast.spark.java import java_home  # noqa: PLC0415 - imports pyspark, which may not be there

    made = {
        name: value for name, value in os.environ.items() if not name.startswith(("SPARK_", "PYSPARK_", "HOLDFAST_"))
    }
    home = java_home()
    if home is not None:
        made["JAVA_HOME"] = home
    return {
        **made,
        "SPARK_HOME": str(spark_home()),
        "SPARK_CONF_DIR": str(folder),  # no settings of this machine
        "SPARK_LOCAL_IP": LOOPBACK,
        "SPARK_LOCAL_DIRS": str(folder / "local"),
        "TMPDIR": str(folder),
    }
