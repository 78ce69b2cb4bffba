"""``Task``: a handler function that can be enqueued. It knows the types of its payload and its result.

``Task[Payload, Result, Params, Answer]``: jobs take ``Payload`` and have the result ``Result``; a plain call takes
``Params`` and returns ``Answer``. For a handler of chunks the payload is one member of the list.

For ``async def send(payload: Mail, ctx: Context) -> Receipt`` both ``Result`` and ``Answer`` are a coroutine, and
``result`` returns the ``Receipt``. The decorator does not take the coroutine apart: mypy would take a function without
a return type for both kinds, and then check no payload.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from itertools import tee
from typing import (
    TYPE_CHECKING,
    Any,
    Concatenate,
    Generic,
    ParamSpec,
    Protocol,
    TypeAlias,
    TypeVar,
    Unpack,
    cast,
    overload,
)

from holdfast.client import EnqueueKeywords, EnqueueManyKeywords, OnConflict, Timeout, check_payloads
from holdfast.model.definition import JobDefinition
from holdfast.model.job import JobRecord
from holdfast.model.lease import Enqueued
from holdfast.model.limit_key import LimitKeySource, limit_key_of
from holdfast.model.request import JobRequest, RequestKeywords, SharedKeywords, check_keywords
from holdfast.worker.catalogue import Handler
from holdfast.worker.context import Context

if TYPE_CHECKING:  # the app imports this module
    from holdfast.app import Holdfast

# Without the suffixes of their variance: editors show these names to users.
Payload = TypeVar("Payload", contravariant=True)  # noqa: PLC0105
Result = TypeVar("Result", covariant=True)  # noqa: PLC0105
Params = ParamSpec("Params")
Answer = TypeVar("Answer", covariant=True)  # noqa: PLC0105
R = TypeVar("R")


class Task(Generic[Payload, Result, Params, Answer]):
    """A handler function that can be enqueued: ``task(...)`` calls it, ``task.enqueue(...)`` stores a job for it."""

    def __init__(
        self,
        app: Holdfast,
        definition: JobDefinition,
        function: Callable[Params, Answer],
        handler: Handler,
        limit_key: LimitKeySource | None = None,
    ) -> None:
        functools.update_wrapper(self, function)
        self.definition = definition
        self.function = function
        self.handler = handler
        self.limit_key = limit_key
        self._app = app

    @property
    def app(self) -> Holdfast:
        """The app of the handler."""
        return self._app

    def __call__(self, *args: Params.args, **kwargs: Params.kwargs) -> Answer:
        """Call the function directly. No job is stored."""
        return self.function(*args, **kwargs)

    # Enqueue ------------------------------------------------------------------------------------------------

    @overload
    def request(
        self: Task[None, Any, ..., Any], payload: None = None, **keywords: Unpack[RequestKeywords]
    ) -> JobRequest: ...
    @overload
    def request(self, payload: Payload, **keywords: Unpack[RequestKeywords]) -> JobRequest: ...

    def request(self, payload: object = None, **keywords: Unpack[RequestKeywords]) -> JobRequest:
        """Return a request for one job, to be enqueued together with others.

        ``payload`` is an instance of the type that the handler takes, or a JSON value that fits it; any other raises
        ``InvalidInput``. A keyword replaces what the handler says; ``meta`` is added to that of the handler.
        """
        return self._request(payload, keywords)

    def _request(self, payload: object, keywords: RequestKeywords) -> JobRequest:
        check_keywords(keywords)
        encoded = self.handler.encode(payload)
        if self.limit_key is not None and "limit_key" not in keywords:
            keywords["limit_key"] = self.limit_key_of(encoded)
        return self.definition.request(encoded, **keywords)

    def limit_key_of(self, encoded: object) -> str | None:
        """Return the limit key of a job with this payload, which is a JSON value; None without one."""
        return None if self.limit_key is None else limit_key_of(self.limit_key, self.handler.decode(encoded))

    @overload
    def enqueue(
        self: Task[None, Any, ..., Any], payload: None = None, **keywords: Unpack[EnqueueKeywords]
    ) -> Enqueued: ...
    @overload
    def enqueue(self, payload: Payload, **keywords: Unpack[EnqueueKeywords]) -> Enqueued: ...

    def enqueue(self, payload: object = None, **keywords: Unpack[EnqueueKeywords]) -> Enqueued:
        """Store one job for this handler. See ``request`` for the payload, and ``Client.enqueue`` for the rules.

        With ``connection`` the job is part of the caller's transaction.
        """
        connection, on_conflict, fields = split_keywords(keywords)
        request = self._request(payload, fields)
        return self._app.client.enqueue(request, connection=connection, on_conflict=on_conflict)

    def enqueue_many(
        self,
        payloads: Iterable[Payload],
        *,
        keys: Iterable[str | None] | None = None,
        **keywords: Unpack[EnqueueManyKeywords],
    ) -> list[Enqueued]:
        """Store one job per payload, in large batches; ``keys`` are their idempotency keys."""
        connection, on_conflict, fields = _split_many(keywords)
        check_payloads(payloads)
        encoded, limit_keys = self._encode_many(payloads, fields)
        return self._app.client.enqueue_many(
            self.definition.request(None, **fields),
            encoded,
            keys=keys,
            limit_keys=limit_keys,
            connection=connection,
            on_conflict=on_conflict,
        )

    def _encode_many(
        self, payloads: Iterable[Payload], fields: SharedKeywords
    ) -> tuple[Iterator[object], Iterator[str | None] | None]:
        """Return the payloads as JSON, and their limit keys if they have their own. Both are computed when read."""
        encoded = map(self.handler.encode, payloads)
        if self.limit_key is None or "limit_key" in fields:
            return encoded, None
        first, second = tee(encoded)
        return first, map(self.limit_key_of, second)

    # Results ------------------------------------------------------------------------------------------------

    @overload
    def result(
        self: Task[Any, Coroutine[Any, Any, R], ..., Any], job: str | Enqueued | JobRecord, *, timeout: Timeout = 0
    ) -> R: ...
    @overload
    def result(self, job: str | Enqueued | JobRecord, *, timeout: Timeout = 0) -> Result: ...

    def result(self, job: str | Enqueued | JobRecord, *, timeout: Timeout = 0) -> object:
        """Return the result of a done job, as the type that the handler returns.

        With ``timeout``, wait for the job first: as ``Client.wait`` does, None without limit. Raises as ``Client.wait``
        and ``Client.result`` do, and ``PayloadError`` for a result that does not fit the type.
        """
        client = self._app.client
        found = client.wait(_id(job), timeout=timeout) if timeout != 0 else _id_or_record(job)
        return self.handler.decode_result(client.result(found))

    # The same for async callers ------------------------------------------------------------------------------

    @overload
    async def aenqueue(
        self: Task[None, Any, ..., Any], payload: None = None, **keywords: Unpack[EnqueueKeywords]
    ) -> Enqueued: ...
    @overload
    async def aenqueue(self, payload: Payload, **keywords: Unpack[EnqueueKeywords]) -> Enqueued: ...

    async def aenqueue(self, payload: object = None, **keywords: Unpack[EnqueueKeywords]) -> Enqueued:
        """Store one job for this handler.

        Nothing blocks the event loop, also if the store must be opened first.
        """
        connection, on_conflict, fields = split_keywords(keywords)
        request = self._request(payload, fields)
        return await self._app.async_client.enqueue(request, connection=connection, on_conflict=on_conflict)

    async def aenqueue_many(
        self,
        payloads: Iterable[Payload],
        *,
        keys: Iterable[str | None] | None = None,
        **keywords: Unpack[EnqueueManyKeywords],
    ) -> list[Enqueued]:
        """Store one job per payload, in large batches. The payloads are read and encoded in a thread."""
        connection, on_conflict, fields = _split_many(keywords)
        check_payloads(payloads)
        encoded, limit_keys = self._encode_many(payloads, fields)
        return await self._app.async_client.enqueue_many(
            self.definition.request(None, **fields),
            encoded,
            keys=keys,
            limit_keys=limit_keys,
            connection=connection,
            on_conflict=on_conflict,
        )

    @overload
    async def aresult(
        self: Task[Any, Coroutine[Any, Any, R], ..., Any],
        job: str | Enqueued | JobRecord,
        *,
        timeout: Timeout = 0,  # noqa: ASYNC109 - the same signature as ``result``
    ) -> R: ...
    @overload
    async def aresult(self, job: str | Enqueued | JobRecord, *, timeout: Timeout = 0) -> Result: ...  # noqa: ASYNC109

    async def aresult(self, job: str | Enqueued | JobRecord, *, timeout: Timeout = 0) -> object:  # noqa: ASYNC109 - the same signature as ``result``
        """Return the result of a done job, as the type that the handler returns. A waiting call holds no thread."""
        client = self._app.async_client
        found = await client.wait(_id(job), timeout=timeout) if timeout != 0 else _id_or_record(job)
        return self.handler.decode_result(await client.result(found))


def _id(job: str | Enqueued | JobRecord) -> str:
    return job.id if isinstance(job, Enqueued | JobRecord) else job


def _id_or_record(job: str | Enqueued | JobRecord) -> str | JobRecord:
    return job.id if isinstance(job, Enqueued) else job


def split_keywords(keywords: EnqueueKeywords) -> tuple[object, OnConflict, RequestKeywords]:
    """Return the connection, ``on_conflict``, and the fields of the request."""
    connection, on_conflict = keywords.pop("connection", None), keywords.pop("on_conflict", "raise")
    return connection, on_conflict, cast("RequestKeywords", keywords)


def _split_many(keywords: EnqueueManyKeywords) -> tuple[object, OnConflict, SharedKeywords]:
    """Return the same of many jobs."""
    connection, on_conflict = keywords.pop("connection", None), keywords.pop("on_conflict", "raise")
    check_keywords(keywords)
    return connection, on_conflict, cast("SharedKeywords", keywords)


# Decorators, which infer the types of a task from the function -----------------------------------------------

P = TypeVar("P")
Register: TypeAlias = "Callable[[Callable[..., Any], Mapping[str, Any]], Task[Any, Any, ..., Any]]"


class ContextClass(Protocol[Result]):
    """A class handler that reads the payload from its context, as plain JSON."""

    def handle(self, ctx: Context, /) -> Result:
        """Run one job."""
        ...


class PayloadClass(Protocol[Payload, Result]):
    """A class handler with a typed payload."""

    def handle(self, payload: Payload, ctx: Context, /) -> Result:
        """Run one job."""
        ...


class HandlerDecorator:
    """Decorates ``fn(payload)``, ``fn(payload, ctx)``, ``fn()``, or a class.

    The class has ``handle(ctx)`` or ``handle(payload, ctx)``.

    mypy does not apply a decorator to the type of a class:
    ``count = app.handler("count")(Count)`` has the types in mypy, too.
    """

    def __init__(self, register: Register) -> None:
        self._register = register

    @overload
    def __call__(
        self, function: Callable[[], PayloadClass[P, Coroutine[Any, Any, R]]]
    ) -> Task[P, R, [], PayloadClass[P, Coroutine[Any, Any, R]]]: ...
    @overload
    def __call__(self, function: Callable[[], PayloadClass[P, R]]) -> Task[P, R, [], PayloadClass[P, R]]: ...
    @overload
    def __call__(
        self, function: Callable[[], ContextClass[Coroutine[Any, Any, R]]]
    ) -> Task[Any, R, [], ContextClass[Coroutine[Any, Any, R]]]: ...
    @overload
    def __call__(self, function: Callable[[], ContextClass[R]]) -> Task[Any, R, [], ContextClass[R]]: ...
    @overload
    def __call__(self, function: Callable[Concatenate[P, Params], R]) -> Task[P, R, Concatenate[P, Params], R]: ...
    @overload
    def __call__(self, function: Callable[[], R]) -> Task[None, R, [], R]: ...

    def __call__(self, function: Callable[..., Any]) -> Task[Any, Any, ..., Any]:
        """Register the handler and return its task."""
        return self._register(function, sys._getframe(1).f_locals)  # noqa: SLF001 - annotations may use local names


class ChunkHandlerDecorator:
    """Decorates ``fn(payloads)`` or ``fn(payloads, contexts)``, which returns one result or exception for each job."""

    def __init__(self, register: Register) -> None:
        self._register = register

    @overload
    def __call__(
        self, function: Callable[Concatenate[list[P], Params], Coroutine[Any, Any, Sequence[R | Exception]]]
    ) -> Task[P, R, Concatenate[list[P], Params], Coroutine[Any, Any, Sequence[R | Exception]]]: ...
    @overload
    def __call__(
        self, function: Callable[Concatenate[list[P], Params], Sequence[R | Exception]]
    ) -> Task[P, R, Concatenate[list[P], Params], Sequence[R | Exception]]: ...

    def __call__(self, function: Callable[..., Any]) -> Task[Any, Any, ..., Any]:
        """Register the handler and return its task."""
        return self._register(function, sys._getframe(1).f_locals)  # noqa: SLF001 - annotations may use local names
