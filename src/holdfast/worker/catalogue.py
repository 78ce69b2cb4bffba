"""The handlers of an app by job type, their middleware, and the resources that they share."""

from __future__ import annotations

import inspect
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from typing import Any, get_args, get_type_hints

import msgspec

from holdfast.errors import InvalidInput, PayloadError
from holdfast.model import bounds
from holdfast.model.retry import RetryPolicy
from holdfast.wire.codec import JSON, dump_model

MAX_CHUNK = 10_000  # jobs in one call: as many as one reserve can return


@dataclass(frozen=True, slots=True, kw_only=True)
class Handler:
    """A function, and how its jobs are run."""

    type: str
    function: Callable[..., Any]
    wants_context: bool
    is_async: bool
    payload_type: object = None  # None: the plain JSON value
    chunk: int | None = None  # the function takes a list of at most ``chunk`` payloads, and returns a result for each
    timeout: timedelta | None = None
    cpu: timedelta | None = None
    retry: RetryPolicy | None = None
    strict_result: bool = False  # a result that cannot be stored makes a dead letter
    from_json: Callable[[object], object] | None = None  # applied to the JSON value, before ``payload_type``

    def decode(self, payload: object) -> object:
        """Return the payload as the type that the function takes. Raises ``PayloadError`` for one that does not fit."""
        if self.from_json is not None:
            payload = self._read(self.from_json, payload)
        if self.payload_type is None:
            return payload
        if hasattr(self.payload_type, "model_validate"):  # pydantic, where it is installed
            try:
                return self.payload_type.model_validate(payload)
            except ValueError as error:
                raise PayloadError("payload", wanted=_type_name(self.payload_type), got=str(error)) from error
        try:
            return msgspec.convert(payload, type=self.payload_type)
        except msgspec.ValidationError as error:
            raise PayloadError("payload", wanted=_type_name(self.payload_type), got=str(error)) from error

    def encode(self, payload: object) -> object:
        """Return a payload for this handler as a request has it."""
        return dump_model(payload)

    def _read(self, from_json: Callable[[object], object], payload: object) -> object:
        try:
            return from_json(payload)
        except (ValueError, TypeError, LookupError, AttributeError, ArithmeticError) as error:
            got = f"{type(error).__name__}: {error}"
            raise PayloadError("payload", wanted="a value that its reader accepts", got=got) from error


def _type_name(wanted: object) -> str:
    return getattr(wanted, "__name__", str(wanted))


def make_handler(
    type_: str,
    function: Callable[..., Any],
    *,
    timeout: timedelta | None = None,
    cpu: timedelta | None = None,
    retry: RetryPolicy | None = None,
    chunk: int | None = None,
    strict_result: bool = False,
) -> Handler:
    """Return the handler for ``fn(payload)`` or ``fn(payload, ctx)``, also async, or for a class with ``handle(ctx)``.

    With ``chunk``, for ``fn(payloads)`` or ``fn(payloads, contexts)`` with up to ``chunk`` jobs at a time.
    """
    bounds.check_name("type", type_)
    if timeout is not None:
        bounds.duration_from("timeout", timeout, least=1)
    if cpu is not None:
        bounds.duration_from("cpu", cpu, least=1)
    if chunk is not None:
        bounds.check_integer("chunk", chunk, least=1, most=MAX_CHUNK)
    if inspect.isclass(function):
        if chunk is not None:
            raise InvalidInput("handler", wanted="fn(payloads) or fn(payloads, contexts) for chunks", got=function)
        instance: Any = function()
        return Handler(
            type=type_,
            function=lambda _payload, context: instance.handle(context),
            wants_context=True,
            is_async=inspect.iscoroutinefunction(instance.handle),
            timeout=timeout,
            cpu=cpu,
            retry=retry,
            strict_result=strict_result,
        )
    parameters = _parameters(function)
    return Handler(
        type=type_,
        function=function,
        wants_context=len(parameters) == 2,
        is_async=_is_async(function),
        payload_type=_payload_type(function, parameters[0].name, many=chunk is not None),
        chunk=chunk,
        timeout=timeout,
        cpu=cpu,
        retry=retry,
        strict_result=strict_result,
    )


def _parameters(function: Callable[..., Any]) -> list[inspect.Parameter]:
    """Return the parameter of the payload and, if there is one, that of the context.

    The context is a second parameter without a default, or one that is called ``ctx`` or ``context``.
    """
    parameters = inspect.signature(function).parameters.values()
    positional = [one for one in parameters if one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD)]
    wanted = [
        one
        for index, one in enumerate(positional)
        if index == 0 or one.default is one.empty or one.name in ("ctx", "context")
    ]
    required = [one for one in parameters if one.kind is one.KEYWORD_ONLY and one.default is one.empty]
    if required or len(wanted) not in (1, 2) or wanted != positional[: len(wanted)]:
        raise InvalidInput("handler", wanted="fn(payload), fn(payload, ctx) or a class with handle(ctx)", got=function)
    return wanted


