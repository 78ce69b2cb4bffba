"""The loop: reserve what can be run, keep it alive, run it in children, settle it; stop without losing anything."""

from __future__ import annotations

import itertools
import logging
import os
import random
import secrets
import signal
import socket
import threading
import types
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, NamedTuple

from holdfast.clock import DAY, SECOND, from_timedelta, monotonic
from holdfast.drivers.contract import Feature, Store
from holdfast.errors import InvalidInput, LeaseError, StoreError, Unsupported
from holdfast.model import bounds
from holdfast.model.job import JobRecord
from holdfast.model.lease import Lease, Reservation
from holdfast.model.request import DEFAULT_QUEUE
from holdfast.model.retry import DEFAULT, RetryPolicy
from holdfast.model.settlement import Ack, Fail, Release, Retry, Settlement
from holdfast.wire.records import brief
from holdfast.worker.attempt import attempt, goes_together
from holdfast.worker.catalogue import Catalogue, Handler, Resources, handler_of
from holdfast.worker.decide import acked, decide
from holdfast.worker.heartbeat import Heart
from holdfast.worker.interpreter import old_values_left_alone, rarely_disturbed
from holdfast.worker.limits import Limits, Term
from holdfast.worker.outcome import Interrupted, Outcome, Succeeded
from holdfast.worker.pool import CANCEL, LOST, SHUTDOWN, SOON, Children
from holdfast.worker.retry_policy import policy_of
from holdfast.worker.running import Run
from holdfast.worker.settler import Settler, keep_last_notes

log = logging.getLogger("holdfast.worker")

