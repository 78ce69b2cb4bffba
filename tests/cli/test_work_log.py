"""The log of ``holdfast work``, and what it says of a user's module that cannot be imported."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections import Counter

import pytest

WORK = [sys.executable, "-m", "holdfast", "work"]
JOBS = 40
LONG = 3000  # characters of a line that is shorter than the 4 KiB which a pipe takes at once

APP = f"""
import logging
import sys
from holdfast import Holdfast

app = Holdfast("sqlite:///jobs.db")
shop = logging.getLogger("shop")

@app.handler("plain")
def plain(payload):
    shop.info("sold " + "x" * {LONG}, extra={{"order": payload, "password": "hunter2"}})

@app.handler("context")
def context(payload, ctx):
    forged = "2026-11-17T09:00:00.000000Z info forged \\x9b31m"
    ctx.log.warning("first\\n%s", forged, extra={{"order": payload, "type": "mine"}})

@app.handler("asynchronous")
async def asynchronous(payload):
    shop.info("async", extra={{"order": payload}})

@app.handler("fails", max_attempts=1)
def fails(payload):
    raise ValueError("cannot open postgresql://me:hunter2@h/db")

if __name__ == "__main__":
    plain.enqueue_many(range({JOBS}))
    for task in (context, asynchronous, fails):
        task.enqueue(1)
