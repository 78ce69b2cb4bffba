"""The rows of artifacts in the registry of one space: each change is a compare-and-set of one manifest."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from holdfast.artifacts.manifest import MANIFEST_KIND, Artifact, Manifest, read_manifest
from holdfast.artifacts.quota import Quotas
from holdfast.artifacts.usage import MAX_TRIES, change_usage
from holdfast.drivers.answers import Inspection
from holdfast.drivers.requests import Read, Write
from holdfast.drivers.store import Store
from holdfast.errors import StoreBusy
from holdfast.model.registry import Change


def find_manifest(registry: Store, job_id: str) -> tuple[Manifest | None, int]:
    """Return the manifest of a task, None if it has none, and the version of its entry."""
    [entry] = registry.do(Read(kind=MANIFEST_KIND, keys=[job_id]))
    return read_manifest(entry), 0 if entry is None else entry.version


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedUpload:
    """What an upload has changed: whether it is new, and the parts of the task that no row names any more."""

    is_new: bool
    dropped_parts: frozenset[str]


def record_upload(registry: Store, job_id: str, artifact: Artifact, quotas: Quotas) -> RecordedUpload:
    """Add an upload to the manifest of its task.

    Raises ``ArtifactExists``, ``ArtifactQuota`` or ``LeaseMismatch``, and changes nothing then.
    """
    change_usage(registry, count=1, size=artifact.size, quota=quotas.space)
    try:
        before, after = _change(
            registry, job_id, lambda manifest: manifest.with_upload(job_id, artifact, quotas.task), artifact.uploaded_at
        )
    except BaseException:
        change_usage(registry, count=-1, size=-artifact.size)
        raise
    change_usage(registry, count=after.count - before.count - 1, size=after.size - before.size - artifact.size)
    return RecordedUpload(
        is_new=after != before,
        dropped_parts=frozenset(one.folder_part for one in (*before.uploads, artifact))
        - {one.folder_part for one in after.uploads},
    )


def record_failure(registry: Store, job_id: str, fence: int, names: tuple[str, ...], *, ended_at: int) -> None:
    """Show the artifacts of an attempt that has failed the task at this instant."""
    _change(registry, job_id, lambda manifest: manifest.completed(job_id, fence, names, ended_at=ended_at), ended_at)


def visible_artifacts(registry: Store, found: Inspection) -> tuple[Artifact, ...]:
    """Return the artifacts of a task that has ended, named by the attempt that has ended it."""
    if not found.job.state.has_ended:
        return ()
    manifest, _ = find_manifest(registry, found.job.id)
    return () if manifest is None else manifest.visible(found.job.state, found.ended_at)


def manifest_change(job_id: str, manifest: Manifest | None, *, version: int | None) -> Change:
    """Return the change that stores a manifest, or removes it."""
    value = None if manifest is None else manifest.encode()
    return Change(kind=MANIFEST_KIND, key=job_id, value=value, version=version)


def _change(
    registry: Store, job_id: str, change: Callable[[Manifest], Manifest], now: int
) -> tuple[Manifest, Manifest]:
    """Change a manifest; return it as it was before and after."""
    for _ in range(MAX_TRIES):
        found, version = find_manifest(registry, job_id)
        before = found or Manifest(created_at=now)
        after = change(before)
        if after == before:
            return before, after
        [entry] = registry.do(Write(changes=[manifest_change(job_id, after, version=version)]))
        if entry is not None:
            return before, after
    raise StoreBusy(0)
