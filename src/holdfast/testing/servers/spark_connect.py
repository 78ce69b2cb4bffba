"""A real Spark Connect server on loopback, from the installed pyspark.

with ConnectServer() as server:
spark = holdfast.spark.session(server.url)
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Self

from holdfast.testing.servers.spark_process import LEAN, LOOPBACK, SparkProcess, free_port, listens

SUBMIT = "org.apache.spark.deploy.SparkSubmit"
SERVER = "org.apache.spark.sql.connect.service.SparkConnectServer"


class ConnectServer:
    """One server. It runs Spark tasks itself unless ``master`` is a cluster. Stopped by process id."""

    def __init__(self, *, master: str = "local[2,4]", conf: Mapping[str, str] | None = None) -> None:
        self._port = free_port()
        self._master = master
        self._conf = {
            "spark.connect.grpc.binding.address": LOOPBACK,
            "spark.connect.grpc.binding.port": str(self._port),
            "spark.driver.host": LOOPBACK,
            "spark.driver.bindAddress": LOOPBACK,
            "spark.driver.extraJavaOptions": LEAN,
            "spark.ui.enabled": "false",
            "spark.sql.shuffle.partitions": "2",
            **(conf or {}),
        }
        self._process: SparkProcess | None = None
        self.folder = Path(tempfile.mkdtemp(prefix="holdfast-connect-"))
        self.url = f"sc://{LOOPBACK}:{self._port}"

    def start(self) -> Self:
        """Start the server, and wait until it accepts clients."""
        settings = [part for key, value in self._conf.items() for part in ("--conf", f"{key}={value}")]
        command = [SUBMIT, "--class", SERVER, "--master", self._master, *settings, "spark-internal"]
        try:
            self._process = SparkProcess("connect", self.folder, command, {"PYSPARK_PYTHON": sys.executable})
            self._process.wait_until(lambda: listens(self._port))
        except BaseException:
            self.close()
            raise
        return self

    def close(self) -> None:
        """Stop the server, and remove its folder."""
        if self._process is not None:
            self._process.stop()
        shutil.rmtree(self.folder, ignore_errors=True)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.close()
