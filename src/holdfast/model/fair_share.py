"""How much of a bounded thing one of its users may hold: senders of one host, streams of one space."""

from __future__ import annotations


def share_left(held: int, free: int) -> int:
    """Return how many of those that are ``free`` a user may take that holds ``held`` already.

    A user holds at most half of what the others leave to it, and one if any is free. So the first user can hold half,
    and a new one always finds something until there are very many users.
    """
    least = 1 if held == 0 else 0
    return min(max(free, 0), max(least, (held + free) // 2 - held))


def may_take_another(held: int, free: int) -> bool:
    """Whether the share of a user that holds ``held`` allows one more."""
    return share_left(held, free) > 0
