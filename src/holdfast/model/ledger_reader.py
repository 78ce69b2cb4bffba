"""Readers of the ledger, and how far each has read: ``trim`` and ``purge`` wait for them.

A reader that must not miss a row, such as a history, registers itself as an entry of the registry, with the cursor of
the last row that it has read. Rows after that cursor stay, and so do the jobs that they are about.
``holdfast.ledger_reader.LedgerReader`` does all of this; this module has the stored form.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

from holdfast.clock import HOUR
from holdfast.errors import InvalidInput
from holdfast.model import bounds
from holdfast.model.registry import Change, Entry

KIND = "ledger.reader"
MAX_READERS = 1000  # of one space
MAX_COMMIT_DELAY = HOUR  # from ``ended_at`` of a ledger row to its commit: a later row may be this much older


@dataclass(frozen=True, slots=True, kw_only=True)
class Reader:
    """A registered reader. ``cursor`` is None if it has read no row; ``expires_at`` None: it waits to be removed."""

    name: str
    cursor: str | None
    version: int
    expires_at: int | None = None


def register_reader(
    name: str, *, cursor: str | None, wait_for: int | None = None, version: int | None = None
) -> Change:
    """Return the change that registers a reader, or stores how far it has read.

    The reader has read every row up to ``cursor``; None: no row. ``trim`` and ``purge`` wait for it for ``wait_for``
    microseconds from now; None: until it is removed. With ``version`` the change is made only if no other process has
    changed the registration; 0: only if there is none. ``Ack.writes`` and ``enqueue(writes=...)`` take it, too.
    """
    value = json.dumps({"cursor": None if cursor is None else bounds.check_text("cursor", cursor)})
    return Change(kind=KIND, key=name, value=value.encode(), ttl=wait_for, version=version)


def forget_reader(name: str) -> Change:
    """Return the change that removes a reader."""
    return Change(kind=KIND, key=name, value=None)


def parse_reader(entry: Entry) -> Reader:
    """Return the reader of an entry. Raises ``InvalidInput`` if it cannot be read."""
    try:
        cursor = json.loads(entry.value or b"")["cursor"]
        if cursor is not None:
            bounds.check_text("cursor", cursor)
    except (ValueError, KeyError, TypeError) as error:
        wanted = '{"cursor": a text or null}; `holdfast ledger readers remove` removes the reader'
        raise InvalidInput(f"reader {entry.key}", wanted=wanted, got=entry.value) from error
    return Reader(name=entry.key, cursor=cursor, version=entry.version, expires_at=entry.expires_at)


def unread_since(ended_at: int | None, now: int) -> int:
    """Return an instant before which every job that ended was read by every reader.

    ``ended_at`` is that of a row that the slowest reader has not read, before which it has read all; None: there is no
    such row. Rows are ordered by their commits, so a later row may be older by ``MAX_COMMIT_DELAY``.
    """
    return (now if ended_at is None else min(ended_at, now)) - MAX_COMMIT_DELAY
