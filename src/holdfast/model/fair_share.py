"""How much of a bounded thing one of its users may hold: senders of one host, streams of one space."""

from __future__ import annotations


def may_take_another(held: int, free: int) -> bool:
    """Whether a user that holds ``held`` of them may take one of those that are ``free``.

    A user holds at most half of what the others leave to it, and one if any is free. So the first user can hold half,
    and a new one always finds something until there are very many users.
    """
    return free > 0 and (held == 0 or held < (held + free) // 2)