def _is_async(function: Callable[..., Any]) -> bool:
    """Whether a call returns a coroutine, also of a partial or of an object with an async ``__call__``."""
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(getattr(function, "__call__", None))  # noqa: B004


def _annotated(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the function whose annotations describe a call: that of a partial, or ``__call__`` of an object."""
    while isinstance(function, partial):
        function = function.func
    return function if inspect.isroutine(function) else type(function).__call__


def _payload_type(function: Callable[..., Any], parameter: str, *, many: bool) -> object:
    """Return the annotation of the payload, or of each payload in a list; None if it is plain JSON."""
    try:
        hint = get_type_hints(_annotated(function)).get(parameter)
    except NameError:  # an annotation that only a type checker can resolve
        return None
    if many:
        hint = next(iter(get_args(hint)), None)
    return None if hint in (None, Any, object, dict, list, str, int, float, bool) else hint


Middleware = Callable[[Any, Callable[[], object]], object]  # fn(ctx, call_next) returns the result, or raises


class Catalogue:
    """Handlers by type, factories of resources by name, and the middleware around every handler."""

    def __init__(self) -> None:
        self._handlers: dict[str, Handler] = {}
        self.resources: dict[str, Callable[[], Any]] = {}
        self.middleware: list[Middleware] = []  # the first one is the outermost

    def add(self, handler: Handler) -> Handler:
        """Register a handler. A type has one handler."""
        if handler.type in self._handlers:
            raise InvalidInput("type", wanted="one handler for each type", got=f"a second one for {handler.type}")
        self._handlers[handler.type] = handler
        return handler

    def get(self, type_: str) -> Handler | None:
        """Return the handler of a type; None if there is none."""
        return self._handlers.get(type_)

    @property
    def types(self) -> frozenset[str]:
        """All types that have a handler. A worker reserves no other types."""
        return frozenset(self._handlers)

    @property
    def payload_only_types(self) -> frozenset[str]:
        """The types whose handlers see nothing of a job but its payload."""
        types = (one.type for one in self if not one.wants_context and one.chunk is None)
        return frozenset() if self.middleware else frozenset(types)

    @property
    def max_chunk(self) -> int:
        """The largest chunk of any handler; 1 without chunk handlers."""
        return max((handler.chunk or 1 for handler in self), default=1)

    def check_chunks(self, *, concurrency: int) -> None:
        """Raise ``InvalidInput`` if chunk handlers are combined with middleware or concurrency."""
        for handler in self:
            if handler.chunk is not None and self.middleware:
                raise InvalidInput("chunk", wanted="no middleware beside it, which wraps one job", got=handler.type)
            if handler.chunk is not None and concurrency > 1:
                raise InvalidInput("chunk", wanted="concurrency=1", got=f"concurrency={concurrency} and {handler.type}")

    def __iter__(self) -> Iterator[Handler]:
        return iter(self._handlers.values())


@dataclass(slots=True)
class Resources:
    """The resources that handlers share in one process: created at their first use, closed when the process ends."""

    factories: dict[str, Callable[[], Any]]
    making: Callable[[], AbstractContextManager[None]] = nullcontext  # entered while a resource is created
    _resources: dict[str, Any] = field(default_factory=dict)
    _stack: ExitStack = field(default_factory=ExitStack)
    _lock: threading.RLock = field(default_factory=threading.RLock)  # reentrant: a factory may use another resource

    def __getitem__(self, name: str) -> Any:
        with self._lock:
            return self._get(name)

    def _get(self, name: str) -> Any:
        if name not in self._resources:
            if name not in self.factories:
                known = ", ".join(sorted(self.factories)) or "none"
                raise InvalidInput("resource", wanted=f"one of: {known}", got=name)
            with self.making():
                resource = self.factories[name]()
                if isinstance(resource, AbstractContextManager):
                    resource = self._stack.enter_context(resource)
                elif callable(getattr(resource, "close", None)):
                    self._stack.callback(resource.close)
            self._resources[name] = resource
        return self._resources[name]

    def close(self) -> None:
        """Close all resources, the newest first."""
        self._resources.clear()
        self._stack.close()


def encode_result(value: object) -> bytes:
    """Return the result of a handler as the store keeps it. Raises ``PayloadError`` for one that cannot be kept.

    A result may run code of the user, and raise any exception.
    """
    return bounds.check_blob("result", JSON.encode(value, field="result"), most=bounds.MAX_PAYLOAD_BYTES)
