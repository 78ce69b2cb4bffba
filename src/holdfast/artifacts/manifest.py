"""``Manifest``: the artifacts of one task. One entry of the registry, whose key is the id of the task.

An upload belongs to the attempt that made it, by the fence of its lease. It becomes visible when that attempt ends the
task and names it: so the uploads of a stale worker are never seen, whatever happens to them.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence

import msgspec

from holdfast.artifacts.quota import Quota
from holdfast.errors import ArtifactExists, ArtifactMissing, InvalidInput, LeaseMismatch
from holdfast.model.job import State
from holdfast.model.registry import Entry

MANIFEST_KIND = "artifacts"
MAX_NAME_BYTES = 128
MAX_CONTENT_TYPE_CHARACTERS = 128
FORBIDDEN_CHARACTERS = frozenset('/\\%"\ufffd')  # the last one stands for bytes that are not UTF-8
FORBIDDEN_CATEGORIES = frozenset({"Cc", "Cf", "Cn", "Co", "Cs", "Zl", "Zp"})  # invisible, or unknown
_NAME_WANTED = (
    f"1 to {MAX_NAME_BYTES} bytes of visible characters, none of them / \\ % or a double quote, and not . or .."
)


def check_artifact_name(value: str) -> str:
    """Return the name in its normal form (NFC). Raises ``InvalidInput``.

    A name is never part of a path. What could be one is refused nevertheless, for those who save artifacts.
    """
    name = unicodedata.normalize("NFC", value) if 0 < len(value) <= MAX_NAME_BYTES else ""
    if (
        not name
        or name in {".", ".."}
        or name != name.strip()
        or not FORBIDDEN_CHARACTERS.isdisjoint(name)
        or any(unicodedata.category(character) in FORBIDDEN_CATEGORIES for character in name)
        or len(name.encode()) > MAX_NAME_BYTES
    ):
        raise InvalidInput("name", wanted=_NAME_WANTED, got=ascii(value))
    return name


class Artifact(msgspec.Struct, kw_only=True, frozen=True, omit_defaults=True):
    """One upload."""

    name: str
    digest: str  # SHA-256 in hex
    size: int
    content_type: str
    fence: int  # of the lease under which it was uploaded
    part: str = ""  # the folder of the upload in that of the task
    uploaded_at: int

    @property
    def folder_part(self) -> str:
        """The folder of the upload. Uploads of one attempt shared a folder before each had its own."""
        return self.part or str(self.fence)


class Completion(msgspec.Struct, kw_only=True, frozen=True):
    """How an attempt has ended the task. ``ended_at`` is None if it has completed it, which can happen only once."""

    fence: int
    names: tuple[str, ...]
    ended_at: int | None = None


class Manifest(msgspec.Struct, kw_only=True, frozen=True, omit_defaults=True):
    """The artifacts of a task. Never changed: each method returns a new one."""

    created_at: int
    uploads: tuple[Artifact, ...] = ()  # of the last attempt that has uploaded something
    completion: Completion | None = None

    @property
    def size(self) -> int:
        """The bytes that count for the quota of the space."""
        return sum(one.size for one in self.uploads)

    @property
    def count(self) -> int:
        """The blobs that count for the quota of the space."""
        return len(self.uploads)

    @property
    def parts(self) -> frozenset[str]:
        """The parts of the folder of the task that have these blobs."""
        return frozenset(one.folder_part for one in self.uploads)

    def with_upload(self, job_id: str, artifact: Artifact, quota: Quota) -> Manifest:
        """Add an upload; those of earlier attempts go. The same one again changes nothing.

        Raises ``ArtifactExists``, ``ArtifactQuota``, or ``LeaseMismatch`` if a later attempt has uploaded something.
        """
        if any(one.fence > artifact.fence for one in self.uploads):  # the lease has ended since it was checked
            raise LeaseMismatch(job_id)
        kept = self.uploads_of(artifact.fence)
        for one in kept:
            if one.name == artifact.name:
                if one.digest != artifact.digest:
                    raise ArtifactExists(job_id, one.name)
                return self
        quota.check("task", count=len(kept) + 1, total_bytes=sum(one.size for one in kept) + artifact.size)
        return msgspec.structs.replace(self, uploads=(*kept, artifact), completion=None)

    def uploads_of(self, fence: int) -> tuple[Artifact, ...]:
        """Return the uploads of one attempt."""
        return tuple(one for one in self.uploads if one.fence == fence)

    def completed(self, job_id: str, fence: int, names: Sequence[str], *, ended_at: int | None) -> Manifest:
        """Name the artifacts of the attempt that ends the task. Raises ``ArtifactMissing``."""
        known = {one.name for one in self.uploads_of(fence)}
        for name in names:
            if name not in known:
                raise ArtifactMissing(job_id, name)
        completion = Completion(fence=fence, names=tuple(names), ended_at=ended_at)
        return msgspec.structs.replace(self, completion=completion)

    def visible(self, state: State, ended_at: int | None) -> tuple[Artifact, ...]:
        """Return the artifacts of a task in this state, which has ended at this instant."""
        completion = self.completion
        if completion is None or not state.has_ended:
            return ()
        if (state is State.DONE) != (completion.ended_at is None):
            return ()
        if completion.ended_at not in (None, ended_at):  # it was requeued, and has ended again
            return ()
        return tuple(one for one in self.uploads_of(completion.fence) if one.name in completion.names)

    def encode(self) -> bytes:
        """Return the value of the entry, as MessagePack: escaping would make some names too long."""
        return msgspec.msgpack.encode(self)


def read_manifest(entry: Entry | None) -> Manifest | None:
    """Return the manifest that an entry keeps; None if there is no entry."""
    return None if entry is None else msgspec.msgpack.decode(entry.value or b"", type=Manifest)
