"""The child's side: runs what it is given, one job at a time, in its main thread, where signals can interrupt it."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import sys
import threading
import types
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from holdfast.clock import monotonic, wall_clock
from holdfast.wire.records import Brief
from holdfast.worker import protocol
from holdfast.worker.attempt import Member, attempt, goes_together, together
from holdfast.worker.catalogue import Catalogue, Resources
from holdfast.worker.context import Context
from holdfast.worker.event_loop import Complete, OwnLoop
from holdfast.worker.forkserver import Serve
from holdfast.worker.limits import Limits, Term
from holdfast.worker.protocol import Began, Done, Ended, GivenBack, Interrupt, Noted, Recall, Stop, Work

INTERRUPT = getattr(signal, "SIGUSR1", signal.SIGTERM)  # without it there is no worker, but a producer can import this
READ = 1 << 16
OF_ALL = ("timeout", "cpu")  # what ends the jobs of a chunk together; by anything else the others are given back
LOOK_EVERY = 0.001  # seconds: a stop is seen between two jobs, without asking the kernel after each


class Interruption(BaseException):
    """Raised in the handler when its attempt is to stop. No ``Exception``: a handler's own nets should not catch it."""


def server(catalogue: Catalogue, limits: Limits, term: Term, *, concurrency: int) -> Serve:
    """What the nursery calls in each new child."""

    def serve(line: socket.socket, interrupts: socket.socket, says: int) -> None:
        limits.apply()
        if concurrency == 1:
            Child(catalogue, line, interrupts, says, term).run()
        else:
            from holdfast.worker.threaded_child import ThreadedChild  # noqa: PLC0415 - it is a child itself

            ThreadedChild(catalogue, line, interrupts, says, term, concurrency=concurrency).run()

    return serve


@dataclass(slots=True, eq=False)
class Present:
    """An attempt while it can be interrupted."""

    thread: int
    context: Context | None = None
    why: str | None = None
    cancel: Callable[[], object] | None = None  # how an async handler is interrupted that runs elsewhere

    def enter(self, context: Context) -> None:
        """The handler is about to be called."""
        self.context = context

    def stop(self, why: str) -> None:
        """It is being interrupted."""
        self.why = why
        if self.context is not None:
            self.context.cancelled = True


