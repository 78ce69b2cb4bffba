"""The process of a fork server: forks children and spare fork servers, kills children, and reports their exits.

It runs the commands of the worker, one at a time, and has no threads. ``forkserver`` is the worker's side of it.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import select
import signal
import socket
import sys
from collections.abc import Callable, Sequence
from enum import StrEnum
from typing import NamedTuple, TypeVar, assert_never

import msgspec

from holdfast import linux
from holdfast.worker.processes.process_handle import open_process
from holdfast.worker.processes.process_tree import kill_group, kill_tree

TERMINATING_SIGNALS = tuple(getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name))
PR_SET_PDEATHSIG = 1  # of Linux: choose the signal that a process gets when its parent exits
READ_BYTES = 4096
FRAME_BYTES = 64  # of a command or an event: all have one length, because macOS has no sockets that keep messages apart


class ChildEnds(NamedTuple):
    """A child's ends of its connections to the worker."""

    work: socket.socket
    interrupts: socket.socket
    reports: int
    tickets: int


ChildMain = Callable[[ChildEnds], None]  # runs in each child


class Action(StrEnum):
    """What a command asks for, and what an event is about. ``KILL`` as an event: a child has exited."""

    FORK_CHILD = "child"
    FORK_SERVER = "server"
    KILL = "kill"
    PING = "ping"


class Command(msgspec.Struct, frozen=True, array_like=True):
    """Fork a child or another fork server, kill a child, or answer."""

    action: Action
    pid: int = 0


class Event(msgspec.Struct, frozen=True, array_like=True):
    """A process was forked (its descriptors are attached), a child has exited with this wait status, or a ping.

    With ``error``, the process could not be forked.
    """

    action: Action
    pid: int = 0
    status: int | None = None
    error: int | None = None  # an errno


Message = TypeVar("Message", Command, Event)


def pack(message: Command | Event) -> bytes:
    """Return a frame."""
    data = msgspec.msgpack.encode(message)
    return (bytes([len(data)]) + data).ljust(FRAME_BYTES, b"\0")


def unpack(frame: bytes, kind: type[Message]) -> Message:
    """Return the message in a frame."""
    return msgspec.msgpack.decode(frame[1 : 1 + frame[0]], type=kind)


def serve(control: socket.socket, child_main: ChildMain) -> None:
    """Run commands and report exits until the worker is gone."""
    for number in TERMINATING_SIGNALS:
        signal.signal(number, signal.SIG_IGN)  # a terminal sends these to all processes; the worker alone decides
    awake, wake = socket.socketpair()
    wake.setblocking(False)  # noqa: FBT003 - the signature of socket
    awake.setblocking(False)  # noqa: FBT003
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(wake.fileno(), warn_on_full_buffer=False)
    server = _Server(control, (awake, wake), child_main)
    try:
        while server.serve_once():
            pass
    finally:
        server.kill_children()
        signal.set_wakeup_fd(-1)
        awake.close()
        wake.close()


