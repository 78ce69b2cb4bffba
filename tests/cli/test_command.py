"""What every command has in common: help, settings, failures, interrupts, pipes, terminals."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import click
import pytest

import holdfast
import holdfast.driver
from docs import build
from holdfast import Client, Holdfast, JobRequest
from holdfast.cli.root import root
from holdfast.drivers.memory import MemoryEngine

pty = pytest.importorskip("pty", reason="terminals and signals as Unix has them")

DOCS = Path(__file__).parents[2] / "docs"


def commands(group: click.Group = root, path: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    paths: list[tuple[str, ...]] = []
    for name, command in group.commands.items():
        paths += commands(command, (*path, name)) if isinstance(command, click.Group) else [(*path, name)]
    return paths


def command_at(path: tuple[str, ...]) -> click.Command:
    command: click.Command = root
    for name in path:
        assert isinstance(command, click.Group)
        command = command.commands[name]
    return command


# Help -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "path", [(), ("job",), ("queue",), ("domain",), ("cron",), ("dead",), ("schema",), *commands()], ids=" ".join
)
def test_help_fits_the_terminal_and_opens_no_store(run, path):
    out = run(*path, "--help").out
    assert max(map(len, out.splitlines())) <= 80
    assert "--url" in out
    assert "..." not in out.partition("\nCommands:\n")[2]
    for parameter in command_at(path).params:
        assert isinstance(parameter, click.Argument) or parameter.name == "version" or parameter.help


def test_no_command_is_bad_usage_and_shows_the_help(run):
    result = run(code=None)
    assert result.code == 2
    assert "Commands:" in result.err


def test_version_is_printed(run):
    assert run("--version").out.startswith("holdfast, version ")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["jobs"], "No such command 'jobs'"),
        (["job", "lst"], "No such command"),
        (["job", "list", "--x"], "No such option"),
    ],
)
def test_a_usage_error_is_one_line(run, arguments, message):
    result = run(*arguments, code=2)
    assert message in result.err
    assert result.err.startswith("holdfast: ")
    assert result.err.count("\n") == 1


# The page ---------------------------------------------------------------------------------------------------


def test_the_page_has_every_command_and_every_option():
    page = build.with_site_parts((DOCS / "reference" / "cli.md").read_text(encoding="utf-8"))
    for path in commands():
        assert re.search(rf"holdfast {' '.join(path)}\b", page), path
        options = {option for one in command_at(path).params for option in one.opts if option.startswith("--")}
        missing = {option for option in options if f"`{option}" not in page and f" {option}" not in page}
        assert not missing, path


# Settings ---------------------------------------------------------------------------------------------------


def test_a_missing_url_says_how_to_give_one(run):
    for path in commands():
        if path[0] not in {
            "doctor",
            "conform",
            "cron",  # see test_cron.py
            "init",
            "work",
            "spark",
            "history",
            "keys",
            "report",
        }:
            arguments = {"show": ["x"], "wait": ["x"], "cancel": ["x"], "retry": ["x"], "enqueue": ["x"]}.get(
                path[-1], []
            )
            arguments = ["q"] if path[0] == "queue" and path[-1] != "list" else arguments
            arguments = ["q", "d"] if path[0] == "domain" and path[-1] != "list" else arguments
            arguments = ["x"] if path[-1] == "remove" else arguments
            arguments = ["--role", "x"] if path[-1] == "grants" else arguments
            arguments = ["--all"] if path[-1] in {"requeue", "purge"} else arguments
            assert "no store: give --url" in run(*path, *arguments, code=2).err, path


def test_a_settings_file_in_a_parent_folder_is_found_and_its_paths_are_relative_to_it(run, folder, monkeypatch):
    (folder / "holdfast.toml").write_text('url = "sqlite:///jobs.db"\n', encoding="utf-8")
    (folder / "deep" / "er").mkdir(parents=True)
    monkeypatch.chdir(folder / "deep" / "er")
    run("enqueue", "t")
    assert (folder / "jobs.db").exists()
    monkeypatch.chdir(folder)
    assert len(run("job", "list", "--json").json["items"]) == 1


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("urll = 'x'", "urll in {file}: wanted one of the settings url, space"),
        ("urll = 'x'", "got the unknown 'urll'; did you mean 'url'?"),
        ("url = 5", "url in {file}: wanted text, got *** (int)"),
        ("max_attempts = 'many'", "max_attempts in {file}: wanted a whole number, got 'many' (str)"),
        ("max_attempts = true", "wanted a whole number, got True (bool)"),
        ("timeout = '5 minutes'", "timeout in {file}: wanted a length such as"),
        ("url = ", "{file}: wanted TOML in UTF-8"),
    ],
)
def test_an_invalid_settings_file_is_reported_with_its_path(run, folder, text, message):
    (folder / "holdfast.toml").write_text(text, encoding="utf-8")
    for command in ("doctor", "reap"):
        assert message.format(file=folder / "holdfast.toml") in run(command, code=2).err


def test_config_and_space_can_be_given_as_options(run, url, folder):
    (folder / "other.toml").write_text('space = "tenant"\n', encoding="utf-8")
    run("enqueue", "t", "--config", "other.toml")
    assert run("job", "list", "--json").json["items"] == []
    assert len(run("job", "list", "--json", "--space", "tenant").json["items"]) == 1
    assert len(run("--space", "tenant", "job", "list", "--json").json["items"]) == 1
    assert "wanted a settings file that can be read" in run("reap", "--config", "none.toml", code=2).err
    assert "--space: wanted 1 to 128" in run("reap", "--space", "no space", code=2).err


# Stores that cannot be opened -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("url", "code", "message"),
    [
        ("jobs.db", 2, "got no scheme (for a file: sqlite:///jobs.db)"),
        ("mysql://host/db", 2, "got mysql://"),
        ("sqlite://host/db", 2, "wanted sqlite:///relative.db"),
        ("sqlite:///x.db?fast=1", 2, "unknown option 'fast'"),
        ("sqlite:////nowhere/at/all/x.db", 3, "wanted a folder at /nowhere/at/all"),
    ],
)
def test_a_url_that_cannot_be_opened_is_reported(run, url, code, message):
    assert message in run("enqueue", "t", "--url", url, code=code).err


def test_a_file_in_a_folder_that_cannot_be_written_is_reported_with_the_folder(run, url, filled, folder, monkeypatch):
    filled.close()
    for name in ("jobs.db-wal", "jobs.db-shm"):
        (folder / name).unlink(missing_ok=True)
        (folder / name).mkdir()  # SQLite cannot open it, as in a folder that is read-only
    monkeypatch.setattr(os, "access", lambda path, _mode: Path(path) != folder)  # tests may run as root
    for command in (["job", "list"], ["enqueue", "t"]):
        message = run(*command, code=3).err
        assert "wanted a folder that this process may write, for jobs.db-wal and jobs.db-shm" in message
        assert str(folder) in message


def test_a_folder_is_no_sqlite_file(run, folder):
    assert (
        f"wanted a SQLite file at {folder}, got a folder"
        in run("enqueue", "t", "--url", f"sqlite:///{folder}", code=3).err
    )


def test_read_commands_create_no_store(run, url, folder):
    for command in (["job", "list"], ["queue", "list"], ["dead", "groups"], ["ledger"], ["reap"], ["trim"]):
        assert "no store at" in run(*command, code=3).err
    assert list(folder.iterdir()) == []


def test_an_unexpected_exception_is_one_line_and_debug_shows_the_traceback(run, start, url, filled, monkeypatch):
    monkeypatch.setattr(type(filled), "do", lambda *_, **__: 1 / 0)
    assert "ZeroDivisionError: division by zero (a bug in Holdfast" in run("job", "list", code=1).err
    process = start("--debug", "job", "show", "no job", env={**os.environ, "HOLDFAST_URL": url})
    out, err = process.communicate()
    assert (process.returncode, out) == (2, "")
    assert "Traceback" in err
    assert err.splitlines()[-1].startswith("holdfast: id: wanted")


# In a child process ------------------------------------------------------------------------------------------


def test_a_job_from_beginning_to_end(start, url, store):
    job_id, _ = start("enqueue", "t", '{"n": 1}').communicate()
    waiting = start("job", "wait", job_id.strip(), "--timeout", "30s", "--json")
    [one] = store.reserve(["default"], limit=1, lease_for=60_000_000)
    holdfast.driver.ack(store, one.lease, result=b"2")
    out, err = waiting.communicate()
    assert (waiting.returncode, err) == (0, "")
    assert (json.loads(out)["state"], json.loads(out)["result"]) == ("done", 2)


def test_an_interrupt_prints_nothing(start, url, filled):
    following = start("ledger", "--follow", "--json", "--limit", "1")
    assert following.stdout is not None
    following.stdout.readline()
    following.stdout.readline()
    following.send_signal(signal.SIGINT)
    _, err = following.communicate()
    assert following.returncode == 130
    assert err.strip() == ""


@pytest.fixture(params=["", "1"], ids=["buffered", "unbuffered"])
def buffering(request, monkeypatch):
    monkeypatch.setenv("PYTHONUNBUFFERED", request.param)


@pytest.mark.parametrize(
    "arguments", [("job", "list"), ("job", "list", "--json"), ("--help",), ("--version",)], ids=" ".join
)
def test_a_full_disk_behind_the_output_is_no_bug(url, filled, buffering, arguments):
    with Path("/dev/full").open("w") as full:
        command = [sys.executable, "-m", "holdfast", *arguments]
        process = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert (process.returncode, process.stderr) == (1, "holdfast: [Errno 28] No space left on device\n")


def test_a_full_disk_behind_the_errors_keeps_the_exit_code(url, filled, buffering):
    with Path("/dev/full").open("w") as full:
        command = [sys.executable, "-m", "holdfast", "job", "show", "nobody"]
        process = subprocess.run(command, stdout=subprocess.PIPE, stderr=full, check=False)
    assert (process.returncode, process.stdout) == (4, b"")


@pytest.mark.parametrize(
    ("command", "code", "error"),
    [
        ("enqueue t 1 >&-", 0, ""),
        ("job show unknown 2>&-", 4, ""),
        ("job list <&- >&- 2>&-", 0, ""),
        ("enqueue t - <&-", 2, "payload from stdin: wanted JSON"),
        ("enqueue --batch - <&-", 0, ""),
        ("space remove main <&-", 1, "not confirmed"),
    ],
)
def test_a_stream_that_was_closed_before_the_start_is_empty(url, store, command, code, error):
    """As for a daemon: nothing is read, and what is printed is lost. No file of the store gets its number."""
    shell = ["sh", "-c", f'exec "$0" -m holdfast {command}', sys.executable]
    ended = subprocess.run(shell, capture_output=True, text=True, check=False, timeout=120)
    assert (ended.returncode, error in ended.stderr, "bug" in ended.stderr) == (code, True, False), ended.stderr


def test_a_closed_pipe_prints_no_traceback(url, store):
    Client(store).enqueue([JobRequest(type="t", name="x" * 200) for _ in range(2000)])
    script = f"{sys.executable} -m holdfast job list --json --limit 2000 | head -n 1"
    result = subprocess.run(["sh", "-c", script], capture_output=True, text=True, check=True)
    assert (result.stdout, result.stderr) == ("{\n", "")


def test_output_to_an_ascii_terminal_is_escaped(start, url, filled):
    Client(filled).enqueue(JobRequest(type="t", name="Åsa"))
    ascii_only = {**os.environ, "PYTHONIOENCODING": "ascii"}
    listed = start("job", "list", "--name", "Åsa", "--json", env=ascii_only)
    out, _ = listed.communicate()
    assert (listed.returncode, json.loads(out)["items"][0]["name"]) == (0, "Åsa")
    groups = start("dead", "groups", env=ascii_only)
    out, _ = groups.communicate()
    assert groups.returncode == 0
    assert "# no such user '\\u2026'" in out


def test_without_the_extra_the_command_prints_what_to_install():
    for missing in ("click", "rich"):
        code = f"import sys; sys.modules[{missing!r}] = None; from holdfast.cli import main; sys.exit(main(['--help']))"
        result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
        if missing == "click":
            assert (result.returncode, result.stdout) == (2, "")
            assert result.stderr == "the command needs click and rich: pip install 'holdfast[cli]'\n"
        else:
            assert result.returncode == 0  # rich is only needed for tables and bars


def test_conform_runs_the_suite_against_a_store(start, url, folder):
    process = start("conform", f"sqlite:///{folder}/conform.db", "--law", "L6", "-k", "enqueue", "--json")
    out, err = process.communicate()
    assert (process.returncode, err) == (0, "")
    assert {result["status"] for result in json.loads(out)} == {"passed"}


def test_conform_distinguishes_bad_usage_from_a_bad_store(run, monkeypatch):
    assert "--law: wanted one of L1" in run("conform", "memory://", "--law", "L99", code=2).err
    assert "no case fits" in run("conform", "memory://", "-k", "no such case", code=2).err
    assert "wanted a folder" in run("conform", "sqlite:////nowhere/at/all/x.db", code=3).err
    monkeypatch.setattr(MemoryEngine, "cancel", lambda *_: [])
    assert "FAIL" in run("conform", "memory://", "-k", "cancel:", code=1).out


# In a terminal ----------------------------------------------------------------------------------------------


def in_terminal(*arguments: str, columns: int = 80) -> list[str]:
    """The lines in a terminal of this width, without escape sequences."""
    leader, follower = pty.openpty()
    child = subprocess.Popen(
        [sys.executable, "-m", "holdfast", *arguments],
        stdin=follower,
        stdout=follower,
        stderr=follower,
        env={**os.environ, "COLUMNS": str(columns), "TERM": "xterm"},
    )
    os.close(follower)
    data = b""
    while True:
        try:
            read = os.read(leader, 65536)
        except OSError:
            break
        if not read:
            break
        data += read
    os.close(leader)
    assert child.wait() in {0, 1}
    return re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", data.decode()).replace("\r", "").splitlines()


@pytest.mark.parametrize(
    "command",
    [
        "job list",
        "queue list",
        "queue list --types",
        "dead list",
        "dead groups",
        "ledger",
        "doctor",
        "dead purge --all --dry-run",
    ],
)
def test_tables_fit_80_columns_and_ids_are_not_truncated(filled, command):
    Client(filled).enqueue(JobRequest(type="a.very.long.type.name.of.a.job", queue="a-very-long-queue-name-for-mail"))
    [one] = filled.reserve(["a-very-long-queue-name-for-mail"], limit=1, lease_for=60_000_000)
    holdfast.driver.fail(filled, one.lease, reason="漢字" * 40, error="x" * 300)
    lines = in_terminal(*command.split())
    assert len(lines) > 2
    assert max(map(len, lines)) <= 80
    if command in {"job list", "dead list", "ledger"}:
        assert sum(bool(re.search(r"[0-9a-f]{8}-[0-9a-f-]{27}\b", line)) for line in lines) >= 7


def test_an_id_is_whole_also_in_a_narrow_terminal(filled):
    ids = [job.id for job in filled.find().items]
    text = "\n".join(in_terminal("job", "list", columns=50))
    assert [each for each in ids if each not in text] == []


def test_a_progress_bar_disappears_at_the_end(filled, folder):
    (folder / "jobs.jsonl").write_text('{"type": "t"}\n' * 3000, encoding="utf-8")
    lines = in_terminal("enqueue", "--batch", "jobs.jsonl")
    assert "3000 enqueued" in lines[-1]
    assert any("3000" in line and "enqueue" in line for line in lines)


def test_a_store_is_used_by_its_name(run, folder, monkeypatch):
    (folder / "settings.toml").write_text('[stores.prod]\nurl = "sqlite:///prod.db"\nspace = "shop"\n')
    prod = ("--url", "store:prod", "--config", str(folder / "settings.toml"))
    run("enqueue", "t", *prod)
    with holdfast.connect(f"sqlite:///{folder}/prod.db", space="shop") as store:
        assert len(store.find().items) == 1
    assert len(run("job", "list", "--json", *prod).json["items"]) == 1
    assert run("job", "list", "--json", *prod, "--space", "other").json["items"] == []
    unknown = run("job", "list", "--url", "store:prod", code=2).err
    assert "store prod: wanted url in [stores.prod] of holdfast.toml" in unknown
    monkeypatch.setenv("HOLDFAST_CONFIG", str(folder / "settings.toml"))
    with Holdfast(store="prod").driver as store:
        assert len(store.find().items) == 1
    with holdfast.connect("store:prod") as store:
        assert len(store.find().items) == 1


# What a new user types ---------------------------------------------------------------------------------------


NOT_UTF8 = "\udcff\udcfe"  # as Python reads the bytes FF FE of the command line


@pytest.mark.parametrize(
    ("arguments", "code", "error"),
    [
        (("wrok",), 2, "No such command 'wrok'; did you mean 'work'?"),
        (("job", "lsit"), 2, "No such command 'lsit'; did you mean 'list'?"),
        (("frobnicate",), 2, "No such command 'frobnicate'."),
        (("job", "list", "--queue", NOT_UTF8), 2, "queue: wanted text in UTF-8, got"),
        (("job", "list", "--type", NOT_UTF8), 2, "type: wanted text in UTF-8, got"),
        (("job", "list", "--key", NOT_UTF8), 2, "idempotency_key: wanted text in UTF-8, got"),
        (("dead", "list", "--reason", NOT_UTF8), 2, "reason: wanted text in UTF-8, got"),
        (("dead", "requeue", "--queue", NOT_UTF8, "--yes"), 2, "queue: wanted text in UTF-8, got"),
        (("space", "remove", ""), 2, "space: wanted 1 to 128 of the characters"),
        (("space", "remove", NOT_UTF8), 2, "space: wanted 1 to 128 of the characters"),
        (("work", ""), 2, "wanted MODULE:APP such as tasks:app, got ''"),
        (("enqueue", "t", "1", "--app", ""), 2, "wanted MODULE:APP such as tasks:app, got ''"),
        (("enqueue", "t", "1", "--app", "..:app"), 2, "wanted MODULE:APP such as tasks:app, got ..:app"),
        (("work", ".tasks:app"), 2, "wanted MODULE:APP such as tasks:app, got .tasks:app"),
        (("work", "tasks.:app"), 2, "wanted MODULE:APP such as tasks:app, got tasks.:app"),
        (("enqueue", "t", "@"), 2, "wanted a file that can be read, got '': "),
        (("enqueue", "--batch", ""), 2, "wanted a file that can be read, got '': "),
        (("audit", "--history", ""), 2, "'--history': wanted a folder, got ''"),
        (("history", "sync", "--to", ""), 2, "'--to': wanted a folder, got ''"),
        (("report", "--history", "", "--out", "x.html"), 2, "'--history': wanted a folder, got ''"),
    ],
)
def test_a_slip_is_told_in_one_line_that_says_what_was_wanted(run, store, arguments, code, error):
    shown = run(*arguments, code=code).err
    assert error in shown
    assert "bug in Holdfast" not in shown
    assert len(shown.splitlines()) == 1
