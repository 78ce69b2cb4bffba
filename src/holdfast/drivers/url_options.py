"""Reading the options in the URL of a driver."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from urllib.parse import SplitResult, parse_qsl

from holdfast.errors import ConnectError, InvalidInput

Reader = Callable[[str], object]


def read_options(url: SplitResult, known: Mapping[str, Reader]) -> dict[str, object]:
    """Return the options in the query of a URL, each converted by its reader.

    Raises ``ConnectError`` for an unknown option, and ``InvalidInput`` for a value that its reader refuses.
    """
    options: dict[str, object] = {}
    for key, value in parse_qsl(url.query, keep_blank_values=True):
        if key not in known:
            names = ", ".join(sorted(known)) or "none"
            raise ConnectError(f"unknown option {key!r} in a {url.scheme} URL; it takes: {names}")
        try:
            options[key] = known[key](value)
        except InvalidInput:
            raise
        except ValueError as error:
            raise InvalidInput(key, wanted=f"a value that {known[key].__name__} reads", got=value) from error
    return options
