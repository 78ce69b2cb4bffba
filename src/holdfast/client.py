"""The producer's front: requests go in, jobs are looked at."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import overload

from holdfast.clock import Clock, SystemClock
from holdfast.drivers.contract import Driver, Store
from holdfast.errors import InvalidInput, Unsupported
from holdfast.model import bounds
from holdfast.model.job import JobRecord
from holdfast.model.lease import Enqueued
from holdfast.model.request import JobRequest
from holdfast.wire import codec as codecs
from holdfast.wire.codec import Codec
from holdfast.wire.records import to_record

BATCH = 5_000  # records in one transaction
BATCH_BYTES = 16 << 20  # of payload in one transaction: a store holds its lock, or its buffers, for that long


class Client:
    """Enqueues jobs. Safe to share between threads; it has no state but what it was made with."""

    def __init__(
        self,
        driver: Driver,
        *,
        codec: str | Codec = "json",
        max_payload: int = bounds.MAX_PAYLOAD,
        clock: Clock | None = None,
    ) -> None:
        self.driver = driver
        self._codec = codecs.codec(codec) if isinstance(codec, str) else codec
        self._max_payload = bounds.integer("max_payload", max_payload, least=1, most=bounds.MAX_STORED_PAYLOAD)
        self._clock = clock or SystemClock()

    @overload
    def enqueue(self, request: JobRequest) -> Enqueued: ...
    @overload
    def enqueue(self, request: Sequence[JobRequest]) -> list[Enqueued]: ...

    def enqueue(self, request: JobRequest | Sequence[JobRequest]) -> Enqueued | list[Enqueued]:
        """Store one job, or many; answers in the order given.

        Every payload is encoded before the first job is stored, so a bad one stores nothing. Up to ``BATCH``
        jobs are one transaction; a longer list is several, and a failure leaves the earlier ones stored:
        requests with idempotency keys can simply be sent again.
        """
        if isinstance(request, JobRequest):
            [answer] = self.driver.enqueue([self._record(request)])
            return answer
        if not isinstance(request, Sequence):
            raise InvalidInput("request", wanted="a JobRequest or a list of them", got=request)
        records = [self._record(one) for one in request]
        return [answer for batch in _batches(records) for answer in self.driver.enqueue(batch)]

    def get(self, job_id: str) -> JobRecord | None:
        """The job as it is stored now, or None if this space does not know it. A joined driver cannot look."""
        if not isinstance(self.driver, Store):
            raise Unsupported(self.driver.capabilities.driver, "looking at jobs", "this driver only enqueues")
        return self.driver.get(job_id)

    def _record(self, request: JobRequest) -> JobRecord:
        if not isinstance(request, JobRequest):
            raise InvalidInput("request", wanted="a JobRequest", got=request)
        return to_record(request, now=self._clock.now(), codec=self._codec, max_payload=self._max_payload)


def _batches(records: Sequence[JobRecord]) -> Iterator[Sequence[JobRecord]]:
    """The records in order, in pieces bounded by count and size; a very large one is a piece of its own."""
    start = size = 0
    for index, record in enumerate(records):
        if index > start and (index - start == BATCH or size + len(record.payload) > BATCH_BYTES):
            yield records[start:index]
            start, size = index, 0
        size += len(record.payload)
    if records:
        yield records[start:]
