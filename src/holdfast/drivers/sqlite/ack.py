"""The fast path of settle: SQLite itself checks and applies the acks of a batch.

Acks are nearly all settlements of a healthy system; applying them by statements over the whole batch takes a third of
the time of deciding on each of them in Python.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from holdfast.drivers.packing import Row, to_json
from holdfast.drivers.sqlite import offsets, registry
from holdfast.drivers.sqlite.domains import assign_turns
from holdfast.drivers.sqlite.limit_keys import wake
from holdfast.drivers.sqlite.transaction import Transaction
from holdfast.model.registry import Change
from holdfast.model.settlement import Ack, Settlement

FIELD_BYTES = 64  # width of a field in the blobs that ``ack/insert_valid.sql`` reads; a token has at most 52 bytes
_EMPTY_FIELD = " " * FIELD_BYTES


def settle_valid_acks(tx: Transaction, settlements: Sequence[Settlement], written: int) -> list[int]:
    """End the leases of valid acks and return the items that are left, counted from 1.

    ``written`` is the last number of the ledger. A batch with two settlements for one job is left as a whole, because
    the order of its items matters. So are all acks with writes if two of them write one entry.
    """
    items = list(range(1, len(settlements) + 1))
    if len({settlement.lease.job_id for settlement in settlements}) < len(items):
        return items
    writes = _find_writes(settlements)
    batch = _pack(settlements, with_writes=bool(writes))
    parameters: dict[str, object] = {
        "space": tx.space,
        "now": tx.now,
        "ids": to_json(batch.ids),
        "tokens": "".join(batch.tokens).encode(),
        "starts": "".join(batch.starts).encode(),
        "width": FIELD_BYTES,
    }
    valid = tx.run("ack/insert_valid", parameters).rowcount
    if valid and writes:
        valid -= _apply_writes(tx, writes)
    if not valid:
        return items
    if batch.results:
        tx.run_many("ack/set_result", batch.results)
    left = [] if valid == len(items) else _without(items, tx.run("ack/items").fetchall())
    parameters = {"now": tx.now, "written": written}
    tx.run("ack/insert_ledger", parameters)
    tx.run("ack/insert_ended", parameters)
    tx.run("ack/delete_jobs")
    _let_followers_run(tx)
    tx.run("ack/clear")
    return left


def _let_followers_run(tx: Transaction) -> None:
    """Pass on the turns of the domains and the places of the limit keys of the acked jobs.

    Domains that neither wait nor are halted never leave SQLite: that halves the time of this step.
    """
    domains, offset_count, keys = tx.run("ack/count_followers").fetchone()
    if domains:
        if offset_count and tx.run("ack/end_offsets", {"space": tx.space}).rowcount < offset_count:
            offsets.end(tx, tx.run("ack/domains"))
        if tx.run("ack/any_special_domain", {"space": tx.space}).fetchone()[0]:
            assign_turns(tx, [(queue, domain) for queue, domain, _ in tx.run("ack/domains")])
        else:
            tx.run("ack/give_turns", {"space": tx.space})
    if keys:
        wake(tx, tx.run("ack/limit_keys"))


Writes = list[tuple[int, Change]]  # each with the item of its ack


def _find_writes(settlements: Sequence[Settlement]) -> Writes:
    """Return the writes of the acks; none if two of them write one entry."""
    writes = [
        (item, write)
        for item, settlement in enumerate(settlements, 1)
        if isinstance(settlement, Ack) and settlement.writes
        for write in settlement.writes
    ]
    return writes if len({(write.kind, write.key) for _, write in writes}) == len(writes) else []


def _apply_writes(tx: Transaction, writes: Writes) -> int:
    """Make the writes of the valid acks. Leave out the acks with a refused write, and return how many they are."""
    valid = {item for (item,) in tx.run("ack/items")}
    writes = [(item, write) for item, write in writes if item in valid]
    versions = registry.find_versions(tx, (write for _, write in writes))
    refused = {item for item, write in writes if registry.is_refused(write, versions)}
    if refused:
        tx.run_many("ack/remove", [(item,) for item in refused])
    registry.apply(tx, [write for item, write in writes if item not in refused])
    return len(refused)


class _PackedAcks(NamedTuple):
    """The columns of a batch, one field per item. An item that is left has the empty id: no job has it."""

    ids: list[str]
    tokens: list[str]
    starts: list[str]
    results: list[Row]


def _pack(settlements: Sequence[Settlement], *, with_writes: bool) -> _PackedAcks:
    """Pack the acks, those with writes only if ``with_writes``.

    A token that does not fit its field is not one of ours, so its item is left.
    """
    return _pack_all(settlements, with_writes=with_writes) or _pack_some(settlements, with_writes=with_writes)


def _pack_all(settlements: Sequence[Settlement], *, with_writes: bool) -> _PackedAcks | None:
    """Pack a batch of which no item is left, column by column; None for other batches."""
    acks = [one for one in settlements if isinstance(one, Ack) and (with_writes or not one.writes)]
    tokens = [one.lease.token for one in acks]
    text = "".join(tokens)
    fits = text.isascii() and " " not in text and max(map(len, tokens), default=0) <= FIELD_BYTES
    if len(acks) < len(settlements) or not fits:
        return None
    return _PackedAcks(
        [one.lease.job_id for one in acks],
        [token.ljust(FIELD_BYTES) for token in tokens],
        [_EMPTY_FIELD if one.started_at is None else str(one.started_at).ljust(FIELD_BYTES) for one in acks],
        [(one.result, one.detail, item) for item, one in enumerate(acks, 1) if one.result is not None or one.detail],
    )


def _pack_some(settlements: Sequence[Settlement], *, with_writes: bool) -> _PackedAcks:
    acks = _PackedAcks([], [], [], [])
    for item, settlement in enumerate(settlements, 1):
        token = settlement.lease.token
        fits = len(token) <= FIELD_BYTES and token.isascii() and token[-1:] != " "
        if fits and isinstance(settlement, Ack) and (with_writes or not settlement.writes):
            acks.ids.append(settlement.lease.job_id)
            acks.tokens.append(token.ljust(FIELD_BYTES))
            acks.starts.append(str(settlement.started_at or "").ljust(FIELD_BYTES))
            if settlement.result is not None or settlement.detail:
                acks.results.append((settlement.result, settlement.detail, item))
        else:
            acks.ids.append("")
            acks.tokens.append(_EMPTY_FIELD)
            acks.starts.append(_EMPTY_FIELD)
    return acks


def _without(items: list[int], rows: list[Row]) -> list[int]:
    settled = {item for (item,) in rows}
    return [item for item in items if item not in settled]
