"""The handler ``shell``: run an allowed program, without a shell."""

from __future__ import annotations

import contextlib
import os
import selectors
import subprocess
import tempfile
import time
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from holdfast.errors import InvalidInput
from holdfast.handlers.messages import ShellCommand, ShellResult
from holdfast.model import bounds
from holdfast.settings import is_plain_path
from holdfast.worker.control import Unrecoverable
from holdfast.worker.outcome import exit_text
from holdfast.worker.processes.process_tree import kill_tree

DEFAULT_ENVIRONMENT = {"LANG": "C.UTF-8", "PATH": "/usr/local/bin:/usr/bin:/bin"}
DEFAULT_MAX_OUTPUT_BYTES = 64 << 10
MAX_OUTPUT_BYTES = 256 << 10  # of each stream: text of this size fits into a result
MAX_SHOWN_OUTPUT_CHARACTERS = 4 << 10  # of a failed program, in the error of the job
POLL_SECONDS = 0.05  # a thread can be interrupted only between two looks
READ_BYTES = 64 << 10


class ProgramFailed(Exception):
    """The program did not exit with 0. The message has the end of its output."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShellRules:
    """How programs are run."""

    cwd: str = "/"
    environment: Mapping[str, str] = field(default_factory=dict)  # added to the default one
    max_output_bytes: int = DEFAULT_MAX_OUTPUT_BYTES  # of stdout, and of stderr
    unrecoverable_exit_codes: Collection[int] = ()  # other exit codes but 0 are failed attempts

    def __post_init__(self) -> None:
        """Check the rules where they are written."""
        if not Path(self.cwd).is_absolute():
            raise InvalidInput("cwd", wanted="an absolute path", got=self.cwd)
        bounds.check_integer("max_output_bytes", self.max_output_bytes, most=MAX_OUTPUT_BYTES)


def run_program(command: ShellCommand, rules: ShellRules, allowed: Collection[str]) -> ShellResult:
    """Run the program and return its output. Raises ``Unrecoverable`` if it is not allowed, or can never run.

    The program has an environment of its own, without the variables of the worker, and is the leader of its session.
    When it has exited, or the attempt is interrupted, everything that it has started is killed.
    """
    executable = find_executable(command.argv, allowed)
    if any("\0" in argument for argument in command.argv):
        raise Unrecoverable("bad arguments: NUL characters")
    with _input_file(command.stdin) as stdin:
        try:
            process = subprocess.Popen(  # noqa: S603 - a list of arguments, and the program is allowed
                command.argv,
                executable=executable,
                cwd=rules.cwd,
                env={**DEFAULT_ENVIRONMENT, **rules.environment},
                stdin=stdin,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=True,
            )
        except (OSError, ValueError) as error:  # not executable, no such folder, too many arguments
            raise Unrecoverable(f"cannot start {executable}: {error}") from error
    try:
        stdout, stderr = _collect(process, rules.max_output_bytes)
    finally:
        kill_tree(process.pid)  # not reaped yet, so that its number and its group are still its own
        process.wait()
        for pipe in (process.stdout, process.stderr):
            assert pipe is not None
            pipe.close()
    result = ShellResult(exit_code=process.returncode, stdout=stdout, stderr=stderr)
    if result.exit_code == 0:
        return result
    message = _failure_message(result)
    if result.exit_code in rules.unrecoverable_exit_codes:
        raise Unrecoverable(message)
    raise ProgramFailed(message)


def find_executable(argv: list[str], allowed: Collection[str]) -> str:
    """Return the file to execute. Raises ``Unrecoverable`` unless an allowed path names it.

    Folders are compared after their links are resolved, so that /bin/echo and /usr/bin/echo are the same where /bin is
    a link. The name must be the same: a link of another name to an allowed program is another program, because programs
    such as busybox look at their name. A link that leaves its folder is refused; the file itself can be allowed.
    """
    if not argv:
        raise Unrecoverable("bad arguments: there is no program")
    command = argv[0]
    if not is_plain_path(command):
        raise Unrecoverable(f"not allowed: {command!r} is not the absolute path of a program")
    place = _place(command)
    if place not in {_place(each) for each in allowed}:
        raise Unrecoverable(f"not allowed: {command!r} is not in allowed_shell_commands")
    executable = Path(command).resolve()
    if executable.parent != place.parent:
        raise Unrecoverable(f"not allowed: {command!r} is a link to {str(executable)!r}; allow the file itself")
    if not executable.is_file() or not os.access(executable, os.X_OK):
        raise Unrecoverable(f"cannot start {command!r}: it is not a program")
    return str(executable)


def _place(path: str) -> Path:
    """Return the path with the links of its folder resolved."""
    return Path(path).parent.resolve() / Path(path).name


@contextmanager
def _input_file(text: str) -> Iterator[IO[bytes] | int]:
    """Return the stdin of the program: a file, so that nothing waits for a program that does not read."""
    if not text:
        yield subprocess.DEVNULL
        return
    with tempfile.TemporaryFile() as file:
        file.write(text.encode("utf-8", "surrogatepass"))
        file.seek(0)
        yield file


class _Output:
    """The beginning and the end of a stream. The middle of a long one is not kept."""

    def __init__(self, max_bytes: int) -> None:
        self._half = max_bytes // 2
        self._head = bytearray()
        self._tail = bytearray()
        self._total = 0

    def add(self, data: bytes) -> None:
        self._total += len(data)
        room = max(0, self._half - len(self._head))
        self._head += data[:room]
        self._tail += data[room:]
        if len(self._tail) > 2 * self._half:
            del self._tail[: len(self._tail) - self._half]

    def text(self) -> str:
        tail = self._tail[max(0, len(self._tail) - self._half) :]
        dropped = self._total - len(self._head) - len(tail)
        middle = f"\n… {dropped} bytes …\n" if dropped else ""
        return f"{self._head.decode(errors='replace')}{middle}{tail.decode(errors='replace')}"


def _collect(process: subprocess.Popen[bytes], max_bytes: int) -> tuple[str, str]:
    """Read the output until the program has exited. A process that it has left behind may keep the pipes open."""
    outputs = (_Output(max_bytes), _Output(max_bytes))
    with selectors.DefaultSelector() as selector:
        for pipe, output in zip((process.stdout, process.stderr), outputs, strict=True):
            assert pipe is not None
            os.set_blocking(pipe.fileno(), False)
            selector.register(pipe, selectors.EVENT_READ, output)
        pause = POLL_SECONDS / 32
        while True:
            has_exited = _has_exited(process.pid)
            has_read = _read_ready(selector, 0 if has_exited or not selector.get_map() else POLL_SECONDS)
            if has_exited and not has_read:
                return outputs[0].text(), outputs[1].text()
            if not selector.get_map() and not has_exited:  # it has closed its output, and goes on
                time.sleep(pause)
                pause = min(2 * pause, POLL_SECONDS)


def _read_ready(selector: selectors.BaseSelector, seconds: float) -> bool:
    """Read once from each pipe that has something; return whether anything was read."""
    has_read = False
    for key, _ in selector.select(seconds) if selector.get_map() else ():
        with contextlib.suppress(BlockingIOError):
            data = os.read(key.fd, READ_BYTES)
            if not data:
                selector.unregister(key.fileobj)
            key.data.add(data)
            has_read = has_read or bool(data)
    return has_read


def _has_exited(pid: int) -> bool:
    """Whether the program has exited. It is not reaped: until then no other process gets its number."""
    return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def _failure_message(result: ShellResult) -> str:
    shown = (result.stderr.strip() or result.stdout.strip())[-MAX_SHOWN_OUTPUT_CHARACTERS:]
    return f"{exit_text(result.exit_code)}: {shown}" if shown else exit_text(result.exit_code)
