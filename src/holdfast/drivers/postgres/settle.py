"""Settle, extend and report_outage: batches as arrays, and the answer for each item."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeAlias

from holdfast.drivers.packing import Row
from holdfast.drivers.postgres.arrays import (
    Array,
    pack_bigints,
    pack_blobs,
    pack_booleans,
    pack_integers,
    pack_optional_texts,
    pack_texts,
)
from holdfast.drivers.postgres.database import Database
from holdfast.drivers.postgres.registry import pack_changes
from holdfast.drivers.postgres.rows import make_all_searchable
from holdfast.drivers.requests import Extend
from holdfast.errors import JobNotInflight, LeaseError, LeaseExpired, LeaseMismatch, WriteRefused
from holdfast.model.lease import Lease, Note
from holdfast.model.registry import Change
from holdfast.model.settlement import Ack, Fail, Release, Retry, Settlement

Writes: TypeAlias = list[tuple[int, Change]]  # each with the item of its ack

MIN_SEPARATE_ACKS = 200  # with fewer, a second round trip costs more than it saves

_NO_NOTE = Note()


def settle(database: Database, settlements: Sequence[Settlement], caller_now: int | None) -> list[LeaseError | None]:
    """Settle a batch. Batches of acks have their own functions, which need no transitions."""
    writes = find_writes(settlements)
    if are_acks(settlements, writes):
        if writes:
            refused = database.call("ack_with_writes", caller_now, *pack_acks(settlements), *pack_writes(writes))
        else:
            refused = database.call("ack", caller_now, *pack_acks(settlements))
    elif not writes and _has_separate_acks(settlements):
        return _settle_in_two_calls(database, settlements, caller_now)
    else:
        refused = database.call("settle", caller_now, *pack_settlements(settlements, writes))
    return read_answers(settlements, refused)


def _has_separate_acks(settlements: Sequence[Settlement]) -> bool:
    """Whether there are many acks beside the others, and no job is named twice: then their order does not matter."""
    return sum(isinstance(one, Ack) for one in settlements) >= MIN_SEPARATE_ACKS and len(
        {one.lease.job_id for one in settlements}
    ) == len(settlements)


def _settle_in_two_calls(
    database: Database, settlements: Sequence[Settlement], caller_now: int | None
) -> list[LeaseError | None]:
    """Settle the acks, then the others. In one call, ten retries among 1,000 acks would take half as long again.

    If the second call fails, the caller repeats all of them (L6).
    """
    answers: list[LeaseError | None] = [None] * len(settlements)
    for is_ack in (True, False):
        items = [item for item, one in enumerate(settlements) if isinstance(one, Ack) is is_ack]
        part = settle(database, [settlements[item] for item in items], caller_now)
        for item, answer in zip(items, part, strict=True):
            answers[item] = answer
    return answers


def read_answers(settlements: Sequence[Settlement], refused: Iterable[Row]) -> list[LeaseError | None]:
    """Return the answer for each settlement; the rows are about those that were refused."""
    answers: list[LeaseError | None] = [None] * len(settlements)
    for row in refused:
        index = row[0] - 1
        answers[index] = _refusal_of(settlements[index].lease.job_id, row)
    return answers


def extend(database: Database, request: Extend) -> list[Lease | LeaseError]:
    """Move the ends of valid leases, and store the notes."""
    leases = request.leases
    notes_by_item = [request.notes.get(lease.job_id) or _NO_NOTE for lease in leases]
    rows = database.call(
        "extend",
        request.now,
        request.lease_for,
        *_pack_leases(leases),
        pack_bigints([note.started_at for note in notes_by_item]),
        pack_blobs([note.progress for note in notes_by_item]),
        pack_blobs([note.checkpoint for note in notes_by_item]),
    )
    return [_extended_lease(lease, row) for lease, row in zip(leases, rows, strict=True)]


def report_outage(database: Database, leases: Sequence[Lease], caller_now: int | None) -> tuple[list[bool], list[int]]:
    """End these leases without a crash, or take the crash of their end back; return whether either.

    Not repeated when the answer is lost: the second answer would be False. The second list has the transaction.
    """
    arrays = _pack_leases(leases)
    [(answers, xid)] = database.call("report_outage", caller_now, *arrays, is_repeatable=False, with_xid=True)
    return list(answers), [xid] if any(answers) else []


def find_writes(settlements: Sequence[Settlement]) -> Writes:
    """Return the registry writes of the acks."""
    return [
        (item, write)
        for item, one in enumerate(settlements, 1)
        if isinstance(one, Ack) and one.writes
        for write in one.writes
    ]


def are_acks(settlements: Sequence[Settlement], writes: Writes) -> bool:
    """Whether every settlement is an ack, and no job and no entry is named twice: then their order does not matter."""
    return (
        set(map(type, settlements)) == {Ack}
        and len({one.lease.job_id for one in settlements}) == len(settlements)
        and len({(write.kind, write.key) for _, write in writes}) == len(writes)
    )


def pack_acks(settlements: Sequence[Settlement]) -> list[Array | None]:
    """Return the arrays of ``ack``, which are the first of ``ack_with_writes``."""
    return [
        *_pack_leases([one.lease for one in settlements]),
        pack_bigints([one.started_at for one in settlements]),
        pack_blobs([one.result if isinstance(one, Ack) else None for one in settlements]),
        pack_optional_texts([one.detail or None for one in settlements]),
    ]


def pack_writes(writes: Writes) -> list[Array | None]:
    """Return the arrays of the writes."""
    if not writes:
        return [None] * 6
    return [pack_integers([item for item, _ in writes]), *pack_changes([write for _, write in writes])]


def pack_settlements(settlements: Sequence[Settlement], writes: Writes) -> list[Array | None]:
    """Return the arrays of ``settle``."""
    return [
        pack_integers(_first_items_of_runs(settlements)),
        *_pack_leases([one.lease for one in settlements]),
        pack_texts([one.verb for one in settlements]),
        pack_bigints([one.started_at for one in settlements]),
        pack_optional_texts([one.detail or None for one in settlements]),
        pack_blobs([one.result if isinstance(one, Ack) else None for one in settlements]),
        pack_bigints([one.delay or None if isinstance(one, Retry | Release) else None for one in settlements]),
        pack_bigints([one.run_at if isinstance(one, Retry) else None for one in settlements]),
        pack_optional_texts([one.error or None if isinstance(one, Retry | Fail) else None for one in settlements]),
        pack_booleans([isinstance(one, Retry) and one.crashed for one in settlements]),
        pack_optional_texts([one.reason if isinstance(one, Fail) else None for one in settlements]),
        pack_bigints([one.budget if isinstance(one, Release) else None for one in settlements]),
        *pack_writes(writes),
        pack_booleans([isinstance(one, Retry) and one.hold_key for one in settlements]),
    ]


def _first_items_of_runs(settlements: Sequence[Settlement]) -> list[int]:
    """Return where the runs of ``settle`` begin: a run names every job and every registry entry once."""
    first_items = [1]
    named: set[str | tuple[str, str]] = set()
    for item, one in enumerate(settlements, 1):
        writes = one.writes if isinstance(one, Ack) else ()
        names: set[str | tuple[str, str]] = {one.lease.job_id, *((write.kind, write.key) for write in writes)}
        if not named.isdisjoint(names):
            first_items.append(item)
            named.clear()
        named |= names
    return first_items


def _pack_leases(leases: Sequence[Lease]) -> tuple[Array, Array]:
    """Return the ids and the tokens."""
    return (
        pack_texts(make_all_searchable([lease.job_id for lease in leases])),
        pack_texts(make_all_searchable([lease.token for lease in leases])),
    )


def _extended_lease(lease: Lease, row: Row) -> Lease | LeaseError:
    _, code, state, expires_at, cancel_requested, now = row
    if code != "ok":
        return _refusal_of(lease.job_id, (0, code, state, expires_at, now, None, None))
    return Lease(
        job_id=lease.job_id,
        token=lease.token,
        fence=lease.fence,
        expires_at=expires_at,
        cancel_requested=cancel_requested,
    )


def _refusal_of(job_id: str, row: Row) -> LeaseError:
    _, code, state, expires_at, now, kind, key = row
    match code:
        case "mismatch":
            return LeaseMismatch(job_id)
        case "expired":
            return LeaseExpired(job_id, expires_at=expires_at, now=now)
        case "write refused":
            return WriteRefused(job_id, kind=kind, key=key)
        case _:
            return JobNotInflight(job_id, state)
