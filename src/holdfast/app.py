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
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, Generic, ParamSpec, TypeVar, Unpack

from holdfast import settings
from holdfast.client import Client
from holdfast.clock import Clock
from holdfast.drivers.contract import Store
from holdfast.errors import InvalidInput
from holdfast.model.definition import JobDefinition
from holdfast.model.job import DEFAULT_MAX_ATTEMPTS
from holdfast.model.lease import Enqueued
from holdfast.model.request import DEFAULT_QUEUE, JobRequest
from holdfast.model.retry import BuiltInPolicy, RetryPolicy
from holdfast.observability import observers_of
from holdfast.observability.labels import JobNames
from holdfast.observability.metrics import Metrics, load_metrics
from holdfast.settings import Settings
from holdfast.wire.codec import dump_model
from holdfast.worker.catalogue import Catalogue, Middleware, make_handler
from holdfast.worker.observer import WorkerObserver
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
        store: str | None = None,
        driver: Store | None = None,
        space: str | None = None,
        clock: Clock | None = None,
        metrics: Metrics | None = None,
    ) -> None:
        """Open a store by its URL, by its name in the settings, or use a driver. Without all three, see the settings.

        Without a space, that of the named store or of the settings is used. ``metrics`` is a collector, by default that
        of the settings.
        """
        given = [what for what, value in (("url", url), ("store", store), ("driver", driver)) if value is not None]
        if len(given) > 1:
            raise InvalidInput("app", wanted="one of url, store and driver", got=" and ".join(given))
        self._url = url if store is None else settings.named_store_url(store)
        self._space = space
        self._has_driver = driver is not None
        self._settings: Settings | None = None
        self.catalogue = Catalogue()
        self._jobs: list[JobNames] = []  # the queues and types of the handlers
        self.queues: dict[str, None] = {}  # an ordered set: the queues of the handlers, in order of definition
        self._driver = driver
        self._clock = clock
        self._metrics = metrics

    @property
    def settings(self) -> Settings:
        """The settings (``holdfast.toml``, then ``HOLDFAST_*`` variables), read at the first use."""
        if self._settings is None:
            self._settings = settings.read()
        return self._settings

    def use_settings(self, settings: Settings, *, url: str | None = None, space: str | None = None) -> None:
        """Use settings that the program has read; ``url`` and ``space`` replace those of the app. For commands."""
        self._settings = settings
        self._url = url or self._url
        self._space = space or self._space

    @property
    def url(self) -> str | None:
        """The URL of the store: the argument, else that of the settings; None with a driver, or without both.

        A store that is given by its name has the URL ``store:NAME``: another process resolves it with its own settings.
        """
        return self._url if self._url is not None or self._has_driver else self.settings.store_url

    @property
    def space(self) -> str:
        """The space: the argument, else that of the named store, else that of the settings."""
        if self._space is not None:
            return self._space
        return self.settings.space if self.url is None else self.settings.space_of(self.url)

    @property
    def driver(self) -> Store:
        """The store. It is opened at the first use."""
        if self._driver is None:
            from holdfast.connect import connect  # noqa: PLC0415 - imports drivers, which a producer with a driver does not need

            url = self.url
            if url is None:
                ways = f"Holdfast(url), {settings.PREFIX}URL, or url in {settings.FILE_NAME}"
                raise InvalidInput("url", wanted=f"a store: {ways}, or the name of a store", got="none")
            is_named = settings.store_name_of(url) is not None
            address = self.settings.resolve_url(url) if is_named else url
            self._driver = connect(address, space=self.space, clock=self._clock)
        return self._driver

    @property
    def metrics(self) -> Metrics | None:
        """The collector of metrics: the argument, else that of the settings; None without both."""
        if self._metrics is None and self.settings.metrics is not None:
            self._metrics = load_metrics(self.settings.metrics)
        return self._metrics

    @metrics.setter
    def metrics(self, metrics: Metrics) -> None:
        self._metrics = metrics

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
            self._jobs.append((queue, type))
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

    def worker(
        self,
        options: WorkerOptions | None = None,
        *,
        observers: Sequence[WorkerObserver] = (),
        **keywords: Unpack[WorkerKeywords],
    ) -> Worker:
        """Return a worker for the handlers of this app, by default on all their queues.

        The keywords are the fields of ``WorkerOptions``; they replace those of ``options``. The worker reports to the
        log, to the metrics of the app, and to these ``observers``.
        """
        worker_options = self.worker_options(replace(options or WorkerOptions(), **keywords))
        all_observers = observers_of(
            self.driver, worker_options.queues, metrics=self.metrics, jobs=self._jobs, others=observers
        )
        return Worker(self.driver, worker_options, catalogue=self.catalogue, observers=all_observers)

    def worker_options(self, options: WorkerOptions) -> WorkerOptions:
        """Return the options with the queues of the handlers and the retention of the settings where they have none."""
        return replace(
            options,
            queues=options.queues or tuple(self.queues) or None,
            keep_ended=options.keep_ended or self.settings.chosen_keep_ended,
            keep_ledger=options.keep_ledger or self.settings.chosen_keep_ledger,
        )

    def close(self) -> None:
        """Close the store if it is open."""
        if self._driver is not None:
            self._driver.close()
            self._driver = None
