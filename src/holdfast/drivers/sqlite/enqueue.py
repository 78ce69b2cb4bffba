"""Enqueue: what exists is answered, the rest is inserted, all in one go."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from holdfast.drivers.sqlite.call import Call
from holdfast.drivers.sqlite.rows import as_json, insertion
from holdfast.model.job import JobRecord
from holdfast.model.lease import Enqueued
from holdfast.model.settings import QueueSettings

Key = tuple[str, str]  # queue, idempotency key


def enqueue(call: Call, jobs: Sequence[JobRecord]) -> list[Enqueued]:
    """See ``Driver.enqueue``; runs inside whatever transaction the call is in."""
    ids = as_json(job.id for job in jobs)
    payloads: dict[str, bytes] = dict(call.run("known_ids", {"space": call.space, "ids": ids}).fetchall())
    keys = _known_keys(call, jobs)
    new: list[JobRecord] = []
    answers: list[Enqueued] = []
    for job in jobs:
        payload = payloads.get(job.id)
        if payload is not None:
            answers.append(Enqueued(id=job.id, existed=True, conflict=payload != job.payload))
            continue
        if job.idempotency_key is not None:
            key, digest = (job.queue, job.idempotency_key), digest_of(job.payload)
            if key in keys:
                first, digest_then = keys[key]
                answers.append(Enqueued(id=first, existed=True, conflict=digest_then != digest))
                continue
            keys[key] = (job.id, digest)
        payloads[job.id] = job.payload
        new.append(job)
        answers.append(Enqueued(id=job.id, existed=False))
    if new:
        _insert(call, new, keys)
    return answers


def _known_keys(call: Call, jobs: Sequence[JobRecord]) -> dict[Key, tuple[str, bytes]]:
    """The keys of this batch that stand for a job already, with its id and the digest of its payload."""
    asked = {(job.queue, job.idempotency_key) for job in jobs if job.idempotency_key is not None}
    if not asked:
        return {}
    found = call.run("known_keys", {"space": call.space, "keys": as_json(asked), "now": call.now})
    return {(queue, key): (job_id, digest) for queue, key, job_id, digest in found}


def _insert(call: Call, jobs: list[JobRecord], keys: dict[Key, tuple[str, bytes]]) -> None:
    space, now = call.space, call.now
    call.run_many("enqueue", [insertion(job, space, now) for job in jobs])
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
        rows = [(space, *key, *keys[key], now + windows.get(key[0], default)) for key in sorted(pairs)]
        call.run_many("remember_key", rows)


def digest_of(payload: bytes) -> bytes:
    """Enough to tell one payload from another, long after its row is gone."""
    return hashlib.blake2b(payload, digest_size=16).digest()
