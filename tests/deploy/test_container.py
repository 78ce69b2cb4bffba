"""The command of the image runs as process 1 of a container, answers its health check, and stops on SIGTERM."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import pytest

import holdfast
from holdfast import Client, JobRequest
from tests.deploy.deploy_files import SERVICE_FOLDER, docker_command, docker_healthcheck
from tests.processes import children
from tests.soak.worker_group import wait_until

NAMESPACE = ["unshare", "--pid", "--fork", "--mount-proc", "--kill-child"]
START_SECONDS = 60
ADDRESS = re.compile(r"http://(127\.0\.0\.1:\d+)")


def can_make_namespaces() -> bool:
    try:
        return subprocess.run([*NAMESPACE, "true"], capture_output=True, check=False, timeout=30).returncode == 0
    except FileNotFoundError:
        return False


@contextmanager
def started(argv: list[str], output: Path, environment: dict[str, str]):
    with output.open("w") as file:
        process = subprocess.Popen(
            argv, cwd=SERVICE_FOLDER, env=os.environ | environment, stdout=file, stderr=subprocess.STDOUT
        )
    try:
        yield process
    finally:
        process.kill()  # the kernel then ends every process of the namespace
        process.wait()


@pytest.mark.skipif(not can_make_namespaces(), reason="this user may not make a PID namespace")
def test_the_command_of_the_image_runs_as_process_1(tmp_path):
    url, output = f"sqlite:///{tmp_path}/orders.db", tmp_path / "output"
    environment = {"HOLDFAST_URL": url}
    subprocess.run(
        [sys.executable, "-m", "orders.tables"], cwd=SERVICE_FOLDER, env=os.environ | environment, check=True
    )
    [program, *arguments] = docker_command()
    arguments = ["127.0.0.1:0" if one == "0.0.0.0:9000" else one for one in arguments]
    argv = [*NAMESPACE, sys.executable, "-m", program, *arguments, "--processes", "1"]
    with holdfast.connect(url) as store, started(argv, output, environment) as namespace:
        job = Client(store).enqueue(JobRequest(type="stock.count", queue="orders", payload={"item": "teapot"}))
        assert Client(store).wait(job.id, timeout=START_SECONDS).state == "done", output.read_text()
        [address] = set(ADDRESS.findall(output.read_text()))
        _, *check = [part.replace("127.0.0.1:9000", address) for part in docker_healthcheck()]
        subprocess.run([sys.executable, *check], check=True, timeout=START_SECONDS)
        [worker] = children(namespace.pid)
        os.kill(worker, signal.SIGTERM)
        wait_until(lambda: namespace.poll() is not None, timeout=START_SECONDS, otherwise=output.read_text)
    assert namespace.returncode == 0, output.read_text()
