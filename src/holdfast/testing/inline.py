"""Jobs inside a test: look at the enqueued jobs, and run them in this thread, under a clock that the test moves.

This module does not need pytest. ``holdfast.testing.pytest_plugin`` has the fixtures.

    with app.using(connect("memory://", clock=clock), clock=clock):
        inline = Inline(app, clock)
        sign_up("ada@example.org")
        inline.assert_enqueued("mail.send", payload={"to": "ada@example.org"})
        assert inline.drain() == {"acked": 1}
"""

from __future__ import annotations

import dataclasses
import logging
from collections import Counter
from collections.abc import Callable, Coroutine, Iterator
from contextlib import closing
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any, Final, Protocol, Unpack, cast, overload

from msgspec.structs import replace

from holdfast.app import Holdfast, unknown_type_message
from holdfast.clock import ManualClock, to_datetime
from holdfast.drivers.requests import Inspect
from holdfast.errors import PayloadError
from holdfast.model.filters import JobFilter
from holdfast.model.job import JobRecord, State
from holdfast.model.lease import Lease, Reservation
from holdfast.model.request import JobRequest, RequestKeywords
from holdfast.task import Payload, R, Result, Task
from holdfast.wire.codec import JSON
from holdfast.wire.job_message import job_message
from holdfast.wire.records import to_job, to_record
from holdfast.worker.attempt import attempt as run_attempt
from holdfast.worker.catalogue import Catalogue, Handler, Middleware, make_handler
from holdfast.worker.event_loop import LocalLoop
from holdfast.worker.guard import Guard
from holdfast.worker.outcome import Outcome, Succeeded
from holdfast.worker.processes.running import Run
from holdfast.worker.resources import Resources
from holdfast.worker.status import WorkerResult
from holdfast.worker.worker import Worker

log = logging.getLogger("holdfast.testing")

MAX_RUNS = 1000  # of one call: a job that is retried without end fails its test instead of hanging it
MAX_SHOWN_JOBS = 20  # that a failed assertion lists

ANY: Final = object()  # matches every payload


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredJob:
    """An enqueued job in its present state, with its payload decoded."""

    payload: object
    record: JobRecord

    @property
    def id(self) -> str:
        """The id of the job."""
        return self.record.id

    @property
    def type(self) -> str:
        """The type, which selects the handler."""
        return self.record.type

    @property
    def queue(self) -> str:
        """The queue of the job."""
        return self.record.queue

    @property
    def state(self) -> State:
        """The present state."""
        return self.record.state

    @property
    def run_at(self) -> datetime | None:
        """The requested ``run_at``."""
        instant = self.record.requested_run_at
        return None if instant is None else to_datetime(instant)

    def __str__(self) -> str:
        return f"{self.type} {self.payload!r} in {self.queue}, {self.state}"


