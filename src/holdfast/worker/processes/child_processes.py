"""The child processes of a pool: started by the fork server, read and written without blocking, replaced on exit.

The fork server is watched, too. If it exits or does not answer, the spare one takes its place.
"""

from __future__ import annotations

import contextlib
import errno
import os
import selectors
import signal
import socket
import weakref
from collections.abc import Callable, Iterator, Sequence

from holdfast.clock import monotonic
from holdfast.errors import ChildrenUnavailable
from holdfast.log import events
from holdfast.log.failures import Repeats
from holdfast.log.records import log_event
from holdfast.worker.processes import protocol
from holdfast.worker.processes.child import INTERRUPT_SIGNAL
from holdfast.worker.processes.child_handle import ChildHandle
from holdfast.worker.processes.forkserver import (
    MAX_DESCRIPTORS,
    Answered,
    ChildExited,
    ChildStarted,
    ForkServer,
    NotStarted,
    children_unavailable,
    start_failure,
)
from holdfast.worker.processes.forkserver_process import ChildMain
from holdfast.worker.processes.protocol import ChildMessage, InterruptRun, ProtocolError, Stop, WorkerMessage
from holdfast.worker.processes.running import Run

PING_SECONDS = 1.0  # between two pings of the fork servers
MAX_UNANSWERED_PINGS = 5  # then a fork server is killed and replaced
OTHER_DESCRIPTORS = 32  # of a worker without children: fork servers, selectors, connections to the store
EXIT_SECONDS = 2.0  # for a process to end after SIGKILL; one that does not is reported
RESTART_DELAY_SECONDS = (
    1.0  # pause before replacing a child that exited within this time after its start and has run no job
)
NO_FORK_SERVER = (
    "no child process can be started: both fork servers have ended. A handler or the system has killed them, or they "
    "had too few file descriptors (ulimit -n) or too little memory: start the worker again"
)

OnMessage = Callable[[ChildHandle, ChildMessage, float], None]  # a message of a child, and when it was read
OnExit = Callable[[ChildHandle, int], None]  # a child that has exited, after its last message; and its exit code
HandleEvent = Callable[[], object]

_open_pools: weakref.WeakSet[ChildProcesses] = weakref.WeakSet()


