"""The pool: runs jobs in child processes, enforces their deadlines, and reports how each run ended.

A handler may hold the GIL, loop without end, sleep in C or crash its process: that ends its own attempt and no other.
An attempt that has to stop is first interrupted by an exception in its handler. If the handler does not end within the
grace time, its child process is killed and replaced.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from dataclasses import replace
from typing import TypeAlias, assert_never

from holdfast.clock import boot_time, monotonic, processor_time
from holdfast.log import events
from holdfast.log.records import log_event
from holdfast.wire.job_message import job_message, payload_message
from holdfast.worker.catalogue import Catalogue
from holdfast.worker.limits import Limits, RecycleLimits
from holdfast.worker.outcome import KILLED_FOR_ANOTHER, NOT_STARTED, TYPE_HELD, Crashed, Interrupted, Outcome
from holdfast.worker.output import Output
from holdfast.worker.processes import dispatch, protocol
from holdfast.worker.processes.child import child_main
from holdfast.worker.processes.child_handle import ChildHandle
from holdfast.worker.processes.child_processes import ChildProcesses
from holdfast.worker.processes.dispatch import PoolSize
from holdfast.worker.processes.protocol import (
    ChildDamaged,
    ChildMessage,
    InterruptRun,
    ProcessesEnded,
    ProtocolError,
    RunEnded,
    RunJob,
    RunNote,
    RunOutput,
    RunReturned,
    RunStarted,
    RunSucceeded,
)
from holdfast.worker.processes.running import ExitedChild, ExitReason, Run, StopReason
from holdfast.worker.processes.shared_deadline import SharedDeadline

WATCH_SECONDS = 1.0  # the pool's thread wakes up at least this often
WATCH_CLOSING_SECONDS = 0.05  # the same while the pool is closing
KILL_SECONDS = 3.0  # for the fork server to kill the children of a closing pool, before it is killed itself
TERM_SHARE = 0.5  # of the grace time: what an attempt left behind is killed before its child would be
MAX_RERUNS = 3  # of one attempt that fails in damaged children
MIN_CPU_POLL_SECONDS = 0.050  # between two reads of the processor time that a run has used

EndedRun: TypeAlias = tuple[Run, Outcome]
OnEnd = Callable[[list[EndedRun], bool], None]  # the runs that ended together, and whether more will end soon
OnLost = Callable[[Run], None]  # a run whose lease could not be extended in time
OnExit = Callable[[ExitedChild], None]


class ChildPool:
    """The child processes of a worker and the runs in them. Any thread may call the public methods."""

    def __init__(
        self,
        catalogue: Catalogue,
        *,
        processes: int,
        concurrency: int = 1,
        grace_seconds: float,
        limits: Limits | None = None,
        recycle: RecycleLimits | None = None,
        keep_processes: bool = False,
        worker: str = "",
    ) -> None:
        """Start the child processes. Call this before starting threads."""
        self.deadline = SharedDeadline()  # of the leases, which the children see also while the worker is stopped
        main = child_main(
            catalogue,
            limits or Limits(),
            recycle or RecycleLimits(),
            concurrency=concurrency,
            deadline=self.deadline,
            worker=worker,
            term_seconds=None if keep_processes else TERM_SHARE * grace_seconds,
        )
        self._children = ChildProcesses(main, processes, on_message=self._handle, on_exit=self._end_runs_of)
        self._size = PoolSize(processes=processes, concurrency=concurrency, chunk=catalogue.max_chunk)
        has_cpu_limit = any([limits and limits.cpu, *(handler.cpu for handler in catalogue)])
        self._places = 1 if has_cpu_limit else concurrency  # of one child: a run with such a limit is alone in it
        self._payload_only_types = catalogue.payload_only_types
        self._grace_seconds = grace_seconds
        self._on_end: OnEnd = lambda _ended, _more_soon: None
        self._on_lost: OnLost = lambda _run: None
        self._on_exit: OnExit = lambda _child: None
        self._pending: deque[Run] = deque()  # runs that were not sent to a child yet
        self._held: dict[tuple[str, str], int] = {}  # queue and type: the last run that was reserved before the hold
        self._job_seconds: float | None = None  # estimate; None until the first job has ended
        self._new_seconds: list[float] = []  # of ended jobs that are not in the estimate yet
        self._finished = 0  # runs that ended by themselves
        self._lock = threading.RLock()
        self.changed = threading.Condition(self._lock)  # notified when runs have ended
        self._last_attempts = threading.Condition(self._lock)  # notified when last attempts can begin
        self._closing_at: float | None = None  # monotonic seconds: when ``close`` was called
        self._ended: list[EndedRun] = []  # not yet passed to on_end
        self._failure: Exception | None = None  # of the pool's own thread
        self._thread = threading.Thread(target=self._watch, name="holdfast-pool", daemon=True)

    # For the worker ---------------------------------------------------------------------------------------------

    def start(self, on_end: OnEnd, *, on_lost: OnLost | None = None, on_exit: OnExit | None = None) -> None:
        """Start the pool's thread, which calls these functions. ``on_exit`` gets each child that will be replaced."""
        self._on_end = on_end
        self._on_lost = on_lost or self._on_lost
        self._on_exit = on_exit or self._on_exit
        self._thread.start()

    def reserve_limit(self) -> int:
        """Return how many more runs are useful now. Raises the exception that ended the pool's thread, if any."""
        with self._lock:
            if self._failure is not None:
                raise self._failure
            size, busy = self._responsive()
            return dispatch.reserve_limit(self._current_job_seconds(), size, busy=busy, finished=self._finished)

    def free_places(self) -> int:
        """Return how many more runs would begin at once, of whatever types: a chunk may have one run only."""
        with self._lock:
            used = [len(child.runs) for child in self._takers()] + [0] * self._children.starting
            return max(0, sum(max(0, self._places - runs) for runs in used) - len(self._pending))

    def _responsive(self) -> tuple[PoolSize, int]:
        """Return the size of the pool and its runs without the children that do not begin their runs."""
        silent = [len(child.runs) for child in self._children if child.is_silent]
        if not silent:
            return self._size, self.busy()
        return replace(self._size, processes=self._size.processes - len(silent)), self.busy() - sum(silent)

    def runs_short_jobs(self) -> bool:
        """Whether jobs are short by the estimate of the pool. False until the first job has ended."""
        with self._lock:
            return dispatch.are_short(self._current_job_seconds(), self._size)

    def busy(self) -> int:
        """Return how many runs were submitted and have not ended."""
        with self._lock:
            return len(self._pending) + sum(len(child.runs) for child in self._children)

    def running(self) -> int:
        """Return about how many runs the children are executing now. The other runs of a child wait in it."""
        with self._lock:
            return sum(min(len(child.runs), self._size.concurrency) for child in self._children)

    def ends_soon(self) -> bool:
        """Whether a run is expected to end soon."""
        with self._lock:
            return self.busy() > 0 and self._current_job_seconds() < dispatch.SOON_SECONDS

    def submit(self, runs: list[Run]) -> None:
        """Add runs. Each of them is passed to ``on_end`` exactly once, unless ``take_back`` returns it."""
        now = monotonic()
        for run in runs:
            run.submitted_at = now
            if dispatch.runs_alone(run, self._size):
                run.alone = True
        with self._lock:
            self._pending.extend(runs)
            if len(runs) < dispatch.EVENT_PAUSE_MIN_JOBS:
                self._dispatch()  # a few jobs start now, and do not wait for the pool's thread
                return
        self._children.wake()  # sending many takes time: the caller reserves the next jobs meanwhile

    def interrupt(self, run: Run, reason: StopReason) -> None:
        """Request that one run stops. ``on_end`` is called when it has stopped."""
        with self._lock:
            if run in self._pending:
                self._pending.remove(run)
                self._ended.append((run, Interrupted(reason=reason)))
            else:
                self._stop_run(run, reason)
        self._children.wake()

    def interrupt_all(self, reason: StopReason) -> None:
        """Request that every run in a child stops."""
        with self._lock:
            runs = [run for child in self._children for run in child.runs.values()]
            for run in runs:
                run.stop_reason = run.stop_reason or reason  # first: those that have not begun are withdrawn together
            for run in runs:
                self._stop_run(run, reason)
        self._children.wake()

    def take_back(self, *, waited_seconds: float = 0.0) -> list[Run]:
        """Remove and return the runs that were not sent to a child, if the first has waited ``waited_seconds``."""
        with self._lock:
            if waited_seconds and (not self._pending or monotonic() - self._pending[0].submitted_at < waited_seconds):
                return []
            runs = list(self._pending)
            self._pending.clear()
            return runs

    def give_back(self, queue: str, type_: str) -> None:
        """End the runs of a type that have not begun: the type is held. ``on_end`` gets those that do not begin."""
        with self._lock:
            runs = [*self._pending, *(run for child in self._children for run in child.runs.values())]
            self._held[queue, type_] = max((run.number for run in runs), default=0)
            self._end_held()
            for child in self._children:
                if any(run.began_at is None and self._is_held(run) for run in child.runs.values()):
                    self._take_unstarted(self._children.withdraw(child))
        self._children.wake()

    def _is_held(self, run: Run) -> bool:
        """Whether a run was reserved before its type was held."""
        return run.number <= self._held.get((run.reservation.job.queue, run.reservation.job.type), 0)

    def _end_held(self) -> None:
        held = [run for run in self._pending if self._is_held(run)] if self._held else ()
        for run in held:
            self._pending.remove(run)
            self._ended.append((run, Interrupted(reason=TYPE_HELD)))

    def wait_for_last_attempts(self) -> list[Run] | None:
        """Wait until last attempts can begin whose start the store does not know yet. None: the pool is closing.

        They begin after ``begin_last_attempts``.
        """
        with self._lock:
            while self._closing_at is None:
                if starts := self._unknown_starts():
                    for run in starts:
                        run.asked_at = run.asked_at or monotonic()
                    return starts
                self._last_attempts.wait()
            return None

    def begin_last_attempts(self, runs: list[Run]) -> None:
        """Let these runs begin: the store knows that they do."""
        with self._lock:
            for run in runs:
                run.is_start_known = True
            self._dispatch()

    def _unknown_starts(self) -> list[Run]:
        if not self._pending:
            return []
        return dispatch.unknown_starts(self._pending, [child.runs for child in self._takers()], self._size)

    def close(self) -> None:
        """Stop the children. Those that still run after the grace time are killed; ``on_end`` gets their runs."""
        with self._lock:
            self._closing_at = monotonic()
            self._last_attempts.notify_all()
            for child in self._children:
                self._take_unstarted(self._children.withdraw(child))
            self._children.stop()
        self._children.wake()
        self._thread.join()

    # The pool's thread ------------------------------------------------------------------------------------------

    def _watch(self) -> None:
        """Run until closed. A failure of this thread is raised by the next ``reserve_limit``."""
        try:
            self._watch_children()
        except Exception as error:  # noqa: BLE001 - raised again in the worker's thread
            with self._lock:
                self._failure = error
                self._report_ended()
                self.changed.notify_all()
        finally:
            with self._lock:
                self._children.close()

    def _watch_children(self) -> None:
        while True:
            events = self._children.select(self._seconds_until_deadline())
            with self._lock:
                for handle_event in events:
                    handle_event()
                self._report_ended()
                now = monotonic()
                if self._closing_at is not None:
                    if not self._children:
                        return
                    if now > self._closing_at + self._grace_seconds + KILL_SECONDS:
                        self._children.kill_fork_server()
                    elif now > self._closing_at + self._grace_seconds:
                        for child in self._children:
                            self._children.kill(child)
                self._enforce_deadlines(now)
                self._children.ping_due(now)
                self._children.restart_due(now)
                self._dispatch()
                can_pause = dispatch.can_pause_events(
                    self._current_job_seconds(),
                    busy=self.busy(),
                    pending=len(self._pending),
                    child_runs=(len(child.runs) for child in self._children),
                )
            if can_pause:
                self._children.pause(dispatch.EVENT_PAUSE_SECONDS)

    def _report_ended(self) -> None:
        if self._new_seconds:
            jobs = len(self._new_seconds)
            self._job_seconds = dispatch.smoothed_seconds(self._job_seconds, sum(self._new_seconds) / jobs, jobs)
            self._new_seconds.clear()
        if self._ended:
            ended, self._ended = self._ended, []
            self._on_end(ended, self.ends_soon())
            self.changed.notify_all()

    def _dispatch(self) -> None:
        """Distribute the pending runs, the least busy child first; write to each child once."""
        if not self._pending:
            return
        now, seconds = monotonic(), self._current_job_seconds()
        children = self._takers()
        children.sort(key=lambda child: len(child.runs))
        for index, child in enumerate(children):
            runs = dispatch.take_runs(
                self._pending,
                child.runs,
                self._size,
                children_left=len(children) - index,
                seconds=seconds,
                now=now,
            )
            if runs and runs[0].damaged_at >= child.started_at:  # it is alone, and waits for a new child
                self._pending.appendleft(runs[0])
                continue
            runs = self._without_lost(runs)
            if runs:
                added = child.add_runs(runs, now)
                self._pending.extendleft(reversed(runs[len(added) :]))
                if added:
                    self._children.send(child, self._run_messages(added))
        if self._unknown_starts():
            self._last_attempts.notify_all()

    def _takers(self) -> list[ChildHandle]:
        """Return the children that take runs."""
        return [child for child in self._children if not (child.is_silent or child.shortage or child.is_killed)]

    def _without_lost(self, runs: list[Run]) -> list[Run]:
        """Return the runs that may begin now. The others are past the deadline of their lease, and end."""
        now = boot_time()
        startable = [run for run in runs if run.lease_deadline > now]
        if len(startable) < len(runs):
            for run in runs:
                if run.lease_deadline <= now:
                    self._on_lost(run)
                    self._ended.append((run, run.outcome_when_stopped(StopReason.LOST)))
            self._children.wake()  # the pool's thread passes them to on_end
        return startable

    def _run_messages(self, runs: dict[int, Run]) -> list[RunJob]:
        payload_only = self._payload_only_types
        reservations = [(ticket, run.reservation, run.lease_deadline) for ticket, run in runs.items()]
        return [
            RunJob(ticket, payload_message(one) if one.job.type in payload_only else job_message(one), lease_deadline)
            for ticket, one, lease_deadline in reservations
        ]

    def _current_job_seconds(self) -> float:
        now = monotonic()
        running = (dispatch.running_seconds(child.runs, self._size, now) for child in self._children)
        return dispatch.job_seconds(self._job_seconds, running)

    # Deadlines --------------------------------------------------------------------------------------------------

    def _seconds_until_deadline(self) -> float:
        with self._lock:
            now, lease_now = monotonic(), boot_time()
            due = [now + (WATCH_SECONDS if self._closing_at is None else WATCH_CLOSING_SECONDS)]
            restart_at = self._children.next_restart()
            if restart_at is not None:
                due.append(restart_at)
            for child in self._children:
                if child.is_killed:
                    continue
                if dispatch.has_waiting(child.runs):
                    due.append(child.active_at + child.stuck_after)
                for run in dispatch.startable_runs(child.runs, self._size):
                    due += [instant for instant in (run.kill_at, run.deadline()) if instant is not None]
                    if run.began_at is not None:
                        due.append(now + (run.lease_deadline if run.kill_at is None else run.lease_kill_at) - lease_now)
                    if run.has_cpu_limit():
                        due.append(now + max(run.cpu_seconds_left(processor_time(child.pid)), MIN_CPU_POLL_SECONDS))
            return max(0.0, min(due) - now)

    def _enforce_deadlines(self, now: float) -> None:
        lease_now = boot_time()
        for child in self._children:
            for run in dispatch.startable_runs(child.runs, self._size):
                if lease_now >= run.lease_deadline and run.stop_reason is None:
                    self._on_lost(run)
                    self._stop_run(run, StopReason.LOST)
                deadline = run.deadline()
                if deadline is not None and now >= deadline:
                    self._stop_run(run, StopReason.TIMEOUT)
                if run.has_cpu_limit() and run.cpu_seconds_left(processor_time(child.pid)) <= 0:
                    self._stop_run(run, StopReason.CPU)
                if run.kill_at is not None and (now >= run.kill_at or lease_now >= run.lease_kill_at):
                    child.is_killed = True
            if child.is_killed and now - child.killed_at > WATCH_SECONDS:  # else the kill is under way
                child.killed_at = now
                self._take_unstarted(self._children.withdraw(child))
                self._children.kill(child)
            if child.is_stuck(now):
                child.is_silent = True
                child.stuck_after *= 2
                self._take_unstarted(self._children.withdraw(child))

    def _stop_run(self, run: Run, reason: StopReason) -> None:
        if run.kill_at is not None:
            return
        run.stop_reason = run.stop_reason or reason
        now = monotonic()
        for child in self._children:
            for ticket in [ticket for ticket, one in child.runs.items() if one is run]:
                if run.began_at is None:
                    self._take_unstarted(self._children.withdraw(child))
                if ticket in child.runs:  # it has begun, or is about to: then it is interrupted as soon as it begins
                    run.kill_at = now + self._grace_seconds
                    self._interrupt(child, ticket, run)

    def _interrupt(self, child: ChildHandle, ticket: int, run: Run) -> None:
        """Interrupt a run once it has begun. The signal must reach no other: those behind it are withdrawn before."""
        if run.began_at is None or run.stop_reason is None:
            return
        message, by_signal = InterruptRun(ticket, run.stop_reason), self._size.concurrency == 1
        if by_signal:
            self._take_unstarted(self._children.withdraw(child))
            if dispatch.has_waiting(child.runs):
                return  # the child has claimed the next run: this one has ended
        self._children.interrupt(child, message, by_signal=by_signal)

    # Messages and exits of children -----------------------------------------------------------------------------

    def _handle(self, child: ChildHandle, message: ChildMessage, now: float) -> None:
        """Apply a message of a child. Raises ``ProtocolError`` for one that does not fit the run that it names."""
        child.is_silent = False
        run = child.runs.get(message.run)
        if run is None:
            self._ignore(child, message)
            return
        match message:
            case RunStarted() if run.began_at is None:
                run.began_at, run.started_at = now, message.at
                child.began_run(now)
                if run.cpu_limit is not None:
                    run.cpu_seconds_before = processor_time(child.pid)
                if run.stop_reason is not None:
                    self._interrupt(child, message.run, run)
            case RunSucceeded() | RunEnded() if run.began_at is not None:
                self._end(child, run, message, now)
            case RunNote() | RunOutput() | ProcessesEnded() if run.began_at is not None:
                _add_report(run, message)
            case ChildDamaged() if run.began_at is not None:
                child.shortage = message.shortage
            case RunReturned() if run.began_at is None:
                child.active_at = now
                self._take_unstarted([child.runs.pop(message.run)])
            case _:
                begun = "not begun" if run.began_at is None else "begun"
                raise ProtocolError(f"{type(message).__name__} for run {message.run}, which had {begun}")

    def _end(self, child: ChildHandle, run: Run, message: RunSucceeded | RunEnded, now: float) -> None:
        is_innocent = child.shortage and isinstance(message, RunEnded) and self._may_begin_again(child, run, message)
        del child.runs[message.run]
        child.finished += 1
        if is_innocent:
            self._begin_again(child, run, now)
            return
        self._finished += 1
        run.seconds = message.seconds
        # The call to the store before a last attempt takes longer than a short job: it is part of the estimate.
        self._new_seconds.append(message.seconds if run.asked_at is None else now - run.asked_at)
        if isinstance(message, RunEnded) and message.kind == protocol.INTERRUPTED:
            outcome = run.outcome_when_stopped(message.reason)
        else:
            outcome = protocol.read_outcome(message)
        self._ended.append((run, outcome))

    def _may_begin_again(self, child: ChildHandle, run: Run, message: RunEnded) -> bool:
        """Whether a run that failed in a damaged child may be innocent: the child has had other runs.

        In a child of its own, a run that fails in the same way is the cause itself.
        """
        others = [one for one in child.runs.values() if one is not run and one.began_at is not None]
        is_shared = child.finished > 0 or bool(others)
        may_run = run.reruns < MAX_RERUNS and run.stop_reason is None and self._closing_at is None
        return message.kind == "failed" and is_shared and may_run

    def _begin_again(self, child: ChildHandle, run: Run, now: float) -> None:
        job = run.reservation.job
        fields = {"job_id": job.id, "type": job.type, "attempt": job.attempts, "pid": child.pid}
        log_event(events.JOB_BEGUN_AGAIN, **fields, reason=child.shortage)
        run.begin_again(now)
        self._pending.appendleft(run)

    def _take_unstarted(self, runs: list[Run]) -> None:
        """Let another child begin these runs, unless they have to stop or the pool is closing."""
        for run in reversed(runs):
            if run.stop_reason is not None:
                self._ended.append((run, run.outcome_when_stopped(run.stop_reason)))
            elif self._closing_at is not None:
                self._ended.append((run, Interrupted(reason=NOT_STARTED)))
            else:
                self._pending.appendleft(run)
        self._end_held()
        if self._ended:
            self._children.wake()  # the pool's thread passes them to on_end

    @staticmethod
    def _ignore(child: ChildHandle, message: ChildMessage) -> None:
        """Log a message about a run that has ended: the first answer counts. A run that never was is an error."""
        kind = type(message).__name__
        if not child.may_have_had(message.run):
            raise ProtocolError(f"{kind} for run {message.run}, which the child never had")
        if isinstance(message, RunReturned):
            return  # the child found that the run was withdrawn
        log_event(events.CHILD_LATE_MESSAGE, pid=child.pid, run=message.run, kind=kind)

    def _end_runs_of(self, child: ChildHandle, code: int) -> None:
        """End the runs that had begun in a child that has exited. The others go to another child."""
        now = monotonic()
        for run in child.runs.values():
            if run.began_at is not None:
                run.seconds = now - run.began_at
                self._ended.append((run, _outcome_of_exit(child, run, code)))
        self._take_unstarted([run for run in child.runs.values() if run.began_at is None])
        if self._closing_at is None:
            reason = _reason_of_exit(child, code)
            self._on_exit(ExitedChild(child.pid, code, reason, child.finished, child.shortage))


