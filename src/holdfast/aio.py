"""The client for async callers: the methods of ``Client``, every call to the store in a thread.

A call that is cancelled while it runs in its thread may still take effect: enqueue with an idempotency key, and send
the request again.
"""

from __future__ import annotations

import asyncio
import contextvars
import os
import threading
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Self, TypeVar, overload

from holdfast.client import Client, OnConflict, Timeout, poll_pauses, require_ended
from holdfast.clock import Clock
from holdfast.connect import connect
from holdfast.drivers.answers import Page
from holdfast.drivers.caller_connection import Kind, is_async, kind_of
from holdfast.drivers.on_loop import OnLoop
from holdfast.drivers.store import Store
from holdfast.enqueue_middleware import EnqueueMiddleware
from holdfast.errors import InvalidInput, JobNotFound, StoreClosed
from holdfast.model import bounds
from holdfast.model.domain import DomainInfo, DomainStatus, ResumeAction
from holdfast.model.execution import ExecutionResult
from holdfast.model.job import DEFAULT_MAX_ATTEMPTS, JobRecord, State
from holdfast.model.lease import Enqueued
from holdfast.model.request import JobRequest
from holdfast.wire.codec import Codec
from holdfast.wire.signing import Signer

MAX_THREADS = 8  # of one client: below the default size of a PostgreSQL connection pool; further calls wait in a queue
THREAD_NAME = "holdfast-client"

T = TypeVar("T")


