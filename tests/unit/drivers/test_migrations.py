"""Numbered schema files: their order, their checksums, and the refusal of a store of another build."""

import pytest

from holdfast.drivers.migrations import Migration, check_checksums, check_not_newer, join_scripts, load_migrations
from holdfast.errors import SchemaMismatch

KNOWN = (Migration("001_init", "CREATE TABLE a (x)"), Migration("002_more", "CREATE TABLE b (x)\n"))


def test_migrations_are_ordered_by_number(tmp_path, monkeypatch):
    folder = tmp_path / "package_with_schema" / "schema"
    folder.mkdir(parents=True)
    (tmp_path / "package_with_schema" / "__init__.py").touch()
    for number in (10, 9, 100):
        (folder / f"{number:03}_x.sql").write_text("SELECT 1")
    monkeypatch.syspath_prepend(tmp_path)
    assert [migration.version for migration in load_migrations("package_with_schema")] == [9, 10, 100]


def test_a_checksum_depends_on_the_text_but_not_on_line_ends():
    one, two = Migration("001_x", "a\nb\n"), Migration("001_x", "a\r\nb\r\n")
    assert one.checksum == two.checksum
    assert one.checksum != Migration("001_x", "a\nc\n").checksum


def test_a_store_with_unknown_migrations_is_refused():
    check_not_newer({1: "x", 2: "y"}, KNOWN)
    with pytest.raises(SchemaMismatch, match=r"at most version 2, got version 3.*upgrade"):
        check_not_newer({3: "x"}, KNOWN)


def test_a_migration_that_was_applied_from_another_text_is_refused():
    check_checksums({1: KNOWN[0].checksum}, KNOWN)
    with pytest.raises(SchemaMismatch, match=r"002_more.*another checksum"):
        check_checksums({2: "another"}, KNOWN)


def test_the_script_shows_every_file_under_its_name():
    assert join_scripts(KNOWN) == ("-- 001_init\n\nCREATE TABLE a (x)\n\n-- 002_more\n\nCREATE TABLE b (x)\n")
