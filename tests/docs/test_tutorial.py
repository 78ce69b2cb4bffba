"""A reader follows the tutorial in an empty folder with a new environment: every command, and what it prints."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import sysconfig
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "tutorials" / "handlers.md"
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
ID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
AGE = re.compile(r"\d+(ms|s|m)")
TIMEOUT_SECONDS = 300
INSTALL = ["python3 -m venv .venv", ". .venv/bin/activate", "pip install 'holdfast[cli]'"]


@dataclass(frozen=True, kw_only=True)
class Command:
    """A command of the page, with the output that the page shows. A line `...` stands for any lines."""

    text: str
    output: list[str]


def commands(block: str) -> Iterator[Command]:
    for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
        text, *output = part.splitlines()
        yield Command(text=text, output=output)


def matches(shown: list[str], printed: str) -> bool:
    """Compare word by word: columns may be wider or narrower than on the page, and ids and ages are others."""
    return (
        re.fullmatch("".join(r"(?:.*\n)*" if line == "..." else line_pattern(line) for line in shown), printed)
        is not None
    )


def line_pattern(line: str) -> str:
    words = [r"\S+" if ID.fullmatch(word) or AGE.fullmatch(word) else re.escape(word) for word in line.split()]
    return r"[ \t]*" + r"[ \t]+".join(words) + r"[ \t]*\n"


@pytest.fixture
def shell(tmp_path):
    """A shell in an empty folder, in which Holdfast and its dependencies are installed in a new environment."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", ".venv"], cwd=tmp_path, check=True)
    [packages] = (tmp_path / ".venv").glob("lib/*/site-packages")
    pip = [sys.executable, "-m", "pip", "--python", ".venv/bin/python", "--disable-pip-version-check", "install"]
    offline = ["--quiet", "--no-deps", "--no-index", "--no-build-isolation"]
    (packages / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n", encoding="utf-8")
    subprocess.run([*pip, *offline, f"{ROOT}[cli]"], cwd=tmp_path, check=True, timeout=TIMEOUT_SECONDS)
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("HOLDFAST", "PYTHON"))}
    environment["PATH"] = f"{tmp_path}/.venv/bin:{environment['PATH']}"
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with (
        (tmp_path / "stderr.txt").open("w") as logs,
        subprocess.Popen(["bash"], cwd=tmp_path, env=environment, stderr=logs, process_group=0, **pipes) as process,
    ):
        watchdog = threading.Timer(TIMEOUT_SECONDS, os.killpg, (process.pid, signal.SIGKILL))  # also its commands
        watchdog.start()
        yield process
        watchdog.cancel()
        os.killpg(process.pid, signal.SIGKILL)


def run(shell: subprocess.Popen[str], command: str) -> str:
    """Run a command in the shell; return what it printed. Fails if its exit code is not 0."""
    end = "end of the command:"
    shell.stdin.write(f"{command} </dev/null\necho '{end}' $?\n")
    shell.stdin.flush()
    lines: list[str] = []
    for line in shell.stdout:
        before, found, code = line.partition(end)
        if found:
            assert code.strip() == "0", f"{command}: exit code {code}{''.join(lines)}"
            return "".join([*lines, before])
        lines.append(line)
    raise AssertionError(f"the shell ended: {command}")


def test_a_reader_can_follow_the_tutorial(shell, tmp_path):
    blocks = BLOCK.findall(PAGE.read_text(encoding="utf-8"))
    install, *rest = blocks
    assert [command.text for command in commands(install[1])] == INSTALL  # the fixture has done it, offline
    replaced = None
    for kind, body in rest:
        if kind == "console":
            for command in commands(body):
                printed = run(shell, command.text)
                shown = "\n".join(command.output)
                assert matches(command.output, printed), f"$ {command.text}\n{shown}\n--- printed:\n{printed}"
        elif named := re.match(r"# ([\w.]+)\n", body):
            (tmp_path / named[1]).write_text(body, encoding="utf-8")
        elif replaced is None:
            replaced = body
        else:
            tasks = (tmp_path / "tasks.py").read_text(encoding="utf-8")
            assert tasks.count(replaced) == 1
            (tmp_path / "tasks.py").write_text(tasks.replace(replaced, body), encoding="utf-8")
