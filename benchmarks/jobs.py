"""The jobs that every benchmark uses: a usual payload, time-ordered ids."""

from __future__ import annotations

import uuid_utils

from holdfast.clock import SystemClock
from holdfast.drivers.contract import Driver
from holdfast.model.job import JobRecord
from holdfast.model.job_batch import JobBatch

QUEUE = "bench"
TYPE = "bench.noop"
PAYLOAD = b'{"customer": 48151623, "action": "refresh", "note": "a payload of a usual size, some hundred bytes long"}'


def make(count: int, **fields: object) -> list[JobRecord]:
    """New records, all alike but for their ids."""
    now = SystemClock().now()
    plain: dict[str, object] = {"type": TYPE, "queue": QUEUE, "payload": PAYLOAD, "created_at": now, **fields}
    return [JobRecord(id=str(uuid_utils.uuid7()), **plain) for _ in range(count)]  # type: ignore[arg-type]


def alike(count: int) -> JobBatch:
    """The same as columns, as ``Client.enqueue_many`` hands them to the driver."""
    return JobBatch(make(1)[0], [str(uuid_utils.uuid7()) for _ in range(count)], [PAYLOAD] * count)


def fill(driver: Driver, count: int, **fields: object) -> None:
    """Enqueue new records in batches."""
    for start in range(0, count, 5_000):
        driver.enqueue(make(min(5_000, count - start), **fields))
