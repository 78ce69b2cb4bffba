"""Results of data code as JSON: values of numpy, pandas and Spark, NaN and infinity.

Imports none of these libraries, so that a child process loads only those that its handler uses.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

from holdfast.worker.catalogue import Handler

_PLAIN = (str, int, bool, type(None))


def with_data_results(handler: Handler) -> Handler:
    """Return a handler that may return values of numpy, pandas and Spark, NaN and infinity."""
    convert = _as_chunk_results if handler.chunk is not None else as_result
    call = _async_call if handler.is_async else _call
    return replace(handler, function=partial(call, handler.function, convert))


def _call(function: Callable[..., Any], convert: Callable[[Any], Any], *arguments: Any) -> Any:
    return convert(function(*arguments))


async def _async_call(function: Callable[..., Any], convert: Callable[[Any], Any], *arguments: Any) -> Any:
    return convert(await function(*arguments))


def _as_chunk_results(answers: object) -> object:
    """Return the results of a chunk as a list. An array or a Series has one result for each row."""
    if not isinstance(answers, list | tuple) and hasattr(answers, "tolist"):
        answers = answers.tolist()
    return [as_result(answer) for answer in answers] if isinstance(answers, list | tuple) else answers


def as_result(value: object) -> object:
    """Return a result as a value that JSON has. Exceptions are answers of their own, and stay as they are.

    Values of numpy and pandas become the numbers, lists and objects that they stand for, and a ``Row`` an object. NaN
    and infinity become the texts that ``from_json`` reads as such numbers.
    """
    if type(value) in _PLAIN:
        return value
    if isinstance(value, float):
        if math.isfinite(value):
            return float(value)
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, tuple) and hasattr(value, "__fields__"):  # a Row of Spark
        return {name: as_result(item) for name, item in zip(value.__fields__, value, strict=True)}
    if isinstance(value, dict):
        return {key: as_result(item) for key, item in value.items()}
    if isinstance(value, list | tuple) and not hasattr(value, "_fields"):
        return [as_result(item) for item in value]
    if type(value).__module__.partition(".")[0] in ("numpy", "pandas"):
        return _from_array(value)
    return value


def _from_array(value: Any) -> object:
    """Return a scalar, array, Series or DataFrame of numpy or pandas as builtins."""
    if type(value).__name__ in ("NAType", "NaTType"):
        return None
    if hasattr(value, "to_dict") and hasattr(value, "columns"):  # a DataFrame: a list of its rows
        return as_result(value.to_dict("records"))
    if hasattr(value, "to_pydatetime"):
        return value.to_pydatetime(warn=False)
    if hasattr(value, "to_pytimedelta"):
        return value.to_pytimedelta()
    if hasattr(value, "tolist"):
        plain = value.tolist()
        return plain if plain is value or type(plain) is type(value) else as_result(plain)
    return value
