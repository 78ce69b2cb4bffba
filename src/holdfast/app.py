"""What users put into their module: handlers, resources and a store, in one object.

app = Holdfast("sqlite:///jobs.db")

@app.handler("mail.send", queue="mail", max_attempts=5)
def send(payload): ...

send.enqueue({"to": "ada@example.org"})     # a job
send({"to": "ada@example.org"})             # a plain call, as ever
app.worker().run()                          # usually: holdfast work module:app
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, Generic, ParamSpec, TypeVar

from holdfast.client import Client
from holdfast.clock import Clock
from holdfast.drivers.contract import Store
from holdfast.errors import InvalidInput
from holdfast.model.definition import JobDefinition
from holdfast.model.job import DEFAULT_MAX_ATTEMPTS
from holdfast.model.lease import Enqueued
from holdfast.model.request import DEFAULT_QUEUE, JobRequest
from holdfast.model.retry import BuiltInPolicy, RetryPolicy
from holdfast.worker.catalogue import Catalogue, Middleware, handler_of
from holdfast.worker.worker import Worker, WorkerOptions

P = ParamSpec("P")
R = TypeVar("R")


class Task(Generic[P, R]):
    """A decorated function: still callable, and able to enqueue itself."""

    def __init__(self, app: Holdfast, definition: JobDefinition, function: Callable[P, R]) -> None:
        functools.update_wrapper(self, function)
        self.definition = definition
        self.function = function
        self._app = app

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """The function itself, here and now."""
        return self.function(*args, **kwargs)

    def request(
        self,
        payload: object = None,
        *,
        run_at: datetime | None = None,
        delay: timedelta | None = None,
        retry: BuiltInPolicy | None = None,
        idempotency_key: str | None = None,
        domain: str | None = None,
        offset: int | None = None,
    ) -> JobRequest:
        """A request for one run, to be enqueued with others; with ``retry``, under a policy of its own."""
        return self.definition.request(
            _plain(payload),
            run_at=run_at,
            delay=delay,
            retry=retry,
            idempotency_key=idempotency_key,
            domain=domain,
            offset=offset,
        )

    def enqueue(
        self,
        payload: object = None,
        *,
        run_at: datetime | None = None,
        delay: timedelta | None = None,
        retry: BuiltInPolicy | None = None,
        idempotency_key: str | None = None,
        domain: str | None = None,
        offset: int | None = None,
        connection: object = None,
    ) -> Enqueued:
        """Store one job for this handler; with ``connection``, as part of the caller's transaction."""
        request = self.request(
            payload,
            run_at=run_at,
            delay=delay,
            retry=retry,
            idempotency_key=idempotency_key,
            domain=domain,
            offset=offset,
        )
        return self._app.client.enqueue(request, connection=connection)

    def enqueue_many(
        self,
        payloads: Iterable[object],
        *,
        keys: Iterable[str | None] | None = None,
        run_at: datetime | None = None,
        delay: timedelta | None = None,
        domain: str | None = None,
        connection: object = None,
    ) -> list[Enqueued]:
        """Store a job for each payload, as quickly as the store takes them; ``keys`` are idempotency keys."""
        like = self.request(run_at=run_at, delay=delay, domain=domain)
        return self._app.client.enqueue_many(like, map(_plain, payloads), keys=keys, connection=connection)


def _plain(payload: object) -> object:
    """What pydantic's models are made of; every other value is encoded as it is."""
    return payload.model_dump(mode="json") if hasattr(payload, "model_dump") else payload


class Holdfast:
    """Handlers, resources and a store. The store is opened when it is first needed, not when a module is imported."""

    def __init__(
        self,
        url: str | None = None,
        *,
        driver: Store | None = None,
        space: str = "main",
        clock: Clock | None = None,
    ) -> None:
        if (url is None) == (driver is None):
            raise InvalidInput("app", wanted="a store URL or a driver", got="both" if url else "neither")
        self.url = url
        self.catalogue = Catalogue()
        self.queues: dict[str, None] = {}  # of its handlers, in the order of their definition
        self._driver = driver
        self.space = space
        self._clock = clock

    @property
    def driver(self) -> Store:
        """The store, opened at the first use."""
        if self._driver is None:
            from holdfast.connect import connect  # noqa: PLC0415 - drivers are found only when one is needed

            assert self.url is not None
            self._driver = connect(self.url, space=self.space, clock=self._clock)
        return self._driver

    @property
    def client(self) -> Client:
        """A client of the store."""
        return Client(self.driver, clock=self._clock)

    @contextmanager
    def using(self, driver: Store, *, clock: Clock | None = None) -> Iterator[Holdfast]:
        """Work on another store until the block ends, and leave both open: tests put an app into memory."""
        before = self._driver, self._clock
        self._driver, self._clock = driver, clock
        try:
            yield self
        finally:
            self._driver, self._clock = before

    def handler(
        self,
        type: str,
        *,
        queue: str = DEFAULT_QUEUE,
        priority: int = 0,
        max_attempts: int = DEFAULT_MAX_ATTEMPTS,
        timeout: timedelta | None = None,
        cpu: timedelta | None = None,
        retry: RetryPolicy | None = None,
        chunk: int | None = None,
        name: str | None = None,
        meta: Mapping[str, object] | None = None,
    ) -> Callable[[Callable[P, R]], Task[P, R]]:
        """Run jobs of this type by the decorated ``fn(payload)``, ``fn(payload, ctx)`` or class with ``handle``.

        ``timeout`` and ``cpu`` limit one attempt, by the clock and by the processor time that it uses. With ``chunk``
        the function takes a list of up to so many payloads, and gives a list of as many results or exceptions.
        """
        definition = JobDefinition(
            type=type,
            queue=queue,
            priority=priority,
            timeout=timeout,
            max_attempts=max_attempts,
            name=name,
            meta=meta or {},
        )

        def register(function: Callable[P, R]) -> Task[P, R]:
            self.catalogue.add(handler_of(type, function, timeout=timeout, cpu=cpu, retry=retry, chunk=chunk))
            self.queues[queue] = None
            return Task(self, definition, function)

        return register

    def resource(self, factory: Callable[[], Any]) -> Callable[[], Any]:
        """What handlers share as ``ctx.resources["<name of the factory>"]``: made once a process, closed at its end."""
        name = factory.__name__
        if name in self.catalogue.resources:
            raise InvalidInput("resource", wanted="one factory for each name", got=f"a second one for {name}")
        self.catalogue.resources[name] = factory
        return factory

    def middleware(self, wrapper: Middleware) -> Middleware:
        """Wrap every handler: ``fn(ctx, call_next)`` runs around it; of several, the first defined is the outermost."""
        self.catalogue.middleware.append(wrapper)
        return wrapper

    def worker(self, options: WorkerOptions | None = None) -> Worker:
        """A worker for the handlers of this app; by default on all their queues."""
        asked = options or WorkerOptions()
        if asked.queues is None and self.queues:
            asked = replace(asked, queues=tuple(self.queues))
        return Worker(self.driver, asked, catalogue=self.catalogue)

    def close(self) -> None:
        """Close the store, if it was opened."""
        if self._driver is not None:
            self._driver.close()
            self._driver = None