class PlainFunction(Protocol):
    """A function or class that is not a task: type checkers see no ``__name__`` of a task."""

    __name__: str

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Handle a job."""


class Inline:
    """Inspects and runs the jobs of an app in this thread. ``clock`` is the clock of the app's store."""

    def __init__(self, app: Holdfast, clock: ManualClock) -> None:
        self.app = app
        self.clock = clock

    # Enqueued jobs ----------------------------------------------------------------------------------------------

    def enqueued(
        self,
        type: str | Task[Any, Any, ..., Any] | None = None,
        *,
        payload: object = ANY,
        **options: Unpack[RequestKeywords],
    ) -> list[StoredJob]:
        """Return the enqueued jobs, in any state, in the order in which they were enqueued.

        ``payload`` is anything that ``enqueue`` takes, and is compared as JSON; or it is a function that says whether a
        payload matches. The options are those of ``enqueue``. A job has at least the ``meta`` that is given.
        """
        name = None if type is None else _name(type)
        has_payload = _payload_matcher(payload, None if name is None else self.app.tasks.get(name))
        has_options = _options_matcher(options)
        jobs = (_stored(record) for record in self._records(JobFilter(type=name, queue=options.get("queue"))))
        return [job for job in jobs if has_payload(job.payload) and has_options(job.record)]

    def assert_enqueued(
        self,
        type: str | Task[Any, Any, ..., Any],
        *,
        payload: object = ANY,
        count: int | None = None,
        **options: Unpack[RequestKeywords],
    ) -> list[StoredJob]:
        """Assert that at least one such job was enqueued, or exactly ``count``; return them. See ``enqueued``."""
        __tracebackhide__ = True
        jobs = self.enqueued(type, payload=payload, **options)
        if jobs if count is None else len(jobs) == count:
            return jobs
        wanted = f"{'at least one job' if count is None else f'{count} jobs'} of type {_name(type)}"
        wanted += "" if payload is ANY else f" with {_describe(payload)}"
        wanted += "".join(f", {name} {value!r}" for name, value in options.items())
        raise AssertionError(f"wanted {wanted}, got {len(jobs)}; {self._list_jobs()}")

    def _list_jobs(self) -> str:
        jobs = self.enqueued()
        more = [f"and {len(jobs) - MAX_SHOWN_JOBS} more"] if len(jobs) > MAX_SHOWN_JOBS else []
        lines = [*(str(job) for job in jobs[:MAX_SHOWN_JOBS]), *more]
        return "\n  ".join(["these were enqueued:", *lines]) if jobs else "nothing was enqueued"

    def _records(self, where: JobFilter) -> Iterator[JobRecord]:
        after: str | None = None
        while True:
            page = self.app.driver.find(where, after=after)
            yield from page.items
            after = page.cursor
            if after is None:
                return

    # Running jobs ------------------------------------------------------------------------------------------------

    def drain(self, *, advance: bool = False, limit: int = MAX_RUNS) -> Counter[str]:
        """Run due jobs until none is due; return how many runs ended with which status, as ``Worker.run`` does.

        With ``advance`` the clock moves to the time of the next scheduled job, again and again, until no job of this
        app is scheduled. The error of a failed run is logged. More than ``limit`` runs raise ``AssertionError``.
        """
        __tracebackhide__ = True
        statuses: Counter[str] = Counter()
        with closing(self.app.worker()) as worker:
            while True:
                result = worker.process_once()
                if result.status != "empty":
                    statuses[result.status] += 1
                    _log(result)
                elif not (advance and self._advance(worker)):
                    return statuses
                if statuses.total() > limit:
                    raise AssertionError(
                        f"wanted nothing to be due after {limit} runs, got {dict(statuses)} and no end"
                    )

    def _advance(self, worker: Worker) -> bool:
        """Move the clock to the time of the next scheduled job; False if there is none."""
        now = self.clock.now()
        due: list[int] = []
        for record in self._records(JobFilter(states=(State.READY, State.INFLIGHT))):
            job = self.app.driver.do(Inspect(job_ids=[record.id])).get(record.id)
            if job is not None and record.type in worker.catalogue.types and record.queue in worker.queues:
                due.append(job.available_at if job.expires_at is None else job.expires_at)
        due = [instant for instant in due if instant > now]
        if due:
            self.clock.advance(min(due) - now)
        return bool(due)

    @overload
    def run_job(
        self,
        job: Task[None, Coroutine[Any, Any, R], ..., Any],
        payload: None = None,
        *,
        attempt: int = 1,
        checkpoint: object = None,
        **options: Unpack[RequestKeywords],
    ) -> R: ...
    @overload
    def run_job(
        self,
        job: Task[None, Result, ..., Any],
        payload: None = None,
        *,
        attempt: int = 1,
        checkpoint: object = None,
        **options: Unpack[RequestKeywords],
    ) -> Result: ...
    @overload
    def run_job(
        self,
        job: Task[Payload, Coroutine[Any, Any, R], ..., Any],
        payload: Payload,
        *,
        attempt: int = 1,
        checkpoint: object = None,
        **options: Unpack[RequestKeywords],
    ) -> R: ...
    @overload
    def run_job(
        self,
        job: Task[Payload, Result, ..., Any],
        payload: Payload,
        *,
        attempt: int = 1,
        checkpoint: object = None,
        **options: Unpack[RequestKeywords],
    ) -> Result: ...
    @overload
    def run_job(
        self,
        job: str | PlainFunction | partial[Any],
        payload: object = None,
        *,
        attempt: int = 1,
        checkpoint: object = None,
        **options: Unpack[RequestKeywords],
    ) -> Any: ...

    def run_job(
        self,
        job: str | Callable[..., Any],
        payload: object = None,
        *,
        attempt: int = 1,
        checkpoint: object = None,
        **options: Unpack[RequestKeywords],
    ) -> Any:
        """Run one handler, given by itself or by its type, as a worker would, without a store.

        Returns its result, as the type that it is annotated with, or raises its exception. Payload, checkpoint and
        result are encoded and decoded as JSON; payload and options are those of ``enqueue``. The app's middleware and
        resources are used. ``Retry``, ``Snooze``, ``Unrecoverable`` and other exceptions are raised, also if the
        handler returned them. A payload or result that does not fit raises ``PayloadError``.
        """
        __tracebackhide__ = True
        task = self._task(job) if isinstance(job, str) else job if isinstance(job, Task) else None
        if task is not None:
            handler, request = _for_one_job(task.handler), task.request(payload, **options)
        else:
            handler = make_handler("job", cast("Callable[..., Any]", job))
            request = JobRequest(type="job", payload=handler.encode(payload), **options)
        record = to_record(request, now=self.clock.now())
        reservation = Reservation(
            job=replace(record, attempts=attempt),
            lease=Lease(job_id=record.id, token="", fence=attempt, expires_at=0),
            checkpoint=None if checkpoint is None else JSON.encode(checkpoint, field="checkpoint"),
        )
        raised: list[Exception] = []
        catalogue = Catalogue()
        catalogue.resources = self.app.catalogue.resources
        catalogue.middleware = [_recording(handler, raised), *self.app.catalogue.middleware]
        catalogue.add(handler)
        handler.decode(to_job(reservation).payload)  # raises PayloadError itself, not an outcome
        outcome = _run_once(catalogue, reservation)
        if raised:
            raise raised[0]
        assert isinstance(outcome, Succeeded), outcome
        return handler.decode_result(None if outcome.result is None else JSON.decode(outcome.result, field="result"))

    def _task(self, type_: str) -> Task[Any, Any, ..., Any]:
        if type_ not in self.app.tasks:
            raise AssertionError(unknown_type_message(type_, self.app.tasks))
        return self.app.tasks[type_]

    def crash_before_ack(self, type: str | Task[Any, Any, ..., Any] | None = None) -> WorkerResult:
        """Run the next due job twice, as if the worker died after the first run and before its ack.

        ``type`` restricts which job is next. The first run is not settled, and its notes are not stored. Then the clock
        moves to the end of the lease, and due jobs are run until this job has run again. Its second result is returned.
        Raises ``AssertionError`` if the first run does not succeed, or if there is no second run.
        """
        __tracebackhide__ = True
        worker = self.app.worker()
        reservations = self.app.driver.reserve(
            worker.queues,
            limit=1,
            lease_for=worker.options.lease_for,
            worker="crashed",
            types=worker.catalogue.types if type is None else {_name(type)} & worker.catalogue.types,
        )
        if not reservations:
            raise AssertionError(f"wanted a job{'' if type is None else f' of type {_name(type)}'} to be due, got none")
        [reservation] = reservations
        _, refused = Guard(self.app.driver, worker.catalogue, worker.options).admit([Run(0, reservation)])
        outcome = refused[0][1] if refused else _run_once(worker.catalogue, reservation)
        if not isinstance(outcome, Succeeded):
            raise AssertionError(f"wanted a first run that succeeds, got {outcome}")  # noqa: TRY004 - a failure of the test
        self.clock.advance(max(0, reservation.lease.expires_at - self.clock.now()))
        with closing(worker):
            for _ in range(MAX_RUNS):
                result = worker.process_once()
                _log(result)
                if result.job_id == reservation.job.id:
                    return result
                if result.status == "empty":
                    break
        record = self.app.driver.get(reservation.job.id)
        if record is None:
            state = "gone"
        else:
            state = f"{record.state}, {record.dead_reason}" if record.dead_reason else str(record.state)
        raise AssertionError(f"wanted a second run of {_stored(reservation.job)}; it did not run again, it is {state}")


