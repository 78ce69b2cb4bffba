"""Which function runs which type of job, and the resources that functions share."""

from __future__ import annotations

import inspect
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, get_args, get_type_hints

import msgspec

from holdfast.errors import InvalidInput, PayloadError
from holdfast.model import bounds
from holdfast.model.retry import RetryPolicy
from holdfast.wire.codec import JSON

MOST_TOGETHER = 10_000  # jobs of one chunk: as many as one reserve can give


@dataclass(frozen=True, slots=True, kw_only=True)
class Handler:
    """A function and how its jobs are to be run."""

    type: str
    function: Callable[..., Any]
    wants_context: bool
    is_async: bool
    payload_type: object = None  # None: the plain JSON value
    chunk: int | None = None  # it takes a list of up to so many payloads, and gives a list of as many outcomes
    timeout: timedelta | None = None
    cpu: timedelta | None = None
    retry: RetryPolicy | None = None

    def decode(self, payload: object) -> object:
        """The payload as the function wants it; ``PayloadError`` says what does not fit."""
        if self.payload_type is None:
            return payload
        if hasattr(self.payload_type, "model_validate"):  # pydantic, where it is installed
            try:
                return self.payload_type.model_validate(payload)
            except ValueError as error:
                raise PayloadError("payload", wanted=_name(self.payload_type), got=str(error)) from error
        try:
            return msgspec.convert(payload, type=self.payload_type)
        except msgspec.ValidationError as error:
            raise PayloadError("payload", wanted=_name(self.payload_type), got=str(error)) from error


def _name(wanted: object) -> str:
    return getattr(wanted, "__name__", str(wanted))


def handler_of(
    type_: str,
    function: Callable[..., Any],
    *,
    timeout: timedelta | None = None,
    cpu: timedelta | None = None,
    retry: RetryPolicy | None = None,
    chunk: int | None = None,
) -> Handler:
    """Describe ``fn(payload)``, ``fn(payload, ctx)``, either of them async, or a class with ``handle(ctx)``.

    With ``chunk`` it is ``fn(payloads)`` or ``fn(payloads, contexts)``, for up to so many jobs at a time.
    """
    bounds.check_name("type", type_)
    if timeout is not None:
        bounds.duration_from("timeout", timeout, least=1)
    if cpu is not None:
        bounds.duration_from("cpu", cpu, least=1)
    if chunk is not None:
        bounds.check_integer("chunk", chunk, least=1, most=MOST_TOGETHER)
    if inspect.isclass(function):
        if chunk is not None:
            raise InvalidInput("handler", wanted="fn(payloads) or fn(payloads, contexts) for chunks", got=function)
        made: Any = function()
        return Handler(
            type=type_,
            function=lambda _payload, context: made.handle(context),
            wants_context=True,
            is_async=inspect.iscoroutinefunction(made.handle),
            timeout=timeout,
            cpu=cpu,
            retry=retry,
        )
    parameters = _parameters(function)
    return Handler(
        type=type_,
        function=function,
        wants_context=len(parameters) == 2,
        is_async=inspect.iscoroutinefunction(function),
        payload_type=_payload_type(function, parameters[0].name, many=chunk is not None),
        chunk=chunk,
        timeout=timeout,
        cpu=cpu,
        retry=retry,
    )


def _parameters(function: Callable[..., Any]) -> list[inspect.Parameter]:
    """The payload and, if it is wanted, the context: a second parameter without a default, or one called ctx."""
    everything = inspect.signature(function).parameters.values()
    placed = [one for one in everything if one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD)]
    wanted = [
        one
        for place, one in enumerate(placed)
        if place == 0 or one.default is one.empty or one.name in ("ctx", "context")
    ]
    needed = [one for one in everything if one.kind is one.KEYWORD_ONLY and one.default is one.empty]
    if needed or len(wanted) not in (1, 2) or wanted != placed[: len(wanted)]:
        raise InvalidInput("handler", wanted="fn(payload), fn(payload, ctx) or a class with handle(ctx)", got=function)
    return wanted


def _payload_type(function: Callable[..., Any], parameter: str, *, many: bool) -> object:
    """What the payload, or each of a list of them, is annotated with, if that is more than plain JSON."""
    try:
        hint = get_type_hints(function).get(parameter)
    except NameError:  # an annotation that only a type checker can resolve
        return None
    if many:
        hint = next(iter(get_args(hint)), None)
    return None if hint in (None, Any, object, dict, list, str, int, float, bool) else hint


Middleware = Callable[[Any, Callable[[], object]], object]  # fn(ctx, call_next) gives what the handler gave, or raises


class Catalogue:
    """Handlers by type, resources by name, and what is wrapped around every handler."""

    def __init__(self) -> None:
        self._handlers: dict[str, Handler] = {}
        self.resources: dict[str, Callable[[], Any]] = {}
        self.middleware: list[Middleware] = []  # the first is the outermost

    def add(self, handler: Handler) -> Handler:
        """Register a handler; a type has one."""
        if handler.type in self._handlers:
            raise InvalidInput("type", wanted="one handler for each type", got=f"a second one for {handler.type}")
        self._handlers[handler.type] = handler
        return handler

    def get(self, type_: str) -> Handler | None:
        """The handler of a type, if it is known here."""
        return self._handlers.get(type_)

    @property
    def types(self) -> frozenset[str]:
        """Every type with a handler: a worker reserves no others."""
        return frozenset(self._handlers)

    @property
    def plain_types(self) -> frozenset[str]:
        """Those whose handlers see nothing of a job but its payload."""
        plain = (one.type for one in self if not one.wants_context and one.chunk is None)
        return frozenset() if self.middleware else frozenset(plain)

    @property
    def chunk(self) -> int:
        """How many jobs the largest chunk of any handler has."""
        return max((handler.chunk or 1 for handler in self), default=1)

    def check_chunks(self, *, threads: int) -> None:
        """Refuse what cannot be kept for several jobs at a time."""
        for handler in self:
            if handler.chunk is not None and self.middleware:
                raise InvalidInput("chunk", wanted="no middleware beside it, which wraps one job", got=handler.type)
            if handler.chunk is not None and threads > 1:
                raise InvalidInput("chunk", wanted="threads=1", got=f"threads={threads} and {handler.type}")

    def __iter__(self) -> Iterator[Handler]:
        return iter(self._handlers.values())


@dataclass(slots=True)
class Resources:
    """What handlers share in one process: made when first asked for, closed at its end."""

    factories: dict[str, Callable[[], Any]]
    _made: dict[str, Any] = field(default_factory=dict)
    _stack: ExitStack = field(default_factory=ExitStack)
    _making: threading.RLock = field(default_factory=threading.RLock)  # one may ask for another

    def __getitem__(self, name: str) -> Any:
        with self._making:
            return self._get(name)

    def _get(self, name: str) -> Any:
        if name not in self._made:
            if name not in self.factories:
                known = ", ".join(sorted(self.factories)) or "none"
                raise InvalidInput("resource", wanted=f"one of: {known}", got=name)
            made = self.factories[name]()
            if isinstance(made, AbstractContextManager):
                made = self._stack.enter_context(made)
            elif callable(getattr(made, "close", None)):
                self._stack.callback(made.close)
            self._made[name] = made
        return self._made[name]

    def close(self) -> None:
        """Close them, the last made first."""
        self._made.clear()
        self._stack.close()


def encode_result(value: object) -> bytes:
    """What a handler returned, as it is kept with the job."""
    return bounds.check_blob("result", JSON.encode(value, field="result"), most=bounds.MAX_PAYLOAD_BYTES)