class ChildProcesses:
    """All child processes. ``select``, ``pause`` and ``wake`` need no lock; the caller locks every other call."""

    def __init__(self, main: ChildMain, count: int, *, on_message: OnMessage, on_exit: OnExit) -> None:
        """Fork the fork server, and ask it for ``count`` children. Call this before starting threads.

        Raises ``ChildrenUnavailable`` if the system does not allow so many.
        """
        if 0 <= os.sysconf("SC_OPEN_MAX") < count * MAX_DESCRIPTORS + OTHER_DESCRIPTORS:  # -1: no limit
            raise children_unavailable(errno.EMFILE)
        self.fork_server = ForkServer.start(main, _close_inherited)
        self._spare: ForkServer | None = None
        self._requested = 0  # children that the fork server has been asked for and has not started
        self._has_started = False  # a child
        self._needs_spare = False  # the fork server could not start one, and is asked again
        self._start_failures = Repeats()
        self._pinged_at = monotonic()
        self._on_message = on_message
        self._on_exit = on_exit
        self._handles: dict[int, ChildHandle] = {}
        self._restarts: list[float] = []  # monotonic seconds at which further children are requested, sorted
        self._is_stopping = False
        self._awake, self._wake = socket.socketpair()
        self._wake.setblocking(False)  # noqa: FBT003 - the signature of socket
        self._selector = selectors.DefaultSelector()
        self._watch_fork_server(self.fork_server)
        self._selector.register(self._awake, selectors.EVENT_READ, lambda: self._awake.recv(protocol.READ_BYTES))
        self._wake_selector = selectors.DefaultSelector()  # for pauses in which no child is read
        self._wake_selector.register(self._awake, selectors.EVENT_READ)
        self.fork_server.request_spare()  # first: no child may run before there is a spare one
        for _ in range(count):
            self._request_child()
        _open_pools.add(self)

    def __iter__(self) -> Iterator[ChildHandle]:
        return iter(self._handles.values())

    def __len__(self) -> int:
        return len(self._handles)

    @property
    def starting(self) -> int:
        """How many children the fork server has been asked for and has not started."""
        return self._requested

    # Waiting for events -----------------------------------------------------------------------------------------

    def select(self, timeout: float) -> list[HandleEvent]:
        """Wait for events, at most ``timeout`` seconds. The caller calls the returned functions, under its lock."""
        return [key.data for key, _ in self._selector.select(timeout)]

    def pause(self, seconds: float) -> None:
        """Wait for ``wake`` only; the events of the children are read later."""
        self._wake_selector.select(seconds)

    def wake(self) -> None:
        """End a ``select`` or ``pause`` of another thread."""
        with contextlib.suppress(OSError):  # full: it wakes up anyway; closed: the thread has ended
            self._wake.send(b"!")

    # Starting and stopping --------------------------------------------------------------------------------------

    def next_restart(self) -> float | None:
        """When ``restart_due`` is to be called next, in monotonic seconds."""
        return self._restarts[0] if self._restarts else None

    def restart_due(self, now: float) -> None:
        """Request the children that replace those that have exited."""
        while self._restarts and self._restarts[0] <= now:
            self._restarts.pop(0)
            self._request_child()

    def _request_child(self) -> None:
        self._requested += 1
        self.fork_server.request_child()

    def ping_due(self, now: float) -> None:
        """Ping the fork servers if it is time, and kill those that did not answer several times.

        Pings are counted, and not their time: this process may have been stopped, too.
        """
        if now - self._pinged_at < PING_SECONDS:
            return
        self._pinged_at = now
        if self._needs_spare:
            self._needs_spare = False
            self.fork_server.request_spare()
        for server in (self.fork_server, self._spare):
            if server is not None:
                if server.unanswered >= MAX_UNANSWERED_PINGS:
                    self._kill_fork_server(server, "it does not answer")
                server.ping()

    def kill_fork_server(self) -> None:
        """Kill the fork server and with it all children: it has not killed them in time."""
        self._kill_fork_server(self.fork_server, "its children have not ended in time")

    def _kill_fork_server(self, server: ForkServer, reason: str) -> None:
        log_event(events.FORKSERVER_KILLED, pid=server.pid, reason=reason)
        server.kill()

    def stop(self) -> None:
        """Ask all children, present and future ones, to exit after their running jobs. None is replaced."""
        self._is_stopping = True
        for child in self:
            self.send(child, [Stop()])

    def kill(self, child: ChildHandle) -> None:
        """Kill a child and everything that it has started."""
        self.fork_server.kill_child(child.pid)

    def close(self) -> None:
        """Kill the children that are left, and close all connections."""
        _open_pools.discard(self)
        servers = [server for server in (self.fork_server, self._spare) if server is not None]
        self._selector.close()
        for server in servers:
            server.close()
        self.close_connections()

    def close_connections(self) -> None:
        """Close the descriptors of this process only."""
        self._selector.close()
        self._wake_selector.close()
        while self._handles:
            _, child = self._handles.popitem()
            child.close()
        self.fork_server.close_connection()
        if self._spare is not None:
            self._spare.close_connection()
        self._awake.close()
        self._wake.close()

    def _watch_fork_server(self, server: ForkServer) -> None:
        self._selector.register(server, selectors.EVENT_READ, lambda: self._read_fork_server(server))

    def _read_fork_server(self, server: ForkServer) -> None:
        match server.read_event():
            case ForkServer() as spare:
                self._spare = spare
                self._watch_fork_server(spare)
            case NotStarted(is_spare=is_spare, error=error):
                self._retry_start(error, is_spare=is_spare)
            case ChildStarted() as started:
                self._requested -= 1
                self._has_started = True
                child = ChildHandle(started, monotonic())
                self._handles[started.pid] = child
                self._selector.register(started.reports, selectors.EVENT_READ, lambda: self._read_child(child))
                if self._is_stopping:
                    self.send(child, [Stop()])
            case ChildExited(pid=pid, code=code):
                if pid in self._handles:  # else its descriptors did not arrive
                    self._remove(self._handles.pop(pid), code)
            case Answered():
                pass
            case None:
                self._replace_fork_server(server)

    def _retry_start(self, error: int, *, is_spare: bool) -> None:
        """Start a process again later. Raises ``ChildrenUnavailable`` if not even the first child can be started."""
        if self._is_stopping:
            return
        if not is_spare and not self._has_started:
            raise children_unavailable(error)
        if self._start_failures.add() is not None:
            log_event(events.CHILD_NOT_STARTED, reason=start_failure(error), children=len(self))
        if is_spare:
            self._needs_spare = True
        else:
            self._requested -= 1
            self._restarts.append(monotonic() + RESTART_DELAY_SECONDS)
            self._restarts.sort()

    def _replace_fork_server(self, server: ForkServer) -> None:
        """Use the spare fork server instead of one that has exited; remove the children of that one."""
        self._selector.unregister(server)
        server.close()
        log_event(events.FORKSERVER_EXITED, pid=server.pid, children=len(self))
        if server is self._spare:
            self._spare = None
            self.fork_server.request_spare()
            return
        for child in self:
            child.connections.process.kill()  # the kernel does the same, unless the handler has forbidden it
        deadline = monotonic() + EXIT_SECONDS
        while self._handles:
            _, child = self._handles.popitem()
            if not child.connections.process.wait(max(0.0, deadline - monotonic())):
                log_event(events.CHILD_NOT_KILLED, pid=child.pid)
            self._remove(child, -signal.SIGKILL)
        self._restarts += [monotonic()] * self._requested
        self._restarts.sort()
        self._requested = 0
        if self._is_stopping:
            return
        if self._spare is None:
            raise ChildrenUnavailable(NO_FORK_SERVER)
        self.fork_server, self._spare = self._spare, None
        self.fork_server.request_spare()

    def _remove(self, child: ChildHandle, code: int) -> None:
        with contextlib.suppress(KeyError):
            self._selector.unregister(child.connections.reports)
        self._read_messages(child)
        self._on_exit(child, code)
        if child.is_blocked:
            self._selector.unregister(child.connections.work)
        child.close()
        if not self._is_stopping:
            now = monotonic()
            failed_to_start = not child.finished and not child.runs and now - child.started_at < RESTART_DELAY_SECONDS
            self._restarts.append(now + (RESTART_DELAY_SECONDS if failed_to_start else 0.0))
            self._restarts.sort()

    # Messages ---------------------------------------------------------------------------------------------------

    def send(self, child: ChildHandle, messages: Sequence[WorkerMessage]) -> None:
        """Send messages on the work socket. What a busy child does not read now is sent later."""
        child.queue(messages)
        self._flush(child)

    def interrupt(self, child: ChildHandle, message: InterruptRun, *, by_signal: bool) -> None:
        """Send a message that the child reads at once, in the middle of a handler.

        Without process descriptors, the kernel signals the child with the message. A signal that another process sends
        later, as the fork server, could reach the next handler.
        """
        child.send_interrupt(message)
        if by_signal:
            child.connections.process.send_signal(INTERRUPT_SIGNAL)

    def _flush(self, child: ChildHandle) -> None:
        if child.pid not in self._handles:
            return  # it has exited
        is_blocked = not child.flush()
        if is_blocked and not child.is_blocked:
            self._selector.register(child.connections.work, selectors.EVENT_WRITE, lambda: self._flush(child))
        elif child.is_blocked and not is_blocked:
            self._selector.unregister(child.connections.work)
        child.is_blocked = is_blocked

    def _read_child(self, child: ChildHandle) -> None:
        if child.pid not in self._handles:
            return  # removed by an earlier event of the same select
        self._read_messages(child)
        if child.reports_closed:
            self._selector.unregister(child.connections.reports)  # the fork server will report its exit

    def _read_messages(self, child: ChildHandle) -> None:
        """Pass on the messages of a child. One that sends what it must not send is killed: no other is hurt."""
        try:
            for messages in child.read():
                now = monotonic()
                for message in messages:
                    self._on_message(child, message, now)
        except ProtocolError as error:
            self._reject(child, error)

    def withdraw(self, child: ChildHandle) -> list[Run]:
        """Take back the runs that the child has not begun and will not begin. The child need not be responsive."""
        try:
            return child.withdraw(monotonic())
        except ProtocolError as error:
            self._reject(child, error)
            return []

    def _reject(self, child: ChildHandle, error: ProtocolError) -> None:
        child.stop_reading(error)
        jobs = [run.reservation.job.id for run in child.runs.values() if run.began_at is not None]
        log_event(events.CHILD_UNREADABLE, pid=child.pid, reason=str(error), job_ids=jobs)
        self.kill(child)


def _close_inherited() -> None:
    """Close the connections of the other pools of this program: this process is a new fork server of one pool."""
    for pool in _open_pools:
        pool.close_connections()
