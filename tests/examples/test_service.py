"""examples/service end to end: the shop as its users run it."""

from __future__ import annotations

import contextlib
import json
import re
import shlex
import shutil
import subprocess
import sys

import httpx

from tests.soak.service_restarts import (
    METRICS_ADDRESS,
    SERVICE_FOLDER,
    UVICORN_ADDRESS,
    Program,
    await_ready,
    run_service_restarts,
)
from tests.soak.worker_group import wait_until


def test_a_rolling_restart_under_load_loses_nothing(tmp_path, postgres_database):
    run_service_restarts(tmp_path, postgres_database(), orders=200, restarts=1)


def test_the_commands_of_the_readme_run_on_sqlite(tmp_path):
    """All but the first, which installs packages. The ports are free ones."""
    readme = (SERVICE_FOLDER / "README.md").read_text("utf-8")
    [block] = re.findall(r"(?s)```sh\n(.*?)```", readme)
    _, create, serve, work, order = block.splitlines()
    folder = tmp_path / "service"
    shutil.copytree(SERVICE_FOLDER, folder, ignore=shutil.ignore_patterns("*.db*", "__pycache__"))
    for command in create.split(" && "):
        program, *arguments = shlex.split(command)
        module = [] if program == "python" else ["-m", program]
        subprocess.run([sys.executable, *module, *arguments], cwd=folder, check=True, stdout=subprocess.DEVNULL)
    with contextlib.ExitStack() as stack:
        service = Program(shlex.split(serve.replace("8000", "0")), tmp_path / "service.log", {}, folder=folder)
        stack.callback(service.close)
        address = await_ready(service, UVICORN_ADDRESS)
        sandbox = {"ORDERS_PAYMENTS_URL": f"{address}/sandbox"}
        worker = Program(shlex.split(work.replace("9000", "0")), tmp_path / "worker.log", sandbox, folder=folder)
        stack.callback(worker.close)
        await_ready(worker, METRICS_ADDRESS)
        _, _, body, url = shlex.split(order)
        answer = httpx.post(url.replace("http://127.0.0.1:8000", address), json=json.loads(body))
        assert answer.status_code == 201, answer.text
        order_url = f"{address}/orders/{answer.json()['id']}"
        wait_until(
            lambda: httpx.get(order_url).json()["status"] == "confirmed", timeout=60, otherwise=lambda: worker.output
        )
        assert worker.stop() == 0
