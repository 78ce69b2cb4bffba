"""Files of a history that are missing, edited, added or swapped: the audit finds each."""

import shutil
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from holdfast.clock import SECOND, ManualClock
from holdfast.model.job import JobRecord
from holdfast.model.settlement import Ack
from holdfast.spark import History, sync
from holdfast.spark.history import manifest
from holdfast.spark.history.certificate import Violation
from holdfast.spark.history.file_audit import check_commits
from holdfast.spark.history.folder import Folder
from holdfast.spark.history.manifest import CommitMark
from tests.in_memory import InMemory


def run_jobs(store, clock, names):
    """Run jobs with these ids; all but the last of them end."""
    store.enqueue([JobRecord(id=name, type="t", queue="q", payload=b"1", created_at=clock.now()) for name in names])
    clock.advance(SECOND)
    held = store.reserve(["q"], limit=len(names) - 1, lease_for=10 * SECOND, worker="w")
    assert not any(store.settle([Ack(each.lease) for each in held]))


@pytest.fixture(scope="module")
def store():
    return InMemory(ManualClock())


@pytest.fixture(scope="module")
def written(spark, store, tmp_path_factory):
    """A history of two commits."""
    clock, folder = store.engine._store.clock, tmp_path_factory.mktemp("history") / "whole"
    run_jobs(store, clock, ["a1", "a2", "a3"])
    sync(store, str(folder), spark=spark)
    run_jobs(store, clock, ["b1", "b2", "b3"])
    sync(store, str(folder), spark=spark)
    return folder


@pytest.fixture
def folder(written, tmp_path):
    return Path(shutil.copytree(written, tmp_path / "history"))


def files_of(folder, table):
    return sorted(folder.glob(f"{table}/*/*/*.parquet"))


def rewrite(path, change):
    """Replace a file by one with other rows, as a tool for Parquet would: the local checksum of Hadoop fits."""
    table = pq.read_table(path)
    pq.write_table(change(table), path)
    path.with_name(f".{path.name}.crc").unlink()


def remove_a_part(folder):
    shutil.rmtree(files_of(folder, "leases")[0].parent)


def remove_all_leases(folder):
    shutil.rmtree(folder / "leases")


def remove_a_file(folder):
    files_of(folder, "leases")[0].unlink()


def remove_a_row(folder):
    rewrite(files_of(folder, "leases")[0], lambda table: table.slice(1))


def edit_a_row(folder):
    rewrite(
        files_of(folder, "leases")[0],
        lambda table: table.set_column(table.schema.get_field_index("worker"), "worker", [["x"] * len(table)]),
    )


def repeat_a_file(folder):
    [first, _] = files_of(folder, "leases")
    shutil.copy(first, first.with_name("again.parquet"))


def swap_two_files(folder):
    [first, second] = files_of(folder, "leases")
    content = first.read_bytes()
    first.write_bytes(second.read_bytes())
    second.write_bytes(content)
    for path in (first, second):
        path.with_name(f".{path.name}.crc").unlink()


def remove_the_jobs(folder):
    for path in files_of(folder, "jobs"):
        rewrite(path, lambda table: table.slice(0, 0))


DAMAGE = {
    "part": remove_a_part,
    "leases": remove_all_leases,
    "file": remove_a_file,
    "row": remove_a_row,
    "edit": edit_a_row,
    "repeated": repeat_a_file,
    "swapped": swap_two_files,
    "jobs": remove_the_jobs,
}


@pytest.mark.parametrize("name", DAMAGE)
def test_a_damaged_file_is_found(spark, folder, name):
    DAMAGE[name](folder)
    certificate = History(spark, str(folder)).audit()
    assert not certificate.holds


def test_the_audit_says_which_file_was_changed(spark, folder):
    path = files_of(folder, "leases")[0]
    rewrite(path, lambda table: table.slice(1))
    [violation] = History(spark, str(folder)).audit().violations
    assert violation.facts == {"file": str(path.relative_to(folder)), "problem": "changed"}


def commit_file(folder, number):
    return folder / "_commits" / f"{number:012}.json"


def edit_an_old_commit(folder):
    path = commit_file(folder, 1)
    path.write_text(path.read_text().replace('"cursor":"2"', '"cursor":"1"'))
    path.with_name(f".{path.name}.crc").unlink()
    return 1, "changed"


def remove_an_old_commit(folder):
    commit_file(folder, 1).unlink()
    return 1, "missing"


@pytest.mark.parametrize("damage", [edit_an_old_commit, remove_an_old_commit])
def test_a_commit_that_later_commits_name_is_checked(spark, folder, damage):
    number, problem = damage(folder)
    found = check_commits(Folder(spark, str(folder)), History(spark, str(folder)).head, [])
    assert [each.facts for each in found] == [{"commit": number, "problem": problem}]


def test_a_removed_tail_is_found_with_the_store_or_a_kept_certificate(spark, written, store, tmp_path):
    kept = History(spark, str(written)).head.mark
    hidden = Path(shutil.move(commit_file(written, 2), tmp_path / "newest"))
    try:
        certificate = History(spark, str(written)).audit(store=store, kept=kept)
    finally:
        shutil.move(hidden, commit_file(written, 2))
    facts = {"commit": 2, "problem": "removed: the newest commit is 1", "hash": kept.hash}
    assert [each.facts for each in certificate.violations] == [facts, facts]
    assert not certificate.holds


def test_a_history_that_grew_still_has_its_kept_commit(spark, written, store):
    first = CommitMark(number=1, hash=manifest.hash_commit(commit_file(written, 1).read_text()))
    history = History(spark, str(written))
    assert history.audit(kept=first, store=store).holds
    replaced = CommitMark(number=1, hash="0" * 64)
    [violation] = check_commits(Folder(spark, str(written)), history.head, [replaced])
    assert violation.facts["problem"] == "replaced by another"


def test_commits_that_a_sync_adds_and_removes_meanwhile_are_no_violation(spark, tmp_path):
    place = Folder(spark, str(tmp_path / "busy"))
    heads = [manifest.newest(place)]
    for _ in range(2 * manifest.MAX_OLD_COMMITS):
        heads.append(manifest.commit(place, heads[-1], manifest.Commit()))
    opened = heads[manifest.MAX_OLD_COMMITS + 5]
    assert check_commits(place, opened, [heads[1].mark, heads[-1].mark]) == [
        Violation(
            check="commits",
            facts={"commit": 40, "problem": "removed: the newest commit is 25", "hash": heads[-1].hash},
        )
    ]
    assert check_commits(place, heads[-1], [head.mark for head in heads[1:]]) == []
