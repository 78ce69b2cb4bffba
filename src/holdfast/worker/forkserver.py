"""The fork server: a process that is forked before the worker starts a thread, and forks the child processes.

A process that has threads cannot be forked safely: a lock that another thread holds stays locked in the child. The fork
server never has threads. As the parent of all children it also reaps them, so a process
id cannot come to mean another process before the fork server has reported that the child exited.

A child has three descriptors of Holdfast: its own ends of its connections. A handler that writes to every open
descriptor can then harm its own attempt only. Each owner of descriptors keeps them out of the children itself:

- this module closes those of the fork server, in each child;
- ``close_inherited`` closes those of the other pools of the program, in the fork server;
- a driver lets no connection pass a fork. The SQLite driver closes its idle ones before the fork: to close them behind
  the back of the SQLite library, in the child, would break the locks of the connections that the child opens itself.

Descriptors that the program opened (a log file, a lock) stay open: a handler may need them, and a library whose
descriptor was closed without its knowledge would later write into whatever gets the same number.
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

TERMINATING_SIGNALS = tuple(getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name))
CHILD_DESCRIPTORS = 3  # a socket for work, a socket for interrupts, a pipe for reports
PR_SET_PDEATHSIG = 1  # of Linux: choose the signal that a process gets when its parent exits
READ_BYTES = 4096

ChildMain = Callable[[socket.socket, socket.socket, int], None]  # runs in each child: work, interrupts, reports
CloseInherited = Callable[[], None]  # runs in the fork server: closes what it has inherited and does not need


_libc = ctypes.CDLL(None) if sys.platform == "linux" else None


class _Command(msgspec.Struct, frozen=True):
    """Fork a child if ``pid`` is 0, else send a signal to that child."""

    pid: int = 0
    signal: int = 0


class _Event(msgspec.Struct, frozen=True):
    """A child was started (its descriptors are attached), or has exited with this wait status."""

    pid: int
    status: int | None = None


class ChildStarted(NamedTuple):
    """A new child, and the worker's ends of the connections to it.

    Reports come through a pipe: a write to a pipe costs half as much as a write to a socket.
    """

    pid: int
    work: socket.socket
    interrupts: socket.socket
    reports: int

    def close(self) -> None:
        """Close the worker's ends."""
        self.work.close()
        self.interrupts.close()
        os.close(self.reports)


class ChildExited(NamedTuple):
    """A child has exited: ``code`` is an exit code, or a signal as a negative number."""

    pid: int
    code: int


class ForkServer:
    """The worker's side of the fork server. ``fileno`` is readable when there is an event."""

    def __init__(self, child_main: ChildMain, close_inherited: CloseInherited) -> None:
        """Fork the fork server. Call this before starting threads."""
        self._control, server_end = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with warnings.catch_warnings():
            # Python 3.12 and later warn about threads that exist now. Those are the caller's; ours start later.
            warnings.simplefilter("ignore", DeprecationWarning)
            _flush_output()  # else every child would write the buffered text again
            self.pid = os.fork()
        if self.pid == 0:
            self._control.close()
            code = 1
            try:
                close_inherited()
                _serve(server_end, child_main)
                code = 0
            finally:
                os._exit(code)
        server_end.close()

    def fileno(self) -> int:
        """The file descriptor for a selector."""
        return self._control.fileno()

    def request_child(self) -> None:
        """Ask for a new child. ``read_event`` returns ``ChildStarted`` later."""
        self._control.send(msgspec.msgpack.encode(_Command()))

    def signal(self, pid: int, number: int) -> None:
        """Send a signal to a child. Nothing happens if the child has exited."""
        with contextlib.suppress(BrokenPipeError):
            self._control.send(msgspec.msgpack.encode(_Command(pid, number)))

    def read_event(self) -> ChildStarted | ChildExited | None:
        """Return the next event; None if the fork server itself has exited."""
        data, descriptors, _, _ = socket.recv_fds(self._control, READ_BYTES, CHILD_DESCRIPTORS)
        if not data:
            return None
        event = msgspec.msgpack.decode(data, type=_Event)
        if event.status is None:
            for descriptor in descriptors:
                os.set_blocking(descriptor, False)
            work, interrupts, reports = descriptors
            return ChildStarted(event.pid, socket.socket(fileno=work), socket.socket(fileno=interrupts), reports)
        return ChildExited(event.pid, os.waitstatus_to_exitcode(event.status))

    def close(self) -> None:
        """End the fork server; it kills the children that are left."""
        self.close_connection()
        os.waitpid(self.pid, 0)

    def close_connection(self) -> None:
        """Close the descriptor of this process only."""
        self._control.close()


