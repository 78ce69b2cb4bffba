"""The cursors of pages: what leads to the next page of domains, and a number in the ledger."""

from __future__ import annotations

from holdfast.errors import InvalidInput
from holdfast.wire.codec import JSON


def domain_cursor(queue: str, domain: str) -> str:
    """Return the cursor of a page of domains that ends with this one."""
    return JSON.encode([queue, domain], field="after").decode()


def read_domain_cursor(cursor: str) -> tuple[str, str]:
    """Return the queue and the name of the domain at which a page ended."""
    try:
        match JSON.decode(cursor.encode(), field="after"):
            case [str(queue), str(domain)]:
                return queue, domain
    except (InvalidInput, AttributeError, UnicodeError):  # not JSON, not a text, or not one that can be encoded
        pass
    raise InvalidInput("after", wanted="a cursor that `domains` gave", got=cursor)


def ledger_position(cursor: str, written: int) -> int:
    """Return the number in a cursor of a ledger whose last row has the number ``written``."""
    if cursor.isascii() and cursor.isdecimal() and len(cursor) < 20 and int(cursor) <= written:
        return int(cursor)
    raise foreign_cursor(cursor)


def foreign_cursor(cursor: str) -> InvalidInput:
    """Return the error for a cursor that this ledger did not return.

    A position beyond the end is refused too: its reader would miss the rows that are written up to there.
    """
    return InvalidInput("after", wanted="a cursor that this ledger gave (no other store, no older copy)", got=cursor)
