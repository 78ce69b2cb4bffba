"""The fork server: a process that is forked before the worker starts a thread, and forks the child processes.

A process that has threads cannot be forked safely: a lock that another thread holds stays locked in the child. The fork
server never has threads. As the parent of all children it also reaps them, so a process id cannot come to mean another
process before the fork server has reported that the child exited.

A worker has two fork servers: one in use, and a spare one. A handler can kill or stop the fork server. The worker has
threads by then and must not fork, so it uses the spare one, which forks the next spare one. A new interpreter could
take the place of the spare process, but then handlers would have to be importable by name. The children of a fork
server that was killed are killed by the kernel.

A child has four descriptors of Holdfast: its own ends of its connections. A handler that writes to every open
descriptor can then harm its own attempt only. Each owner of descriptors keeps them out of the children itself:

- ``forkserver_process`` closes those of the fork server, in each child;
- ``close_inherited`` closes those of the other pools of the program, in the fork server;
- a driver lets no connection pass a fork. The SQLite driver closes its idle ones before the fork: to close them behind
  the back of the SQLite library, in the child, would break the locks of the connections that the child opens itself.

Descriptors that the program opened (a log file, a lock) stay open: a handler may need them, and a library whose
descriptor was closed without its knowledge would later write into whatever gets the same number.
"""

from __future__ import annotations

import contextlib
import errno
import os
import socket
import warnings
from collections.abc import Callable
from typing import NamedTuple, assert_never

from holdfast.errors import ChildrenUnavailable
from holdfast.log import events
from holdfast.log.records import log_event
from holdfast.worker.processes.forkserver_process import (
    FRAME_BYTES,
    Action,
    ChildMain,
    Command,
    Event,
    flush_output,
    pack,
    serve,
    unpack,
)
from holdfast.worker.processes.process_handle import ProcessHandle, open_process
from holdfast.worker.processes.tickets import IssuedTickets

MAX_DESCRIPTORS = 6  # of a child: sockets for work and interrupts, a pipe for reports, two ends of tickets, itself
WANTED_DESCRIPTORS = {Action.FORK_CHILD: 5, Action.FORK_SERVER: 1}  # without the process itself
CLOSE_SECONDS = 2.0  # for a fork server to end itself, before it is killed

CloseInherited = Callable[[], None]  # runs in the fork server: closes what it has inherited and does not need


class ChildStarted(NamedTuple):
    """A new child, and the worker's ends of the connections to it.

    Reports come through a pipe: a write to a pipe costs half as much as a write to a socket.
    """

    pid: int
    work: socket.socket
    interrupts: socket.socket
    reports: int
    tickets: IssuedTickets
    process: ProcessHandle

    def close(self) -> None:
        """Close the worker's ends."""
        self.process.close()
        self.work.close()
        self.interrupts.close()
        os.close(self.reports)
        self.tickets.close()


class ChildExited(NamedTuple):
    """A child has exited: ``code`` is an exit code, or a signal as a negative number."""

    pid: int
    code: int


class NotStarted(NamedTuple):
    """The fork server could not start a process (``is_spare``: a fork server), or its descriptors did not arrive."""

    is_spare: bool
    error: int  # an errno


class Answered(NamedTuple):
    """The fork server has answered a ping."""


