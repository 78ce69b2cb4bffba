"""Enqueue: answer for the jobs that exist, insert the others."""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

from holdfast.drivers.answers import Stored
from holdfast.drivers.packing import MAX_INLINE_BYTES, digest_of, to_json
from holdfast.drivers.requests import Enqueue
from holdfast.drivers.sqlite import offsets, registry
from holdfast.drivers.sqlite.admin import purge
from holdfast.drivers.sqlite.domains import assign_turns
from holdfast.drivers.sqlite.offsets import KnownOffset
from holdfast.drivers.sqlite.reserve import is_limited
from holdfast.drivers.sqlite.rows import insert_leased_row, insert_row
from holdfast.drivers.sqlite.statements import sql
from holdfast.drivers.sqlite.transaction import Transaction
from holdfast.model.job import JobRecord
from holdfast.model.job_batch import lease_batch, must_wait, representatives
from holdfast.model.lease import Enqueued, make_tokens, newly_enqueued, token_bytes
from holdfast.model.queue_settings import QueueSettings
from holdfast.model.registry import Change
from holdfast.model.unique import WHILE_QUEUED, window_of

Key = tuple[str, str]  # queue, idempotency key


@dataclass(slots=True)
class _Batch:
    """The new jobs of a batch, and the answers for all its jobs."""

    new: list[JobRecord] = field(default_factory=list)
    keys: dict[Key, tuple[str, bytes]] = field(default_factory=dict)  # job id and digest of the payload
    answers: list[Enqueued] = field(default_factory=list)


def enqueue(tx: Transaction, jobs: Sequence[JobRecord], writes: Sequence[Change] = ()) -> list[Enqueued]:
    """Store new jobs and return one answer per record, in order. Raises ``WriteRefused`` before anything is changed."""
    if writes and (refused := registry.write_all(tx, writes, job_id=jobs[0].id)):
        raise refused
    batch = _find_new(tx, jobs)
    _insert(tx, batch)
    return batch.answers


def enqueue_replacing(tx: Transaction, request: Enqueue, cursors: Collection[str | None]) -> list[Enqueued]:
    """Enqueue with ``replace_dead_before``. ``cursors`` are those of the readers of the ledger."""
    jobs = request.jobs
    known = _find_payloads(tx, jobs)
    keys = {(job.queue, job.idempotency_key) for job in jobs if job.id not in known and job.idempotency_key is not None}
    parameters = {"space": tx.space, "keys": to_json(keys), "before": request.replace_dead_before}
    dead = [job_id for (job_id,) in tx.run("enqueue/find_dead", parameters)]
    purged = [job_id for job_id, is_purged in zip(dead, purge(tx, dead, cursors), strict=True) if is_purged]
    if purged:
        tx.run("enqueue/free_keys", {**parameters, "ids": to_json(purged)})
    return enqueue(tx, jobs)


def is_plain(jobs: Sequence[JobRecord]) -> bool:
    """Whether this is one job of which only a row is stored: it has no idempotency key, no domain, no large payload."""
    return (
        len(jobs) == 1
        and jobs[0].idempotency_key is None
        and jobs[0].domain is None
        and len(jobs[0].payload) <= MAX_INLINE_BYTES
    )


def insert_plain(connection: sqlite3.Connection, space: str, job: JobRecord, now: int) -> list[Enqueued] | None:
    """Insert a plain job outside of a transaction, in one statement; None if only ``enqueue`` can answer.

    Takes two thirds of the time of ``enqueue``: nearly all of it is the commit, and the rest are five statements less.
    """
    conditions = (space, job.id, space, job.queue, job.type, job.priority, space, now)
    cursor = connection.execute(sql("enqueue/insert_plain"), (*insert_row(job, space, now), *conditions))
    return newly_enqueued([job.id]) if cursor.rowcount else None


def enqueue_leased(tx: Transaction, request: Enqueue) -> Stored:
    """Enqueue the jobs and lease all of them, or none of them."""
    jobs, lease = request.jobs, request.lease
    assert lease is not None, "wanted a request with a lease"
    batch = _find_new(tx, jobs)
    queues = sorted({job.queue for job in representatives(jobs)})
    if len(batch.new) < len(jobs) or must_wait(jobs) or is_limited(tx, queues):
        _insert(tx, batch)
        return Stored(batch.answers)
    first = tx.next_numbers(len(jobs))
    fences = range(first, first + len(jobs))
    reservations = lease_batch(jobs, fences, make_tokens(fences, token_bytes(len(jobs))), tx.now + lease.lease_for)
    rows = [insert_leased_row(one, tx.space, tx.now, lease.worker, _store_large(tx, one.job)) for one in reservations]
    tx.run_many("enqueue/insert_leased", rows)
    _insert_lanes_and_keys(tx, batch)
    return Stored(batch.answers, reservations)