def _run_once(catalogue: Catalogue, reservation: Reservation) -> Outcome:
    resources = Resources(catalogue.resources)
    loop = LocalLoop(resources.aclose)
    try:
        return run_attempt(catalogue, resources, job_message(reservation), lambda *_: None, run_coroutine=loop.run)
    finally:
        loop.close()
        resources.close()


def _recording(handler: Handler, raised: list[Exception]) -> Middleware:
    """Return a middleware that records the exception of an attempt, also that of a result that cannot be stored."""

    def record(_context: object, call_next: Callable[[], object]) -> object:
        try:
            answer = call_next()
            if isinstance(answer, Exception):
                raise answer  # noqa: TRY301 - returned or raised, the effect is the same
            handler.encode_result(answer)
            return answer
        except Exception as error:
            raised.append(error)
            raise

    return record


def _stored(record: JobRecord) -> StoredJob:
    unleased = Lease(job_id=record.id, token="", fence=0, expires_at=0)
    return StoredJob(payload=to_job(Reservation(job=record, lease=unleased)).payload, record=record)


def _name(type_: str | Task[Any, Any, ..., Any]) -> str:
    return type_.definition.type if isinstance(type_, Task) else type_


def _for_one_job(handler: Handler) -> Handler:
    """Return a handler of chunks as a handler that is called for one job, so that middleware sees its answer."""
    if handler.chunk is None:
        return handler

    def call(*arguments: object) -> object:
        return handler.function(*([one] for one in arguments))[0]

    async def call_async(*arguments: object) -> object:
        return (await handler.function(*([one] for one in arguments)))[0]

    return dataclasses.replace(handler, chunk=None, function=call_async if handler.is_async else call)


