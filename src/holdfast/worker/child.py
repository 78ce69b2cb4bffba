"""The child's side: runs what it is given, one job at a time, in its main thread, where signals can interrupt it."""

from __future__ import annotations

import contextlib
import signal
import socket
import sys
import types
from collections import deque
from collections.abc import Callable

import msgspec

from holdfast.clock import SystemClock
from holdfast.model.lease import Lease, Reservation
from holdfast.worker import frames
from holdfast.worker.attempt import attempt
from holdfast.worker.catalogue import Catalogue, Resources
from holdfast.worker.context import Context
from holdfast.worker.frames import Began, Ended, GivenBack, Interrupt, Noted, Stop, Work
from holdfast.worker.limits import Limits, most_memory_so_far

INTERRUPT = getattr(signal, "SIGUSR1", signal.SIGTERM)  # without it there is no worker, but a producer can import this
READ = 1 << 16


class Interruption(BaseException):
    """Raised in the handler when its attempt is to stop. No ``Exception``: a handler's own nets should not catch it."""

    def __init__(self, why: str) -> None:
        self.why = why
        super().__init__(why)


def server(catalogue: Catalogue, limits: Limits) -> Callable[[socket.socket, socket.socket], None]:
    """What the nursery calls in each new child."""

    def serve(line: socket.socket, interrupts: socket.socket) -> None:
        limits.apply()
        Child(catalogue, line, interrupts).run()

    return serve


class Child:
    """One process that runs jobs."""

    def __init__(self, catalogue: Catalogue, line: socket.socket, interrupts: socket.socket) -> None:
        self._catalogue = catalogue
        self._resources = Resources(catalogue.resources)
        self._line = line
        self._interrupts = interrupts
        self._interrupts.setblocking(False)  # noqa: FBT003 - so does socket call it
        self._unsaid = bytearray()
        self._incoming = frames.Buffer()
        self._urgent = frames.Buffer()
        self._waiting: deque[Work] = deque()
        self._stopping = False
        self._running: int | None = None
        self._context: Context | None = None
        self._clock = SystemClock()
        signal.signal(INTERRUPT, self._interrupted)

    def run(self) -> None:
        """Until told to stop, or until the parent is gone."""
        try:
            while self._receive():
                while self._waiting and not self._stopping:
                    self._run_one(self._waiting.popleft())
                if self._stopping:
                    for work in self._waiting:
                        self._say(GivenBack(work.run))
                    break
        finally:
            self._resources.close()

    def _receive(self) -> bool:
        """Wait for frames, and take all that are there."""
        if self._waiting:
            return True
        data = self._line.recv(READ)
        self._take(data)
        return bool(data)

    def _take(self, data: bytes) -> None:
        for frame in self._incoming.feed(data):
            if isinstance(frame, Work):
                self._waiting.append(frame)
            elif isinstance(frame, Stop):
                self._stopping = True

    def _look(self) -> None:
        """Take what has come meanwhile without waiting: a stop must be seen between two jobs."""
        with contextlib.suppress(BlockingIOError):
            while data := self._line.recv(READ, socket.MSG_DONTWAIT):
                self._take(data)

    def _run_one(self, work: Work) -> None:
        self._say(Began(work.run, self._clock.now()))
        lease = Lease(job_id=work.job.id, token="", fence=work.fence, expires_at=0)  # the token stays with the parent
        reservation = Reservation(job=work.job, lease=lease, checkpoint=work.checkpoint)

        def note(progress: bytes | None, checkpoint: bytes | None) -> None:
            self._say(Noted(work.run, progress, checkpoint))

        try:
            self._running = work.run
            outcome = attempt(self._catalogue, self._resources, reservation, note, self._enter)
            ended = frames.ended(work.run, outcome)
            self._running = None
        except Interruption as interruption:
            self._running = None
            ended = Ended(work.run, kind="interrupted", reason=interruption.why)
        except BaseException as error:  # noqa: BLE001 - SystemExit and the like end the attempt, not the process
            self._running = None
            ended = Ended(work.run, kind="failed", error=f"{type(error).__name__}: {error}")
        ended = msgspec.structs.replace(ended, memory=most_memory_so_far())
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(Exception):
                stream.flush()  # what a handler prints is seen, even if its process is killed later
        self._unsaid += frames.packed(ended)  # said together with the next beginning, if there is one at hand
        self._look()
        if not self._waiting or self._stopping:
            self._say()

    def _enter(self, context: Context) -> None:
        self._context = context

    def _interrupted(self, _number: int, _frame: types.FrameType | None) -> None:
        """The signal says that there is something to read; only what concerns the present run is raised."""
        with contextlib.suppress(BlockingIOError, ConnectionResetError):
            for frame in self._urgent.feed(self._interrupts.recv(READ)):
                if isinstance(frame, Interrupt) and frame.run == self._running:
                    self._running = None  # once: a handler that is cleaning up is not interrupted again
                    if self._context is not None:
                        self._context.cancelled = True
                    raise Interruption(frame.why)

    def _say(self, *said: frames.Frame) -> None:
        for frame in said:
            self._unsaid += frames.packed(frame)
        self._line.sendall(self._unsaid)
        self._unsaid.clear()
