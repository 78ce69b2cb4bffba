"""The jobs of every benchmark: a payload of a typical size, and ids that are ordered by time."""

from __future__ import annotations

import uuid_utils

from holdfast.clock import SystemClock
from holdfast.driver import JobBatch, JobRecord, Store

QUEUE = "bench"
TYPE = "bench.noop"
PAYLOAD = b'{"customer": 48151623, "action": "refresh", "note": "a payload of a usual size, some hundred bytes long"}'
FILL_BATCH = 5_000  # jobs in one transaction


def make_records(count: int, **fields: object) -> list[JobRecord]:
    """New records that differ only in their ids."""
    now = SystemClock().now()
    common: dict[str, object] = {"type": TYPE, "queue": QUEUE, "payload": PAYLOAD, "created_at": now, **fields}
    return [JobRecord(id=str(uuid_utils.uuid7()), **common) for _ in range(count)]  # type: ignore[arg-type]


def make_batch(count: int) -> JobBatch:
    """The same jobs as columns, as ``Client.enqueue_many`` passes them to the driver."""
    return JobBatch(make_records(1)[0], [str(uuid_utils.uuid7()) for _ in range(count)], [PAYLOAD] * count)


def fill(driver: Store, count: int, **fields: object) -> None:
    """Enqueue new records in batches."""
    for start in range(0, count, FILL_BATCH):
        driver.enqueue(make_records(min(FILL_BATCH, count - start), **fields))
