"""The handler ``shell``: allowed programs run without a shell, and leave nothing behind."""

from __future__ import annotations

import os
import signal
import threading
from datetime import timedelta
from pathlib import Path

import pytest

from holdfast import Unrecoverable, connect
from holdfast.app import Holdfast
from holdfast.drivers.requests import Cancel
from holdfast.errors import InvalidInput
from holdfast.handlers import ShellCommand, ShellResult
from holdfast.handlers.shell import ProgramFailed, find_executable
from holdfast.settings import Settings
from tests.processes import is_alive
from tests.waiting import wait_until

SHELL = "/bin/sh"
PRINTF = "/usr/bin/printf"


@pytest.fixture
def tool(tmp_path):
    """A function that writes a program and returns its path."""

    def write(text: str, name: str = "tool") -> str:
        path = tmp_path / name
        path.write_text(f"#!{SHELL}\n{text}\n")
        path.chmod(0o755)
        return str(path)

    return write


@pytest.fixture
def execute(app, inline):
    """Run one program as a job of an app that allows it; return its result, or raise."""

    def run(argv: list[str], *, stdin: str = "", **options) -> ShellResult:
        task = app.builtin.shell(allowed=[argv[0]], **options)
        return inline.run_job(task, ShellCommand(argv=argv, stdin=stdin))

    return run


def test_arguments_with_metacharacters_stay_literal(execute, tmp_path):
    hostile = [
        "; touch owned",
        "$(touch owned)",
        "`id`",
        "a b",
        "*",
        "&& id",
        "| id",
        "> owned",
        "\n",
        "'\"",
        "${HOME}",
        "é",
    ]
    result = execute([PRINTF, "%s|", *hostile], cwd=str(tmp_path))
    assert result == ShellResult(exit_code=0, stdout="".join(f"{each}|" for each in hostile), stderr="")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "command",
    [
        "sh",
        "./tool",
        "tool",
        "bin/sh",
        "/bin/../bin/sh",
        "/bin//sh",
        "/bin/./sh",
        "/bin/sh/",
        "~/sh",
        "$SHELL",
        "/bin/sh\0x",
        "",
    ],
)
def test_a_path_that_is_not_absolute_and_plain_is_refused(command):
    with pytest.raises(Unrecoverable, match=r"not allowed|bad arguments"):
        find_executable([command], [SHELL, "/bin/bash"])


def test_a_link_to_an_allowed_program_is_another_program(tool, tmp_path):
    """A program such as busybox does what its name says."""
    allowed = tool("true")
    (tmp_path / "other").symlink_to(allowed)
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "tool").symlink_to(allowed)
    assert find_executable([allowed], [allowed]) == allowed
    for path in (tmp_path / "other", tmp_path / "folder" / "tool"):
        with pytest.raises(Unrecoverable, match="is not in allowed_shell_commands"):
            find_executable([str(path)], [allowed])


def test_an_allowed_path_that_is_a_link_out_of_its_folder_is_refused(tmp_path):
    link = tmp_path / "tool"
    link.symlink_to(SHELL)
    with pytest.raises(Unrecoverable, match=r"is a link to .*allow the file itself"):
        find_executable([str(link)], [str(link)])


def test_links_of_folders_are_resolved_on_both_sides(tool, tmp_path):
    program = tool("true")
    alias = tmp_path.parent / f"{tmp_path.name}-alias"
    alias.symlink_to(tmp_path)
    assert find_executable([str(alias / "tool")], [program]) == program
    assert find_executable([program], [str(alias / "tool")]) == program


@pytest.mark.parametrize("kind", ["missing", "folder", "not executable"])
def test_what_is_no_program_can_never_run(tmp_path, kind):
    path = tmp_path / "tool"
    if kind == "folder":
        path.mkdir()
    elif kind == "not executable":
        path.write_text("text")
    with pytest.raises(Unrecoverable, match="it is not a program"):
        find_executable([str(path)], [str(path)])


def test_the_environment_of_the_worker_is_not_passed_on(execute, monkeypatch):
    monkeypatch.setenv("HOLDFAST_URL", "postgresql://user:password@host/db")
    monkeypatch.setenv("LD_PRELOAD_OF_TEST", "x")
    result = execute(["/usr/bin/env"], environment={"REGION": "eu"})
    assert sorted(result.stdout.split()) == ["LANG=C.UTF-8", "PATH=/usr/local/bin:/usr/bin:/bin", "REGION=eu"]


def test_the_program_reads_its_stdin_and_runs_in_its_folder(execute, tmp_path):
    result = execute([SHELL, "-c", "pwd; cat"], stdin="é\n" * 100_000, cwd=str(tmp_path))
    assert result.stdout.startswith(f"{Path(tmp_path).resolve()}\né\n")
    assert "bytes …" in result.stdout


