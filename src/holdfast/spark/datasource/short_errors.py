"""Errors of the data source without the frames of Holdfast: Spark shows the whole traceback, and the reason last."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from holdfast.errors import HoldfastError

P = ParamSpec("P")
R = TypeVar("R")


def short_errors(method: Callable[P, R]) -> Callable[P, R]:
    """Decorate a method that Spark calls: an error of Holdfast leaves it with one frame, and without its cause.

    The error says what was wanted and what was got. A traceback of any other exception stays complete.
    """

    @functools.wraps(method)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return method(*args, **kwargs)
        except HoldfastError as error:
            raise error.with_traceback(None) from None

    return call
