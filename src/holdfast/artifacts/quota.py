"""How many artifacts a task and a space may have, and how large they may be together."""

from __future__ import annotations

from dataclasses import dataclass

from holdfast.errors import ArtifactQuota


@dataclass(frozen=True, slots=True, kw_only=True)
class Quota:
    """The most of one owner."""

    count: int
    total_bytes: int

    def check(self, owner: str, *, count: int, total_bytes: int) -> None:
        """Raise ``ArtifactQuota`` if the owner would have more."""
        if count > self.count:
            raise ArtifactQuota(owner, "artifacts", self.count)
        if total_bytes > self.total_bytes:
            raise ArtifactQuota(owner, "bytes", self.total_bytes)


@dataclass(frozen=True, slots=True, kw_only=True)
class Quotas:
    """The most that one attempt of a task may upload, and the most that the space may have."""

    task: Quota
    space: Quota