def _insert(tx: Transaction, batch: _Batch) -> None:
    if batch.new:
        rows = [insert_row(job, tx.space, tx.now, _store_large(tx, job)) for job in batch.new]
        tx.run_many("enqueue/insert", rows)
        _insert_lanes_and_keys(tx, batch)


def _store_large(tx: Transaction, job: JobRecord) -> int | None:
    """Store the payload of a new job, if it is large, and return the number of its row."""
    if len(job.payload) <= MAX_INLINE_BYTES:
        return None
    return tx.run("enqueue/insert_payload", (tx.space, job.payload)).lastrowid


def _find_new(tx: Transaction, jobs: Sequence[JobRecord]) -> _Batch:
    """Compare the batch with the store and with itself: a job may repeat the id, key or offset of an earlier one."""
    payloads = _find_payloads(tx, jobs)
    known_offsets = offsets.find(tx, jobs)
    batch = _Batch(keys=_find_keys(tx, jobs))
    for job in jobs:
        payload = payloads.get(job.id)
        if payload is not None:
            batch.answers.append(Enqueued(id=job.id, existed=True, conflict=payload != job.payload))
            continue
        if job.idempotency_key is not None:
            key, digest = (job.queue, job.idempotency_key), digest_of(job.payload)
            if key in batch.keys:
                job_id, stored_digest = batch.keys[key]
                batch.answers.append(Enqueued(id=job_id, existed=True, conflict=stored_digest != digest))
                continue
        if job.offset is not None:
            assert job.domain is not None
            place = (job.queue, job.domain, job.offset)
            if place in known_offsets:
                batch.answers.append(_answer_known(job, known_offsets[place]))
                continue
            known_offsets[place] = KnownOffset(job.id, job.payload, past=False)
        if job.idempotency_key is not None:  # not of a record that its offset refuses
            batch.keys[key] = (job.id, digest)
        payloads[job.id] = job.payload
        batch.new.append(job)
        batch.answers.append(Enqueued(id=job.id, existed=False))
    return batch


def _answer_known(job: JobRecord, known: KnownOffset) -> Enqueued:
    """Return the answer for a record whose offset was enqueued before."""
    return Enqueued(
        id=job.id if known.job_id is None else known.job_id,
        existed=True,
        conflict=known.payload is not None and known.payload != job.payload,
        past=known.past,
    )


def _find_payloads(tx: Transaction, jobs: Sequence[JobRecord]) -> dict[str, bytes]:
    """Return the payloads of the jobs that exist, by id."""
    if len(jobs) == 1:
        return dict(tx.run("enqueue/find_id", {"space": tx.space, "id": jobs[0].id}).fetchall())
    ids = to_json(job.id for job in jobs)
    return dict(tx.run("enqueue/find_ids", {"space": tx.space, "ids": ids}).fetchall())


def _find_keys(tx: Transaction, jobs: Sequence[JobRecord]) -> dict[Key, tuple[str, bytes]]:
    """Return the keys of this batch that are taken, each with the id and the payload digest of its job."""
    keys = {(job.queue, job.idempotency_key) for job in jobs if job.idempotency_key is not None}
    if not keys:
        return {}
    rows = tx.run("enqueue/find_keys", {"space": tx.space, "keys": to_json(keys), "now": tx.now})
    return {(queue, key): (job_id, digest) for queue, key, job_id, digest in rows}


def _insert_lanes_and_keys(tx: Transaction, batch: _Batch) -> None:
    """Store what belongs to new jobs beside their rows: lanes, turns of domains, idempotency keys."""
    space, jobs = tx.space, batch.new
    lanes = {(job.queue, job.type, job.priority) for job in jobs}
    tx.run_many("enqueue/open_lane", [(space, *lane) for lane in lanes])
    assign_turns(tx, {(job.queue, job.domain) for job in jobs if job.domain is not None}, on_arrival=True)
    keys = [(job.queue, job.idempotency_key, job.unique_for) for job in jobs if job.idempotency_key is not None]
    if keys:
        windows: dict[str, int] = dict(tx.run("enqueue/dedupe_windows", (space,)).fetchall())
        default = QueueSettings().dedupe_window
        # Sorted like the table: keys are often hashes, and neighbours share a page.
        rows = [
            (
                *(space, queue, key, *batch.keys[queue, key]),
                tx.now + window_of(unique_for, windows.get(queue, default)),
                unique_for == WHILE_QUEUED,
            )
            for queue, key, unique_for in sorted(keys)
        ]
        tx.run_many("enqueue/remember_key", rows)
