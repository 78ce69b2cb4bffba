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
    if handler.chunk is not None:
        call = _async_call if handler.is_async else _call
        handler = replace(handler, function=partial(call, handler.function))
    return replace(handler, to_json=as_result)


def _call(function: Callable[..., Any], *arguments: Any) -> Any:
    return _as_list(function(*arguments))


async def _async_call(function: Callable[..., Any], *arguments: Any) -> Any:
    return _as_list(await function(*arguments))


def _as_list(answers: Any) -> Any:
    """Return the results of a chunk as a list. An array or a Series has one result for each row."""
    return answers if isinstance(answers, list | tuple) or not hasattr(answers, "tolist") else answers.tolist()


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
        members = {_as_key(key): as_result(item) for key, item in value.items()}
        return members if len(members) == len(value) else value  # two keys become one: JSON refuses the original
    if isinstance(value, list | tuple) and not hasattr(value, "_fields"):
        return [as_result(item) for item in value]
    return _from_array(value) if _is_of_data_library(value) else value


def _as_key(key: Any) -> object:
    """Return a number of numpy as one of Python; any other key as it is."""
    return key.item() if _is_of_data_library(key) and hasattr(key, "item") else key


def _is_of_data_library(value: object) -> bool:
    return type(value).__module__.partition(".")[0] in ("numpy", "pandas")


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