def _payload_matcher(wanted: object, task: Task[Any, Any, ..., Any] | None) -> Callable[[object], object]:
    if wanted is ANY:
        return lambda _: True
    if callable(wanted):
        return wanted
    try:
        encoded = wanted if task is None else task.handler.encode(wanted)
    except PayloadError:  # of a job that was enqueued without its task
        encoded = wanted
    as_json = JSON.decode(JSON.encode(encoded))
    return lambda payload: payload == as_json


def _options_matcher(options: RequestKeywords) -> Callable[[JobRecord], bool]:
    """Return whether a record is as a request with these options makes it."""
    wanted = to_record(JobRequest(type="any", **options), now=0)
    plain = {
        "unique_for" if name == "unique" else name
        for name in options.keys() - {"run_at", "delay", "retry", "single_instance", "meta"}
    }

    def matches(record: JobRecord) -> bool:
        started = record.created_at if options.get("delay") is not None else 0
        return (
            all(getattr(record, name) == getattr(wanted, name) for name in plain)
            and wanted.meta.items() <= record.meta.items()  # the retry policy and the lock are in the meta
            and (wanted.run_at is None or record.requested_run_at == started + wanted.run_at)
        )

    return matches


def _describe(payload: object) -> str:
    if callable(payload):
        return f"a payload that {getattr(payload, '__qualname__', payload)} accepts"
    return f"payload {payload!r}"


def _log(result: WorkerResult) -> None:
    if result.error:
        log.warning("job %s: %s: %s", result.job_id, result.status, result.error)
