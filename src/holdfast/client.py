"""The producer's front: requests go in, jobs are looked at, waited for and cancelled."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import timedelta
from typing import Literal, TypeAlias, TypedDict, overload

from holdfast.clock import Clock, SystemClock, monotonic
from holdfast.drivers.contract import Driver, Store
from holdfast.errors import EnqueueConflict, InvalidInput, JobNotDone, JobNotFound, Unsupported, WaitTimeout
from holdfast.model import bounds
from holdfast.model.job import JobRecord, State
from holdfast.model.job_batch import JobBatch
from holdfast.model.lease import Enqueued
from holdfast.model.request import JobRequest
from holdfast.wire import codec as codecs
from holdfast.wire.codec import Codec
from holdfast.wire.records import to_record, to_records

BATCH = 5_000  # records in one transaction
BATCH_BYTES = 16 << 20  # of payload in one transaction: a store holds its lock, or its buffers, for that long
SHORTEST_PAUSE, LONGEST_PAUSE, GROWTH = 0.002, 0.1, 1.5  # seconds between two looks at a job that is waited for

OnConflict: TypeAlias = Literal["raise", "return"]
Timeout: TypeAlias = timedelta | float | None  # a float is seconds; None is for ever


class Client:
    """Enqueues jobs and looks at them. Safe to share between threads; no state but what it was made with."""

    def __init__(
        self,
        driver: Driver,
        *,
        codec: str | Codec = "json",
        max_payload: int = bounds.MAX_PAYLOAD_BYTES,
        clock: Clock | None = None,
    ) -> None:
        self.driver = driver
        self._codec = codecs.codec(codec) if isinstance(codec, str) else codec
        self._max_payload = bounds.check_integer(
            "max_payload", max_payload, least=1, most=bounds.MAX_STORED_PAYLOAD_BYTES
        )
        self._clock = clock or SystemClock()

    @overload
    def enqueue(
        self, request: JobRequest, *, connection: object = None, on_conflict: OnConflict = "raise"
    ) -> Enqueued: ...
    @overload
    def enqueue(
        self, request: Sequence[JobRequest], *, connection: object = None, on_conflict: OnConflict = "raise"
    ) -> list[Enqueued]: ...

    def enqueue(
        self,
        request: JobRequest | Sequence[JobRequest],
        *,
        connection: object = None,
        on_conflict: OnConflict = "raise",
    ) -> Enqueued | list[Enqueued]:
        """Store one job, or many; answers in the order given.

        With ``connection`` the jobs are part of the transaction that it is in: they exist once the caller commits.

        Every payload is encoded before the first job is stored, so a bad one stores nothing. Up to ``BATCH``
        jobs are one transaction; a longer list is several, and a failure leaves the earlier ones stored:
        requests with idempotency keys can simply be sent again.

        A key that is known answers ``existed``. If its payload is another one, ``EnqueueConflict`` is raised after
        everything else was stored, and carries all answers; ``on_conflict="return"`` answers ``conflict`` instead.
        """
        driver = self._driver(connection, on_conflict)
        single = isinstance(request, JobRequest)
        requests = [request] if isinstance(request, JobRequest) else request
        if not isinstance(requests, Sequence):
            raise InvalidInput("request", wanted="a JobRequest or a list of them", got=requests)
        answers = _store(driver, [self._record(one) for one in requests], on_conflict)
        return answers[0] if single else answers

    def enqueue_many(
        self,
        like: JobRequest,
        payloads: Iterable[object],
        *,
        keys: Iterable[str | None] | None = None,
        connection: object = None,
        on_conflict: OnConflict = "raise",
    ) -> list[Enqueued]:
        """Store a job for each payload, and with a key of each if ``keys`` are given; all else is as in ``like``.

        The quickest way in for very many jobs: what they share is looked at once. Otherwise it is ``enqueue``.
        """
        driver = self._driver(connection, on_conflict)
        records = to_records(_request(like), payloads, keys, **self._how())
        return _store(driver, records, on_conflict)

    def get(self, job_id: str) -> JobRecord | None:
        """The job as it is stored now, or None if this space does not know it. A joined driver cannot look."""
        return self._store.get(job_id)

    def wait(self, job_id: str, *, timeout: Timeout) -> JobRecord:
        """The job once it has ended: done, dead or cancelled. ``timeout=None`` waits for ever, 0 looks once.

        Looks again and again, with pauses that grow to a tenth of a second. Raises ``WaitTimeout``, or ``JobNotFound``
        for an id that is unknown or was purged meanwhile.
        """
        rhythm = pauses(timeout)
        record = self._known(job_id)
        for pause in rhythm:
            if record.state.has_ended:
                break
            time.sleep(pause)
            record = self._known(job_id)
        return ended(record)

    def result(self, job: JobRecord | str) -> object:
        """What the handler of a job gave back: results are JSON, whatever the payload is. None if it gave nothing.

        Raises ``JobNotDone`` if the job is in any other state than done, ``JobNotFound`` for an unknown id, and
        ``PayloadError`` if the result cannot be read.
        """
        record = self._known(job) if isinstance(job, str) else job
        if record.state is not State.DONE:
            raise JobNotDone(record.id, state=record.state, reason=record.dead_reason, error=record.last_error)
        if record.result is None:
            return None
        return codecs.JSON.decode(record.result, field="result")

    def cancel(self, job_id: str) -> State:
        """End a job that waits, ask a running one to stop; gives the state after it. Raises ``JobNotFound``.

        ``inflight`` says that the job was asked: it becomes cancelled unless its handler finishes. A job that had
        ended already stays as it was.
        """
        [state] = self._store.cancel([job_id])
        if state is None:
            raise JobNotFound(job_id)
        return state

    def _driver(self, connection: object, on_conflict: OnConflict) -> Driver:
        if on_conflict not in ("raise", "return"):
            raise InvalidInput("on_conflict", wanted="'raise' or 'return'", got=on_conflict)
        return self.driver if connection is None else self.driver.joined(connection)

    @property
    def _store(self) -> Store:
        if not isinstance(self.driver, Store):
            raise Unsupported(self.driver.capabilities.driver, "looking at jobs", "this driver only enqueues")
        return self.driver

    def _known(self, job_id: str) -> JobRecord:
        record = self.get(job_id)
        if record is None:
            raise JobNotFound(job_id)
        return record

    def _record(self, request: JobRequest) -> JobRecord:
        return to_record(_request(request), **self._how())

    def _how(self) -> _How:
        return {"now": self._clock.now(), "codec": self._codec, "max_payload": self._max_payload}


class _How(TypedDict):
    now: int
    codec: Codec
    max_payload: int


def _request(given: object) -> JobRequest:
    if not isinstance(given, JobRequest):
        raise InvalidInput("request", wanted="a JobRequest", got=given)
    return given


def _store(driver: Driver, records: Sequence[JobRecord], on_conflict: OnConflict) -> list[Enqueued]:
    answers = [answer for batch in batches(records) for answer in driver.enqueue(batch)]
    if on_conflict == "raise":
        for place, answer in enumerate(answers):
            if answer.conflict:
                raise EnqueueConflict(answer.id, records[place].idempotency_key, answers)
    return answers


def batches(records: Sequence[JobRecord]) -> Iterator[Sequence[JobRecord]]:
    """The records in order, in pieces bounded by count and size; a very large one is a piece of its own."""
    payloads = records.payloads if isinstance(records, JobBatch) else [record.payload for record in records]
    start = size = 0
    for index, payload in enumerate(payloads):
        if index > start and (index - start == BATCH or size + len(payload) > BATCH_BYTES):
            yield records[start:index]
            start, size = index, 0
        size += len(payload)
    if records:
        yield records[start:]


# Waiting, for blocking and for async callers ---------------------------------------------------------------


def pauses(timeout: Timeout, monotonic: Callable[[], float] = monotonic) -> Iterator[float]:
    """The seconds between two looks: growing, the last one cut at the deadline, and none after it."""
    seconds = timeout.total_seconds() if isinstance(timeout, timedelta) else math.inf if timeout is None else timeout
    if not isinstance(seconds, int | float) or not seconds >= 0:  # NaN is not
        raise InvalidInput("timeout", wanted="a timedelta, seconds from 0, or None for ever", got=timeout)
    return _growing(monotonic() + seconds, monotonic)


def _growing(deadline: float, monotonic: Callable[[], float]) -> Iterator[float]:
    pause = SHORTEST_PAUSE
    while (left := deadline - monotonic()) > 0:
        yield min(pause, left)
        pause = min(pause * GROWTH, LONGEST_PAUSE)


def ended(record: JobRecord) -> JobRecord:
    """The record, if its job has ended. Raises ``WaitTimeout``."""
    if not record.state.has_ended:
        raise WaitTimeout(record.id, state=record.state)
    return record
