"""Where child processes come from: a process forked before any thread was started, which forks them on demand.

Forking a process that has threads may leave locks held for ever in the child. The nursery has none, whatever its parent
does later; and because it is the children's parent, a process id cannot come to mean another process before the nursery
has said that the child is gone.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import select
import signal
import socket
import sys
import warnings
from collections.abc import Callable
from typing import NamedTuple

import msgspec

ENDING = tuple(getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name))
CHILD_ENDS = 3  # a socket for work, one for interrupts, and a pipe for what the child says
PR_SET_PDEATHSIG = 1  # of Linux: the signal that a process gets when its parent ends

Serve = Callable[[socket.socket, socket.socket, int], None]  # what a child does with its ends


_libc = ctypes.CDLL(None) if sys.platform == "linux" else None


class _Order(msgspec.Struct, frozen=True):
    """A new child if ``pid`` is 0, else a signal for that one."""

    pid: int = 0
    signal: int = 0


class _News(msgspec.Struct, frozen=True):
    """A child that was born (its sockets come along), or one that is gone, with its wait status."""

    pid: int
    status: int | None = None


class Born(NamedTuple):
    """A child and our ends of what leads to it, and from it. A pipe is written to at half the price of a socket."""

    pid: int
    work: socket.socket
    interrupts: socket.socket
    said: int

    def close(self) -> None:
        """All of them."""
        self.work.close()
        self.interrupts.close()
        os.close(self.said)


class Gone(NamedTuple):
    """A child that has ended, and how: an exit code, or a signal as a negative number."""

    pid: int
    code: int


class Nursery:
    """The parent's side. ``fileno`` is readable when there is news."""

    def __init__(self, serve: Serve) -> None:
        self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with warnings.catch_warnings():
            # Python 3.12 and later warn if there are threads already. Those are the caller's; ours start after this.
            warnings.simplefilter("ignore", DeprecationWarning)
            _flush()  # or what is still in a buffer would be written by each child again
            self.pid = os.fork()
        if self.pid == 0:
            self._control.close()
            code = 1
            try:
                _nurse(theirs, serve)
                code = 0
            finally:
                os._exit(code)
        theirs.close()

    def fileno(self) -> int:
        """For a selector."""
        return self._control.fileno()

    def ask_for_child(self) -> None:
        """A ``Born`` will follow."""
        self._control.send(msgspec.msgpack.encode(_Order()))

    def signal(self, pid: int, number: int) -> None:
        """Send a signal to a child that may just have ended: then nothing happens."""
        with contextlib.suppress(BrokenPipeError):
            self._control.send(msgspec.msgpack.encode(_Order(pid, number)))

    def news(self) -> Born | Gone | None:
        """The next piece of news; None when the nursery itself is gone."""
        data, descriptors, _, _ = socket.recv_fds(self._control, 4096, CHILD_ENDS)
        if not data:
            return None
        news = msgspec.msgpack.decode(data, type=_News)
        if news.status is None:
            for descriptor in descriptors:
                os.set_blocking(descriptor, False)
            work, interrupts, said = descriptors
            return Born(news.pid, socket.socket(fileno=work), socket.socket(fileno=interrupts), said)
        return Gone(news.pid, os.waitstatus_to_exitcode(news.status))

    def close(self) -> None:
        """End it: it kills what children are left."""
        self._control.close()
        os.waitpid(self.pid, 0)


def _nurse(control: socket.socket, serve: Serve) -> None:
    """The nursery's own loop: orders from the parent, deaths of children. Ends when the parent does."""
    for number in ENDING:
        signal.signal(number, signal.SIG_IGN)  # a terminal sends these to everyone; only the parent decides
    awake, wake = socket.socketpair()
    wake.setblocking(False)  # noqa: FBT003 - so does socket call it
    awake.setblocking(False)  # noqa: FBT003
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(wake.fileno(), warn_on_full_buffer=False)
    children: set[int] = set()
    try:
        while _obey(control, (awake, wake), serve, children):
            pass
    finally:
        for pid in children:
            _signal(pid, signal.SIGKILL)
        for pid in children:
            os.waitpid(pid, 0)


def _obey(
    control: socket.socket,
    bell: tuple[socket.socket, socket.socket],
    serve: Serve,
    children: set[int],
) -> bool:
    """Wait for one thing and do it; False when the parent is gone."""
    awake, _ = bell
    ready, _, _ = select.select([control, awake], [], [])
    if awake in ready:
        with contextlib.suppress(BlockingIOError):
            awake.recv(4096)
        _bury(control, children)
    if control in ready:
        try:
            data = control.recv(4096)
        except ConnectionResetError:  # it died with news unread
            data = b""
        if not data:
            return False
        order = msgspec.msgpack.decode(data, type=_Order)
        if order.pid == 0:
            children.add(_bear(control, bell, serve))
        elif order.pid in children:
            _signal(order.pid, order.signal)
    return True


def _signal(pid: int, number: int) -> None:
    """To a child that was not buried yet. A kill takes along what it has started: each child leads its own group."""
    with contextlib.suppress(ProcessLookupError):
        if number == signal.SIGKILL:
            os.killpg(pid, number)
        else:
            os.kill(pid, number)


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(Exception):
            stream.flush()


def _bury(control: socket.socket, children: set[int]) -> None:
    for pid in tuple(children):
        gone, status = os.waitpid(pid, os.WNOHANG)
        if gone:
            children.discard(pid)
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                control.send(msgspec.msgpack.encode(_News(pid, status)))


def _bear(
    control: socket.socket,
    own: tuple[socket.socket, ...],
    serve: Serve,
) -> int:
    ours, theirs = zip(socket.socketpair(), socket.socketpair(), strict=True)
    said, says = os.pipe()
    nursery = os.getpid()
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            os.setpgid(0, 0)
            _die_with(nursery)
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            for number in ENDING:  # ignored here, but not by what a handler starts: an exec resets handlers
                signal.signal(number, lambda *_: None)
            for end in (control, *own, *ours):
                end.close()
            os.close(said)
            serve(*theirs, says)
            code = 0
        finally:
            _flush()
            os._exit(code)
    with contextlib.suppress(OSError):  # the child does the same: whoever comes first
        os.setpgid(pid, pid)
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):
        socket.send_fds(control, [msgspec.msgpack.encode(_News(pid))], [*(end.fileno() for end in ours), said])
    for end in (*ours, *theirs):
        end.close()
    os.close(said)
    os.close(says)
    return pid


def _die_with(nursery: int) -> None:
    """Somebody may kill the nursery, too: then nobody would ever end a handler that does not end by itself."""
    if _libc is not None:
        _libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != nursery:  # it was quicker
            os._exit(1)
