"""Readers of the ledger, and how far each has read: retention waits for them.

A reader that must not miss a row, such as a history, registers itself as an entry of the registry, and registers again
after each read. The entry expires: if a reader does not register again in time, retention no longer waits for it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable

from holdfast.errors import InvalidInput
from holdfast.model import bounds
from holdfast.model.registry import Change, Entry

KIND = "ledger.reader"
MAX_READERS = 1000  # of one space


def register_reader(name: str, *, read_until: int, wait_for: int) -> Change:
    """Return the change that registers a reader for ``wait_for`` microseconds.

    The reader has read every ledger row that was written before ``read_until``.
    """
    value = json.dumps({"read_until": bounds.check_integer("read_until", read_until, most=bounds.MAX_INSTANT)})
    return Change(kind=KIND, key=name, value=value.encode(), ttl=wait_for)


def forget_reader(name: str) -> Change:
    """Return the change that removes a reader."""
    return Change(kind=KIND, key=name, value=None)


def read_until(readers: Iterable[Entry]) -> int | None:
    """Return the instant up to which every reader has read the ledger; None if there is no reader."""
    return min((_read_until_of(reader) for reader in readers), default=None)


def _read_until_of(reader: Entry) -> int:
    try:
        return bounds.check_integer(
            "read_until", json.loads(reader.value or b"")["read_until"], most=bounds.MAX_INSTANT
        )
    except (ValueError, KeyError, TypeError) as error:
        raise InvalidInput(f"reader {reader.key}", wanted='{"read_until": microseconds}', got=reader.value) from error
