"""The handlers of an app by job type, their middleware, and the factories of the resources that they share."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, TypedDict

from holdfast.errors import InvalidInput, PayloadError
from holdfast.model import bounds
from holdfast.model.limit_proposal import LimitProposal
from holdfast.model.request import check_single_instance
from holdfast.model.retry import RetryPolicy, check_policy
from holdfast.wire.codec import RESULT_JSON, RepeatedKey, dump_model
from holdfast.wire.value_type import ValueType
from holdfast.worker.breaker import BreakerRule
from holdfast.worker.signature import read_signature

MAX_CHUNK = 10_000  # jobs in one call: as many as one reserve can return


@dataclass(frozen=True, slots=True, kw_only=True)
class Handler:
    """A function, and how its jobs are run."""

    type: str
    function: Callable[..., Any]
    wants_context: bool
    is_async: bool
    payload_type: ValueType | None = None  # None: any JSON value
    result_type: ValueType | None = None
    chunk: int | None = None  # the function takes a list of at most ``chunk`` payloads, and returns a result for each
    timeout: timedelta | None = None
    cpu: timedelta | None = None
    retry: RetryPolicy | None = None
    # Whether a result that cannot be stored makes a dead letter. None: not in a worker, but in a run of a DataFrame.
    strict_result: bool | None = None
    idempotent: bool | None = None  # skip a job whose idempotency key is done; None: as the worker's options say
    idempotency_ttl: timedelta | None = None  # how long a key is done; None: as the worker's options say
    single_instance: bool | str = False  # one job at a time: of its queue and type, or of all jobs with this text
    capture_output: bool = False  # keep an ``ExecutionResult`` with what the function prints
    limits: LimitProposal | None = None  # of its type in its queue, proposed to the store
    breaker: BreakerRule | None = None  # None: that of the worker
    from_json: Callable[[object], object] | None = None  # applied to the JSON value, before ``payload_type``
    to_json: Callable[[object], object] | None = None  # applied to the result, before ``result_type``

    def decode(self, payload: object) -> object:
        """Return the payload as the type that the function takes. Raises ``PayloadError`` for one that does not fit."""
        if self.from_json is not None:
            payload = self._read(self.from_json, payload)
        return payload if self.payload_type is None else self.payload_type.decode(payload)

    def encode(self, payload: object) -> object:
        """Return a payload for this handler as JSON. Raises ``PayloadError`` for one that the handler does not take.

        An instance of the type that the function takes is accepted, and a JSON value that fits it.
        """
        return dump_model(payload) if self.payload_type is None else self.payload_type.encode(payload)

    def encode_result(self, result: object) -> bytes:
        """Return the result as the store keeps it. Raises ``PayloadError`` for one that cannot be kept.

        A value that JSON does not have as it is, a dict with dates as keys for example, is kept as the type that the
        function returns.
        """
        if self.to_json is not None:
            result = self.to_json(result)
        try:
            return encode_result(result)
        except RepeatedKey:
            raise
        except PayloadError:
            if self.result_type is None:
                raise
            return encode_result(self.result_type.encode(result, field="result"))

    def decode_result(self, result: object) -> object:
        """Return the result as the type that the function returns. Raises ``PayloadError`` for one that does not fit.

        None of a job whose result was not stored fits only a type that has None.
        """
        return result if self.result_type is None else self.result_type.decode(result, field="result")

    def _read(self, from_json: Callable[[object], object], payload: object) -> object:
        try:
            return from_json(payload)
        except PayloadError:
            raise
        except (ValueError, TypeError, LookupError, AttributeError, ArithmeticError) as error:
            got = f"{type(error).__name__}: {error}"
            raise PayloadError("payload", wanted="a value that its reader accepts", got=got) from error


class HandlerKeywords(TypedDict, total=False):
    """The options of a handler that need no app."""

    timeout: timedelta | None
    cpu: timedelta | None
    retry: RetryPolicy | None
    chunk: int | None
    strict_result: bool | None
    idempotent: bool | None
    idempotency_ttl: timedelta | None
    single_instance: bool | str
    capture_output: bool


def make_handler(
    type_: str,
    function: Callable[..., Any],
    *,
    timeout: timedelta | None = None,
    cpu: timedelta | None = None,
    retry: RetryPolicy | None = None,
    chunk: int | None = None,
    strict_result: bool | None = None,
    idempotent: bool | None = None,
    idempotency_ttl: timedelta | None = None,
    single_instance: bool | str = False,
    capture_output: bool = False,
    limits: LimitProposal | None = None,
    breaker: BreakerRule | None = None,
    namespace: Mapping[str, Any] | None = None,
) -> Handler:
    """Return the handler for ``fn(payload)``, ``fn(payload, ctx)`` or ``fn()``, also async, or for a class.

    The class has ``handle(ctx)`` or ``handle(payload, ctx)``. With ``chunk``, for ``fn(payloads)`` or
    ``fn(payloads, contexts)`` with up to ``chunk`` jobs at a time. ``namespace`` has the local names that annotations
    may use.
    """
    bounds.check_name("type", type_)
    if timeout is not None:
        bounds.duration_from("timeout", timeout, least=1)
    if cpu is not None:
        bounds.duration_from("cpu", cpu, least=1)
    check_policy(retry)
    bounds.check_boolean("capture_output", capture_output)
    for flag, value in (("strict_result", strict_result), ("idempotent", idempotent)):
        if value is not None:
            bounds.check_boolean(flag, value)
    if chunk is not None:
        bounds.check_integer("chunk", chunk, least=1, most=MAX_CHUNK)
        if capture_output:
            raise InvalidInput(
                "capture_output", wanted="no chunk beside it: jobs of one call share its output", got=type_
            )
    if idempotency_ttl is not None:
        bounds.duration_from("idempotency_ttl", idempotency_ttl, least=1)
    check_single_instance(single_instance)
    signature = read_signature(function, many=chunk is not None, namespace=namespace)
    return Handler(
        type=type_,
        function=signature.function,
        wants_context=signature.wants_context,
        is_async=signature.is_async,
        payload_type=signature.payload_type,
        result_type=signature.result_type,
        chunk=chunk,
        timeout=timeout,
        cpu=cpu,
        retry=retry,
        strict_result=strict_result,
        idempotent=idempotent,
        idempotency_ttl=idempotency_ttl,
        single_instance=single_instance,
        capture_output=capture_output,
        limits=limits,
        breaker=breaker,
    )


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
        wraps_one_job = not all(getattr(one, "skips_chunks", False) for one in self.middleware)
        for handler in self:
            if handler.chunk is not None and wraps_one_job:
                raise InvalidInput("chunk", wanted="no middleware beside it, which wraps one job", got=handler.type)
            if handler.chunk is not None and concurrency > 1:
                raise InvalidInput("chunk", wanted="concurrency=1", got=f"concurrency={concurrency} and {handler.type}")

    def __iter__(self) -> Iterator[Handler]:
        return iter(self._handlers.values())


def encode_result(value: object) -> bytes:
    """Return the result of a handler as the store keeps it. Raises ``PayloadError`` for one that cannot be kept.

    A result may run code of the user, and raise any exception.
    """
    return bounds.check_blob("result", RESULT_JSON.encode(value, field="result"), most=bounds.MAX_PAYLOAD_BYTES)
