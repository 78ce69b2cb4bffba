"""The signature of a handler: its parameters, whether it is async, and the types of its payload and result."""

from __future__ import annotations

import functools
import inspect
import operator
import types
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NoReturn, Union, get_args, get_origin, get_type_hints

from holdfast.errors import InvalidInput
from holdfast.wire.value_type import ValueType, type_name

WANTED_HANDLER = "fn(payload), fn(payload, ctx), fn() or a class with handle(ctx) or handle(payload, ctx)"
NO_PAYLOAD = ValueType(type(None))  # of a handler without parameters
_CONTEXT_MODULE = "holdfast.worker.context"  # by its name: that module stands on this one
_UNCHECKED = (None, Any, object, NoReturn, type(None))  # annotations that say nothing about a JSON value


@dataclass(frozen=True, slots=True, kw_only=True)
class Signature:
    """How a handler is called, and the types that its annotations name; None for a type that is not checked."""

    function: Callable[..., Any]  # takes the payload, and the context if ``wants_context``
    wants_context: bool
    is_async: bool
    payload_type: ValueType | None
    result_type: ValueType | None


def read_signature(
    handler: Callable[..., Any], *, many: bool = False, namespace: Mapping[str, Any] | None = None
) -> Signature:
    """Return the signature of a function, or of the method ``handle`` of a new object of a class.

    With ``many`` the function takes a list of payloads and returns a list of results. ``namespace`` has the local names
    that annotations may use. Raises ``InvalidInput`` for anything that is not a handler, and for an annotation of the
    payload that cannot be evaluated.
    """
    if inspect.isclass(handler):
        if many:
            raise InvalidInput("handler", wanted="fn(payloads) or fn(payloads, contexts) for chunks", got=handler)
        if not callable(getattr(handler, "handle", None)):
            raise InvalidInput("handler", wanted=WANTED_HANDLER, got=handler)
        instance: Any = handler()
        method: Callable[..., Any] = instance.handle
        _check_returns(method)
        if not _takes_nothing(method) and len(_parameters(method)) == 1:
            return Signature(
                function=lambda _payload, ctx: method(ctx),
                wants_context=True,
                is_async=inspect.iscoroutinefunction(method),
                payload_type=None,
                result_type=_result_type(method, namespace, many=False),
            )
        handler = method
    if not many and _takes_nothing(handler):
        return _without_parameters(handler, namespace)
    parameters = _parameters(handler)
    _check_returns(handler)
    if len(parameters) == 2 and not many:
        _check_context(handler, parameters[1].name, namespace)
    return Signature(
        function=handler,
        wants_context=len(parameters) == 2,
        is_async=_is_async(handler),
        payload_type=_payload_type(handler, parameters[0].name, namespace, many=many),
        result_type=_result_type(handler, namespace, many=many),
    )


def _without_parameters(function: Callable[[], Any], namespace: Mapping[str, Any] | None) -> Signature:
    _check_returns(function)
    return Signature(
        function=lambda _payload: function(),
        wants_context=False,
        is_async=_is_async(function),
        payload_type=NO_PAYLOAD,
        result_type=_result_type(function, namespace, many=False),
    )


