"""``Holdfast``: the handlers, resources and store of an application, in one object.

app = Holdfast("sqlite:///jobs.db")

@app.handler("mail.send", queue="mail", max_attempts=5)
def send(payload: Mail) -> Receipt: ...

job = send.enqueue(Mail("ada@example.org"))  # a job; other payloads are refused
send.result(job, timeout=30)                 # its Receipt
send(Mail("ada@example.org"))                # a plain call
app.worker(processes=2).run()                # or the command: holdfast work module:app
"""

from __future__ import annotations

import sys
import threading
import warnings
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Concatenate, TypedDict, TypeVar, Unpack, overload

from holdfast import settings as settings_module
from holdfast.client import Client, EnqueueKeywords, check_driver
from holdfast.clock import Clock
from holdfast.connect import check_text, connect
from holdfast.drivers.capabilities import Feature
from holdfast.drivers.store import Store
from holdfast.enqueue_middleware import EnqueueMiddleware
from holdfast.errors import InvalidInput, UnknownTypeWarning
from holdfast.model import bounds
from holdfast.model.definition import JobBuilder, JobDefinition
from holdfast.model.lease import Enqueued
from holdfast.model.limit_key import LimitKeySource, check_source
from holdfast.model.limit_proposal import NO_LIMITS, LimitProposal, QueueLimits, parse_rate
from holdfast.model.queue_settings import LimitOrigin
from holdfast.model.request import DEFAULT_QUEUE, JobRequest, RequestKeywords, check_keywords
from holdfast.model.retry import RetryPolicy
from holdfast.model.suggestion import did_you_mean
from holdfast.model.unique import Unique
from holdfast.observability import observers_of
from holdfast.observability.enqueue_metrics import EnqueueCounter
from holdfast.observability.metrics import Metrics, check_metrics, load_metrics
from holdfast.settings import FILE_NAME, PREFIX, Settings, named_store_url, store_name_of
from holdfast.signing import open_signer
from holdfast.task import (
    ChunkHandlerDecorator,
    ContextClass,
    HandlerDecorator,
    P,
    Params,
    PayloadClass,
    R,
    Task,
    split_keywords,
)
from holdfast.wire.signing import Signer
from holdfast.worker.breaker import BreakerRule
from holdfast.worker.catalogue import Catalogue, Middleware, make_handler
from holdfast.worker.observer import WorkerObserver
from holdfast.worker.options import WorkerKeywords, WorkerOptions
from holdfast.worker.signature import check_middleware
from holdfast.worker.worker import Worker

if TYPE_CHECKING:
    from holdfast.aio import AsyncClient
    from holdfast.cron.builder import ScheduleBuilder
    from holdfast.cron.schedule import Schedule
    from holdfast.cron.schedules import Schedules
    from holdfast.handlers.builtin import BuiltinHandlers

F = TypeVar("F", bound=Callable[..., Any])

_opening_lock = threading.Lock()  # not of an app, which may be pickled with the functions that use it


