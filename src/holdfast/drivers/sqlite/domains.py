"""Domains: the first job of a domain has the turn, and only a job with the turn can be reserved (L11)."""

from __future__ import annotations

from collections.abc import Iterable

from holdfast.drivers.packing import to_json
from holdfast.drivers.sqlite.transaction import Transaction


def pass_turns(tx: Transaction, domains: Iterable[tuple[str, str | None]]) -> None:
    """Give the turn to the first job of each (queue, domain) that a job has left or entered; None is no domain."""
    named = [domain for domain in domains if domain[1] is not None]
    if named:
        tx.run("domains/pass_turn", {"space": tx.space, "domains": to_json(named)})
