"""Enqueue: what exists is answered, the rest is inserted, all in one go."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field

from holdfast.drivers.sqlite.call import Call
from holdfast.drivers.sqlite.reserve import is_limited
from holdfast.drivers.sqlite.rows import as_json, birth, insertion
from holdfast.model.job import JobRecord
from holdfast.model.job_batch import lease_batch, must_wait, representatives
from holdfast.model.lease import Enqueued, Reservation, random_bits, tokens
from holdfast.model.queue_settings import QueueSettings

Key = tuple[str, str]  # queue, idempotency key


@dataclass(slots=True)
class _Batch:
    """What is new of a batch, and the answers to all of it."""

    new: list[JobRecord] = field(default_factory=list)
    keys: dict[Key, tuple[str, bytes]] = field(default_factory=dict)  # id and digest of the payload
    answers: list[Enqueued] = field(default_factory=list)


def enqueue(call: Call, jobs: Sequence[JobRecord]) -> list[Enqueued]:
    """See ``Driver.enqueue``; runs inside whatever transaction the call is in."""
    batch = _sorted_out(call, jobs)
    _store(call, batch)
    return batch.answers


def enqueue_leased(
    call: Call, jobs: Sequence[JobRecord], *, lease_for: int, worker: str
) -> tuple[list[Enqueued], list[Reservation]]:
    """See ``LeasedEnqueue.enqueue_leased``."""
    batch = _sorted_out(call, jobs)
    if (
        len(batch.new) < len(jobs)
        or must_wait(jobs)
        or is_limited(call, sorted({job.queue for job in representatives(jobs)}))
    ):
        _store(call, batch)
        return batch.answers, []
    first = call.numbers(len(jobs))
    fences = range(first, first + len(jobs))
    found = lease_batch(jobs, fences, tokens(fences, random_bits(len(jobs))), call.now + lease_for)
    call.run_many("enqueue_leased", [birth(one, call.space, call.now, worker) for one in found])
    _enter(call, batch)
    return batch.answers, found


def _store(call: Call, batch: _Batch) -> None:
    if batch.new:
        call.run_many("enqueue", [insertion(job, call.space, call.now) for job in batch.new])
        _enter(call, batch)


def _sorted_out(call: Call, jobs: Sequence[JobRecord]) -> _Batch:
    ids = as_json(job.id for job in jobs)
    payloads: dict[str, bytes] = dict(call.run("known_ids", {"space": call.space, "ids": ids}).fetchall())
    batch = _Batch(keys=_known_keys(call, jobs))
    for job in jobs:
        payload = payloads.get(job.id)
        if payload is not None:
            batch.answers.append(Enqueued(id=job.id, existed=True, conflict=payload != job.payload))
            continue
        if job.idempotency_key is not None:
            key, digest = (job.queue, job.idempotency_key), digest_of(job.payload)
            if key in batch.keys:
                first, digest_then = batch.keys[key]
                batch.answers.append(Enqueued(id=first, existed=True, conflict=digest_then != digest))
                continue
            batch.keys[key] = (job.id, digest)
        payloads[job.id] = job.payload
        batch.new.append(job)
        batch.answers.append(Enqueued(id=job.id, existed=False))
    return batch


def _known_keys(call: Call, jobs: Sequence[JobRecord]) -> dict[Key, tuple[str, bytes]]:
    """The keys of this batch that stand for a job already, with its id and the digest of its payload."""
    asked = {(job.queue, job.idempotency_key) for job in jobs if job.idempotency_key is not None}
    if not asked:
        return {}
    found = call.run("known_keys", {"space": call.space, "keys": as_json(asked), "now": call.now})
    return {(queue, key): (job_id, digest) for queue, key, job_id, digest in found}


def _enter(call: Call, batch: _Batch) -> None:
    """What goes with new rows: their lanes, the turns of their domains, their keys."""
    space, now, jobs = call.space, call.now, batch.new
    call.run_many("open_lane", [(space, *lane) for lane in {(job.queue, job.type, job.priority) for job in jobs}])
    domains = {(job.queue, job.domain) for job in jobs if job.domain is not None}
    if domains:
        call.run("pass_turn", {"space": space, "domains": as_json(domains)})
    keyed = [job for job in jobs if job.idempotency_key is not None]
    if keyed:
        windows: dict[str, int] = dict(call.run("dedupe_windows", (space,)).fetchall())
        default = QueueSettings().dedupe_window
        pairs = [(job.queue, str(job.idempotency_key)) for job in keyed]
        # In the order of the table: keys are often hashes, and neighbours share a page.
        rows = [(space, *key, *batch.keys[key], now + windows.get(key[0], default)) for key in sorted(pairs)]
        call.run_many("remember_key", rows)


def digest_of(payload: bytes) -> bytes:
    """Enough to tell one payload from another, long after its row is gone."""
    return hashlib.blake2b(payload, digest_size=16).digest()
