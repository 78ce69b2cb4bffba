"""Approvals: an operator has reviewed a dead letter, and signs the job as it is now.

An approval is a registry entry with a new signature of the job. The job keeps the old one, as evidence. A worker that
finds the signature of a job not valid looks for an approval. The new signature covers what the operator has reviewed:
a job that is changed later is rejected again, and nobody can write an approval without a key.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from holdfast.clock import DAY
from holdfast.drivers.capabilities import Feature
from holdfast.drivers.requests import Read, Write
from holdfast.drivers.store import Store
from holdfast.log import events
from holdfast.log.records import log_event
from holdfast.model import bounds
from holdfast.model.job import JobRecord
from holdfast.model.registry import Change
from holdfast.wire.identity import split_signature
from holdfast.wire.signing import Signer, Verdict

KIND = "signature.approved"  # by job id: a signature
APPROVAL_TTL = 366 * DAY  # a job that waits for longer is rejected again


def approve(store: Store, signer: Signer, jobs: Sequence[JobRecord]) -> list[JobRecord]:
    """Sign the jobs whose signature is not valid, as they are in these records, and return those.

    Logs ``job.signed_again`` for each. Raises ``StoreError``.
    """
    approved = [job for job in jobs if signer.verify(job) is not Verdict.VALID]
    signed = signer.sign(approved)
    for start in range(0, len(signed), bounds.MAX_BATCH_ITEMS):
        part = signed[start : start + bounds.MAX_BATCH_ITEMS]
        store.do(Write(changes=[_change(job) for job in part]))
    for old, new in zip(approved, signed, strict=True):
        key_id, reason = split_signature(new.signature)[0], old.dead_reason or ""
        log_event(
            events.JOB_SIGNED_AGAIN, job_id=new.id, type=new.type, queue=new.queue, signed_by=key_id, reason=reason
        )
    return approved


def with_approved_signature(store: Store, job: JobRecord) -> JobRecord | None:
    """Return the job with the signature of its approval; None if it has none. Raises ``StoreError``."""
    if not store.capabilities.has(Feature.REGISTRY):
        return None
    [entry] = store.do(Read(kind=KIND, keys=[job.id]))
    if entry is None or entry.value is None:
        return None
    return replace(job, signature=entry.value.decode(errors="replace"))


def _change(job: JobRecord) -> Change:
    assert job.signature is not None
    return Change(kind=KIND, key=job.id, value=job.signature.encode(), ttl=APPROVAL_TTL)