class ForkServer:
    """The worker's side of a fork server. ``fileno`` is readable when there is an event."""

    def __init__(self, control: socket.socket, process: ProcessHandle) -> None:
        control.setblocking(False)  # noqa: FBT003 - the signature of socket
        self._control = control
        self._process = process
        self.unanswered = 0  # pings since the last answer

    @classmethod
    def start(cls, child_main: ChildMain, close_inherited: CloseInherited) -> ForkServer:
        """Fork a fork server. Call this before starting threads. Raises ``ChildrenUnavailable``."""
        try:
            return cls._start(child_main, close_inherited)
        except OSError as error:
            raise children_unavailable(error.errno or 0) from error

    @classmethod
    def _start(cls, child_main: ChildMain, close_inherited: CloseInherited) -> ForkServer:
        control, server_end = socket.socketpair()
        with warnings.catch_warnings():
            # Python 3.12 and later warn about threads that exist now. Those are the caller's; ours start later.
            warnings.simplefilter("ignore", DeprecationWarning)
            flush_output()  # else every child would write the buffered text again
            pid = os.fork()
        if pid == 0:
            control.close()
            code = 1
            try:
                close_inherited()
                serve(server_end, child_main)
                code = 0
            finally:
                os._exit(code)
        server_end.close()
        return cls(control, ProcessHandle(pid, open_process(pid)))

    @property
    def pid(self) -> int:
        """The process id."""
        return self._process.pid

    def fileno(self) -> int:
        """The file descriptor for a selector."""
        return self._control.fileno()

    def request_child(self) -> None:
        """Request a new child. ``read_event`` returns ``ChildStarted`` later."""
        self._send(Command(Action.FORK_CHILD))

    def request_spare(self) -> None:
        """Ask for another fork server. ``read_event`` returns a ``ForkServer`` later."""
        self._send(Command(Action.FORK_SERVER))

    def ping(self) -> None:
        """Ask for an answer. ``read_event`` returns ``Answered`` later, and ``unanswered`` is 0 again."""
        self.unanswered += 1
        self._send(Command(Action.PING))

    def kill_child(self, pid: int) -> None:
        """Kill a child and everything that it has started. Nothing happens if the child has exited."""
        self._send(Command(Action.KILL, pid))

    def _send(self, command: Command) -> None:
        """Send a command. It is lost if the fork server has exited or reads nothing: then the spare one is used."""
        with contextlib.suppress(BlockingIOError, BrokenPipeError, ConnectionResetError):
            self._control.send(pack(command))

    def read_event(self) -> ChildStarted | ChildExited | ForkServer | NotStarted | Answered | None:
        """Return the next event; None if the fork server itself has exited."""
        try:
            data, descriptors, _, _ = socket.recv_fds(self._control, FRAME_BYTES, MAX_DESCRIPTORS)
        except ConnectionResetError:  # it died with commands unread
            return None
        if not data:
            return None
        event = unpack(data, Event)
        wanted = WANTED_DESCRIPTORS.get(event.action, 0)
        if event.error is not None or len(descriptors) < wanted:  # the kernel drops what does not fit: EMFILE
            for descriptor in descriptors:  # the new process reads the end of its connections, and exits
                os.close(descriptor)
            return NotStarted(event.action is Action.FORK_SERVER, event.error or errno.EMFILE)
        match event.action:
            case Action.FORK_CHILD:
                work, interrupts, reports, tickets_read, tickets_write, *process = descriptors
                for descriptor in (work, interrupts, reports):
                    os.set_blocking(descriptor, False)
                handle = ProcessHandle(event.pid, process[0] if process else None)
                work_socket, interrupt_socket = socket.socket(fileno=work), socket.socket(fileno=interrupts)
                tickets = IssuedTickets(tickets_read, tickets_write)
                return ChildStarted(event.pid, work_socket, interrupt_socket, reports, tickets, handle)
            case Action.FORK_SERVER:
                control, *process = descriptors
                handle = ProcessHandle(event.pid, process[0] if process else None)
                return ForkServer(socket.socket(fileno=control), handle)
            case Action.KILL:
                return ChildExited(event.pid, os.waitstatus_to_exitcode(event.status or 0))
            case Action.PING:
                self.unanswered = 0
                return Answered()
            case _:
                assert_never(event.action)

    def kill(self) -> None:
        """Kill the fork server, also if it is stopped. The kernel kills its children."""
        self._process.kill()

    def close(self) -> None:
        """End the fork server; it kills the children that are left. If it does not end in time, it is killed."""
        self._control.close()
        if not self._process.wait(CLOSE_SECONDS):
            log_event(events.FORKSERVER_KILLED, pid=self.pid, reason="it did not end")
            self._process.kill()
            self._process.wait(CLOSE_SECONDS)
        self._process.close()

    def close_connection(self) -> None:
        """Close the descriptors of this process only."""
        self._control.close()
        self._process.close()


def start_failure(error: int) -> str:
    """Return why a process could not be started, and what to change, for an errno."""
    match error:
        case errno.EMFILE | errno.ENFILE:
            what = f"raise the limit of open files ({os.sysconf('SC_OPEN_MAX')} now, ulimit -n) or use fewer processes"
        case errno.EAGAIN:
            what = f"raise the limit of processes ({os.sysconf('SC_CHILD_MAX')} now, ulimit -u) or use fewer processes"
        case _:
            what = "use fewer processes, or a larger machine"
    return f"{os.strerror(error)}: {what}"


def children_unavailable(error: int) -> ChildrenUnavailable:
    """Return the exception for an errno."""
    return ChildrenUnavailable(f"no child process can be started: {start_failure(error)}")