def _add_report(run: Run, message: RunNote | RunOutput | ProcessesEnded) -> None:
    match message:
        case RunNote():
            run.add_note(message.progress, message.checkpoint)
        case RunOutput():
            run.set_output(Output(message.output, message.truncated))
        case ProcessesEnded():
            log_event(
                events.JOB_PROCESSES_ENDED,
                job_id=run.reservation.job.id,
                type=run.reservation.job.type,
                processes=message.processes,
            )
        case _:
            assert_never(message)


def _reason_of_exit(child: ChildHandle, code: int) -> ExitReason:
    if child.is_killed:
        return "killed"
    if code != 0 or child.bad_report:
        return "crashed"
    return "damaged" if child.shortage else "recycled"


def _outcome_of_exit(child: ChildHandle, run: Run, code: int) -> Outcome:
    """Return the outcome of a run that had begun when its child exited.

    If the child was killed because of another run, this run is released without a counted attempt. If the child
    crashed, any of its runs may be the cause: each of them is counted as crashed.
    """
    if run.stop_reason is not None:
        return run.outcome_when_stopped(run.stop_reason)
    if child.bad_report:
        return Crashed(how=f"it sent what cannot be read, and was killed: {child.bad_report}")
    return Interrupted(reason=KILLED_FOR_ANOTHER) if child.is_killed else Crashed.from_exit(code)
