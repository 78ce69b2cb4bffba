"""Which uploads a manifest keeps, and which of them are visible."""

from __future__ import annotations

import pytest

from holdfast.artifacts.manifest import MAX_CONTENT_TYPE_CHARACTERS, MAX_NAME_BYTES, Artifact, Manifest
from holdfast.artifacts.quota import Quota
from holdfast.errors import ArtifactExists, ArtifactMissing, ArtifactQuota, LeaseMismatch
from holdfast.model import bounds
from holdfast.model.job import State
from holdfast.service.schemas.fields import MAX_TASK_ARTIFACTS

QUOTA = Quota(count=2, total_bytes=10)


def artifact(name: str = "a", *, fence: int = 5, size: int = 3, digest: str = "0" * 64, kind: str = "a/b") -> Artifact:
    return Artifact(name=name, digest=digest, size=size, content_type=kind, fence=fence, uploaded_at=1)


def manifest(*uploads: Artifact) -> Manifest:
    found = Manifest(created_at=0)
    for upload in uploads:
        found = found.with_upload("job", upload, QUOTA)
    return found


def test_the_uploads_of_a_later_attempt_replace_earlier_ones():
    found = manifest(artifact("a"), artifact("b"), artifact("c", fence=6))
    assert [one.name for one in found.uploads] == ["c"]


def test_an_upload_of_an_earlier_attempt_is_refused():
    """Its lease was valid when it was checked, and has ended since."""
    with pytest.raises(LeaseMismatch):
        manifest(artifact("a", fence=6), artifact("b", fence=5))


def test_a_name_has_one_content():
    found = manifest(artifact("a"))
    assert found.with_upload("job", artifact("a"), QUOTA) is found
    with pytest.raises(ArtifactExists):
        found.with_upload("job", artifact("a", digest="1" * 64), QUOTA)


def test_an_attempt_has_quotas():
    with pytest.raises(ArtifactQuota, match="at most 2 artifacts"):
        manifest(artifact("a"), artifact("b"), artifact("c"))
    with pytest.raises(ArtifactQuota, match="at most 10 bytes"):
        manifest(artifact("a", size=6), artifact("b", size=5))


def test_a_completion_shows_what_it_names():
    found = manifest(artifact("a"), artifact("b"))
    with pytest.raises(ArtifactMissing):
        found.completed("job", 5, ["c"], ended_at=None)
    with pytest.raises(ArtifactMissing):
        found.completed("job", 6, ["a"], ended_at=None)
    done = found.completed("job", 5, ["a"], ended_at=None)
    assert [one.name for one in done.visible(State.DONE, 100)] == ["a"]
    assert done.visible(State.DEAD, 100) == done.visible(State.INFLIGHT, None) == done.visible(State.READY, None) == ()
    assert found.visible(State.DONE, 100) == ()


def test_a_failure_shows_artifacts_for_the_end_that_it_made():
    failed = manifest(artifact("a")).completed("job", 5, ["a"], ended_at=100)
    assert [one.name for one in failed.visible(State.DEAD, 100)] == ["a"]
    assert failed.visible(State.DEAD, 101) == failed.visible(State.DONE, 100) == ()


def test_the_largest_manifest_fits_into_an_entry():
    quota = Quota(count=MAX_TASK_ARTIFACTS, total_bytes=1 << 60)
    found = Manifest(created_at=bounds.MAX_INSTANT)
    names = [f"{number:0>{MAX_NAME_BYTES}}" for number in range(MAX_TASK_ARTIFACTS)]
    for name in names:
        large = artifact(name, fence=2**62, size=1 << 50, kind="x" * MAX_CONTENT_TYPE_CHARACTERS)
        found = found.with_upload("job", large, quota)
    found = found.completed("job", 2**62, names, ended_at=bounds.MAX_INSTANT)
    assert len(found.encode()) <= bounds.MAX_NOTE_BYTES
