"""``ArtifactCollector``: removes the artifacts of tasks that are gone, and blobs that no row names.

Retention, ``purge`` and ``trim`` remove tasks. From then on their artifacts cannot be read; the collector frees the
bytes. It walks over the manifests of a space in small steps, by task id: those of the oldest tasks, which retention
removes first, come first. Nothing of a task that has not ended is ever removed.
"""

from __future__ import annotations

import msgspec

from holdfast.artifacts.blobs import PAYLOAD_PART, BlobStore, task_folder
from holdfast.artifacts.manifest import MANIFEST_KIND, Manifest, read_manifest
from holdfast.artifacts.records import manifest_change
from holdfast.artifacts.usage import Usage, change_usage, read_usage, set_usage
from holdfast.clock import DAY, SECOND, Clock, SystemClock
from holdfast.drivers.contract import Store
from holdfast.model.registry import Entry

STEP_ROWS = 500  # manifests that one step looks at
GRACE = DAY  # a manifest may be older than its task, whose payload is stored before the task is
YOUNG_SECONDS = 3600.0  # a blob is not removed: an operator may just have requeued its task


class ArtifactCollector:
    """Collects in one space. One per process is enough, and several do no harm."""

    def __init__(
        self, store: Store, blobs: BlobStore, *, space: str, clock: Clock | None = None, grace: int = GRACE
    ) -> None:
        self._store = store
        self._blobs = blobs
        self._space = space
        self._grace = grace
        self._clock = clock or SystemClock()
        self._after = ""
        self._counted = Usage()  # in this round over all manifests
        self._usage_version: int | None = None  # at the start of the round

    def step(self) -> int:
        """Look at the next manifests; return how many were removed. After the last one, the next step begins anew."""
        if not self._after:
            self._counted = Usage()
            _, self._usage_version = read_usage(self._store)
        entries = self._store.scan(MANIFEST_KIND, after=self._after, limit=STEP_ROWS)
        removed = sum(self._look_at(entry) for entry in entries)
        if len(entries) == STEP_ROWS:
            self._after = entries[-1].key
            return removed
        self._after = ""
        if self._usage_version is not None:
            set_usage(self._store, self._counted, self._usage_version)  # refused if something has changed meanwhile
        return removed

    @property
    def is_in_a_round(self) -> bool:
        """Whether the last step has left manifests for the next one."""
        return bool(self._after)

    def _look_at(self, entry: Entry) -> bool:
        """Remove or clean what a manifest names, if it is time; return whether the manifest was removed."""
        manifest = read_manifest(entry)
        assert manifest is not None
        now = self._clock.now()
        found = self._store.inspect([entry.key], payloads=False).get(entry.key)
        if found is None and now - manifest.created_at >= self._grace:
            self._remove(entry, manifest)
            return True
        self._counted = Usage(
            count=self._counted.count + manifest.count, total_bytes=self._counted.total_bytes + manifest.size
        )
        ended_at = None if found is None else found.ended_at
        if ended_at is not None and now - ended_at >= self._grace and not manifest.is_clean:
            self._clean(entry, manifest, now)
        return False

    def _remove(self, entry: Entry, manifest: Manifest) -> None:
        """Remove the blobs, then the row: after a crash between both, the row leads to the rest."""
        self._blobs.remove(task_folder(self._space, entry.key))
        [removed] = self._store.write([manifest_change(entry.key, None, version=entry.version)])
        if removed is not None:
            change_usage(self._store, count=-manifest.count, size=-manifest.size)

    def _clean(self, entry: Entry, manifest: Manifest, now: int) -> None:
        """Remove the blobs of a task that has ended which no row names: of uploads that were broken off."""
        keep = {(str(one.fence), one.digest) for one in manifest.uploads}
        if manifest.payload is not None:
            keep.add((PAYLOAD_PART, manifest.payload.digest))
        before = now / SECOND - YOUNG_SECONDS
        self._blobs.retain(task_folder(self._space, entry.key), keep, before=before)
        cleaned = msgspec.structs.replace(manifest, is_clean=True)
        self._store.write([manifest_change(entry.key, cleaned, version=entry.version)])
