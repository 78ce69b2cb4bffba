"""The client for async callers: the methods of ``Client``, every call to the store in a thread.

A call that is cancelled while it runs in its thread may still take effect: enqueue with an idempotency key, and send
the request again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from typing import Self, overload

from holdfast.client import Client, OnConflict, Timeout, poll_pauses, require_ended
from holdfast.clock import Clock
from holdfast.drivers.contract import Driver
from holdfast.enqueue_middleware import EnqueueMiddleware
from holdfast.errors import JobNotFound
from holdfast.model import bounds
from holdfast.model.job import JobRecord, State
from holdfast.model.lease import Enqueued
from holdfast.model.request import JobRequest
from holdfast.wire.codec import Codec


class AsyncClient:
    """A ``Client`` whose methods are awaited. As a context manager it closes its driver on exit."""

    def __init__(
        self,
        driver: Driver,
        *,
        codec: str | Codec = "json",
        max_payload: int = bounds.MAX_PAYLOAD_BYTES,
        clock: Clock | None = None,
        middleware: Sequence[EnqueueMiddleware] = (),
    ) -> None:
        self.driver = driver
        self._client = Client(driver, codec=codec, max_payload=max_payload, clock=clock, middleware=middleware)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await asyncio.to_thread(self.driver.close)

    @overload
    async def enqueue(
        self, request: JobRequest, *, connection: object = None, on_conflict: OnConflict = "raise"
    ) -> Enqueued: ...
    @overload
    async def enqueue(
        self, request: Sequence[JobRequest], *, connection: object = None, on_conflict: OnConflict = "raise"
    ) -> list[Enqueued]: ...

    async def enqueue(
        self,
        request: JobRequest | Sequence[JobRequest],
        *,
        connection: object = None,
        on_conflict: OnConflict = "raise",
    ) -> Enqueued | list[Enqueued]:
        """See ``Client.enqueue``. A ``sqlite3.Connection`` must be created with ``check_same_thread=False``."""
        return await asyncio.to_thread(self._client.enqueue, request, connection=connection, on_conflict=on_conflict)

    async def enqueue_many(
        self,
        template: JobRequest,
        payloads: Iterable[object],
        *,
        keys: Iterable[str | None] | None = None,
        connection: object = None,
        on_conflict: OnConflict = "raise",
    ) -> list[Enqueued]:
        """See ``Client.enqueue_many``. The payloads are read and encoded in the thread, too."""
        return await asyncio.to_thread(
            self._client.enqueue_many, template, payloads, keys=keys, connection=connection, on_conflict=on_conflict
        )

    async def get(self, job_id: str) -> JobRecord | None:
        """See ``Client.get``."""
        return await asyncio.to_thread(self._client.get, job_id)

    async def wait(self, job_id: str, *, timeout: Timeout) -> JobRecord:  # noqa: ASYNC109 - the same signature as Client.wait
        """See ``Client.wait``. A waiting call holds no thread between two polls."""
        pauses = poll_pauses(timeout)
        record = await self._get_existing(job_id)
        for pause in pauses:
            if record.state.has_ended:
                break
            await asyncio.sleep(pause)
            record = await self._get_existing(job_id)
        return require_ended(record)

    async def result(self, job: JobRecord | str) -> object:
        """See ``Client.result``."""
        return await asyncio.to_thread(self._client.result, job)

    async def cancel(self, job_id: str) -> State:
        """See ``Client.cancel``."""
        return await asyncio.to_thread(self._client.cancel, job_id)

    async def _get_existing(self, job_id: str) -> JobRecord:
        record = await self.get(job_id)
        if record is None:
            raise JobNotFound(job_id)
        return record
