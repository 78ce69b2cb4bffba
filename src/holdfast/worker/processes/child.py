"""A child process: runs the jobs that it gets, one at a time, in its main thread, where a signal can interrupt them.

The interrupt signal may arrive between any two bytecodes. If it arrives while a report to the worker is being sent, the
interruption is raised after the report: no report is lost or cut off.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import signal
import socket
import sys
import threading
import types
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial

from holdfast.clock import boot_time, monotonic, wall_clock
from holdfast.log import events
from holdfast.log.records import log_event
from holdfast.wire.job_message import JobMessage
from holdfast.worker import job_log
from holdfast.worker.attempt import ChunkMember, attempt, attempt_chunk, may_share_call
from holdfast.worker.catalogue import Catalogue
from holdfast.worker.context import Context
from holdfast.worker.event_loop import LocalLoop, RunCoroutine
from holdfast.worker.limits import Limits, RecycleLimits
from holdfast.worker.outcome import Failed, Outcome
from holdfast.worker.output import Output
from holdfast.worker.processes import protocol
from holdfast.worker.processes.forkserver_process import ChildEnds, ChildMain
from holdfast.worker.processes.leftover_processes import LeftoverProcesses
from holdfast.worker.processes.process_handle import open_process
from holdfast.worker.processes.protocol import (
    ChildDamaged,
    ChildMessage,
    InterruptRun,
    ProcessesEnded,
    RunEnded,
    RunJob,
    RunNote,
    RunOutput,
    RunReturned,
    RunStarted,
    RunSucceeded,
    Stop,
    WorkerMessage,
)
from holdfast.worker.processes.report_pipe import ReportPipe
from holdfast.worker.processes.running import StopReason
from holdfast.worker.processes.shared_deadline import SharedDeadline
from holdfast.worker.processes.tickets import Tickets
from holdfast.worker.resources import Resources
from holdfast.worker.shortage import OpenFiles

INTERRUPT_SIGNAL = getattr(signal, "SIGUSR1", signal.SIGTERM)  # a system without SIGUSR1 can import this, but not work
WORK_POLL_SECONDS = 0.001  # shortest time between two polls for new messages while jobs are queued
DAMAGE_CHECK_JOBS = 16  # after so many of the shortest attempts, and after each other one, the open files are counted
MIN_FORK_SECONDS = 0.000_05  # no process is started in less: the shortest attempts are not searched for one
CHUNK_STOP_REASONS = (
    StopReason.TIMEOUT,
    StopReason.CPU,
)  # these end all jobs of a chunk; others release its neighbours

EndMessage = RunSucceeded | RunEnded


class Interruption(BaseException):
    """Raised in a handler whose attempt has to stop. Not an ``Exception``: ``except Exception`` must not catch it."""


def child_main(
    catalogue: Catalogue,
    limits: Limits,
    recycle: RecycleLimits,
    *,
    concurrency: int,
    deadline: SharedDeadline,
    worker: str = "",
    term_seconds: float | None = None,
) -> ChildMain:
    """Return the function that the fork server calls in each new child of this worker.

    Processes that an attempt leaves behind are killed ``term_seconds`` after a SIGTERM; None keeps them.
    """

    def main(ends: ChildEnds) -> None:
        limits.apply()
        job_log.set_worker_name(worker)
        leftovers = None if term_seconds is None else LeftoverProcesses(term_seconds=term_seconds)
        if concurrency == 1:
            Child(catalogue, ends, recycle, deadline=deadline, leftovers=leftovers).run()
        else:
            from holdfast.worker.processes.threaded_child import ThreadedChild  # noqa: PLC0415 - threaded_child imports this module

            ThreadedChild(
                catalogue, ends, recycle, deadline=deadline, leftovers=leftovers, concurrency=concurrency
            ).run()

    return main


@dataclass(slots=True, eq=False)
class InterruptibleRun:
    """A run while it can be interrupted."""

    thread: int  # that calls the handler
    is_lease_over: Callable[[], bool]
    context: Context | None = None
    stop_reason: str | None = None
    cancel: Callable[[], object] | None = None  # cancels an async handler that runs on the shared loop
    is_reporting: bool = False  # its thread sends a report, and is interrupted after it
    interruption_is_due: bool = False  # after the report

    def set_context(self, context: Context) -> None:
        """Keep the context of the handler, which is about to be called."""
        self.context = context
        context.is_lease_over = self.is_lease_over

    def mark_stopped(self, reason: str) -> None:
        """Store why the run is interrupted, also in its context: ``cancelled`` is true from now on."""
        self.stop_reason = reason
        if self.context is not None:
            self.context.stop_reason = reason


class Child:
    """One process that runs jobs."""

    def __init__(
        self,
        catalogue: Catalogue,
        ends: ChildEnds,
        recycle: RecycleLimits,
        *,
        deadline: SharedDeadline,
        leftovers: LeftoverProcesses | None,
    ) -> None:
        self._catalogue = catalogue
        self._deadline = deadline
        self._leftovers = leftovers  # None: keep them
        self._min_fork_seconds = MIN_FORK_SECONDS
        self._resources = Resources(catalogue.resources, making=nullcontext if leftovers is None else leftovers.keeping)
        self._work = ends.work
        self._interrupts = ends.interrupts
        self._interrupts.setblocking(False)  # noqa: FBT003 - the signature of socket
        self._reports = ReportPipe(ends.reports)
        self._tickets = Tickets(ends.tickets)
        self._pid = os.getpid()
        self._recycle = recycle
        self._open_files = OpenFiles(ends.reports)
        self._is_damaged = False
        self._finished = 0
        self._unsent: list[ChildMessage] = []
        self._is_sending = False  # the main thread sends a report
        self._interruption_is_due = False  # it arrived while a report was being sent, and is raised after the report
        self._work_unpacker = protocol.Unpacker(protocol.decode_worker_messages)
        self._interrupt_unpacker = protocol.Unpacker(protocol.decode_worker_messages)
        self._queued: deque[RunJob] = deque()
        self._polled_at = 0.0
        self._is_stopping = False
        self._interruptible: dict[int, InterruptibleRun] = {}
        self._loop = LocalLoop(self._resources.aclose)
        self._chunks = {handler.type: handler.chunk for handler in catalogue if handler.chunk is not None}
        self._captured = frozenset(handler.type for handler in catalogue if handler.capture_output)
        signal.signal(INTERRUPT_SIGNAL, self._on_signal)

    # The loop ---------------------------------------------------------------------------------------------------

    def run(self) -> None:
        """Run jobs until the worker sends ``Stop``, or is gone."""
        own_process = open_process(self._pid)
        if own_process is None:
            self._ask_for_signal()
        else:
            os.close(own_process)
        try:
            while not self._is_stopping and self._receive():
                while self._queued and not self._is_stopping:
                    self._run_next()
            for work in self._queued:
                self._send(RunReturned(work.run))
        finally:
            self._loop.close()
            self._resources.close()

    def _receive(self) -> bool:
        """Wait for messages, and handle all that have arrived; False when the worker is gone."""
        data = self._work.recv(protocol.READ_BYTES)
        self._unpack(data)
        return bool(data)

    def _unpack(self, data: bytes) -> None:
        for message in self._work_unpacker.feed(data):
            if isinstance(message, RunJob):
                self._queued.append(message)
            elif isinstance(message, Stop):
                self._is_stopping = True
        if self._work_unpacker.error is not None:  # a handler has read from the socket: nothing more can be understood
            raise self._work_unpacker.error

    def _poll(self, now: float) -> None:
        """Receive new messages without waiting; while jobs are queued, only every ``WORK_POLL_SECONDS``."""
        if not self._queued or now - self._polled_at >= WORK_POLL_SECONDS:
            self._polled_at = now
            self._receive_all()

    def _receive_all(self) -> None:
        with contextlib.suppress(BlockingIOError):
            while data := self._work.recv(protocol.READ_BYTES, socket.MSG_DONTWAIT):
                self._unpack(data)

    def _may_begin(self, work: RunJob) -> bool:
        """Whether a run begins now, and not in another child. Ask once: True takes its ticket."""
        return self._tickets.claim(work.run) and not self._is_lease_over(work)

    def _is_lease_over(self, work: RunJob) -> bool:
        """Whether the lease of a run may have ended: it was not extended in time, or the worker is stopped."""
        return boot_time() >= work.lease_deadline and boot_time() >= self._deadline.get()

    def _run_next(self) -> None:
        work = self._queued.popleft()
        if self._may_begin(work):
            others = self._take_chunk(work) if work.job.type in self._chunks else ()
            if others:
                self._unsent += self._run_chunk([work, *others])
            else:
                self._unsent.append(self._run_one(work, self._loop.run))
            self._finished += 1 + len(others)
            if self._is_damaged or self._recycle.is_reached(self._finished):
                self._is_stopping = True  # the queued jobs are returned
        else:
            self._unsent.append(RunReturned(work.run))
        self._poll(monotonic())
        if not self._queued or self._is_stopping:  # otherwise the end is sent together with the start of the next job
            self._send()

    def _run_one(self, work: RunJob, run_coroutine: RunCoroutine) -> EndMessage:
        """Run one attempt. It can be interrupted from before its start is reported until it has ended."""
        run = work.run
        interruptible = self._interruptible[run] = self._make_interruptible(work)
        outcome: Outcome | None = None
        began = monotonic()
        try:
            self._report(run, RunStarted(run, wall_clock()))
            if isinstance(work.job, JobMessage):
                member = self._chunk_member(work, interruptible)
            else:  # its handler gets no context, and can send no note
                member = work.job, _no_note, _no_context
            add_output = partial(self._send_output, run) if work.job.type in self._captured else None
            outcome = attempt(
                self._catalogue, self._resources, *member, run_coroutine=run_coroutine, add_output=add_output
            )
            ended: EndMessage = protocol.end_message(run, outcome)
            self._end_interruptible(run)
        except Interruption:
            ended = RunEnded(run, kind=protocol.INTERRUPTED, reason=interruptible.stop_reason or "")
            self._end_interruptible(run)
        except BaseException as error:  # noqa: BLE001 - SystemExit and the like end the attempt, not the process
            self._end_interruptible(run)
            outcome = Failed.by(error)
            ended = protocol.end_message(run, outcome)
        _flush_output()
        if os.getpid() != self._pid:
            _end_forked_process(work)
        ended.seconds = monotonic() - began
        is_short = isinstance(ended, RunSucceeded) and ended.seconds < MIN_FORK_SECONDS
        if not is_short or self._finished % DAMAGE_CHECK_JOBS == 0:
            self._check_damage(run, [outcome])
        if self._leftovers is not None and ended.seconds >= self._min_fork_seconds:
            self._end_processes(run, self._leftovers)
            ended.seconds = monotonic() - began
        return ended

    def _make_interruptible(self, work: RunJob) -> InterruptibleRun:
        return InterruptibleRun(threading.get_ident(), partial(self._is_lease_over, work))

    def _chunk_member(self, work: RunJob, interruptible: InterruptibleRun) -> ChunkMember:
        return work.job, partial(self._send_note, work.run, interruptible.thread), interruptible.set_context

    def _send_note(self, run: int, thread: int, progress: bytes | None, checkpoint: bytes | None) -> None:
        note = RunNote(run, progress, checkpoint)
        if threading.get_ident() == thread:
            self._report(run, note)
        else:  # a thread that the handler has started: no interruption is raised in it
            self._reports.write([note])

    def _send_output(self, run: int, output: Output) -> None:
        self._report(run, RunOutput(run, output.text, output.truncated))

    # Chunks -----------------------------------------------------------------------------------------------------

    def _take_chunk(self, first: RunJob) -> list[RunJob]:
        """Remove from the queue, and return, the jobs behind ``first`` that can share its call."""
        others: list[RunJob] = []
        most = self._chunks[first.job.type] if _may_share_call(first) else 1
        while (
            self._queued
            and 1 + len(others) < most
            and self._queued[0].job.type == first.job.type
            and _may_share_call(self._queued[0])
        ):
            other = self._queued.popleft()
            if self._may_begin(other):
                others.append(other)
            else:
                self._unsent.append(RunReturned(other.run))
        return others

    def _run_chunk(self, works: list[RunJob]) -> list[EndMessage]:
        """Run a chunk of jobs in one call. The jobs of a chunk start, end and are interrupted together."""
        interruptible = {work.run: self._make_interruptible(work) for work in works}
        self._interruptible.update(interruptible)
        members = [self._chunk_member(work, interruptible[work.run]) for work in works]
        handler = self._catalogue.get(works[0].job.type)
        assert handler is not None
        outcomes: Sequence[Outcome] = ()
        began = monotonic()
        try:
            now = wall_clock()
            self._send(*(RunStarted(work.run, now) for work in works))
            outcomes = attempt_chunk(handler, self._resources, members, run_coroutine=self._loop.run)
            ended: list[EndMessage] = [
                protocol.end_message(work.run, outcome) for work, outcome in zip(works, outcomes, strict=True)
            ]
            self._interruptible.clear()
        except Interruption:
            reason = next((one.stop_reason for one in interruptible.values() if one.stop_reason is not None), "")
            shared = reason if reason in CHUNK_STOP_REASONS else ""
            ended = [
                RunEnded(run, kind=protocol.INTERRUPTED, reason=one.stop_reason or shared)
                for run, one in interruptible.items()
            ]
        except BaseException as error:  # noqa: BLE001 - SystemExit and the like end the attempts, not the process
            self._interruptible.clear()
            outcomes = [Failed.by(error) for _ in interruptible]
            ended = [protocol.end_message(work.run, outcome) for work, outcome in zip(works, outcomes, strict=True)]
        self._interruptible.clear()
        _flush_output()
        if os.getpid() != self._pid:
            _end_forked_process(works[0])
        self._check_damage(works[0].run, outcomes)
        if self._leftovers is not None:
            self._end_processes(works[0].run, self._leftovers)
        for message in ended:
            message.seconds = (monotonic() - began) / len(ended)
        return ended

    # What an attempt left behind --------------------------------------------------------------------------------

    def _check_damage(self, run: int, outcomes: Iterable[Outcome | None]) -> None:
        """Report that this process has run out of something, before the end of the run. No job runs after this one."""
        failed = (one.shortage for one in outcomes if isinstance(one, Failed))
        shortage = next(filter(None, failed), "") or self._open_files.shortage()
        if shortage:
            self._is_damaged = True
            self._send(ChildDamaged(run, shortage))

    def _end_processes(self, run: int, leftovers: LeftoverProcesses) -> None:
        """End them before the end of the run is reported: a job that has ended has no processes."""
        found = leftovers.find()
        if found:
            self._send(ProcessesEnded(run, leftovers.end(found)))

    # Interrupts -------------------------------------------------------------------------------------------------

    def _end_interruptible(self, run: int) -> None:
        """From now on this run cannot be interrupted."""
        self._interruptible.pop(run, None)

    def _on_signal(self, _number: int, _frame: types.FrameType | None) -> None:
        """Handle the signal that is sent after the worker has written to the interrupt socket."""
        self._read_interrupts()

    def _ask_for_signal(self) -> None:
        """Let the kernel send the signal, with each message on the interrupt socket and at its end.

        The worker has no process descriptor to send it by. Without the signal at the end, a handler would outlive the
        worker.
        """
        signal.signal(signal.SIGIO, self._on_signal)
        fcntl.fcntl(self._interrupts, fcntl.F_SETOWN, os.getpid())
        fcntl.fcntl(self._interrupts, fcntl.F_SETFL, os.O_ASYNC | os.O_NONBLOCK)

    def _read_interrupts(self) -> None:
        messages: list[WorkerMessage] = []
        try:
            while data := self._interrupts.recv(protocol.READ_BYTES):
                messages += self._interrupt_unpacker.feed(data)
            _end_with_worker()
        except BlockingIOError:
            pass
        except ConnectionResetError:
            _end_with_worker()
        for message in messages:
            if isinstance(message, InterruptRun):
                self._interrupt(message)

    def _interrupt(self, message: InterruptRun) -> None:
        """Raise ``Interruption`` if this run is running now; while a report is being sent, after the report."""
        run = self._interruptible.pop(message.run, None)  # once: a handler that cleans up is not interrupted again
        if run is None:
            return
        self._interruptible.clear()  # a chunk is interrupted as one, and once
        run.mark_stopped(message.reason)
        if self._is_sending:
            self._interruption_is_due = True
        else:
            raise Interruption

    # Reports to the worker --------------------------------------------------------------------------------------

    def _send(self, *messages: ChildMessage) -> None:
        """Send these messages behind those that were kept. Only in the main thread."""
        was_sending, self._is_sending = self._is_sending, True  # was: a signal handler of the user reports, too
        try:
            self._unsent += messages
            self._reports.write(self._unsent)
            self._unsent.clear()
        finally:
            self._is_sending = was_sending
        if self._interruption_is_due and not was_sending:
            self._interruption_is_due = False
            raise Interruption

    def _report(self, _run: int, message: ChildMessage) -> None:
        """Send a message in the thread of a run that can be interrupted. An interruption is raised after it."""
        self._send(message)


def _end_with_worker() -> None:
    """Kill this process and its process group, which it leads unless the handler has left it: the worker is gone."""
    if os.getpgrp() == os.getpid():
        os.killpg(os.getpid(), signal.SIGKILL)
    os.kill(os.getpid(), signal.SIGKILL)


def _end_forked_process(work: RunJob) -> None:
    """End a process that a handler forked, and that left the handler: only the first process may answer."""
    with contextlib.suppress(Exception):
        log_event(events.JOB_FORKED_PROCESS_ENDED, **job_log.fields_of(work.job), pid=os.getpid())
        _flush_output()
    os._exit(1)


def _no_note(_progress: bytes | None, _checkpoint: bytes | None) -> None:
    raise AssertionError("a handler without a context has sent a note")


def _no_context(_context: Context) -> None:
    """Do nothing."""


def _may_share_call(work: RunJob) -> bool:
    job = work.job
    return isinstance(job, JobMessage) and may_share_call(job.attempt, job.max_attempts, job.crashes)


def _flush_output() -> None:
    """Flush the output of the handler now, because its process may be killed later."""
    for stream in (sys.stdout, sys.stderr):
        try:  # noqa: SIM105 - a context manager for each of two streams after each job would cost more than the flush
            stream.flush()
        except Exception:  # noqa: BLE001, S110 - closed, full, or an object of the handler
            pass
