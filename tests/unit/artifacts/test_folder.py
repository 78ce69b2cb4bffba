"""Blobs as files: addressed by content, complete or not there, and nothing outside of the folder."""

from __future__ import annotations

import hashlib
import time

import pytest

from holdfast.artifacts.blobs import part_folder, task_folder
from holdfast.artifacts.folder import TEMPORARY, BlobFolder
from holdfast.errors import InvalidInput

CONTENT = b"0123456789"
DIGEST = hashlib.sha256(CONTENT).hexdigest()


@pytest.fixture
def blobs(tmp_path):
    return BlobFolder(tmp_path / "artifacts")


def store(blobs, folder, content=CONTENT):
    writer = blobs.create(folder)
    writer.write(content)
    return writer.commit()


def files(tmp_path):
    return [file for file in (tmp_path / "artifacts").rglob("*") if file.is_file()]


def test_a_blob_is_read_as_it_was_written(blobs):
    assert store(blobs, "a/b") == DIGEST
    assert b"".join(blobs.read("a/b", DIGEST)) == CONTENT
    assert b"".join(blobs.read("a/b", DIGEST, start=2, stop=5)) == b"234"
    with pytest.raises(FileNotFoundError):
        blobs.read("a/c", DIGEST)


def test_a_blob_is_not_there_before_its_commit(blobs, tmp_path):
    writer = blobs.create("a")
    writer.write(CONTENT)
    with pytest.raises(FileNotFoundError):
        blobs.read("a", DIGEST)
    writer.abort()
    assert files(tmp_path) == []


def test_two_writers_of_the_same_blob_leave_one(blobs, tmp_path):
    first, second = blobs.create("a"), blobs.create("a")
    for writer in (first, second):
        writer.write(CONTENT)
    assert first.commit() == second.commit() == DIGEST
    second.abort()  # does nothing after the commit
    assert [file.name for file in files(tmp_path)] == [DIGEST]


@pytest.mark.parametrize("folder", ["..", "a/../b", "/etc", "a//b", "A", ""])
def test_a_folder_outside_is_refused(blobs, folder):
    with pytest.raises(InvalidInput):
        blobs.create(folder)


@pytest.mark.parametrize("digest", ["..", "../x", DIGEST.upper(), DIGEST[:-1]])
def test_a_digest_that_is_a_path_is_refused(blobs, digest):
    with pytest.raises(InvalidInput):
        blobs.read("a", digest)


def test_a_symbolic_link_is_not_followed(blobs, tmp_path):
    secret = tmp_path / "secret"
    secret.write_bytes(b"secret")
    store(blobs, "a")
    (tmp_path / "artifacts" / "a" / ("0" * 64)).symlink_to(secret)
    with pytest.raises(OSError, match=r"[Ss]ymbolic"):
        blobs.read("a", "0" * 64)
    blobs.remove("a")
    assert secret.read_bytes() == b"secret"


def test_retain_removes_parts_that_are_old_and_not_kept(blobs, tmp_path):
    kept = store(blobs, "a/1")
    store(blobs, "a/2", b"other")
    (tmp_path / "artifacts" / "a" / "2" / f"{TEMPORARY}x").write_bytes(b"cut off")
    assert not blobs.retain("a", {"1"}, before=time.time() - 60)
    assert len(files(tmp_path)) == 3  # nothing is old
    assert blobs.retain("a", {"1"}, before=time.time() + 60)
    assert [file.name for file in files(tmp_path)] == [kept]
    assert blobs.retain("not/there", (), before=time.time() + 60)


def test_spaces_and_tasks_that_look_like_paths_have_folders_of_their_own(blobs):
    names = [("..", ".."), ("a", "A"), ("A", "a"), ("a:b", "c"), ("a", "b:c")]
    assert len({task_folder(space, task) for space, task in names}) == len(names)
    for space, task in names:
        store(blobs, part_folder(space, task, "7"))