def _takes_nothing(function: Callable[..., Any]) -> bool:
    """Whether the function has no parameters, or only keywords that have defaults."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):  # ``_parameters`` says what is wrong
        return False
    return all(one.kind is one.KEYWORD_ONLY and one.default is not one.empty for one in parameters)


def _parameters(function: Callable[..., Any]) -> list[inspect.Parameter]:
    """Return the parameter of the payload and, if there is one, that of the context.

    The context is a second parameter without a default, or one that is called ``ctx`` or ``context``.
    """
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError) as error:  # not callable, or written in C without a signature
        raise InvalidInput("handler", wanted=WANTED_HANDLER, got=f"{function!r}: {error}") from error
    positional = [one for one in parameters if one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD)]
    wanted = [
        one
        for index, one in enumerate(positional)
        if index == 0 or one.default is one.empty or one.name in ("ctx", "context")
    ]
    required = [one for one in parameters if one.kind is one.KEYWORD_ONLY and one.default is one.empty]
    if required or len(wanted) not in (1, 2) or wanted != positional[: len(wanted)]:
        raise InvalidInput("handler", wanted=WANTED_HANDLER, got=function)
    if wanted[0].name in ("self", "cls"):  # its job would be called with the payload as its object
        got = f"a method without its object: {getattr(function, '__name__', function)}{inspect.signature(function)}"
        raise InvalidInput("handler", wanted=WANTED_HANDLER, got=got)
    return wanted


def _check_returns(function: Callable[..., Any]) -> None:
    """Raise ``InvalidInput`` for a generator: a call of it runs nothing, so its job would be done before its work."""
    for one in (function, getattr(function, "__call__", None)):  # noqa: B004
        if inspect.isgeneratorfunction(one) or inspect.isasyncgenfunction(one):
            raise InvalidInput(
                "handler", wanted="a function that returns its result", got=f"one with yield: {function!r}"
            )


def check_middleware(function: object) -> None:
    """Raise ``InvalidInput`` for anything but a plain function: a call of an async one or a generator runs nothing."""
    wanted = "a plain function fn(ctx, call_next), also around async handlers"
    if not callable(function):
        raise InvalidInput("middleware", wanted=wanted, got=function)
    if _is_async(function):
        raise InvalidInput("middleware", wanted=wanted, got=f"an async one: {function!r}")
    try:
        _check_returns(function)
    except InvalidInput as error:
        raise InvalidInput("middleware", wanted=wanted, got=error.got) from error


def _is_async(function: Callable[..., Any]) -> bool:
    """Whether a call returns a coroutine, also of a partial or of an object with an async ``__call__``."""
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(getattr(function, "__call__", None))  # noqa: B004


# Types -------------------------------------------------------------------------------------------------------


def _payload_type(
    function: Callable[..., Any], parameter: str, namespace: Mapping[str, Any] | None, *, many: bool
) -> ValueType | None:
    hint = _evaluate(function, parameter, namespace)
    if isinstance(hint, str):
        wanted = "an annotation of the payload that can be evaluated: import its type outside of TYPE_CHECKING"
        raise InvalidInput("handler", wanted=wanted, got=hint)
    return _value_type(_member(hint) if many else hint)


def _check_context(function: Callable[..., Any], parameter: str, namespace: Mapping[str, Any] | None) -> None:
    """Raise ``InvalidInput`` if the annotation says that the second parameter is a value, not the context."""
    try:
        hint = _evaluate(function, parameter, namespace)
    except Exception:  # noqa: BLE001 - an annotation may be any expression, and nothing but this check needs it
        return
    wanted = get_origin(hint) or hint
    if hint in _UNCHECKED or wanted is types.UnionType or getattr(wanted, "_is_protocol", False):
        return
    if isinstance(wanted, type) and all(one.__module__ != _CONTEXT_MODULE for one in wanted.__mro__):
        raise InvalidInput(
            "handler",
            wanted="the context as second parameter (a job has one payload: a dict, a dataclass or a model)",
            got=f"{parameter}: {type_name(hint)}",
        )


def _result_type(function: Callable[..., Any], namespace: Mapping[str, Any] | None, *, many: bool) -> ValueType | None:
    """Return the type of the result. One that cannot be evaluated is an error only for a caller that reads results."""
    hint = _evaluate(function, "return", namespace)
    return _value_type(_without_exceptions(_member(hint) if many else hint))


def _evaluate(function: Callable[..., Any], name: str, namespace: Mapping[str, Any] | None) -> Any:
    """Return one annotation; its text if it cannot be evaluated, because only a type checker imports the type.

    Each annotation is evaluated on its own: that of the context is often imported for type checkers only.
    """
    annotated = inspect.unwrap(_annotated(function))
    annotation = getattr(annotated, "__annotations__", {}).get(name)
    holder = types.SimpleNamespace(__annotations__={name: annotation})
    names = getattr(annotated, "__globals__", {})
    try:
        return get_type_hints(holder, names, dict(namespace or {}), include_extras=True)[name]
    except NameError:
        return annotation if isinstance(annotation, str) else str(annotation)


def _annotated(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the function whose annotations describe a call: that of a partial, or ``__call__`` of an object."""
    while isinstance(function, functools.partial):
        function = function.func
    return function if inspect.isroutine(function) else type(function).__call__


def _member(hint: object) -> object:
    """Return the type of the members of a list; None if the annotation names none."""
    return hint if isinstance(hint, str) else next(iter(get_args(hint)), None)


def _without_exceptions(hint: Any) -> object:
    """Return the type without ``Retry`` and other exceptions: a handler may return them, but no result is one."""
    if get_origin(hint) not in (Union, types.UnionType):
        return None if _is_exception(hint) else hint
    kept = [one for one in get_args(hint) if not _is_exception(one)]
    return functools.reduce(operator.or_, kept) if kept else None


def _is_exception(hint: object) -> bool:
    return isinstance(hint, type) and issubclass(hint, BaseException)


def _value_type(hint: object) -> ValueType | None:
    return None if any(hint is one for one in _UNCHECKED) else ValueType(hint)