"""


@pytest.fixture
def work(folder):
    """Enqueues the jobs of the app, and runs them with these options; returns stderr."""
    (folder / "logging_app.py").write_text(APP, encoding="utf-8")
    subprocess.run([sys.executable, "logging_app.py"], check=True)

    def work(*options: str) -> str:
        command = [*WORK, "logging_app:app", "--until-drained", "--processes", "2", *options]
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=120).stderr

    return work


@pytest.mark.parametrize("concurrency", ["1", "2"])
def test_every_line_is_json_and_carries_the_fields_of_its_job(work, concurrency):
    lines = [json.loads(line) for line in work("--log", "json", "--concurrency", concurrency).splitlines()]
    by_message = Counter(line["message"] for line in lines)
    assert by_message["job.done"] == JOBS + 2
    assert by_message["job.dead"] == by_message["worker.started"] == by_message["worker.stopped"] == 1
    done = {line["job_id"]: line for line in lines if line["message"] == "job.done"}
    logged = [line for line in lines if line["logger"] not in {"holdfast.worker", "asyncio"}]
    assert len(logged) == JOBS + 2
    for line in logged:
        job = done[line["job_id"]]
        for field in ("type", "queue", "attempt", "fence", "worker"):
            assert line[field] == job[field]
    assert sorted(line["order"] for line in logged if line["type"] == "plain") == list(range(JOBS))
    assert {line.get("password") for line in logged} == {"***", None}
    [context] = [line for line in logged if line["type"] == "context"]
    assert (context["logger"], context["level"]) == ("holdfast.job.context", "warning")
    assert context["message"].startswith("first\n2026-11-17")
    [dead] = [line for line in lines if line["message"] == "job.dead"]
    assert dead["error"] == "ValueError: cannot open postgresql://me:***@h/db"


def run_together(*arguments: str) -> list[dict[str, object]]:
    """Run the command with stdout and stderr in one pipe, as a log collector reads them; every line must be JSON."""
    command = [sys.executable, "-m", "holdfast", *arguments]
    ended = subprocess.run(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False, timeout=120
    )
    return [json.loads(line) for line in ended.stdout.splitlines()]


def test_no_line_of_a_worker_with_a_json_log_is_plain(folder):
    """Neither the first and the last line, nor a note, nor an error that ends the command."""
    source = 'from holdfast import Holdfast\napp = Holdfast("sqlite:///jobs.db")\napp.handler("t")(lambda _: None)\n'
    (folder / "other_app.py").write_text(source, encoding="utf-8")
    (folder / "holdfast.toml").write_text('url = "sqlite:///unused.db"\n', encoding="utf-8")
    work = ("work", "other_app:app", "--until-drained", "--processes", "2", "--concurrency", "3", "--log", "json")
    note, *_, last = lines = run_together(*work)
    assert "names its own store" in note["message"]
    [started] = [line for line in lines if line["message"] == "worker.started"]
    assert (started["concurrency"], started["lease"], started["types"]) == (6, 15.0, 1)
    assert last["message"] == "worker.stopped"
    *_, last = run_together(*work, "--json")
    assert last == {}
    (folder / "broken.py").write_text("1 / 0\n", encoding="utf-8")
    [failure] = run_together("work", "broken:app", "--log", "json", "--debug")
    assert failure["level"] == "error"
    assert failure["message"].startswith("importing broken failed: broken.py, line 1: ZeroDivisionError")
    assert "Traceback" in failure["exception"]


def test_no_line_of_a_service_with_a_json_log_is_plain(start, url):
    service = start("serve", "--bind", "127.0.0.1:0", "--log", "json", "--url", url)
    started = json.loads(service.stderr.readline())
    service.terminate()
    out, err = service.communicate(timeout=60)
    assert (started["message"], out) == ("http.started", "")
    assert started["url"].startswith("http://127.0.0.1:")
    assert json.loads(err.splitlines()[-1])["message"] == "http.stopped"


def test_the_text_format_has_one_line_for_each_record(work, monkeypatch):
    monkeypatch.setenv("HOLDFAST_LOG_LEVEL", "warning")
    lines = work().splitlines()
    [context], [dead] = ([line for line in lines if text in line] for text in ("first", "job.dead"))
    assert all(re.match(r"\S+Z (warning|error) ", line) for line in lines)
    assert r" warning first\n2026-11-17T09:00:00.000000Z info forged \x9b31m order=1 " in context
    assert " error   job.dead        type=fails " in dead
    assert 'reason="attempts exhausted" error="ValueError: cannot open postgresql://me:***@h/db"' in dead


def test_the_logging_of_the_app_takes_over(work, folder):
    with (folder / "logging_app.py").open("a", encoding="utf-8") as file:
        file.write('logging.basicConfig(format="mine %(message)s", level=logging.WARNING)\n')
    lines = work().splitlines()
    assert "2026-11-17T09:00:00.000000Z info forged \x9b31m" in lines  # the formatter of the app escapes nothing
    [dead] = [line for line in lines if "job.dead" in line]
    assert dead.startswith("mine job.dead type=fails job_id=")


# A user's module that cannot be imported ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "source", "report"),
    [
        ("raises", "\n1 / 0\n", "raises.py, line 2: ZeroDivisionError: division by zero"),
        ("syntax", "def f(:\n", "syntax.py, line 1: SyntaxError: invalid syntax"),
        ("missing", "import not_there\n", "missing.py, line 1: ModuleNotFoundError: No module named 'not_there'"),
        ("attribute", "import os\nos.nothing\n", "attribute.py, line 2: AttributeError: module 'os' has no"),
        ("library", "import json\njson.loads('')\n", "library.py, line 2: JSONDecodeError: Expecting value"),
        ("exits", "import sys\nsys.exit(3)\n", "exits.py, line 2: SystemExit: 3"),
        (
            "refused",
            "from holdfast import Holdfast\nHoldfast().handler('a b')(print)\n",
            "refused.py, line 2: InvalidInput: type: wanted",
        ),
    ],
)
def test_an_error_of_the_users_module_is_reported_with_its_file_and_line(run, folder, name, source, report):
    (folder / f"{name}.py").write_text(source, encoding="utf-8")
    error = run("work", f"{name}:app", code=1).err
    assert error.startswith(f"holdfast: importing {name} failed: {report}")
    assert "bug in Holdfast" not in error


def test_debug_shows_the_traceback_of_the_users_module(folder):
    (folder / "broken.py").write_text("def f():\n    return 1 / 0\n\nf()\n", encoding="utf-8")
    worked = subprocess.run([*WORK, "broken:app", "--debug"], capture_output=True, text=True, check=False)
    assert worked.returncode == 1
    assert 'broken.py", line 2, in f' in worked.stderr
    assert worked.stderr.splitlines()[-1].startswith("holdfast: importing broken failed: broken.py, line 2: ZeroDiv")


def test_a_wrong_name_of_the_app_is_reported_with_the_right_one(run, folder):
    (folder / "named.py").write_text("from holdfast import Holdfast\nmine = Holdfast()\n", encoding="utf-8")
    assert run("work", "named:app", code=4).err == "holdfast: named has no app; its app is mine\n"