class AsyncClient:
    """A ``Client`` whose methods are awaited. As a context manager it closes its store on exit.

    Safe to share between tasks, threads and event loops: it belongs to no loop. Its calls run in at most
    ``MAX_THREADS`` threads of its own, not in the default executor of the loop.
    """

    def __init__(
        self,
        driver: Store,
        *,
        codec: str | Codec = "json",
        max_payload: int = bounds.MAX_PAYLOAD_BYTES,
        clock: Clock | None = None,
        middleware: Sequence[EnqueueMiddleware] = (),
        signer: Signer | None = None,
        attempts_of: Callable[[str], int] = lambda _: DEFAULT_MAX_ATTEMPTS,
    ) -> None:
        client = Client(
            driver,
            codec=codec,
            max_payload=max_payload,
            clock=clock,
            middleware=middleware,
            signer=signer,
            attempts_of=attempts_of,
        )
        self._start(lambda: client, driver.close)

    @classmethod
    def open(
        cls,
        url: str,
        *,
        space: str | None = None,
        codec: str | Codec = "json",
        max_payload: int = bounds.MAX_PAYLOAD_BYTES,
        clock: Clock | None = None,
        signer: Signer | None = None,
    ) -> Self:
        """Return the client of the store that ``connect(url)`` opens; also ``store:NAME``, of the settings.

        The store is opened in a thread, once, at the first call or at ``async with``. Raises what ``connect`` raises
        then; the next call tries again.
        """
        opened: list[Client] = []

        def get_client() -> Client:
            if not opened:
                store = connect(url, space=space, clock=clock)
                opened.append(Client(store, codec=codec, max_payload=max_payload, clock=clock, signer=signer))
            return opened[0]

        def close() -> None:
            for client in opened:
                client.driver.close()

        return cls.from_client(get_client, close=close)

    @classmethod
    def from_client(cls, get_client: Callable[[], Client], *, close: Callable[[], object] = lambda: None) -> Self:
        """Return a client whose calls are those of the client that ``get_client`` returns.

        ``get_client`` is called in a thread before every call, by one thread at a time: it may open a store at its
        first call, and return another client later. ``close`` is called in a thread when this client is closed.
        """
        client = cls.__new__(cls)
        client._start(get_client, close)  # noqa: SLF001 - an object of this class
        return client

    def _start(self, get_client: Callable[[], Client], close: Callable[[], object]) -> None:
        self._get_client = get_client
        self._close_store = close
        self._is_closed = False
        self._threads = _Threads()

    @property
    def driver(self) -> Store:
        """The driver of the store. It is opened in this thread if no call has opened it."""
        return self._current().driver

    async def __aenter__(self) -> Self:
        try:
            await self._call(lambda _: None)  # opens the store
        except BaseException:
            self._begin_close()  # in the background: a cancelled task does not wait for a connection
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the store. Later calls raise ``StoreClosed``."""
        closing = self._begin_close()
        if closing is not None:
            await asyncio.shield(asyncio.wrap_future(closing))

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
        """Store one job, or many; return one answer per request, in order.

        An async connection is used on this event loop, any other one in a thread. A ``sqlite3.Connection`` must be
        created with ``check_same_thread=False``. A call with a connection that is cancelled ends only when it no longer
        uses the connection.
        """

        def enqueue(client: Client, joined: object = None) -> Enqueued | list[Enqueued]:
            return client.enqueue(request, connection=joined, on_conflict=on_conflict)

        return await (self._call(enqueue) if connection is None else self._call_joined(enqueue, connection))

    async def enqueue_many(
        self,
        template: JobRequest,
        payloads: Iterable[object],
        *,
        keys: Iterable[str | None] | None = None,
        limit_keys: Iterable[str | None] | None = None,
        connection: object = None,
        on_conflict: OnConflict = "raise",
    ) -> list[Enqueued]:
        """Store one job per payload; everything else is as in ``template``.

        The payloads are read and encoded in the thread, too.
        """

        def enqueue(client: Client, joined: object = None) -> list[Enqueued]:
            return client.enqueue_many(
                template, payloads, keys=keys, limit_keys=limit_keys, connection=joined, on_conflict=on_conflict
            )

        return await (self._call(enqueue) if connection is None else self._call_joined(enqueue, connection))

    async def get(self, job_id: str) -> JobRecord | None:
        """Return the job as it is stored now; None if this space does not know it."""
        return await self._call(lambda client: client.get(job_id))

    async def wait(self, job_id: str, *, timeout: Timeout) -> JobRecord:  # noqa: ASYNC109 - the same signature as Client.wait
        """Wait until the job is done, dead or cancelled, and return it.

        A waiting call holds no thread between two polls.
        """
        pauses = poll_pauses(timeout)
        record = await self._get_existing(job_id)
        for pause in pauses:
            if record.state.has_ended:
                break
            await asyncio.sleep(pause)
            record = await self._get_existing(job_id)
        return require_ended(record)

    async def result(self, job: JobRecord | str) -> object:
        """Return the result of a done job; None if its handler returned None."""
        return await self._call(lambda client: client.result(job))

    async def execution(self, job: JobRecord | str) -> ExecutionResult | None:
        """Return the last attempt of a job, with what its handler printed; None if its handler captures no output."""
        return await self._call(lambda client: client.execution(job))

    async def requeue(self, job_ids: Sequence[str]) -> list[bool]:
        """Run dead or cancelled jobs again; return whether each was requeued."""
        return await self._call(lambda client: client.requeue(job_ids))

    async def requeue_signed(self, jobs: Sequence[JobRecord]) -> list[bool]:
        """Sign dead letters that you have reviewed, as they are in these records, and requeue them."""
        return await self._call(lambda client: client.requeue_signed(jobs))

    async def domains(
        self,
        queue: str | None = None,
        *,
        status: DomainStatus | None = None,
        name: str | None = None,
        limit: int = 100,
        after: str | None = None,
    ) -> Page[DomainInfo]:
        """Return a page of the domains that have open jobs or are halted, ordered by queue and name."""
        return await self._call(
            lambda client: client.domains(queue, status=status, name=name, limit=limit, after=after)
        )

    async def resume_domain(
        self,
        queue: str,
        domain: str,
        action: ResumeAction = ResumeAction.RESUME,
        *,
        position: int | None = None,
    ) -> bool:
        """Let a halted domain go on, or move its position; return whether this call changed the domain."""
        return await self._call(lambda client: client.resume_domain(queue, domain, action, position=position))

    async def forget_domain(self, queue: str, domain: str) -> bool:
        """Remove what a domain without open jobs remembers: its ended offsets, its start and its halt."""
        return await self._call(lambda client: client.forget_domain(queue, domain))

    async def cancel(self, job_id: str) -> State:
        """Cancel a waiting job, or request that a running job stops; return the new state."""
        return await self._call(lambda client: client.cancel(job_id))

    async def _get_existing(self, job_id: str) -> JobRecord:
        record = await self.get(job_id)
        if record is None:
            raise JobNotFound(job_id)
        return record

    # Threads ----------------------------------------------------------------------------------------------------

    async def _call(self, call: Callable[[Client], T]) -> T:
        """Call in a thread of this client, with the context variables of the caller."""
        if self._is_closed:
            raise StoreClosed
        return await asyncio.wrap_future(self._in_this_process().executor.submit(self._with_context(call)))

    async def _call_joined(self, call: Callable[[Client, object], T], connection: object) -> T:
        """Call with the caller's connection, in a thread of its own; an async connection is used on its event loop.

        A call in one of the shared threads may wait for a lock that the caller's transaction holds. If all of them do,
        the caller must still get a thread, or it could never commit.
        """
        if self._is_closed:
            raise StoreClosed
        if kind_of(connection) is Kind.DJANGO:
            raise InvalidInput(
                "connection",
                wanted="a synchronous `enqueue` in the thread of the transaction (`sync_to_async`)",
                got="a connection of Django, which belongs to one thread",
            )
        on_loop = OnLoop(connection)
        joined = on_loop if is_async(connection) else connection
        return await on_loop.wait(_in_own_thread(self._with_context(lambda client: call(client, joined))))

    def _with_context(self, call: Callable[[Client], T]) -> Callable[[], T]:
        context = contextvars.copy_context()
        return lambda: context.run(lambda: call(self._current()))

    def _current(self) -> Client:
        with self._in_this_process().lock:
            if self._is_closed:
                raise StoreClosed
            return self._get_client()

    def _begin_close(self) -> Future[None] | None:
        """Close the store in a thread; None if that was done before."""
        if self._is_closed:
            return None
        self._is_closed = True
        threads = self._in_this_process()
        threads.executor.shutdown(wait=False)
        return _in_own_thread(lambda: self._close_under(threads.lock))

    def _close_under(self, lock: threading.Lock) -> None:
        with lock:
            self._close_store()

    def _in_this_process(self) -> _Threads:
        if self._threads.pid != os.getpid():
            self._threads = _Threads()
        return self._threads


class _Threads:
    """The threads of a client in one process: a forked child has none of its parent's threads, and starts its own."""

    def __init__(self) -> None:
        self.pid = os.getpid()
        self.executor = ThreadPoolExecutor(MAX_THREADS, thread_name_prefix=THREAD_NAME)
        self.lock = threading.Lock()  # held while the store is opened or closed


def _in_own_thread(function: Callable[[], T]) -> Future[T]:
    executor = ThreadPoolExecutor(1, thread_name_prefix=THREAD_NAME)
    try:
        return executor.submit(function)
    finally:
        executor.shutdown(wait=False)
