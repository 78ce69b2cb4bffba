"""The child processes of a pool: started by the fork server, read and written without blocking, replaced on exit."""

from __future__ import annotations

import contextlib
import logging
import selectors
import signal
import socket
from collections.abc import Callable, Iterator, Sequence

from holdfast.clock import monotonic
from holdfast.worker import protocol
from holdfast.worker.child import INTERRUPT_SIGNAL
from holdfast.worker.child_handle import ChildHandle
from holdfast.worker.forkserver import ChildExited, ChildMain, ChildStarted, ForkServer
from holdfast.worker.protocol import ChildMessage, ProtocolError, Stop, WorkerMessage

log = logging.getLogger("holdfast.worker")

RESTART_DELAY_SECONDS = 1.0  # before a child is replaced that exited younger than this, without having run a job

OnMessage = Callable[[ChildHandle, ChildMessage, float], None]  # a message of a child, and when it was read
OnExit = Callable[[ChildHandle, int], None]  # a child that has exited, after its last message; and its exit code
HandleEvent = Callable[[], object]


class ChildProcesses:
    """All child processes. ``select``, ``pause`` and ``wake`` need no lock; the caller locks every other call."""

    def __init__(self, main: ChildMain, count: int, *, on_message: OnMessage, on_exit: OnExit) -> None:
        """Fork the fork server, and ask it for ``count`` children. Call this before starting threads."""
        self.fork_server = ForkServer(main)
        self._on_message = on_message
        self._on_exit = on_exit
        self._handles: dict[int, ChildHandle] = {}
        self._restarts: list[float] = []  # monotonic seconds at which further children are requested, sorted
        self._is_stopping = False
        self._awake, self._wake = socket.socketpair()
        self._wake.setblocking(False)  # noqa: FBT003 - the signature of socket
        self._selector = selectors.DefaultSelector()
        self._selector.register(self.fork_server, selectors.EVENT_READ, self._read_fork_server)
        self._selector.register(self._awake, selectors.EVENT_READ, lambda: self._awake.recv(protocol.READ_BYTES))
        self._wake_selector = selectors.DefaultSelector()  # for pauses in which no child is read
        self._wake_selector.register(self._awake, selectors.EVENT_READ)
        for _ in range(count):
            self.fork_server.request_child()

    def __iter__(self) -> Iterator[ChildHandle]:
        return iter(self._handles.values())

    def __len__(self) -> int:
        return len(self._handles)

    # Waiting for events -----------------------------------------------------------------------------------------

    def select(self, timeout: float) -> list[HandleEvent]:
        """Wait for events, at most ``timeout`` seconds. The caller calls the returned functions, under its lock."""
        return [key.data for key, _ in self._selector.select(timeout)]

    def pause(self, seconds: float) -> None:
        """Wait for ``wake`` only, and let the events of the children pile up."""
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
            self.fork_server.request_child()

    def stop(self) -> None:
        """Ask all children, present and future ones, to exit after their running jobs. None is replaced."""
        self._is_stopping = True
        for child in self:
            self.send(child, [Stop()])

    def kill(self, child: ChildHandle) -> None:
        """Kill a child and everything that it has started."""
        self.fork_server.signal(child.pid, signal.SIGKILL)

    def close(self) -> None:
        """Kill the children that are left, and close all connections."""
        self._selector.close()
        self._wake_selector.close()
        while self._handles:
            _, child = self._handles.popitem()
            child.close()
        self.fork_server.close()
        self._awake.close()
        self._wake.close()

    def _read_fork_server(self) -> None:
        match self.fork_server.read_event():
            case ChildStarted() as started:
                child = ChildHandle(started, monotonic())
                self._handles[started.pid] = child
                self._selector.register(started.reports, selectors.EVENT_READ, lambda: self._read_child(child))
                if self._is_stopping:
                    self.send(child, [Stop()])
            case ChildExited(pid=pid, code=code):
                self._remove(self._handles.pop(pid), code)
            case None:
                raise RuntimeError("the fork server process has ended")

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

    def interrupt(self, child: ChildHandle, message: WorkerMessage) -> None:
        """Send a message that the child reads at once, in the middle of a handler."""
        child.send_interrupt(message)
        self.fork_server.signal(child.pid, INTERRUPT_SIGNAL)

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
            child.stop_reading(error)
            jobs = [run.reservation.job.id for run in child.runs.values() if run.began_at is not None]
            log.warning("child.unreadable", extra={"pid": child.pid, "error": str(error), "job_ids": jobs})
            self.kill(child)