LOOK_AGAIN = 0.25  # seconds after which an idle worker looks for itself, whatever the store's hints say
LOOK_SOON = 0.02  # the same at first, doubled each time, where the end of what others run is waited for
TOO_LONG = 1.0  # seconds after which a reserved job that could not start is given back for others
TRIM_EVERY = 60.0  # seconds, about
TRIM_LIMIT = 1000  # rows of each kind at a time: retention never holds up a reserve for long
REAP_EVERY = 5.0  # seconds, about: queues that nobody reserves from are repaired too


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerOptions:
    """How a worker works; every default is meant to be left alone."""

    queues: tuple[str, ...] | None = None  # those of the app's handlers; without an app, ``default``
    processes: int = field(default_factory=lambda: os.cpu_count() or 1)
    threads: int = 1  # jobs at a time in each process: more than one only for handlers that mostly wait
    lease: timedelta = timedelta(seconds=15)
    drain: timedelta | None = timedelta(seconds=25)  # how long running jobs may go on after a stop; None: for ever
    grace: timedelta = timedelta(seconds=2)  # between interrupting a handler and killing its process
    retry: RetryPolicy = DEFAULT  # for jobs and handlers that have no policy of their own
    until_drained: bool = False
    max_jobs: int | None = None
    limits: Limits = field(default_factory=Limits)  # of each child process
    recycle_after: int | None = None  # jobs after which a child process is replaced
    recycle_above: int | None = None  # bytes of memory above which it is
    keep_ended: timedelta = timedelta(days=7)  # of done and cancelled jobs; dead letters are kept until purged
    keep_ledger: timedelta = timedelta(days=30)
    name: str = ""

    def __post_init__(self) -> None:
        """Everything in range."""
        if self.queues is not None and not self.queues:
            raise InvalidInput("queues", wanted="at least one", got="none")
        for queue in self.queues or ():
            bounds.check_name("queue", queue)
        bounds.check_integer("processes", self.processes, least=1, most=1024)
        bounds.check_integer("threads", self.threads, least=1, most=1024)
        bounds.duration_from("lease", self.lease, least=SECOND // 10)
        bounds.duration_from("grace", self.grace)
        if self.drain is not None:
            bounds.duration_from("drain", self.drain)
        bounds.check_optional_integer("max_jobs", self.max_jobs, least=1)
        bounds.check_optional_integer("recycle_after", self.recycle_after, least=1)
        bounds.check_optional_integer("recycle_above", self.recycle_above, least=1, most=2**62)
        bounds.duration_from("keep_ended", self.keep_ended, least=DAY)
        bounds.duration_from("keep_ledger", self.keep_ledger, least=1)
        bounds.check_text("name", self.name, empty=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerResult:
    """What became of one job: ``empty rejected skipped acked retried released dead``, or ``lost`` if it was refused."""

    status: str
    job_id: str | None = None
    error: str = ""


class Settled(NamedTuple):
    """An attempt, how the worker ended it, and what the store said to that."""

    run: Run
    settlement: Settlement
    refused: LeaseError | StoreError | None
    status: str


@dataclass(slots=True)
class Tally:
    """What a worker has done so far."""

    statuses: Counter[str] = field(default_factory=Counter)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def count(self, statuses: Iterable[str]) -> None:
        """One more of each."""
        with self.lock:
            self.statuses.update(statuses)


class Worker:
    """Runs the jobs of some queues by the handlers it knows. ``run`` may be called off the main thread, too."""

    def __init__(
        self,
        driver: Store,
        options: WorkerOptions | None = None,
        *,
        catalogue: Catalogue | None = None,
        on_settled: Callable[[Sequence[Settled]], None] | None = None,
    ) -> None:
        """``on_settled`` is told of every attempt, in batches, from a thread of the worker."""
        self.driver = driver
        self.options = options or WorkerOptions()
        self.catalogue = catalogue or Catalogue()
        self.name = self.options.name or f"{socket.gethostname()}:{os.getpid()}:{secrets.token_hex(3)}"
        self.queues = list(self.options.queues or (DEFAULT_QUEUE,))
        self.tally = Tally()
        self._lease_for = from_timedelta(self.options.lease)
        self._on_settled = on_settled
        self._children: Children | None = None
        self._holding = threading.Event()
        self._stop = threading.Event()
        self._now = threading.Event()
        self._numbers = itertools.count(1)
        self._started = 0
        self._dice = random.Random()  # noqa: S311 - jitter
        self._resources = Resources(self.catalogue.resources)  # of jobs that run in this process

    def register(
        self,
        type_: str,
        function: Callable[..., Any],
        *,
        timeout: timedelta | None = None,
        cpu: timedelta | None = None,
        retry: RetryPolicy | None = None,
        chunk: int | None = None,
    ) -> Handler:
        """Run jobs of this type by ``fn(payload)``, ``fn(payload, ctx)``, or a class with ``handle(ctx)``.

        With ``chunk`` by ``fn(payloads)`` or ``fn(payloads, contexts)``, up to so many at a time.
        """
        return self.catalogue.add(handler_of(type_, function, timeout=timeout, cpu=cpu, retry=retry, chunk=chunk))

    def stop(self, *, at_once: bool = False) -> None:
        """Reserve nothing more, let running jobs end within the drain time; or do not even wait for that."""
        self._stop.set()
        if at_once:
            self._now.set()

    def hold(self) -> None:
        """Reserve nothing more, and go on with what is held, until ``stop``."""
        self._holding.set()

    def close(self) -> None:
        """Close the resources that ``process_once`` has made. ``run`` cleans up behind itself."""
        self._resources.close()

    @property
    def held(self) -> int:
        """Jobs that ``run`` has reserved and not yet settled."""
        return max(0, self._started - self.tally.statuses.total())

    # One job, here and now --------------------------------------------------------------------------------------

    def process_once(self, queue: str | None = None) -> WorkerResult:
        """Run one job in this process, if one is due. For tests and scripts: nothing can interrupt the handler."""
        self.catalogue.check_chunks(threads=1)
        queues = self.queues if queue is None else [queue]
        found = self.driver.reserve(
            queues, limit=1, lease_for=self._lease_for, worker=self.name, types=self.catalogue.types
        )
        if not found:
            return WorkerResult(status="empty")
        [reservation] = found
        run = Run(next(self._numbers), reservation)
        heart = Heart(self.driver, lease_for=self._lease_for, on_lost=lambda *_: None, on_cancel=lambda _: None)
        heart.start()
        heart.add([run])
        try:
            outcome = attempt(self.catalogue, self._resources, brief(reservation), run.keep)
        finally:
            heart.stop()
        [lease] = heart.remove([run])
        keep_last_notes(self.driver, [run], [lease], self._lease_for)
        settlement = self._decide(run, outcome, lease)
        [refused] = self.driver.settle([settlement])
        return WorkerResult(
            status=_status(reservation.job, settlement, refused),
            job_id=reservation.job.id,
            error=getattr(settlement, "error", "") if refused is None else str(refused),
        )

    # The loop ---------------------------------------------------------------------------------------------------

    def prepare(self) -> None:
        """Make the child processes that ``run`` will use: in the main thread, if ``run`` is called in another.

        A process should be forked while it has no other threads.
        """
        if not self.catalogue.types:
            raise InvalidInput("handlers", wanted="at least one registered handler", got="none")
        self.catalogue.check_chunks(threads=self.options.threads)
        alone = self.driver.capabilities.gaps.get(Feature.PROCESSES)
        if alone is not None:
            reason = f"{alone}, and handlers run in others: what they enqueue would be lost; use process_once"
            raise Unsupported(self.driver.capabilities.driver, "a worker", reason)
        self._children = Children(
            self.catalogue,
            processes=self.options.processes,
            threads=self.options.threads,
            grace=self.options.grace.total_seconds(),
            limits=self.options.limits,
            term=Term(jobs=self.options.recycle_after, memory=self.options.recycle_above),
        )

    def run(self, stop: threading.Event | None = None) -> Counter[str]:
        """Work until stopped (or drained, or done with ``max_jobs``); gives how many jobs ended how."""
        with self._signals(), old_values_left_alone():
            if self._children is None:
                self.prepare()
            children, self._children = self._children, None
            assert children is not None
            self._run(children, stop or threading.Event())
        return Counter(self.tally.statuses)

    def _run(self, children: Children, stop: threading.Event) -> None:
        heart = Heart(
            self.driver,
            lease_for=self._lease_for,
            on_lost=lambda run, error: self._lost(children, run, error),
            on_cancel=lambda run: children.interrupt(run, CANCEL),
        )
        settler = Settler(self.driver, heart, lease_for=self._lease_for, decide=self._decide, on_settled=self._settled)
        heart.start()
        settler.start()
        children.start(lambda endings, more_soon: settler.add(endings, more_soon=more_soon))
        log.info("worker.started", extra={"worker": self.name, "queues": self.queues})
        try:
            with rarely_disturbed():
                self._work(children, heart, settler, stop)
                self._finish(children, settler, stop)
        finally:
            children.close()
            settler.stop()
            heart.stop()
        log.info("worker.stopped", extra={"worker": self.name, **self.tally.statuses})

    def _work(self, children: Children, heart: Heart, settler: Settler, stop: threading.Event) -> None:
        """Until told to stop, or until there is no more to do."""
        next_reap, next_trim = self._in_about(REAP_EVERY), self._in_about(TRIM_EVERY)
        patience = LOOK_SOON
        while not self._stopping(stop):
            try:
                if monotonic() >= next_reap:
                    self.driver.reap()
                    next_reap = self._in_about(REAP_EVERY)
                if monotonic() >= next_trim:
                    next_trim = self._in_about(TRIM_EVERY if not self._trim() else 0.0)
                self._give_back(children, settler, waited=TOO_LONG)
                if not settler.wait_until_abreast(LOOK_AGAIN):
                    continue
                found = self._reserve(children, heart)
                if self._enough():
                    return
                if found is None:
                    with children.changed:
                        children.changed.wait(LOOK_AGAIN)
                elif not found:
                    if self.options.until_drained and self._drained(children, settler):
                        return
                    self.driver.wait(self.queues, timeout=patience if self.options.until_drained else LOOK_AGAIN)
                    patience = min(2 * patience, LOOK_AGAIN)
                else:
                    patience = LOOK_SOON
            except StoreError as error:
                log.warning("store.failed", extra={"error": str(error)})
                self._stop.wait(LOOK_AGAIN)

    def _stopping(self, stop: threading.Event) -> bool:
        return self._stop.is_set() or stop.is_set()

    def _in_about(self, seconds: float) -> float:
        """An instant that differs between workers, so that they do not all do the same at once."""
        return monotonic() + self._dice.uniform(0.5, 1.5) * seconds

    def _trim(self) -> bool:
        """Forget what is old enough, a little at a time; True if there is more."""
        kept = from_timedelta(self.options.keep_ended), from_timedelta(self.options.keep_ledger)
        return self.driver.trim(ended_for=kept[0], ledger_for=kept[1], limit=TRIM_LIMIT).more

    def _give_back(self, children: Children, settler: Settler, *, waited: float = 0.0) -> None:
        """Release what no child has got."""
        runs = children.take_back(waited=waited)
        if runs:
            settler.add([(run, Interrupted()) for run in runs], more_soon=False)

    def _reserve(self, children: Children, heart: Heart) -> list[Run] | None:
        """Take what there is room for; None if there is none."""
        room = 0 if self._holding.is_set() else children.room()
        if self.options.max_jobs is not None:
            room = min(room, self.options.max_jobs - self._started)
        if room <= 0:
            return None
        found = self.driver.reserve(
            self.queues,
            limit=min(room, bounds.MAX_BATCH_ITEMS),
            lease_for=self._lease_for,
            worker=self.name,
            types=self.catalogue.types,
        )
        runs = [self._run_of(reservation) for reservation in found]
        self._started += len(runs)
        heart.add(runs)
        children.submit(runs)
        return runs

    def _run_of(self, reservation: Reservation) -> Run:
        run, job = Run(next(self._numbers), reservation), reservation.job
        handler = self.catalogue.get(job.type)
        cpu = self.options.limits.cpu
        if job.timeout is not None:
            run.timeout = job.timeout
        if handler is not None:
            if job.timeout is None and handler.timeout is not None:
                run.timeout = from_timedelta(handler.timeout)
            if handler.chunk is not None and goes_together(job.attempts, job.crashes):
                run.chunk = handler.chunk
            cpu = handler.cpu or cpu
        if cpu is not None:
            run.cpu = from_timedelta(cpu)
        return run

    def _enough(self) -> bool:
        return self.options.max_jobs is not None and self._started >= self.options.max_jobs

    def _drained(self, children: Children, settler: Settler) -> bool:
        """Nothing runs here, and nothing waits, is scheduled or runs elsewhere in our queues."""
        while children.ends_soon():
            with children.changed:
                children.changed.wait(SOON)
        if children.busy() or not settler.wait_until_idle(SOON):
            return False
        return not self.driver.any_open(self.queues, self.catalogue.types)

    def _finish(self, children: Children, settler: Settler, stop: threading.Event) -> None:
        """Let what was begun end by itself; once stopped, only for the drain time, and then interrupt it."""
        while children.busy() and not self._stopping(stop):
            with children.changed:
                children.changed.wait(LOOK_AGAIN)
        self._give_back(children, settler)
        deadline = None if self.options.drain is None else monotonic() + self.options.drain.total_seconds()
        while children.busy() and not self._now.is_set():
            left = LOOK_AGAIN if deadline is None else min(LOOK_AGAIN, deadline - monotonic())
            if left <= 0:
                break
            with children.changed:
                children.changed.wait(left)
        children.interrupt_all(SHUTDOWN)

    # Endings ----------------------------------------------------------------------------------------------------

    def _decide(self, run: Run, outcome: Outcome, lease: Lease) -> Settlement:
        if isinstance(outcome, Succeeded):  # most do, and need no policy
            return acked(lease, outcome, run.started_at)
        job = run.reservation.job
        policy = policy_of(job, self.catalogue.get(job.type), self.options.retry)
        return decide(job, lease, outcome, policy, random=self._dice.random(), started_at=run.started_at)

    def _settled(
        self,
        runs: Sequence[Run],
        settlements: Sequence[Settlement],
        answers: Sequence[LeaseError | StoreError | None],
    ) -> None:
        if not any(answers) and set(map(type, settlements)) == {Ack}:  # nearly always
            statuses = ["acked"] * len(settlements)
        else:
            ended = zip(runs, settlements, answers, strict=True)
            statuses = [_status(run.reservation.job, settlement, refused) for run, settlement, refused in ended]
        self.tally.count(statuses)
        if self._on_settled is not None:
            self._on_settled(list(map(Settled, runs, settlements, answers, statuses)))
        for run, settlement, refused in zip(runs, settlements, answers, strict=True):
            if refused is not None:
                extra = {"job_id": run.reservation.job.id, "verb": settlement.verb, "error": str(refused)}
                log.warning("settle.refused", extra=extra)

    @staticmethod
    def _lost(children: Children, run: Run, error: LeaseError) -> None:
        log.warning("lease.lost", extra={"job_id": run.reservation.job.id, "error": str(error)})
        children.interrupt(run, LOST)

    # Signals ----------------------------------------------------------------------------------------------------

    @contextmanager
    def _signals(self) -> Iterator[None]:
        """The first SIGTERM or SIGINT drains, the second does not wait; only where Python lets us listen."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return

        def stop(_number: int, _frame: types.FrameType | None) -> None:
            self.stop(at_once=self._stop.is_set())

        before = {number: signal.signal(number, stop) for number in (signal.SIGTERM, signal.SIGINT)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


def _status(job: JobRecord, settlement: Settlement, refused: Exception | None) -> str:
    if refused is not None:
        return "lost"
    match settlement:
        case Ack():
            return "acked"
        case Retry():
            poison = settlement.crashed and job.max_crashes is not None and job.crashes + 1 >= job.max_crashes
            return "dead" if poison or job.attempts >= job.max_attempts else "retried"
        case Release():
            return "released"
        case Fail():
            return "rejected" if settlement.reason == "bad payload" else "dead"
