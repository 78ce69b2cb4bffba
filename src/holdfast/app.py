"""``Holdfast``: the handlers, resources and store of an application, in one object.

app = Holdfast("sqlite:///jobs.db")

@app.handler("mail.send", queue="mail", max_attempts=5)
def send(payload): ...

send.enqueue({"to": "ada@example.org"})     # a job
send({"to": "ada@example.org"})             # a plain call
app.worker(processes=2).run()               # or the command: holdfast work module:app
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, Generic, ParamSpec, TypeVar, Unpack

from holdfast.client import Client
from holdfast.clock import Clock
from holdfast.drivers.contract import Store
from holdfast.errors import InvalidInput
from holdfast.model.definition import JobDefinition
from holdfast.model.job import DEFAULT_MAX_ATTEMPTS
from holdfast.model.lease import Enqueued
from holdfast.model.request import DEFAULT_QUEUE, JobRequest
from holdfast.model.retry import BuiltInPolicy, RetryPolicy
from holdfast.wire.codec import dump_model
from holdfast.worker.catalogue import Catalogue, Middleware, make_handler
from holdfast.worker.options import WorkerKeywords, WorkerOptions
from holdfast.worker.worker import Worker

P = ParamSpec("P")
R = TypeVar("R")


class Task(Generic[P, R]):
    """A handler function that can be enqueued: ``task(...)`` calls it, ``task.enqueue(...)`` stores a job for it."""

    def __init__(self, app: Holdfast, definition: JobDefinition, function: Callable[P, R]) -> None:
        functools.update_wrapper(self, function)
        self.definition = definition
        self.function = function
        self._app = app

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Call the function directly. No job is stored."""
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
        """Return a request for one job, to be enqueued together with others. ``retry`` is a policy for this job."""
        return self.definition.request(
            dump_model(payload),
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
        """Store one job for this handler. With ``connection`` the job is part of the caller's transaction."""
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
        """Store one job per payload, in large batches; ``keys`` are their idempotency keys."""
        template = self.request(run_at=run_at, delay=delay, domain=domain)
        return self._app.client.enqueue_many(template, map(dump_model, payloads), keys=keys, connection=connection)


class Holdfast:
    """Handlers, resources and a store. The store is opened at its first use, not when the module is imported."""

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
        self.queues: dict[str, None] = {}  # an ordered set: the queues of the handlers, in order of definition
        self._driver = driver
        self.space = space
        self._clock = clock

    @property
    def driver(self) -> Store:
        """The store. It is opened at the first use."""
        if self._driver is None:
            from holdfast.connect import connect  # noqa: PLC0415 - imports drivers, which a producer with a driver does not need

            assert self.url is not None
            self._driver = connect(self.url, space=self.space, clock=self._clock)
        return self._driver

    @property
    def client(self) -> Client:
        """A client of the store."""
        return Client(self.driver, clock=self._clock)

    @contextmanager
    def using(self, driver: Store, *, clock: Clock | None = None) -> Iterator[Holdfast]:
        """Use another store until the block ends. Both stores stay open. For tests with a store in memory."""
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
        strict_result: bool = False,
        name: str | None = None,
        meta: Mapping[str, object] | None = None,
    ) -> Callable[[Callable[P, R]], Task[P, R]]:
        """Run jobs of this type with the decorated ``fn(payload)``, ``fn(payload, ctx)`` or class with ``handle(ctx)``.

        ``timeout`` limits the time of one attempt, ``cpu`` its processor time. With ``chunk`` the function takes a list
        of up to ``chunk`` payloads, and returns a list with a result or an exception for each. A result that cannot be
        stored is left out, and the job is done; with ``strict_result`` the job becomes a dead letter.
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
            handler = make_handler(
                type, function, timeout=timeout, cpu=cpu, retry=retry, chunk=chunk, strict_result=strict_result
            )
            self.catalogue.add(handler)
            self.queues[queue] = None
            return Task(self, definition, function)

        return register

    def resource(self, factory: Callable[[], Any]) -> Callable[[], Any]:
        """Register the factory of ``ctx.resources["<name of the factory>"]``.

        The factory is called once in each process that uses the resource. The resource is closed when the process ends.
        """
        name = factory.__name__
        if name in self.catalogue.resources:
            raise InvalidInput("resource", wanted="one factory for each name", got=f"a second one for {name}")
        self.catalogue.resources[name] = factory
        return factory

    def middleware(self, wrapper: Middleware) -> Middleware:
        """Call ``fn(ctx, call_next)`` around every handler. The middleware that is defined first is the outermost."""
        self.catalogue.middleware.append(wrapper)
        return wrapper

    def worker(self, options: WorkerOptions | None = None, **keywords: Unpack[WorkerKeywords]) -> Worker:
        """Return a worker for the handlers of this app, by default on all their queues.

        The keywords are the fields of ``WorkerOptions``; they replace those of ``options``.
        """
        worker_options = replace(options or WorkerOptions(), **keywords)
        if worker_options.queues is None and self.queues:
            worker_options = replace(worker_options, queues=tuple(self.queues))
        return Worker(self.driver, worker_options, catalogue=self.catalogue)

    def close(self) -> None:
        """Close the store if it is open."""
        if self._driver is not None:
            self._driver.close()
            self._driver = None
