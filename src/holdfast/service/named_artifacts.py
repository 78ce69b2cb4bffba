"""The end of an attempt that names artifacts: they become visible together with the end, or not at all."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence

from holdfast.artifacts.manifest import Manifest, check_artifact_name
from holdfast.artifacts.records import find_manifest, manifest_change, record_failure
from holdfast.artifacts.usage import MAX_TRIES
from holdfast.errors import ArtifactMissing, LeaseError, LeaseMismatch, StoreBusy, WriteRefused
from holdfast.model.job import State
from holdfast.model.settlement import Ack, Settlement, add_writes
from holdfast.service.operation import Call
from holdfast.service.problems import not_found


async def settle_with_artifacts(call: Call, settlement: Settlement, names: Sequence[str]) -> LeaseError | None:
    """End a lease and show these artifacts; return why the store refused it. Raises ``ArtifactMissing``.

    A completion and its artifacts are one transaction. The artifacts of a failure are shown right after it: if the
    service dies in between, the worker has no answer, and the call that it repeats shows them.
    """
    names = tuple(dict.fromkeys(map(check_artifact_name, names)))
    lease, tenant = settlement.lease, call.tenant
    found = await tenant.inspect_one(lease.job_id)
    if found is None:
        raise not_found(lease.job_id)
    if found.job.state is State.INFLIGHT:
        if found.fence != lease.fence:
            return LeaseMismatch(lease.job_id)
        if isinstance(settlement, Ack):
            return await _ack(call, settlement, names)
        manifest, _ = await tenant.calls.settle(find_manifest, tenant.store, lease.job_id)
        (manifest or Manifest(created_at=0)).completed(lease.job_id, lease.fence, names, ended_at=0)
    refused = await tenant.settle(settlement)  # of a task that is not in progress: a call that is stale, or repeated
    if refused is None and not isinstance(settlement, Ack):
        await _show_failure(call, settlement, names)
    return refused


async def _ack(call: Call, ack: Ack, names: tuple[str, ...]) -> LeaseError | None:
    lease, tenant = ack.lease, call.tenant
    for _ in range(MAX_TRIES):
        manifest, version = await tenant.calls.settle(find_manifest, tenant.store, lease.job_id)
        completed = (manifest or Manifest(created_at=0)).completed(lease.job_id, lease.fence, names, ended_at=None)
        write = manifest_change(lease.job_id, completed, version=version)
        refused = await tenant.settle(add_writes(ack, [write]))
        if not isinstance(refused, WriteRefused):  # else another upload of the attempt came in between
            return refused
    raise StoreBusy(0)


async def _show_failure(call: Call, settlement: Settlement, names: tuple[str, ...]) -> None:
    lease, tenant = settlement.lease, call.tenant
    found = await tenant.inspect_one(lease.job_id)
    if found is None or found.ended_at is None:  # it runs again
        return
    with contextlib.suppress(ArtifactMissing):  # it was requeued meanwhile, and its next attempt has uploaded something
        await tenant.calls.settle(
            record_failure, tenant.store, lease.job_id, lease.fence, names, ended_at=found.ended_at
        )
