"""Every command of docs/reference/http.md runs, in order; small programs stand in for curl and jq."""

from __future__ import annotations

import json
import os
import re
import stat
import subprocess
import sys
from pathlib import Path

import msgspec

from holdfast.app import Holdfast
from holdfast.cron import Schedule
from holdfast.errors import LeaseExpired
from holdfast.service.problems import problem_of
from holdfast.service.routes import OPERATIONS
from holdfast.settings import Settings
from tests.service.http_service import running_service, sqlite_url
from tests.webhook_receiver import receiving

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "http.md"
SNIPPETS = re.findall(r"^```sh\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
JSON_BLOCKS = re.findall(r"^```json\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)

CURL = """
import http.client, sys
url, headers, body, method, words = None, {}, None, None, iter(sys.argv[1:])
for word in words:
    if word in ("-s", "-sN"): pass
    elif word == "-X": method = next(words)
    elif word == "-d": body = next(words).encode()
    elif word == "-H": name, value = next(words).split(": "); headers[name] = value
    else: url = word
host, _, path = url.removeprefix("http://").partition("/")
connection = http.client.HTTPConnection(host, timeout=60)
connection.request(method or ("POST" if body else "GET"), "/" + path, body, headers)
answer = connection.getresponse()
print(answer.read().decode())
sys.exit(answer.status >= 400)
"""

JQ = """
import json, sys
path, source = sys.argv[2], open(sys.argv[3]) if len(sys.argv) > 3 else sys.stdin
value = json.load(source)
for name in path.strip(".").split("."):
    value = value[int(name) if name.isdigit() else name]
print(value)
"""


def install(folder: Path, name: str, program: str) -> None:
    file = folder / name
    file.write_text(f"#!{sys.executable} -IS\n{program}", encoding="utf-8")
    file.chmod(file.stat().st_mode | stat.S_IXUSR)


def test_every_command_of_the_page_runs(tmp_path):
    install(tmp_path, "curl", CURL)
    install(tmp_path, "jq", JQ)
    artifacts = str(tmp_path / "artifacts")
    with (
        receiving() as receiver,
        running_service(sqlite_url(tmp_path), Settings(artifacts=artifacts, webhooks=receiver.settings)) as service,
    ):
        nightly = Schedule(name="nightly", expression="0 2 * * *", type="clean", queue="default")
        Holdfast(driver=service.store).schedules.put(nightly)
        ran = subprocess.run(
            ["bash", "-e", "-o", "pipefail", "-c", "\n".join(SNIPPETS)],
            cwd=tmp_path,
            env={
                **os.environ,
                "PATH": f"{tmp_path}:{os.environ['PATH']}",
                "HOLDFAST": service.url,
                "RECEIVER": receiver.url,
            },
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert ran.returncode == 0, ran.stderr
        [failed] = service.get("/v1/tasks", status="FAILED").json()["tasks"]
        assert failed["error"] == "no such address"
        assert service.get("/v1/queues/default/settings").json()["maxInProgress"] == 100


def test_the_page_has_a_command_for_every_call():
    text = "\n".join(SNIPPETS)
    text = re.sub(r"\$\(jq[^)]*\)|\$task|\$other|\$subscription", "X", text).replace("'X'", "X")
    for operation in OPERATIONS:
        path = re.sub(r"{\w+}", "(X|default|nightly|report.csv)", operation.full_path)
        page = PAGE.read_text(encoding="utf-8") if not operation.versioned or operation.binary else text
        if operation.binary is not None:  # no command line writes msgpack
            path = re.escape(operation.full_path)
        assert re.search(rf'{path}(["? \n`]|$)', page), operation.full_path


def test_the_problem_of_the_page_is_that_of_the_service():
    [example] = [json.loads(text) for text in JSON_BLOCKS if "urn:holdfast:problem:" in text]
    problem = problem_of(LeaseExpired(example["taskId"], expires_at=1, now=2))
    assert msgspec.to_builtins(problem.details(example["requestId"])) == example
