"""``ArtifactCollector``: removes the artifacts of tasks that are gone, and what broken uploads have left.

Retention, ``purge`` and ``trim`` remove tasks. From then on their artifacts cannot be read; the collector frees the
bytes. It walks over the manifests of a space in small steps, by task id: those of the oldest tasks, which retention
removes first, come first. Nothing that a row names is removed before its task is gone. Uploads that have begun and have
not ended are few: each step looks at those that nobody has continued for a while.
"""

from __future__ import annotations

from holdfast.artifacts.blobs import BlobStore, task_folder
from holdfast.artifacts.manifest import MANIFEST_KIND, Manifest, read_manifest
from holdfast.artifacts.records import find_manifest, manifest_change
from holdfast.artifacts.uploads import UPLOAD_KIND, end_upload, read_upload
from holdfast.artifacts.usage import Usage, change_usage, read_usage, set_usage
from holdfast.clock import MINUTE, SECOND, Clock, SystemClock
from holdfast.drivers.requests import Inspect, Scan, Write
from holdfast.drivers.store import Store
from holdfast.model.registry import Entry

STEP_ROWS = 500  # manifests, and uploads, that one step looks at
YOUNG = 30 * MINUTE  # an upload may go on: it writes every MiB, of which the slowest one takes less than five minutes


class ArtifactCollector:
    """Collects in one space. One per process is enough, and several do no harm."""

    def __init__(self, store: Store, blobs: BlobStore, *, space: str, clock: Clock | None = None) -> None:
        self._store = store
        self._blobs = blobs
        self._space = space
        self._clock = clock or SystemClock()
        self._after = ""
        self._after_upload = ""
        self._counted = Usage()  # in this round over all manifests
        self._usage_version: int | None = None  # at the start of the round

    def step(self) -> int:
        """Look at the next manifests; return how many were removed. After the last one, the next step begins anew."""
        self._end_uploads()
        if not self._after:
            self._counted = Usage()
            _, self._usage_version = read_usage(self._store)
        entries = self._store.do(Scan(kind=MANIFEST_KIND, after=self._after, limit=STEP_ROWS))
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
        """Remove what a manifest names if its task is gone; return whether it was removed."""
        manifest = read_manifest(entry)
        assert manifest is not None
        if entry.key not in self._store.do(Inspect(job_ids=[entry.key], payloads=False)):
            self._remove(entry, manifest)
            return True
        self._counted = Usage(
            count=self._counted.count + manifest.count, total_bytes=self._counted.total_bytes + manifest.size
        )
        return False

    def _remove(self, entry: Entry, manifest: Manifest) -> None:
        """Remove the blobs, then the row: after a crash between both, the row leads to the rest."""
        self._blobs.remove(task_folder(self._space, entry.key))
        [removed] = self._store.do(Write(changes=[manifest_change(entry.key, None, version=entry.version)]))
        if removed is not None:
            change_usage(self._store, count=-manifest.count, size=-manifest.size)

    def _end_uploads(self) -> None:
        """Look at the next uploads that have not ended."""
        entries = self._store.do(Scan(kind=UPLOAD_KIND, after=self._after_upload, limit=STEP_ROWS))
        self._after_upload = entries[-1].key if len(entries) == STEP_ROWS else ""
        for entry in entries:
            self._end_upload(entry)

    def _end_upload(self, entry: Entry) -> None:
        """Remove what a broken upload has left, and its entry once nothing is left."""
        upload, now = read_upload(entry), self._clock.now()
        if now - upload.began_at < YOUNG:
            return
        folder = task_folder(self._space, upload.job_id)
        manifest, _ = find_manifest(self._store, upload.job_id)
        keep = () if manifest is None else manifest.parts
        if not self._blobs.retain(folder, keep, before=(now - YOUNG) / SECOND):
            return  # a slow upload, which goes on
        if manifest is None:
            self._blobs.remove(folder)
        end_upload(self._store, entry.key)
