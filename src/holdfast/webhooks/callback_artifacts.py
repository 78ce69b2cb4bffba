"""The artifacts in the body of a callback: those that the attempt which has ended the task has named."""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.artifacts.manifest import MANIFEST_KIND, Manifest, read_manifest
from holdfast.clock import SECOND, to_datetime
from holdfast.drivers.requests import Read
from holdfast.drivers.store import Store
from holdfast.model.job import State
from holdfast.model.ledger import LedgerRow

NAMING_TIME = 2 * SECOND  # after the end of a failed attempt, until its artifacts are named: that is a second step


def read_manifests(store: Store, job_ids: Sequence[str]) -> dict[str, Manifest]:
    """Return the manifests of these jobs, by job id; most jobs have none."""
    if not job_ids:
        return {}
    manifests = [read_manifest(entry) for entry in store.do(Read(kind=MANIFEST_KIND, keys=job_ids))]
    return {job_id: found for job_id, found in zip(job_ids, manifests, strict=True) if found is not None}


def artifacts_of(row: LedgerRow, manifest: Manifest | None) -> list[dict[str, object]]:
    """Return the artifacts of an end."""
    if manifest is None or row.state is None:
        return []
    return [
        {
            "name": one.name,
            "sha256": one.digest,
            "size": one.size,
            "contentType": one.content_type,
            "uploadedAt": to_datetime(one.uploaded_at),
        }
        for one in manifest.visible(row.state, row.ended_at)
    ]


def are_being_named(row: LedgerRow, manifest: Manifest | None, now: int) -> bool:
    """Whether the attempt has failed a moment ago, and which of its uploads are its artifacts may follow."""
    if manifest is None or row.state is not State.DEAD or row.fence is None or not manifest.uploads_of(row.fence):
        return False
    is_named = manifest.completion is not None and manifest.completion.fence == row.fence
    return not is_named and 0 <= now - row.ended_at < NAMING_TIME
