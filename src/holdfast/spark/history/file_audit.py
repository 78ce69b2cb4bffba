"""Check the files of a history against its commits, and its commits against one another. Runs on the Spark driver."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor

from holdfast.spark.history.certificate import Violation
from holdfast.spark.history.folder import Folder
from holdfast.spark.history.manifest import (
    CommitMark,
    File,
    Head,
    Part,
    commit_numbers,
    hash_commit,
    read_commit,
)
from holdfast.spark.history.tables import data_files

CHECKED_COMMITS = 10  # files of old commits that are compared; a sync that runs meanwhile may remove older ones
READERS = 8  # files that are read at a time: on an object store, most of the time is latency


def check_files(folder: Folder, parts: Iterable[Part]) -> list[Violation]:
    """Return a violation for each file that is missing, was changed, or is named by no commit."""
    found: list[Violation] = []
    named: list[tuple[str, File]] = []
    for part in parts:
        names = data_files(folder, part.path)
        wanted = {file.name: file for file in part.files}
        found += [_violation(f"{part.path}/{name}", "missing") for name in wanted if name not in names]
        found += [_violation(f"{part.path}/{name}", "not of this commit") for name in names if name not in wanted]
        named += [(f"{part.path}/{name}", wanted[name]) for name in names if name in wanted]
    with ThreadPoolExecutor(READERS) as threads:
        intact = threads.map(lambda each: _is_intact(folder, *each), named)
        found += [
            _violation(path, "changed") for (path, _), is_intact in zip(named, intact, strict=True) if not is_intact
        ]
    return found


def _is_intact(folder: Folder, path: str, file: File) -> bool:
    return folder.size(path) == file.size and folder.checksum(path) == file.checksum


def _violation(path: str, problem: str) -> Violation:
    return Violation(check="files", facts={"file": path, "problem": problem})


def check_commits(folder: Folder, head: Head, marks: Iterable[CommitMark]) -> list[Violation]:
    """Return a violation for each commit that is missing or was changed.

    ``marks`` are commits that this history had when they were written down elsewhere.
    """
    return [*_check_old_commits(folder, head), *_check_marks(head, marks)]


def _check_old_commits(folder: Folder, head: Head) -> Iterator[Violation]:
    there = set(commit_numbers(folder))
    for number in range(max(1, max(there, default=0) - CHECKED_COMMITS), head.commit.number):
        if number not in there:
            yield Violation(check="commits", facts={"commit": number, "problem": "missing"})
        elif head.hash_of(number) not in (None, hash_commit(read_commit(folder, number))):
            yield Violation(check="commits", facts={"commit": number, "problem": "changed"})


def _check_marks(head: Head, marks: Iterable[CommitMark]) -> Iterator[Violation]:
    newest = head.commit.number
    for mark in marks:
        if mark.number > newest:
            problem = f"removed: the newest commit is {newest}"
        elif head.hash_of(mark.number) not in (None, mark.hash):
            problem = "replaced by another"
        else:
            continue
        yield Violation(check="commits", facts={"commit": mark.number, "problem": problem, "hash": mark.hash})
