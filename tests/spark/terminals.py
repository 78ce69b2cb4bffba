"""A program in the foreground of a terminal: Ctrl-C goes to every process of the program's group, as for a user."""

import contextlib
import fcntl
import os
import pty
import subprocess
import sys
import termios
import threading
import time

from tests.interrupts import default_interrupt
from tests.spark.clusters import environment

CTRL_C = b"\x03"
TIMEOUT_SECONDS = 200  # for one step, which takes ten seconds on an idle machine


class Terminal:
    """A Python process that owns a terminal. The process is killed at the end of the ``with`` block."""

    def __init__(self, *command, folder, **variables):
        self._screen, program_end = pty.openpty()
        self._process = subprocess.Popen(
            [sys.executable, *map(str, command)],
            cwd=folder,
            env=environment(TERM="dumb", **variables),
            stdin=program_end,
            stdout=program_end,
            stderr=program_end,
            start_new_session=True,
            preexec_fn=_take_terminal,  # noqa: PLW1509 - calls functions of the C library only
        )
        os.close(program_end)
        self._printed = b""
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait()
        self._reader.join(10)
        os.close(self._screen)

    def press_ctrl_c(self):
        os.write(self._screen, CTRL_C)

    def signal(self, number):
        """Send a signal to the program only."""
        self._process.send_signal(number)

    def signal_group(self, number):
        """Send a signal to every process of the program's group, as ``timeout`` does."""
        os.killpg(self._process.pid, number)

    def until(self, condition):
        """Wait until a condition is true while the program runs, and return its value."""
        deadline = time.monotonic() + TIMEOUT_SECONDS
        while not (value := condition()):
            assert self._process.poll() is None, self.text
            assert time.monotonic() < deadline, self.text
            time.sleep(0.05)
        return value

    def exit_code(self):
        """Return the exit code, after everything that the program printed has been read."""
        code = self._process.wait(TIMEOUT_SECONDS)
        self._reader.join(TIMEOUT_SECONDS)
        return code

    @property
    def text(self):
        """What the program has printed so far."""
        return self._printed.decode(errors="replace").replace("\r\n", "\n")

    def _read(self):
        with contextlib.suppress(OSError):  # the terminal has no process any more
            while data := os.read(self._screen, 65536):
                self._printed += data


def _take_terminal():
    default_interrupt()
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)