def test_without_stdin_the_program_reads_nothing(execute):
    assert execute([SHELL, "-c", "cat; echo end"]).stdout == "end\n"


def test_a_long_output_loses_its_middle(execute):
    program = "head -c 5000000 /dev/zero | tr '\\0' x; echo last; echo error >&2"
    result = execute([SHELL, "-c", program], max_output_bytes=1000)
    assert result.stdout.startswith("x" * 500 + "\n… ")
    assert result.stdout.endswith("x" * 10 + "last\n")
    assert len(result.stdout) < 1100
    assert result.stderr == "error\n"


def test_bytes_that_are_no_text_are_replaced(execute):
    assert execute([PRINTF, "a\\377b"]).stdout == "a\ufffdb"


def test_an_exit_code_is_a_failed_attempt_or_a_dead_letter(execute, app, inline):
    argv = [SHELL, "-c", "echo out; echo wrong >&2; exit 3"]
    with pytest.raises(ProgramFailed, match="exit code 3: wrong"):
        execute(argv)
    strict = app.builtin.shell(type="strict", allowed=[SHELL], unrecoverable_exit_codes=[3])
    with pytest.raises(Unrecoverable, match="exit code 3: wrong"):
        inline.run_job(strict, ShellCommand(argv=argv))
    with pytest.raises(ProgramFailed, match="killed by SIGKILL"):
        inline.run_job(strict, ShellCommand(argv=[SHELL, "-c", "kill -9 $$"]))


@pytest.mark.parametrize("argv", [["/bin/sh", "a\0b"], ["/bin/sh", "-c", "x" * 900_000]], ids=["NUL", "too long"])
def test_arguments_that_no_program_can_get_make_a_dead_letter(execute, argv):
    with pytest.raises(Unrecoverable, match=r"bad arguments|cannot start"):
        execute(argv)


def test_a_process_that_is_left_behind_ends_with_the_program(execute):
    """It keeps the output open, and the attempt does not wait for it."""
    pid = int(execute([SHELL, "-c", "sleep 300 & echo $!"]).stdout)
    wait_until(lambda: not is_alive(pid))


@pytest.mark.parametrize(("end", "concurrency"), [("timeout", 1), ("timeout", 2), ("cancel", 1)])
def test_an_attempt_that_is_stopped_kills_the_program_and_what_it_has_started(tmp_path, end, concurrency):
    url = f"sqlite:///{tmp_path}/jobs.db"
    app = Holdfast(url)
    app.use_settings(Settings())
    pids = tmp_path / "pids"
    grandchild = f"trap '' TERM; setsid sleep 300 & echo $! >> {pids}; sleep 300"
    program = f"trap '' TERM; ({grandchild}) & echo $! $$ >> {pids}; wait; sleep 300"
    timeout = timedelta(seconds=2 if end == "timeout" else 60)
    shell = app.builtin.shell(allowed=[SHELL], max_attempts=1, timeout=timeout)
    job = shell.enqueue(ShellCommand(argv=[SHELL, "-c", program]))

    def cancel() -> None:
        wait_until(lambda: len(started_in(pids)) == 3)
        with connect(url) as store:
            store.do(Cancel(job_ids=[job.id]))

    canceller = threading.Thread(target=cancel)
    if end == "cancel":
        canceller.start()
    worker = app.worker(processes=1, concurrency=concurrency, grace=timedelta(seconds=5), until_drained=True)
    try:
        assert worker.run() == ({"dead": 1} if end == "timeout" else {"cancelled": 1})
        started = started_in(pids)
        assert len(started) == 3
        for pid in started:
            wait_until(lambda pid=pid: not is_alive(pid))
    finally:
        app.close()
        if end == "cancel":
            canceller.join()
        for pid in started_in(pids):
            if is_alive(pid):
                os.kill(pid, signal.SIGKILL)


def started_in(file: Path) -> list[int]:
    return [int(pid) for pid in file.read_text().split()] if file.exists() else []


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"allowed": ["sh"]}, "allowed"),
        ({"allowed": SHELL}, "allowed"),
        ({"cwd": "relative"}, "cwd"),
        ({"max_output_bytes": -1}, "max_output_bytes"),
        ({"max_output_bytes": 1 << 30}, "max_output_bytes"),
    ],
)
def test_wrong_options_are_refused_where_they_are_written(app, options, field):
    with pytest.raises(InvalidInput) as refusal:
        app.builtin.shell(**options)
    assert refusal.value.field == field
