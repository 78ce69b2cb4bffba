"""Jobs inside a test: what was enqueued, run here and now, under a clock that moves only when told to.

Nothing of pytest is needed. ``holdfast.testing.pytest_plugin`` makes fixtures of it.

    with app.using(connect("memory://", clock=clock), clock=clock):
        inline = Inline(app, clock)
        sign_up("ada@example.org")
        inline.assert_enqueued("mail.send", payload={"to": "ada@example.org"})
        assert inline.drain() == {"acked": 1}
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final

from holdfast.app import Holdfast, Task
from holdfast.clock import ManualClock, from_timedelta, to_datetime
from holdfast.drivers.contract import JobFilter
from holdfast.model.definition import JobDefinition
from holdfast.model.job import JobRecord, State
from holdfast.model.lease import Lease, Reservation
from holdfast.wire.codec import JSON
from holdfast.wire.records import brief, to_job, to_record
from holdfast.worker.attempt import attempt as run_attempt
from holdfast.worker.catalogue import Catalogue, Middleware, Resources, encode_result, handler_of
from holdfast.worker.control import Control
from holdfast.worker.outcome import Outcome, Succeeded
from holdfast.worker.worker import Worker, WorkerResult

log = logging.getLogger("holdfast.testing")

MOST_RUNS = 1000  # of one call: a job that comes back for ever fails its test instead of hanging it
SHOWN = 20  # jobs that a failed assertion lists

ANY: Final = object()  # no payload is equal to it


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredJob:
    """A job that was enqueued, as it stands now, its payload read back from JSON."""

    payload: object
    record: JobRecord

    @property
    def id(self) -> str:
        """By which the store knows it."""
        return self.record.id

    @property
    def type(self) -> str:
        """Which picks its handler."""
        return self.record.type

    @property
    def queue(self) -> str:
        """Where it waits, or waited."""
        return self.record.queue

    @property
    def state(self) -> State:
        """Where it stands now."""
        return self.record.state

    @property
    def run_at(self) -> datetime | None:
        """The instant that it was asked to wait for."""
        instant = self.record.requested_run_at
        return None if instant is None else to_datetime(instant)

    def __str__(self) -> str:
        return f"{self.type} {self.payload!r} in {self.queue}, {self.state}"


class Inline:
    """An app whose store judges by ``clock``: its jobs are looked at, and run in this thread."""

    def __init__(self, app: Holdfast, clock: ManualClock) -> None:
        self.app = app
        self.clock = clock

    # What was enqueued ------------------------------------------------------------------------------------------

    def enqueued(
        self, type: str | Task[..., Any] | None = None, *, payload: object = ANY, queue: str | None = None
    ) -> list[StoredJob]:
        """The jobs that were enqueued, whatever became of them, in that order.

        ``payload`` is compared as JSON; a function of the payload is asked instead.
        """
        name = None if type is None else _name(type)
        fits = _fits(payload)
        found = (_stored(record) for record in self._records(JobFilter(type=name, queue=queue)))
        return [job for job in found if fits(job.payload)]

    def assert_enqueued(
        self,
        type: str | Task[..., Any],
        *,
        payload: object = ANY,
        queue: str | None = None,
        count: int | None = None,
    ) -> list[StoredJob]:
        """At least one such job was enqueued, or exactly ``count``; gives them. See ``enqueued``."""
        __tracebackhide__ = True
        found = self.enqueued(type, payload=payload, queue=queue)
        if found if count is None else len(found) == count:
            return found
        wanted = f"{'at least one job' if count is None else f'{count} jobs'} of type {_name(type)}"
        wanted += "" if payload is ANY else f" with {_shown(payload)}"
        wanted += "" if queue is None else f" in queue {queue}"
        raise AssertionError(f"wanted {wanted}, got {len(found)}; {self._all()}")

    def _all(self) -> str:
        jobs = self.enqueued()
        more = [f"and {len(jobs) - SHOWN} more"] if len(jobs) > SHOWN else []
        lines = [*(str(job) for job in jobs[:SHOWN]), *more]
        return "\n  ".join(["these were enqueued:", *lines]) if jobs else "nothing was enqueued"

    def _records(self, where: JobFilter) -> Iterator[JobRecord]:
        after: str | None = None
        while True:
            page = self.app.driver.find(where, after=after)
            yield from page.items
            after = page.cursor
            if after is None:
                return

    # Running it -------------------------------------------------------------------------------------------------

    def drain(self, *, advance: bool = False, limit: int = MOST_RUNS) -> Counter[str]:
        """Run what is due until nothing is; gives how many runs ended how, as ``Worker.run`` does.

        With ``advance`` the clock is moved to the next job that waits for its time, again and again, until no job of
        this app waits. What a failed run raised is logged. More than ``limit`` runs are an ``AssertionError``.
        """
        __tracebackhide__ = True
        statuses: Counter[str] = Counter()
        worker = self.app.worker()
        while True:
            result = worker.process_once()
            if result.status != "empty":
                statuses[result.status] += 1
                _log(result)
            elif not (advance and self._advance(worker)):
                return statuses
            if statuses.total() > limit:
                raise AssertionError(f"wanted nothing to be due after {limit} runs, got {dict(statuses)} and no end")

    def _advance(self, worker: Worker) -> bool:
        """Move the clock to the next job that will be due; False if there is none."""
        now = self.clock.now()
        coming: list[int] = []
        for record in self._records(JobFilter(states=(State.READY, State.INFLIGHT))):
            seen = self.app.driver.inspect(record.id)
            if seen is not None and record.type in worker.catalogue.types and record.queue in worker.queues:
                coming.append(seen.available_at if seen.expires_at is None else seen.expires_at)
        coming = [instant for instant in coming if instant > now]
        if coming:
            self.clock.advance(min(coming) - now)
        return bool(coming)

    def run_job(
        self,
        job: Task[..., Any] | Callable[..., Any],
        payload: object = None,
        *,
        attempt: int = 1,
        checkpoint: object = None,
    ) -> Any:
        """Run one handler as a worker would, without a store; gives its result, or raises what it raised.

        Payload, checkpoint and result go through JSON, the app's middleware and resources are there. ``Retry``,
        ``Snooze`` and ``Unrecoverable`` are raised, also if they were returned. What does not fit is a
        ``PayloadError``.
        """
        __tracebackhide__ = True
        definition = job.definition if isinstance(job, Task) else JobDefinition(type="job")
        record = to_record(definition.request(payload), now=self.clock.now())
        reservation = Reservation(
            job=replace(record, attempts=attempt),
            lease=Lease(job_id=record.id, token="", fence=attempt, expires_at=0),
            checkpoint=None if checkpoint is None else JSON.encode(checkpoint, field="checkpoint"),
        )
        raised: list[Exception] = []
        catalogue = Catalogue()
        catalogue.resources = self.app.catalogue.resources
        catalogue.middleware = [_watching(raised), *self.app.catalogue.middleware]
        handler = catalogue.add(handler_of(definition.type, job.function if isinstance(job, Task) else job))
        handler.decode(to_job(reservation).payload)  # what does not fit is raised here, as itself
        outcome = _run(catalogue, reservation)
        if raised:
            raise raised[0]
        assert isinstance(outcome, Succeeded), outcome
        return None if outcome.result is None else JSON.decode(outcome.result, field="result")

    def crash_before_ack(self, type: str | Task[..., Any] | None = None) -> WorkerResult:
        """Run the next due job, of this type if one is given, twice: the worker of the first run died before its ack.

        The handler runs to its end, nothing is settled, nothing that it noted is kept, and the clock is moved to where
        the lease expires. Then jobs are run until this one has had its second run, which is given. A first run that
        does not succeed, and a second one that does not happen, are an ``AssertionError``.
        """
        __tracebackhide__ = True
        worker = self.app.worker()
        found = self.app.driver.reserve(
            worker.queues,
            limit=1,
            lease_for=from_timedelta(worker.options.lease),
            worker="crashed",
            types=worker.catalogue.types if type is None else {_name(type)} & worker.catalogue.types,
        )
        if not found:
            raise AssertionError(f"wanted a job{'' if type is None else f' of type {_name(type)}'} to be due, got none")
        [reservation] = found
        outcome = _run(worker.catalogue, reservation)
        if not isinstance(outcome, Succeeded):
            raise AssertionError(f"wanted a first run that succeeds, got {outcome}")  # noqa: TRY004 - of the test
        self.clock.advance(max(0, reservation.lease.expires_at - self.clock.now()))
        for _ in range(MOST_RUNS):
            result = worker.process_once()
            _log(result)
            if result.job_id == reservation.job.id:
                return result
            if result.status == "empty":
                break
        left = self.app.driver.get(reservation.job.id)
        became = "gone" if left is None else f"{left.state}{f', {left.dead_reason}' if left.dead_reason else ''}"
        raise AssertionError(f"wanted a second run of {_stored(reservation.job)}; it did not run again, it is {became}")


def _run(catalogue: Catalogue, reservation: Reservation) -> Outcome:
    resources = Resources(catalogue.resources)
    try:
        return run_attempt(catalogue, resources, brief(reservation), lambda *_: None)
    finally:
        resources.close()


def _watching(raised: list[Exception]) -> Middleware:
    """Keeps what an attempt raises before it becomes a text; a result that no store would keep is raised as well."""

    def watch(_context: object, call_next: Callable[[], object]) -> object:
        try:
            answer = call_next()
            if isinstance(answer, Control):
                raise answer  # noqa: TRY301 - said or raised, the effect is the same
            encode_result(answer)
            return answer
        except Exception as error:
            raised.append(error)
            raise

    return watch


def _stored(record: JobRecord) -> StoredJob:
    unleased = Lease(job_id=record.id, token="", fence=0, expires_at=0)
    return StoredJob(payload=to_job(Reservation(job=record, lease=unleased)).payload, record=record)


def _name(type_: str | Task[..., Any]) -> str:
    return type_.definition.type if isinstance(type_, Task) else type_


def _fits(wanted: object) -> Callable[[object], object]:
    if wanted is ANY:
        return lambda _: True
    if callable(wanted):
        return wanted
    as_json = JSON.decode(JSON.encode(wanted))
    return lambda payload: payload == as_json


def _shown(payload: object) -> str:
    if callable(payload):
        return f"a payload that {getattr(payload, '__qualname__', payload)} accepts"
    return f"payload {payload!r}"


def _log(result: WorkerResult) -> None:
    if result.error:
        log.warning("job %s: %s: %s", result.job_id, result.status, result.error)