class _Server:
    def __init__(
        self, control: socket.socket, wakeup: tuple[socket.socket, socket.socket], child_main: ChildMain
    ) -> None:
        self._control = control
        self._wakeup = wakeup  # the first is readable when a process has exited
        self._child_main = child_main
        self._children: set[int] = set()
        self._spares: set[int] = set()  # fork servers that this one has forked

    def serve_once(self) -> bool:
        """Wait for a command or an exit, and handle it; False when the worker is gone."""
        awake, _ = self._wakeup
        ready, _, _ = select.select([self._control, awake], [], [])
        if awake in ready:
            with contextlib.suppress(BlockingIOError):
                awake.recv(READ_BYTES)
            self._reap()
        if self._control in ready:
            try:
                data = self._control.recv(FRAME_BYTES, socket.MSG_WAITALL)
            except ConnectionResetError:  # the worker died with events unread
                data = b""
            if not data:
                return False
            self._run(unpack(data, Command))
        return True

    def _run(self, command: Command) -> None:
        match command.action:
            case Action.FORK_CHILD | Action.FORK_SERVER:
                try:
                    with contextlib.ExitStack() as connections:  # of the new process: closed here, also after an error
                        if command.action is Action.FORK_CHILD:
                            self._fork_child(connections)
                        else:
                            self._fork_spare(connections)
                except OSError as error:
                    self._send(Event(command.action, error=error.errno))
            case Action.KILL:
                if command.pid in self._children:
                    kill_tree(command.pid)
            case Action.PING:
                self._send(Event(Action.PING))
            case _:
                assert_never(command.action)

    def _send(self, event: Event, descriptors: Sequence[int] = ()) -> None:
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # the worker is gone: the next read tells
            socket.send_fds(self._control, [pack(event)], descriptors)

    def _reap(self) -> None:
        for pid in tuple(self._children):
            status = _reap_child(pid)
            if status is not None:
                self._children.discard(pid)
                self._send(Event(Action.KILL, pid, status))
        for pid in tuple(self._spares):
            if os.waitpid(pid, os.WNOHANG)[0]:
                self._spares.discard(pid)

    def kill_children(self) -> None:
        """Kill and reap the children that are left."""
        for pid in self._children:
            kill_tree(pid)
        for pid in self._children:
            os.waitpid(pid, 0)

    def _fork_child(self, connections: contextlib.ExitStack) -> None:
        worker_ends, child_ends = zip(_connect(connections), _connect(connections), strict=True)
        reports_read, reports_write = _make_pipe(connections)
        tickets_read, tickets_write = _make_pipe(connections)
        for descriptor in (tickets_read, tickets_write):
            os.set_blocking(descriptor, False)
        fork_server = os.getpid()
        pid = os.fork()
        if pid == 0:
            code = 1
            try:
                os.setpgid(0, 0)
                _exit_with_parent(fork_server)
                signal.set_wakeup_fd(-1)
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                for (
                    number
                ) in TERMINATING_SIGNALS:  # ignored by a handler function, which an exec resets, unlike SIG_IGN
                    signal.signal(number, lambda *_: None)
                for end in (self._control, *self._wakeup, *worker_ends):
                    end.close()
                os.close(reports_read)
                os.close(tickets_write)
                self._child_main(ChildEnds(*child_ends, reports_write, tickets_read))
                code = 0
            finally:
                flush_output()
                os._exit(code)
        with contextlib.suppress(OSError):  # the child does the same: one of the two comes first
            os.setpgid(pid, pid)
        self._children.add(pid)
        pipe_ends = [reports_read, tickets_read, tickets_write]
        self._report_fork(Action.FORK_CHILD, pid, [*(end.fileno() for end in worker_ends), *pipe_ends])

    def _fork_spare(self, connections: contextlib.ExitStack) -> None:
        """Fork another fork server. It outlives this one, and ends with the worker."""
        worker_end, server_end = _connect(connections)
        pid = os.fork()
        if pid == 0:
            code = 1
            try:
                signal.set_wakeup_fd(-1)
                for end in (self._control, *self._wakeup, worker_end):
                    end.close()
                serve(server_end, self._child_main)
                code = 0
            finally:
                os._exit(code)
        self._spares.add(pid)
        self._report_fork(Action.FORK_SERVER, pid, [worker_end.fileno()])

    def _report_fork(self, action: Action, pid: int, descriptors: list[int]) -> None:
        """Send the worker's ends of the connections, and a process descriptor: only here no one else can reap it."""
        process = open_process(pid)
        self._send(Event(action, pid), descriptors if process is None else [*descriptors, process])
        if process is not None:
            os.close(process)


def _connect(connections: contextlib.ExitStack) -> tuple[socket.socket, socket.socket]:
    one, other = socket.socketpair()
    return connections.enter_context(one), connections.enter_context(other)


def _make_pipe(connections: contextlib.ExitStack) -> tuple[int, int]:
    ends = os.pipe()
    for end in ends:
        connections.callback(os.close, end)
    return ends


def flush_output() -> None:
    """Write the buffered text: else a forked process would write it again, or an exiting one would lose it."""
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(Exception):
            stream.flush()


def _reap_child(pid: int) -> int | None:
    """Kill the process group of a child that has exited, and return its wait status; None if it has not exited."""
    if linux.IS_LINUX:
        if not os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT):
            return None
        kill_group(pid)  # before it is reaped: until then no other group can have this number
        return os.waitpid(pid, 0)[1]
    reaped, status = os.waitpid(pid, os.WNOHANG)
    if not reaped:
        return None
    kill_group(pid)
    return status


def _exit_with_parent(fork_server: int) -> None:
    """Let the kernel kill this child if the fork server is killed: nobody else could end a handler that hangs."""
    if linux.IS_LINUX:
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != fork_server:  # it exited before the call above
            os._exit(1)
