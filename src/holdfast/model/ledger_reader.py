"""Who reads the ledger, and how far they are: retention waits for them.

A reader that must not miss anything, such as a history, registers itself as a row of the registry, and again whenever
it has read on. The row's time to live is the limit of the patience: a reader that does not come back is forgotten, and
so is what it has not read.
"""

from __future__ import annotations

import json
from collections.abc import Iterable

from holdfast.errors import InvalidInput
from holdfast.model import bounds
from holdfast.model.registry import Change, Entry

KIND = "ledger.reader"
MAX_READERS = 1000  # of one space


def registered(name: str, *, read_until: int, wait_for: int) -> Change:
    """Wait ``wait_for`` microseconds for this reader, who has read all that ended before ``read_until``."""
    value = json.dumps({"read_until": bounds.integer("read_until", read_until, most=bounds.MAX_INSTANT)})
    return Change(kind=KIND, key=name, value=value.encode(), ttl=wait_for)


def forgotten(name: str) -> Change:
    """Do not wait for this reader any more."""
    return Change(kind=KIND, key=name, value=None)


def read_until(readers: Iterable[Entry]) -> int | None:
    """What ended before this has been read by all of them; None if there are none."""
    return min((_until(reader) for reader in readers), default=None)


def _until(reader: Entry) -> int:
    try:
        return bounds.integer("read_until", json.loads(reader.value or b"")["read_until"], most=bounds.MAX_INSTANT)
    except (ValueError, KeyError, TypeError) as error:
        raise InvalidInput(f"reader {reader.key}", wanted='{"read_until": microseconds}', got=reader.value) from error