# In the fork server's process -------------------------------------------------------------------------------


def _serve(control: socket.socket, child_main: ChildMain) -> None:
    """Run commands and report exits until the worker is gone."""
    for number in TERMINATING_SIGNALS:
        signal.signal(number, signal.SIG_IGN)  # a terminal sends these to all processes; the worker alone decides
    awake, wake = socket.socketpair()
    wake.setblocking(False)  # noqa: FBT003 - the signature of socket
    awake.setblocking(False)  # noqa: FBT003
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(wake.fileno(), warn_on_full_buffer=False)
    children: set[int] = set()
    try:
        while _serve_once(control, (awake, wake), child_main, children):
            pass
    finally:
        for pid in children:
            _signal_child(pid, signal.SIGKILL)
        for pid in children:
            os.waitpid(pid, 0)
        signal.set_wakeup_fd(-1)
        awake.close()
        wake.close()


def _serve_once(
    control: socket.socket,
    wakeup: tuple[socket.socket, socket.socket],
    child_main: ChildMain,
    children: set[int],
) -> bool:
    """Wait for a command or an exit, and handle it; False when the worker is gone."""
    awake, _ = wakeup
    ready, _, _ = select.select([control, awake], [], [])
    if awake in ready:
        with contextlib.suppress(BlockingIOError):
            awake.recv(READ_BYTES)
        _reap_children(control, children)
    if control in ready:
        try:
            data = control.recv(READ_BYTES)
        except ConnectionResetError:  # the worker died with events unread
            data = b""
        if not data:
            return False
        command = msgspec.msgpack.decode(data, type=_Command)
        if command.pid == 0:
            children.add(_fork_child(control, wakeup, child_main))
        elif command.pid in children:
            _signal_child(command.pid, command.signal)
    return True


def _signal_child(pid: int, number: int) -> None:
    """Signal a child that was not reaped yet. SIGKILL goes to its process group: to everything that it started."""
    with contextlib.suppress(ProcessLookupError):
        if number == signal.SIGKILL:
            os.killpg(pid, number)
        else:
            os.kill(pid, number)


def _flush_output() -> None:
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(Exception):
            stream.flush()


def _reap_children(control: socket.socket, children: set[int]) -> None:
    for pid in tuple(children):
        exited, status = os.waitpid(pid, os.WNOHANG)
        if exited:
            children.discard(pid)
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                control.send(msgspec.msgpack.encode(_Event(pid, status)))


def _fork_child(
    control: socket.socket,
    wakeup: tuple[socket.socket, ...],
    child_main: ChildMain,
) -> int:
    worker_ends, child_ends = zip(socket.socketpair(), socket.socketpair(), strict=True)
    reports_read, reports_write = os.pipe()
    fork_server = os.getpid()
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            os.setpgid(0, 0)
            _exit_with_parent(fork_server)
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            for number in TERMINATING_SIGNALS:  # ignored by a handler function, which an exec resets, unlike SIG_IGN
                signal.signal(number, lambda *_: None)
            for end in (control, *wakeup, *worker_ends):
                end.close()
            os.close(reports_read)
            child_main(*child_ends, reports_write)
            code = 0
        finally:
            _flush_output()
            os._exit(code)
    with contextlib.suppress(OSError):  # the child does the same: one of the two comes first
        os.setpgid(pid, pid)
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):
        descriptors = [*(end.fileno() for end in worker_ends), reports_read]
        socket.send_fds(control, [msgspec.msgpack.encode(_Event(pid))], descriptors)
    for end in (*worker_ends, *child_ends):
        end.close()
    os.close(reports_read)
    os.close(reports_write)
    return pid


def _exit_with_parent(fork_server: int) -> None:
    """Let the kernel kill this child if the fork server is killed: nobody else could end a handler that hangs."""
    if _libc is not None:
        _libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != fork_server:  # it exited before the call above
            os._exit(1)
