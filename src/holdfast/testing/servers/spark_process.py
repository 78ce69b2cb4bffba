"""One program of Spark, such as a master: a separate process from the installed pyspark, stopped by its process id.

pyspark is located and not imported: only its jars and its launcher are used.
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

START_TIMEOUT_SECONDS = 90.0  # on a loaded machine
STOP_TIMEOUT_SECONDS = 15.0
MAX_LOG_CHARACTERS = 4000  # in an error message
LOOPBACK = "127.0.0.1"

# Only the fast compiler and the serial collector: these processes live for seconds and share few cores with the tests.
LEAN = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"


class SparkMissing(RuntimeError):
    """Spark is not installed, or did not start; the message says why."""


class SparkProcess:
    """``spark-class MAIN ARGUMENTS`` with a working folder. The log is ``<name>.log`` in that folder."""

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
                start_new_session=True,  # Ctrl-C reaches the tests only, which stop this process
            )

    @property
    def pid(self) -> int:
        """The process id of the JVM, which replaces the launcher in the same process."""
        return self._process.pid

    def wait_until(self, ready: Callable[[], bool]) -> None:
        """Wait until ``ready`` is true. Raises ``SparkMissing`` with the end of the log on exit or timeout."""
        deadline = monotonic() + START_TIMEOUT_SECONDS
        while not ready():
            if self._process.poll() is not None or monotonic() > deadline:
                raise SparkMissing(f"Spark's {self.name} did not start; its log ends:\n{self._log_end()}")
            time.sleep(0.05)

    def stop(self) -> None:
        """Send SIGTERM, on which Spark stops its children; kill the process after a timeout."""
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
        try:
            self._process.wait(STOP_TIMEOUT_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _log_end(self) -> str:
        return self.log.read_text(encoding="utf-8", errors="replace")[-MAX_LOG_CHARACTERS:]


def spark_home() -> Path:
    """Return the folder of the installed pyspark, which contains a complete Spark."""
    spec = importlib.util.find_spec("pyspark")
    if spec is None or spec.origin is None:
        raise SparkMissing("no Spark to test with: pip install 'holdfast[spark-local]'")
    return Path(spec.origin).parent


def free_port() -> int:
    """Return a free port."""
    with socket.socket() as probe:
        probe.bind((LOOPBACK, 0))
        port: int = probe.getsockname()[1]
        return port


def listens(port: int) -> bool:
    """Whether a process listens on a port."""
    with socket.socket() as probe:
        probe.settimeout(1.0)
        return probe.connect_ex((LOOPBACK, port)) == 0


def children(pid: int) -> list[int]:
    """Return the children of all threads of a process; an empty list if the process has exited."""
    pids: list[int] = []
    for file in Path("/proc", str(pid), "task").glob("*/children"):
        try:
            pids += map(int, file.read_text(encoding="ascii").split())
        except OSError:
            continue  # the thread has ended
    return pids


def command_of(pid: int) -> str:
    """Return the command line of a process; an empty text if the process has exited."""
    try:
        return Path("/proc", str(pid), "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        return ""


def _environment(folder: Path) -> dict[str, str]:
    from holdfast.spark.java import java_home  # noqa: PLC0415 - imports pyspark, which may be missing

    environment = {
        name: value for name, value in os.environ.items() if not name.startswith(("SPARK_", "PYSPARK_", "HOLDFAST_"))
    }
    return {
        **environment,
        "JAVA_HOME": java_home(),
        "SPARK_HOME": str(spark_home()),
        "SPARK_CONF_DIR": str(folder),  # ignores the settings of this machine
        "SPARK_LOCAL_IP": LOOPBACK,
        "SPARK_LOCAL_DIRS": str(folder / "local"),
        "TMPDIR": str(folder),
    }
