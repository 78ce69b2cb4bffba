"""Handlers in child processes: dispatch, timeouts, interruptions, deaths. One thread watches over all of them.

A handler may hold the GIL, loop for ever, sleep in C or take its process down: its attempt ends, and nobody else's. An
attempt that has to stop is first interrupted by an exception; a child that does not obey within the grace is killed,
and replaced.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import socket
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import islice
from typing import TypeAlias

from holdfast.clock import SECOND, monotonic, processor_time
from holdfast.wire.records import brief, gist
from holdfast.worker import protocol
from holdfast.worker.catalogue import Catalogue
from holdfast.worker.child import INTERRUPT, READ, server
from holdfast.worker.forkserver import Born, Gone, Nursery
from holdfast.worker.limits import Limits, Term
from holdfast.worker.outcome import Cancelled, Crashed, Interrupted, Outcome, OutOfCpu, TimedOut
from holdfast.worker.protocol import Began, Done, Ended, GivenBack, Interrupt, Noted, Recall, Stop, Work
from holdfast.worker.running import Run

TIMEOUT, CPU, SHUTDOWN, CANCEL, LOST = "timeout", "cpu", "shutdown", "cancel", "lease lost"

MOST_AHEAD = 768  # jobs that may wait inside a child behind the running ones
SHORT = 0.010  # seconds of work that may wait there: enough to keep the child busy, too little to be missed
MOST_WAITING = 3000  # jobs that may wait here, in front of all children, and be released if need be
AT_ONCE = 1000  # jobs that are asked for by one call
SOON = 0.050  # seconds in which a job is expected to end, for those that would rather wait for it
SHORT_JOBS = 500  # jobs that are done within A_WHILE, from which on jobs are very short
A_WHILE = 0.100  # seconds of work that may wait here: long jobs are not hoarded
BREATH = 0.004  # seconds in which children with very short jobs are left alone, and heard all at once
MANY = 128  # jobs under way, from which on that is worth while
PLENTY = 384  # jobs that last a child for longer than that
CPU_LOOK = 0.050  # seconds between two looks at a run that has less processor time left than this
UNKNOWN = 1.0  # seconds that a run is thought to take before one has ended
STUCK = 0.5  # seconds that a run takes until those behind it in its child are called back, and again if need be
HASTY = 1.0  # a child that dies younger than this, having run nothing, is replaced only after this long


@dataclass(slots=True, eq=False)
class _Child:
    born: Born
    at: float
    runs: dict[int, Run] = field(default_factory=dict)  # as they were sent: they begin in this order
    incoming: protocol.Buffer = field(default_factory=protocol.Buffer)
    outgoing: bytearray = field(default_factory=bytearray)
    waits: bool = False  # the child does not read as fast as we write
    finished: int = 0
    recalled: float = 0.0  # when what waits in it was last called back
    killed: bool = False  # by us, because one of its runs would not stop


Ending: TypeAlias = tuple[Run, Outcome]  # a run that is over


class Children:
    """Child processes and what runs in them. Any thread may call what has no underscore."""

    def __init__(
        self,
        catalogue: Catalogue,
        *,
        processes: int,
        concurrency: int = 1,
        grace: float,
        limits: Limits | None = None,
        term: Term | None = None,
    ) -> None:
        """Forks the nursery: call it before starting threads."""
        self._nursery = Nursery(server(catalogue, limits or Limits(), term or Term(), concurrency=concurrency))
        self._concurrency = concurrency  # jobs at a time in each child
        self._slots = processes * concurrency
        self._plain = catalogue.plain_types
        self._chunk = catalogue.chunk  # jobs that one call may take, at the most
        self._grace = grace
        self._on_end: Callable[[list[Ending], bool], None] = lambda _endings, _more_soon: None
        self._children: dict[int, _Child] = {}
        self._pending: deque[Run] = deque()
        self._usual: float | None = None  # seconds that a run takes, lately
        self._lock = threading.RLock()
        self.changed = threading.Condition(self._lock)
        self._births: list[float] = []  # when further children may be asked for
        self._closing = False
        self._over: list[Ending] = []
        self._broken: Exception | None = None
        self._awake, self._wake = socket.socketpair()
        self._wake.setblocking(False)  # noqa: FBT003 - so does socket call it
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._nursery, selectors.EVENT_READ, self._read_news)
        self._selector.register(self._awake, selectors.EVENT_READ, lambda: self._awake.recv(READ))
        self._calls = selectors.DefaultSelector()  # hears none of the children, only who calls this thread
        self._calls.register(self._awake, selectors.EVENT_READ)
        for _ in range(processes):
            self._nursery.ask_for_child()
        self._thread = threading.Thread(target=self._watch, name="holdfast-children", daemon=True)

    # For the worker ---------------------------------------------------------------------------------------------

    def start(self, on_end: Callable[[list[Ending], bool], None]) -> None:
        """Begin. ``on_end`` gets all that has ended at a moment, and whether more will end in the next one."""
        self._on_end = on_end
        self._thread.start()

    def room(self) -> int:
        """How many more runs are useful now: what can start at once, and what waits only a moment.

        Short jobs are asked for by the thousand: many small batches would cost more than the jobs, and children would
        wait for a larger one.
        """
        with self._lock:
            if self._broken is not None:
                raise self._broken
            pace = self._pace()
            room = self._slots * max(1 + self._ahead(pace), self._chunk) - self.busy()
            waiting = min(MOST_WAITING, self._slots * int(A_WHILE / pace))
            if waiting <= self._slots:
                return room
            room += waiting
            return min(room, AT_ONCE) if room >= min(waiting // 2, AT_ONCE) else 0

    def runs_short_jobs(self) -> bool:
        """Whether jobs are so short that the work of a moment is hundreds of them."""
        with self._lock:
            return self._slots * int(A_WHILE / self._pace()) >= SHORT_JOBS

    def busy(self) -> int:
        """How many runs are handed over and have not ended."""
        with self._lock:
            return len(self._pending) + sum(len(child.runs) for child in self._children.values())

    def ends_soon(self) -> bool:
        """Whether something runs that is expected to end in a moment."""
        with self._lock:
            return self.busy() > 0 and self._pace() < SOON

    def submit(self, runs: list[Run]) -> None:
        """Hand over runs; each ends in exactly one call of ``on_end``."""
        now, share = monotonic(), self._concurrency > 1
        for run in runs:
            run.handed = now
            # It has crashed before; or its processor time is measured, which the threads of a child have in common.
            if run.reservation.job.crashes or (share and run.cpu is not None):
                run.alone = True
        with self._lock:
            self._pending.extend(runs)
            if len(runs) < MANY:
                self._dispatch()  # what can start now does not wait for the other thread
                return
        self._poke()  # many take a while to be handed out: meanwhile the caller may ask for the next ones

    def interrupt(self, run: Run, why: str) -> None:
        """Ask one run to stop; the answer is its end."""
        with self._lock:
            if run in self._pending:
                self._pending.remove(run)
                self._over.append((run, Interrupted()))
            else:
                self._stop_run(run, why)
        self._poke()

    def take_back(self, *, waited: float = 0.0) -> list[Run]:
        """The runs that no child has got yet, and has not for so many seconds: to be released."""
        with self._lock:
            if waited and (not self._pending or monotonic() - self._pending[0].handed < waited):
                return []
            runs = list(self._pending)
            self._pending.clear()
            return runs

    def interrupt_all(self, why: str) -> None:
        """Ask every run to stop."""
        with self._lock:
            for run in [run for child in self._children.values() for run in child.runs.values()]:
                self._stop_run(run, why)
        self._poke()

    def close(self) -> None:
        """End the children; what still runs is killed, and its end is told."""
        with self._lock:
            self._closing = True
            for child in self._children.values():
                self._send(child, Stop())
        self._poke()
        self._thread.join()

    # The watching thread ----------------------------------------------------------------------------------------

    def _poke(self) -> None:
        with contextlib.suppress(OSError):  # full is loud enough; closed has nobody to wake
            self._wake.send(b"!")

    def _watch(self) -> None:
        """Until closed. If it fails itself, the worker is told at its next question: nothing is silently stuck."""
        try:
            self._watch_on()
        except Exception as error:  # noqa: BLE001 - raised again where somebody sees it
            with self._lock:
                self._broken = error
                self.changed.notify_all()
        finally:
            self._selector.close()
            self._calls.close()
            with self._lock:
                while self._children:
                    _, child = self._children.popitem()
                    child.born.close()
            self._nursery.close()
            self._awake.close()
            self._wake.close()

    def _watch_on(self) -> None:
        closing_at: float | None = None
        while True:
            events = self._selector.select(self._until_deadline())
            with self._lock:
                for key, _ in events:
                    key.data()
                self._tell_endings()
                now = monotonic()
                if self._closing:
                    closing_at = closing_at or now
                    if not self._children:
                        break
                    if now > closing_at + self._grace:
                        for pid in self._children:
                            self._nursery.signal(pid, signal.SIGKILL)
                self._keep_deadlines(now)
                self._dispatch()
                calm = self._is_calm()
            if calm:  # to be woken for each of very many very short jobs would cost more than the jobs
                self._calls.select(BREATH)

    def _is_calm(self) -> bool:
        """Whether very short jobs are under way, many of them, and none waits for a child that may be idle soon."""
        if self._pace() >= BREATH or self.busy() < MANY:
            return False
        return not self._pending or all(len(child.runs) > PLENTY for child in self._children.values())

    def _tell_endings(self) -> None:
        if self._over:
            over, self._over = self._over, []
            self._on_end(over, self.ends_soon())
            self.changed.notify_all()

    def _until_deadline(self) -> float:
        with self._lock:
            now = monotonic()
            due = [now + 0.05] if self._closing else [now + 1.0]
            due += self._births
            due += [
                now + STUCK for child in self._children.values() if len(child.runs) > self._concurrency * self._chunk
            ]
            for child in self._children.values():
                for run in self._may_run(child):
                    due += [instant for instant in (run.kill_at, _deadline(run)) if instant is not None]
                    cpu_left = _cpu_left(run, child.born.pid)
                    due += [] if cpu_left is None else [now + max(cpu_left, CPU_LOOK)]
            return max(0.0, min(due) - now)

    def _may_run(self, child: _Child) -> list[Run]:
        """The runs of a child that can have begun."""
        return list(islice(child.runs.values(), self._concurrency * self._chunk))

    def _keep_deadlines(self, now: float) -> None:
        for child in self._children.values():
            for run in self._may_run(child):
                deadline = _deadline(run)
                if deadline is not None and now >= deadline:
                    self._stop_run(run, TIMEOUT)
                cpu_left = _cpu_left(run, child.born.pid)
                if cpu_left is not None and cpu_left <= 0:
                    self._stop_run(run, CPU)
                if run.kill_at is not None and now >= run.kill_at:
                    child.killed = True
                    self._nursery.signal(child.born.pid, signal.SIGKILL)
            if self._is_stuck(child, now):
                child.recalled = now
                self._tell_now(child, Recall())
        while self._births and self._births[0] <= now:
            self._births.pop(0)
            self._nursery.ask_for_child()

    def _is_stuck(self, child: _Child, now: float) -> bool:
        """Whether jobs wait in it, though those in front of them turned out to be long."""
        waiting = len(child.runs) > self._concurrency * self._chunk
        return waiting and self._busy_for(child, now) > STUCK and now - child.recalled > STUCK

    def _dispatch(self) -> None:
        """Spread what is pending, those first that have least to do; then write to each child once."""
        if not self._pending:
            return
        now, usual = monotonic(), self._pace()
        ready = sorted(self._children.values(), key=lambda child: len(child.runs))
        for place, child in enumerate(ready):
            share = -(-len(self._pending) // (len(ready) - place))
            most = self._concurrency + self._ahead(max(usual, self._busy_for(child, now)))
            given = self._take_for(child, min(share, most - len(child.runs)))
            if given:
                child.runs.update({run.number: run for run in given})
                told = [(run.number, run.reservation) for run in given]
                child.outgoing += protocol.packed(
                    [Work(number, gist(one) if one.job.type in self._plain else brief(one)) for number, one in told]
                )
                self._flush(child)

    def _take_for(self, child: _Child, most: int) -> list[Run]:
        """The next runs for this child. Some share it with nobody."""
        given: list[Run] = []
        if any(run.alone for run in islice(reversed(child.runs.values()), 1)):
            return given
        while self._pending and (len(given) < most or self._fills(child, given)):
            alone = self._pending[0].alone
            if alone and (given or child.runs):
                break
            given.append(self._pending.popleft())
            if alone:
                break
        return given

    def _fills(self, child: _Child, given: list[Run]) -> bool:
        """Whether the next run belongs into the chunk that an idle child is about to begin."""
        run = self._pending[0]
        if run.chunk == 1 or child.runs or not given:
            return False
        return len(given) < run.chunk and given[0].reservation.job.type == run.reservation.job.type

    def _ahead(self, pace: float) -> int:
        """How many more than it can run at once a child gets."""
        return min(MOST_AHEAD, int(self._concurrency * SHORT / pace))

    def _pace(self) -> float:
        """Seconds that a run takes: as lately, or as long as the youngest of the present ones has taken already."""
        now = monotonic()
        return max(
            1e-6,
            UNKNOWN if self._usual is None else self._usual,
            min((self._busy_for(child, now) for child in self._children.values()), default=0.0),
        )

    def _busy_for(self, child: _Child, now: float) -> float:
        """Seconds that the youngest of a child's runs has taken already; 0 if one can begin in it now."""
        runs = self._may_run(child)
        if len(runs) < self._concurrency:
            return 0.0
        return min(now - run.began if run.began else 0.0 for run in runs)

    # News -------------------------------------------------------------------------------------------------------

    def _read_news(self) -> None:
        match self._nursery.news():
            case Born() as born:
                child = _Child(born, monotonic())
                self._children[born.pid] = child
                self._selector.register(born.said, selectors.EVENT_READ, lambda: self._listen(child))
                if self._closing:
                    self._send(child, Stop())
            case Gone(pid=pid, code=code):
                self._bury(self._children.pop(pid), code)
            case None:
                raise RuntimeError("the nursery process has ended")

    def _listen(self, child: _Child) -> None:
        """Read what a child says."""
        if child.born.pid not in self._children:
            return  # it was buried by an earlier event of the same moment
        if self._read(child):
            self._selector.unregister(child.born.said)  # its end is near: the nursery will tell

    def _read(self, child: _Child) -> bool:
        """All that there is; gives whether there will be no more."""
        with contextlib.suppress(BlockingIOError):
            while data := os.read(child.born.said, READ):
                now = monotonic()
                for frame in child.incoming.feed(data):
                    self._heard(child, frame, now)
            return True
        return False

    def _heard(self, child: _Child, frame: protocol.Frame, now: float) -> None:
        match frame:
            case Began():
                run = child.runs[frame.run]
                run.began, run.started_at = now, frame.at
                if run.cpu is not None:
                    run.cpu_before = processor_time(child.born.pid)
                if run.why is not None:
                    self._stop_run(run, run.why)
            case Done() | Ended():
                run = child.runs.pop(frame.run)
                child.finished += 1
                usual = frame.took if self._usual is None else self._usual
                self._usual = usual + (frame.took - usual) * (0.5 if frame.took > usual else 0.2)
                if isinstance(frame, Ended) and frame.kind == "interrupted":
                    outcome = _stopped(run, frame.reason)
                else:
                    outcome = protocol.outcome_of(frame)
                self._over.append((run, outcome))
            case Noted():
                child.runs[frame.run].keep(frame.progress, frame.checkpoint)
            case GivenBack():
                run = child.runs.pop(frame.run)
                if self._closing:
                    self._over.append((run, Interrupted()))
                else:
                    self._pending.append(run)  # the child has served its term; another takes it
            case _:
                raise AssertionError(f"no child says this: {frame!r}")

    def _bury(self, child: _Child, code: int) -> None:
        """A child is gone: what it had begun has ended with it, what it had not begun goes to another."""
        with contextlib.suppress(KeyError):
            self._selector.unregister(child.born.said)
        self._read(child)
        for run in child.runs.values():
            if run.began is not None:
                self._over.append((run, _died_with(child, run, code)))
        self._pending.extendleft(run for run in reversed(child.runs.values()) if run.began is None)
        if child.waits:
            self._selector.unregister(child.born.work)
        child.born.close()
        if not self._closing:
            hasty = not child.finished and monotonic() - child.at < HASTY
            self._births.append(monotonic() + (HASTY if hasty and not child.runs else 0.0))
            self._births.sort()

    # Acting -----------------------------------------------------------------------------------------------------

    def _stop_run(self, run: Run, why: str) -> None:
        if run.kill_at is not None:
            return
        run.why = run.why or why
        if run.began is None:
            return  # as soon as it begins
        run.kill_at = monotonic() + self._grace
        for child in self._children.values():
            if run.number in child.runs:
                self._tell_now(child, Interrupt(run.number, run.why))

    def _tell_now(self, child: _Child, frame: protocol.Frame) -> None:
        """Whatever it is doing. One that has not listened for long may be full of it: if need be it is killed."""
        with contextlib.suppress(BlockingIOError, BrokenPipeError, ConnectionResetError):
            child.born.interrupts.send(protocol.packed([frame]))
        self._nursery.signal(child.born.pid, INTERRUPT)

    def _send(self, child: _Child, frame: protocol.Frame) -> None:
        child.outgoing += protocol.packed([frame])
        self._flush(child)

    def _flush(self, child: _Child) -> None:
        """Write without waiting; the selector says when a slow reader has room again."""
        if child.born.pid not in self._children:
            return
        try:
            while child.outgoing:
                sent = child.born.work.send(child.outgoing)
                del child.outgoing[:sent]
        except BlockingIOError:
            pass
        except (BrokenPipeError, ConnectionResetError):  # it is gone: what it has not begun will go to another
            child.outgoing.clear()
        waits = bool(child.outgoing)
        if waits and not child.waits:
            self._selector.register(child.born.work, selectors.EVENT_WRITE, lambda: self._flush(child))
        elif child.waits and not waits:
            self._selector.unregister(child.born.work)
        child.waits = waits


def _deadline(run: Run) -> float | None:
    if run.timeout is None or run.began is None or run.why is not None:
        return None
    return run.began + run.timeout / SECOND


def _died_with(child: _Child, run: Run, code: int) -> Outcome:
    """How a run ended whose child is gone. Of several that were running nobody knows which one did it, if not we."""
    if run.why is not None:
        return _stopped(run, run.why)
    return Interrupted() if child.killed else Crashed.from_exit(code)


def _cpu_left(run: Run, pid: int) -> float | None:
    """Seconds of processor time that a run has left, by the kernel's clock of its process."""
    if run.cpu is None or run.began is None or run.why is not None:
        return None
    return run.cpu / SECOND - (processor_time(pid) - run.cpu_before)


def _stopped(run: Run, why: str | None) -> Outcome:
    match why:
        case "timeout":
            return TimedOut(after=run.timeout or 0)
        case "cpu":
            return OutOfCpu(limit=run.cpu or 0)
        case "cancel":
            return Cancelled()
        case _:
            return Interrupted()