class HandlerKeywords(TypedDict, total=False):
    """The keyword arguments of ``app.handler``, beside ``chunk``."""

    queue: str
    priority: int
    max_attempts: int | None
    timeout: timedelta | None
    cpu: timedelta | None
    retry: RetryPolicy | None
    rate: str | float | None
    burst: int | None
    max_inflight: int | None
    limit_key: LimitKeySource | None
    breaker_threshold: int | None
    breaker_cooldown: timedelta | None
    unique: Unique | None
    strict_result: bool | None
    idempotent: bool | None
    idempotency_ttl: timedelta | None
    single_instance: bool | str
    capture_output: bool
    name: str | None
    meta: Mapping[str, object] | None
    cron: str | None
    timezone: str | None


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
        tracing: bool = False,
    ) -> None:
        """Open a store by its URL, by its name in the settings, or use a driver. Without all three, see the settings.

        Without a space, that of the named store or of the settings is used. ``metrics`` is a collector, by default that
        of the settings. With ``tracing`` every enqueue and every attempt has a span of OpenTelemetry.
        """
        given = [what for what, value in (("url", url), ("store", store), ("driver", driver)) if value is not None]
        if len(given) > 1:
            raise InvalidInput("app", wanted="one of url, store and driver", got=" and ".join(given))
        if url is not None:
            check_text(url)
        if driver is not None:
            check_driver(driver)
        if metrics is not None:
            check_metrics(metrics)
        self._url = url if store is None else named_store_url(store)
        self._space = space
        self._clock = clock
        self._driver = driver
        self._has_driver = driver is not None  # and no URL
        self._settings: Settings | None = None
        self.catalogue = Catalogue()
        self.tasks: dict[str, Task[Any, Any, ..., Any]] = {}  # by type
        self.queues: dict[str, None] = {}  # an ordered set: the queues of the handlers, in order of definition
        self.code_schedules: dict[str, Schedule] = {}  # by name; ``declared_schedules`` adds those of the settings
        self.enqueue_middlewares: list[EnqueueMiddleware] = []  # the first one is the outermost
        self._client: Client | None = None
        self._async_client: AsyncClient | None = None  # for every store and event loop: it asks for ``client``
        self._metrics = metrics
        self._enqueue_counter: EnqueueCounter | None = None
        self._builtin: BuiltinHandlers | None = None
        if tracing:
            from holdfast.observability import tracing as spans  # noqa: PLC0415 - needs an extra

            self.catalogue.resources[spans.RESOURCE] = spans.flush_at_exit
            self.catalogue.middleware.append(spans.TraceAttempt())
            self.enqueue_middlewares.append(spans.trace_enqueue)

    @property
    def settings(self) -> Settings:
        """The settings (``holdfast.toml``, then ``HOLDFAST_*`` variables), read at the first use."""
        if self._settings is None:
            self._settings = settings_module.read()
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
        return self._url if self._url is not None or self._has_driver else self.settings.url

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
            with _opening_lock:
                self._driver = self._driver or self._open()
        return self._driver

    def _open(self) -> Store:
        url = self.url
        if url is None:
            ways = f"Holdfast(url), {PREFIX}URL, or url in {FILE_NAME}"
            raise InvalidInput("url", wanted=f"a store: {ways}, or the name of a store", got="none")
        address = url if store_name_of(url) is None else self.settings.resolve_url(url)
        return connect(address, space=self.space, clock=self._clock)

    @property
    def _store_space(self) -> str:
        """The space that the open store works in."""
        return self.driver.space_name

    def _open_signer(self) -> Signer | None:
        """Return what signs and verifies the jobs of the space; None if the settings turn signing off."""
        return open_signer(self.settings, space=self._store_space)

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
        """The client of the store, inside the enqueue middleware. It opens the store at the first use."""
        if self._client is None:
            if self._enqueue_counter is None and self.metrics is not None:
                self._enqueue_counter = EnqueueCounter(self.metrics)
                self.enqueue_middlewares.append(self._enqueue_counter)
            self._client = Client(
                self.driver,
                clock=self._clock,
                middleware=self.enqueue_middlewares,
                signer=self._open_signer(),
                attempts_of=self._attempts_of,
            )
        return self._client

    def _attempts_of(self, type_: str) -> int:
        """Return the attempts of a job that names none: of its handler, else of the settings."""
        task = self.tasks.get(type_)
        return (None if task is None else task.definition.max_attempts) or self.settings.max_attempts

    @property
    def async_client(self) -> AsyncClient:
        """The same client for async callers. It opens the store in a thread, at its first call."""
        if self._async_client is None:
            from holdfast.aio import AsyncClient  # noqa: PLC0415 - most producers are not async

            self._async_client = AsyncClient.from_client(lambda: self.client, close=self._close_with_async_client)
        return self._async_client

    @contextmanager
    def using(self, driver: Store, *, clock: Clock | None = None) -> Iterator[Holdfast]:
        """Use another store until the block ends. Both stores stay open. For tests with a store in memory."""
        before = self._driver, self._clock, self._client
        self._driver, self._clock, self._client = driver, clock, None
        try:
            yield self
        finally:
            self._driver, self._clock, self._client = before

    @overload
    def handler(
        self, type: str | None = None, *, chunk: None = None, **keywords: Unpack[HandlerKeywords]
    ) -> HandlerDecorator: ...
    @overload
    def handler(
        self, type: str | None = None, *, chunk: int, **keywords: Unpack[HandlerKeywords]
    ) -> ChunkHandlerDecorator: ...
    @overload  # this one and the next ones: those of HandlerDecorator, for @app.handler without parentheses
    def handler(
        self, type: Callable[[], PayloadClass[P, Coroutine[Any, Any, R]]], /
    ) -> Task[P, R, [], PayloadClass[P, Coroutine[Any, Any, R]]]: ...
    @overload
    def handler(self, type: Callable[[], PayloadClass[P, R]], /) -> Task[P, R, [], PayloadClass[P, R]]: ...
    @overload
    def handler(
        self, type: Callable[[], ContextClass[Coroutine[Any, Any, R]]], /
    ) -> Task[Any, R, [], ContextClass[Coroutine[Any, Any, R]]]: ...
    @overload
    def handler(self, type: Callable[[], ContextClass[R]], /) -> Task[Any, R, [], ContextClass[R]]: ...
    @overload
    def handler(self, type: Callable[Concatenate[P, Params], R], /) -> Task[P, R, Concatenate[P, Params], R]: ...
    @overload
    def handler(self, type: Callable[[], R], /) -> Task[None, R, [], R]: ...

    def handler(
        self,
        type: str | Callable[..., Any] | None = None,
        *,
        queue: str = DEFAULT_QUEUE,
        priority: int = 0,
        max_attempts: int | None = None,
        timeout: timedelta | None = None,
        cpu: timedelta | None = None,
        retry: RetryPolicy | None = None,
        rate: str | float | None = None,
        burst: int | None = None,
        max_inflight: int | None = None,
        limit_key: LimitKeySource | None = None,
        breaker_threshold: int | None = None,
        breaker_cooldown: timedelta | None = None,
        unique: Unique | None = None,
        chunk: int | None = None,
        strict_result: bool | None = None,
        idempotent: bool | None = None,
        idempotency_ttl: timedelta | None = None,
        single_instance: bool | str = False,
        capture_output: bool = False,
        name: str | None = None,
        meta: Mapping[str, object] | None = None,
        cron: str | None = None,
        timezone: str | None = None,
    ) -> HandlerDecorator | ChunkHandlerDecorator | Task[Any, Any, ..., Any]:
        """Run jobs of this type with the decorated ``fn(payload)``, ``fn(payload, ctx)``, ``fn()``, or class.

        Without a type, it is the name of the function or class; then the parentheses may be left out, too. The class
        has ``handle(ctx)`` or ``handle(payload, ctx)``. Payload and result are checked against the annotations of the
        function: see ``Task``. Jobs of ``fn()`` have no payload.

        ``timeout`` limits the time of one attempt, ``cpu`` its processor time. With ``chunk`` the function takes a list
        of up to ``chunk`` payloads, and returns a list with a result or an exception for each. A result that cannot be
        stored is left out, and the job is done; with ``strict_result`` the job becomes a dead letter. None: only a row
        of ``holdfast.spark.run`` does.

        ``rate`` (``"100/s"``, or a number per second; ``burst`` at once after an idle time) and ``max_inflight`` limit
        the jobs of this type in this queue, in the whole fleet. Settings and operators can replace them. ``limit_key``
        is the name of a field of the payload, or a function of the payload, for example ``"host"``: the limits by key
        of the queue (``key_rate``, ``key_max_inflight``) apply to the jobs of each host.

        With ``breaker_threshold``, so many failed attempts in a row in one worker open the breaker of the type: no
        worker reserves its jobs for ``breaker_cooldown``, by default a minute, and then one at a time until one
        succeeds.

        With ``unique`` there is one job per payload at a time: ``"while_queued"`` until it starts, ``"while_open"``
        until it ends, a timedelta also for this time since its enqueue. An idempotency key replaces the payload.

        An ``idempotent`` handler is not called for a job whose idempotency key was done within ``idempotency_ttl``.
        With ``single_instance`` one job runs at a time: of its queue and type, or of all jobs with the same text. With
        ``capture_output`` what the function prints is kept: see ``Client.execution``.

        With ``cron``, an expression such as ``"0 6 * * 1-5"``, a schedule with the name of the type enqueues a job
        without a payload again and again, in this ``timezone`` or in UTC. ``app.cron`` can say more.
        """
        if callable(type):
            return self.handler()._register(type, sys._getframe(1).f_locals)  # noqa: SLF001 - as the decorator does

        def define(type_: str) -> tuple[JobDefinition, LimitProposal]:
            return (
                JobDefinition(
                    type=type_,
                    queue=queue,
                    priority=priority,
                    timeout=timeout,
                    max_attempts=max_attempts,
                    unique=unique,
                    name=name,
                    meta=meta or {},
                ),
                LimitProposal(queue=queue, type=type_, limits=limits, origin=LimitOrigin.HANDLER),
            )

        if limit_key is not None:
            check_source(limit_key)
        limits = QueueLimits(max_inflight=max_inflight, rate=parse_rate("rate", rate), burst=burst)
        defined = None if type is None else define(type)
        breaker = BreakerRule.of(breaker_threshold, breaker_cooldown)
        if timezone is not None and cron is None:
            raise InvalidInput("timezone", wanted="a cron expression beside it", got="none")

        def register(function: Callable[..., Any], namespace: Mapping[str, Any]) -> Task[Any, Any, ..., Any]:
            definition, proposal = defined or define(_name_of(function))
            handler = make_handler(
                definition.type,
                function,
                timeout=timeout,
                cpu=cpu,
                retry=retry,
                chunk=chunk,
                strict_result=strict_result,
                idempotent=idempotent,
                idempotency_ttl=idempotency_ttl,
                single_instance=single_instance,
                capture_output=capture_output,
                limits=None if limits == NO_LIMITS else proposal,
                breaker=breaker,
                namespace=namespace,
            )
            task: Task[Any, Any, ..., Any] = Task(self, definition, function, handler, limit_key)
            type_ = definition.type
            if cron is not None and type_ not in self.catalogue.types:  # a refused schedule leaves no handler behind
                self.cron(type_).expression(cron).timezone(timezone or "UTC").queue(queue).run(task, None)
            self.catalogue.add(handler)
            self.queues[queue] = None
            self.tasks[type_] = task
            return task

        return HandlerDecorator(register) if chunk is None else ChunkHandlerDecorator(register)

    @overload
    def cron(self, name: str) -> ScheduleBuilder: ...
    @overload
    def cron(self, name: JobDefinition | JobBuilder) -> Schedule: ...

    def cron(self, name: str | JobDefinition | JobBuilder) -> ScheduleBuilder | Schedule:
        """Describe a schedule: ``app.cron("report").daily(at="06:00").weekdays().run(make_report)``.

        A definition with a schedule, or its builder, is taken as it is; its name, or else its type, names the schedule.
        A scheduler, which is part of ``holdfast work``, enqueues its jobs: once each, however many schedulers run.
        """
        from holdfast.cron.builder import ScheduleBuilder, schedule_of  # noqa: PLC0415 - a producer has no schedules

        if isinstance(name, str):
            return ScheduleBuilder(name, self._add_schedule)
        schedule = schedule_of(name.build() if isinstance(name, JobBuilder) else name)
        self._add_schedule(schedule)
        return schedule

    def _add_schedule(self, schedule: Schedule) -> None:
        if schedule.name in self.code_schedules:
            raise InvalidInput("schedule", wanted="one schedule of each name", got=f"a second {schedule.name}")
        self.code_schedules[schedule.name] = schedule

    def declared_schedules(self) -> list[Schedule]:
        """Return the schedules of the code and of the settings, each after those that it depends on.

        Raises ``InvalidInput`` for a cycle, an unknown dependency, a name that code and settings both use, and a
        payload that the handler of this app does not take.
        """
        from holdfast.cron.dependencies import check_dependencies, execution_order  # noqa: PLC0415 - see ``cron``
        from holdfast.cron.payload import encode_payload  # noqa: PLC0415
        from holdfast.cron.table import read_table  # noqa: PLC0415

        schedules = dict(self.code_schedules)
        for name, table in self.settings.schedules.items():
            where = self.settings.origin(f"schedules.{name}")
            if name in schedules:
                raise InvalidInput(
                    f"schedules.{name} in {where}", wanted="a name that no schedule in code has", got=name
                )
            schedules[name] = read_table(name, table, where=where)
        for schedule in schedules.values():
            if schedule.type in self.tasks:
                encode_payload(schedule.name, self.tasks[schedule.type], schedule.payload)
        check_dependencies(schedules.values())
        return execution_order(schedules.values())

    @property
    def schedules(self) -> Schedules:
        """The schedules of the space: put, pause, resume, remove, trigger, backfill and list them."""
        from holdfast.cron.schedules import Schedules  # noqa: PLC0415 - see ``cron``

        return Schedules(self)

    @property
    def builtin(self) -> BuiltinHandlers:
        """The built-in handlers, which do nothing until one is registered: ``app.builtin.shell(queue="ops")``."""
        if self._builtin is None:
            from holdfast.handlers.builtin import BuiltinHandlers  # noqa: PLC0415 - few apps use them

            self._builtin = BuiltinHandlers(self)
        return self._builtin

    def on(self, event: str) -> Callable[[F], F]:
        """Call the decorated ``fn(payload)`` or ``fn(payload, ctx)`` for each event of this name.

        An event may have several listeners. ``app.builtin.event()`` registers the handler that calls them.
        """

        def decorate(function: F) -> F:
            self.builtin.add_listener(event, function, namespace=sys._getframe(1).f_locals)  # noqa: SLF001 - as for handlers
            return function

        return decorate

    def command(self, name: str) -> Callable[[F], F]:
        """Call the decorated ``fn(payload)`` or ``fn(payload, ctx)`` for each command of this name.

        ``app.builtin.command()`` registers the handler that calls it.
        """

        def decorate(function: F) -> F:
            self.builtin.add_command(name, function, namespace=sys._getframe(1).f_locals)  # noqa: SLF001 - as for handlers
            return function

        return decorate

    def resource(self, factory: Callable[[], Any]) -> Callable[[], Any]:
        """Register the factory of ``ctx.resources["<name of the factory>"]``.

        The factory is called once in each process that uses the resource. The resource is closed when the process ends:
        its context manager exits, or its ``close()`` is called; a generator function continues after its ``yield``.
        The resource of an ``async def``, an async context manager or an object with ``aclose()`` lives on the event
        loop of the async handlers, which get it by ``await ctx.resources.aget("<name>")``.
        """
        name = getattr(factory, "__name__", None)
        if not callable(factory) or name is None:
            raise InvalidInput("resource", wanted="a function or class, whose name it gets", got=factory)
        if name in self.catalogue.resources:
            raise InvalidInput("resource", wanted="one factory for each name", got=f"a second one for {name}")
        self.catalogue.resources[name] = factory
        return factory

    def middleware(self, wrapper: Middleware) -> Middleware:
        """Call ``fn(ctx, call_next)`` around every handler. The middleware that is defined first is the outermost.

        It is a plain function, also around async handlers: ``call_next()`` returns when the handler has ended.
        """
        check_middleware(wrapper)
        self.catalogue.middleware.append(wrapper)
        return wrapper

    def request(self, type: str, payload: object = None, **keywords: Unpack[RequestKeywords]) -> JobRequest:
        """Return a request for a job of this type, as its handler says: see ``Task.request``.

        A type without a handler gets the attempts and the timeout of the settings, and an ``UnknownTypeWarning``
        unless the app has no handlers at all: a producer may not have them.
        """
        return self._request(type, payload, keywords)

    def _request(self, type: str, payload: object, keywords: RequestKeywords) -> JobRequest:
        task = self.tasks.get(bounds.check_name("type", type))
        if task is not None:
            return task.request(payload, **keywords)
        check_keywords(keywords)
        if self.tasks:
            warnings.warn(unknown_type_message(type, self.tasks), UnknownTypeWarning, stacklevel=3)
        defaults = self.settings
        definition = JobDefinition(type=type, max_attempts=defaults.max_attempts, timeout=defaults.timeout)
        return definition.request(payload, **keywords)

    def enqueue(self, type: str, payload: object = None, **keywords: Unpack[EnqueueKeywords]) -> Enqueued:
        """Store a job of this type, as its handler says. See ``request`` and ``Task.enqueue``."""
        connection, on_conflict, fields = split_keywords(keywords)
        request = self._request(type, payload, fields)
        return self.client.enqueue(request, connection=connection, on_conflict=on_conflict)

    async def aenqueue(self, type: str, payload: object = None, **keywords: Unpack[EnqueueKeywords]) -> Enqueued:
        """Store a job of this type, as its handler says.

        Nothing blocks the event loop, also if the store must be opened first.
        """
        connection, on_conflict, fields = split_keywords(keywords)
        request = self._request(type, payload, fields)
        return await self.async_client.enqueue(request, connection=connection, on_conflict=on_conflict)

    def enqueue_middleware(self, wrapper: EnqueueMiddleware) -> EnqueueMiddleware:
        """Call ``fn(requests, call_next)`` around every enqueue: of a handler, of this app, of its clients.

        The function is called once for each call, of ``enqueue_many`` once for each batch, and may pass on changed
        requests. It returns the answers of ``call_next``. The middleware that is defined first is the outermost. See
        ``holdfast.enqueue_middleware``.
        """
        if not callable(wrapper):
            raise InvalidInput("enqueue middleware", wanted="fn(requests, call_next)", got=wrapper)
        self.enqueue_middlewares.append(wrapper)
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
        log, to the metrics of the app, and to these ``observers``. If the app has schedules, ``run`` fires them.
        """
        for observer in observers:
            if not isinstance(observer, WorkerObserver):
                raise InvalidInput("observers", wanted="objects of a subclass of WorkerObserver", got=observer)
        worker_options = self.worker_options(WorkerOptions.of(options, **keywords))
        jobs = [(task.definition.queue, type_) for type_, task in self.tasks.items()]
        if self._wants_cron(worker_options):
            from holdfast.cron.worker_thread import CronThread  # noqa: PLC0415 - many apps have no schedules

            observers = [*observers, CronThread(self)]
        if self._wants_webhooks(worker_options):
            from holdfast.webhooks.worker_thread import WebhookThread  # noqa: PLC0415 - many apps have no webhooks

            observers = [*observers, WebhookThread(self.driver, self.settings, space=self._store_space)]
        all_observers = observers_of(
            self.driver, worker_options.queues, metrics=self.metrics, jobs=jobs, others=observers
        )
        return Worker(
            self.driver,
            worker_options,
            catalogue=self.catalogue,
            observers=all_observers,
            signer=self._open_signer(),
        )

    def _wants_cron(self, options: WorkerOptions) -> bool:
        if options.cron is not None:
            return options.cron
        has_schedules = bool(self.code_schedules or self.settings.schedules)
        drains = options.until_drained or options.max_jobs is not None
        return (
            has_schedules and not drains and self.driver.capabilities.lost.isdisjoint({Feature.REGISTRY, Feature.KEY})
        )

    def _wants_webhooks(self, options: WorkerOptions) -> bool:
        """Whether a worker delivers callbacks: where their secret is known, and unless it stops by itself."""
        webhooks = self.settings.webhooks
        drains = options.until_drained or options.max_jobs is not None
        is_wanted = bool(webhooks.secret or webhooks.secrets_file) and not drains
        return is_wanted and self.driver.capabilities.lost.isdisjoint({Feature.LEDGER, Feature.REGISTRY})

    def worker_options(self, options: WorkerOptions) -> WorkerOptions:
        """Return the options with the queues of the handlers, and with the settings where they have none."""
        return replace(options, queues=options.queues or tuple(self.queues) or None).with_settings(self.settings)

    def _close_with_async_client(self) -> None:
        self._async_client = None  # a closed one cannot be used again
        self.close()

    def close(self) -> None:
        """Close the store if it is open."""
        if self._driver is not None:
            self._driver.close()
            self._driver = None
        self._client = None


def _name_of(function: Callable[..., Any]) -> str:
    """Return the name of a function or class as a type."""
    name = getattr(function, "__name__", None)
    try:
        return bounds.check_name("type", name)
    except InvalidInput as error:
        wanted = "a function whose name can be a type, or a type: app.handler('mail.send')"
        raise InvalidInput("type", wanted=wanted, got=name or function) from error


def unknown_type_message(type_: str, known: Iterable[str]) -> str:
    """Return what to tell the producer of a job whose type has no handler, with the most similar known type."""
    return f"the app has no handler for {type_!r}{did_you_mean(type_, known)}"
