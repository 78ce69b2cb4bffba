"""A real Spark cluster on one machine: a standalone master and its workers, on loopback, from the installed pyspark.

    with SparkCluster(workers=2) as cluster:
        spark = holdfast.spark.session(cluster.master)

Executors are separate processes, as on any cluster, so tests can kill them.
"""

from __future__ import annotations

import json
import shutil
import tempfile
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any, Self

from holdfast.testing.servers.spark_process import (
    LEAN,
    LOOPBACK,
    SparkProcess,
    children,
    command_of,
    free_port,
    spark_home,
)

PACKAGE = "org.apache.spark.deploy"
EXECUTOR = "CoarseGrainedExecutorBackend"
DAEMON = "pyspark.daemon"
DRIVER_KILL_TIMEOUT_SECONDS = 60  # between SIGTERM and SIGKILL, for a Spark driver on a worker


class SparkCluster:
    """A master and workers. The end of the ``with`` block stops them by process id, and removes their folder."""

    def __init__(self, *, workers: int = 2, cores: int = 1, memory: str = "1g") -> None:
        self._workers = workers
        self._cores = cores
        self._memory = memory
        self._web_port = free_port()
        self._processes: list[SparkProcess] = []
        self.folder = Path(tempfile.mkdtemp(prefix="holdfast-spark-"))
        self.master = f"spark://{LOOPBACK}:{free_port()}"
        self.rest_master = f"spark://{LOOPBACK}:{free_port()}"  # for ``spark-submit --kill``

    def start(self) -> Self:
        """Start the processes, and wait until every worker is registered at the master."""
        try:
            master = self._start("master", "master.Master", self._web_port, "--port", self.master.rpartition(":")[2])
            master.wait_until(lambda: self.state() is not None)
            sizes = ("--cores", str(self._cores), "--memory", self._memory, "--work-dir", str(self.folder / "work"))
            for number in range(self._workers):
                # Each worker has its own host name: Spark starts no speculative copy on the host of the original.
                self._start(f"worker-{number}", "worker.Worker", 0, *sizes, self.master, host=f"127.0.0.{number + 1}")
            self._processes[-1].wait_until(self._has_all_workers)
        except BaseException:
            self.close()
            raise
        return self

    def state(self) -> dict[str, Any] | None:
        """Return the master's state of workers and applications as JSON; None while the master does not answer."""
        try:
            with urllib.request.urlopen(f"http://{LOOPBACK}:{self._web_port}/json/", timeout=5) as answer:
                state: dict[str, Any] = json.load(answer)
                return state
        except (urllib.error.URLError, OSError, ValueError):
            return None

    def submit(self, *arguments: str | Path) -> str:
        """Run ``spark-submit ARGUMENTS`` on a worker, and return the name under which ``spark-submit --kill`` ends it.

        A standalone cluster starts only JVM applications on workers: this one is ``spark-submit`` itself.
        """
        [jar] = (spark_home() / "jars").glob("spark-core_*.jar")
        request = {
            "action": "CreateSubmissionRequest",
            "appArgs": [str(argument) for argument in arguments],
            "appResource": jar.as_uri(),
            "clientSparkVersion": "4",
            "environmentVariables": {},
            "mainClass": f"{PACKAGE}.SparkSubmit",
            "sparkProperties": {
                "spark.app.name": "submitted",
                "spark.driver.memory": "512m",
                "spark.jars": "",
                "spark.master": self.master,
                "spark.submit.deployMode": "cluster",
            },
        }
        url = f"http{self.rest_master.removeprefix('spark')}/v1/submissions/create"
        body, headers = json.dumps(request).encode(), {"Content-Type": "application/json"}
        with urllib.request.urlopen(urllib.request.Request(url, body, headers), timeout=30) as answer:  # noqa: S310 - loopback
            return str(json.load(answer)["submissionId"])

    def executors(self) -> list[int]:
        """Return the process ids of the running executors."""
        workers = (process.pid for process in self._processes if process.name != "master")
        return [pid for worker in workers for pid in children(worker) if EXECUTOR in command_of(pid)]

    def python_workers(self) -> list[int]:
        """Return the process ids of the Python workers, which run Spark tasks or wait for the next one."""
        daemons = (pid for executor in self.executors() for pid in children(executor) if DAEMON in command_of(pid))
        return [pid for daemon in daemons for pid in children(daemon)]

    def close(self) -> None:
        """Stop all processes. Workers stop their executors, so workers are stopped before the master."""
        for process in reversed(self._processes):
            process.stop()
        self._processes.clear()
        shutil.rmtree(self.folder, ignore_errors=True)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.close()

    def _start(self, name: str, program: str, web_port: int, *arguments: str, host: str = LOOPBACK) -> SparkProcess:
        command = [f"{PACKAGE}.{program}", "--host", host, "--webui-port", str(web_port), *arguments]
        settings = {
            "spark.master.rest.enabled": "true",
            "spark.master.rest.host": LOOPBACK,
            "spark.master.rest.port": self.rest_master.rpartition(":")[2],
            "spark.worker.driverTerminateTimeout": f"{DRIVER_KILL_TIMEOUT_SECONDS}s",
        }
        options = " ".join([LEAN, *(f"-D{key}={value}" for key, value in settings.items())])
        environment = {"SPARK_LOCAL_IP": host, "SPARK_DAEMON_MEMORY": "256m", "SPARK_DAEMON_JAVA_OPTS": options}
        self._processes.append(SparkProcess(name, self.folder, command, environment))
        return self._processes[-1]

    def _has_all_workers(self) -> bool:
        state = self.state()
        return state is not None and state["aliveworkers"] == self._workers