class Child:
    """One process that runs jobs."""

    def __init__(
        self, catalogue: Catalogue, line: socket.socket, interrupts: socket.socket, says: int, term: Term
    ) -> None:
        self._catalogue = catalogue
        self._resources = Resources(catalogue.resources)
        self._line = line
        self._interrupts = interrupts
        self._says = says
        self._interrupts.setblocking(False)  # noqa: FBT003 - so does socket call it
        self._term = term
        self._finished = 0
        self._unsaid: list[protocol.Frame] = []
        self._saying = False
        self._owed = False
        self._incoming = protocol.Buffer()
        self._urgent = protocol.Buffer()
        self._waiting: deque[Work] = deque()
        self._looked = 0.0
        self._stopping = False
        self._present: dict[int, Present] = {}
        self._loop = OwnLoop()
        self._chunks = {handler.type: handler.chunk for handler in catalogue if handler.chunk is not None}
        signal.signal(INTERRUPT, self._interrupted)

    # The loop ---------------------------------------------------------------------------------------------------

    def run(self) -> None:
        """Until told to stop, or until the parent is gone."""
        try:
            while not self._stopping and self._receive():
                while self._waiting and not self._stopping:
                    self._run_next()
            for work in self._waiting:
                self._say(GivenBack(work.run))
        finally:
            self._loop.close()
            self._resources.close()

    def _receive(self) -> bool:
        """Wait for frames, and take all that are there; False when the parent is gone."""
        data = self._line.recv(READ)
        self._take(data)
        return bool(data)

    def _take(self, data: bytes) -> None:
        for frame in self._incoming.feed(data):
            if isinstance(frame, Work):
                self._waiting.append(frame)
            elif isinstance(frame, Stop):
                self._stopping = True

    def _look(self, now: float) -> None:
        """Take what has come meanwhile without waiting."""
        if not self._waiting or now - self._looked >= LOOK_EVERY:
            self._looked = now
            self._take_all()

    def _take_all(self) -> None:
        with contextlib.suppress(BlockingIOError):
            while data := self._line.recv(READ, socket.MSG_DONTWAIT):
                self._take(data)

    def _run_next(self) -> None:
        work = self._waiting.popleft()
        mates = self._mates(work) if work.job.type in self._chunks else ()
        if mates:
            self._unsaid += self._run_together([work, *mates])
        else:
            self._unsaid.append(self._run_one(work, self._loop.complete))
        self._finished += 1 + len(mates)
        if self._term.is_over(self._finished):
            self._stopping = True  # what is left is given back
        self._look(monotonic())
        if not self._waiting or self._stopping:  # else it is said together with the next beginning
            self._say()

    def _run_one(self, work: Work, complete: Complete) -> Done | Ended:
        """One attempt, whatever it does. It can be interrupted from before its beginning is told until it has ended."""
        run = work.run
        present = self._present[run] = Present(threading.get_ident())
        began = monotonic()
        try:
            self._say(Began(run, wall_clock()))
            if isinstance(work.job, Brief):
                outcome = attempt(self._catalogue, self._resources, *self._member(work, present), complete=complete)
            else:  # its handler sees the payload alone, and can leave no note
                outcome = attempt(self._catalogue, self._resources, work.job, _no_note, complete=complete)
            ended: Done | Ended = protocol.ended(run, outcome)
            self._leave(run)
        except Interruption:
            ended = Ended(run, kind="interrupted", reason=present.why or "")
            self._leave(run)
        except BaseException as error:  # noqa: BLE001 - SystemExit and the like end the attempt, not the process
            self._leave(run)
            ended = Ended(run, kind="failed", error=f"{type(error).__name__}: {error}")
        ended.took = monotonic() - began
        _flush()
        return ended

    def _member(self, work: Work, present: Present) -> Member:
        """What an attempt needs to know of one job."""
        return work.job, partial(self._note, work.run), present.enter

    def _note(self, run: int, progress: bytes | None, checkpoint: bytes | None) -> None:
        self._say(Noted(run, progress, checkpoint))

    # Several at a time ------------------------------------------------------------------------------------------

    def _mates(self, first: Work) -> list[Work]:
        """Those behind it that can share its call."""
        mates: list[Work] = []
        most = self._chunks[first.job.type] if _goes_together(first) else 1
        while (
            self._waiting
            and 1 + len(mates) < most
            and self._waiting[0].job.type == first.job.type
            and _goes_together(self._waiting[0])
        ):
            mates.append(self._waiting.popleft())
        return mates

    def _run_together(self, works: list[Work]) -> list[Done | Ended]:
        """The same as ``_run_one`` for a chunk: it begins and ends as one, and is interrupted as one."""
        presents = {work.run: Present(threading.get_ident()) for work in works}
        self._present.update(presents)
        members = [self._member(work, presents[work.run]) for work in works]
        handler = self._catalogue.get(works[0].job.type)
        assert handler is not None
        began = monotonic()
        try:
            now = wall_clock()
            self._say(*(Began(work.run, now) for work in works))
            outcomes = together(handler, self._resources, members, complete=self._loop.complete)
            ended: list[Done | Ended] = [
                protocol.ended(work.run, outcome) for work, outcome in zip(works, outcomes, strict=True)
            ]
            self._present.clear()
        except Interruption:
            why = next((present.why for present in presents.values() if present.why is not None), "")
            of_all = why if why in OF_ALL else ""
            ended = [Ended(run, kind="interrupted", reason=one.why or of_all) for run, one in presents.items()]
        except BaseException as error:  # noqa: BLE001 - SystemExit and the like end the attempts, not the process
            self._present.clear()
            ended = [Ended(run, kind="failed", error=f"{type(error).__name__}: {error}") for run in presents]
        self._present.clear()
        for one in ended:
            one.took = (monotonic() - began) / len(ended)
        _flush()
        return ended

    # Interruptions ----------------------------------------------------------------------------------------------

    def _leave(self, run: int) -> None:
        """This run cannot be interrupted any more."""
        self._present.pop(run, None)

    def _interrupted(self, _number: int, _frame: types.FrameType | None) -> None:
        """The signal says that there is something to read."""
        with contextlib.suppress(BlockingIOError, ConnectionResetError):
            for frame in self._urgent.feed(self._interrupts.recv(READ)):
                if isinstance(frame, Interrupt):
                    self._interrupt(frame)
                elif isinstance(frame, Recall):
                    self._give_up_waiting()

    def _give_up_waiting(self) -> None:
        """Only in the middle of a handler: elsewhere this very thread may be looking at what waits, or be speaking.

        Then nothing happens, and if need be the parent asks again.
        """
        if self._present and not self._saying:
            self._take_all()
            self._say(*(GivenBack(self._waiting.popleft().run) for _ in range(len(self._waiting))))

    def _interrupt(self, frame: Interrupt) -> None:
        """If it concerns the present run: that is what this very thread was doing. Never in half a sentence."""
        present = self._present.pop(frame.run, None)  # once: a handler that is cleaning up is not interrupted again
        if present is None:
            return
        self._present.clear()  # a chunk is interrupted as one, and once
        present.stop(frame.why)
        if self._saying:
            self._owed = True
        else:
            raise Interruption

    # Speaking ---------------------------------------------------------------------------------------------------

    def _say(self, *said: protocol.Frame) -> None:
        self._saying = True
        self._unsaid += said
        self._write(protocol.packed(self._unsaid))
        self._unsaid.clear()
        self._saying = False
        if self._owed:
            self._owed = False
            raise Interruption

    def _write(self, data: bytes) -> None:
        while data:
            data = data[os.write(self._says, data) :]


def _no_note(_progress: bytes | None, _checkpoint: bytes | None) -> None:
    raise AssertionError("a handler that gets no context has left a note")


def _goes_together(work: Work) -> bool:
    return isinstance(work.job, Brief) and goes_together(work.job.attempt, work.job.crashes)


def _flush() -> None:
    """What a handler prints is seen, even if its process is killed later."""
    for stream in (sys.stdout, sys.stderr):
        try:  # noqa: SIM105 - a context for each of two streams after each job would cost more than they do
            stream.flush()
        except Exception:  # noqa: BLE001, S110 - closed, full, or anybody's object
            pass
