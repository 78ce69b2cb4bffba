"""Reading a driver URL: its options are typed, and an unknown one is an error that names the known ones."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from urllib.parse import SplitResult, parse_qsl

from holdfast.errors import ConnectError, InvalidInput

Reader = Callable[[str], object]


def options(url: SplitResult, known: Mapping[str, Reader]) -> dict[str, object]:
    """The query of a URL, each option read by its reader."""
    found: dict[str, object] = {}
    for key, value in parse_qsl(url.query, keep_blank_values=True):
        if key not in known:
            takes = ", ".join(sorted(known)) or "none"
            raise ConnectError(f"unknown option {key!r} in a {url.scheme} URL; it takes: {takes}")
        try:
            found[key] = known[key](value)
        except InvalidInput:
            raise
        except ValueError as error:
            raise InvalidInput(key, wanted=f"a value that {known[key].__name__} reads", got=value) from error
    return found
