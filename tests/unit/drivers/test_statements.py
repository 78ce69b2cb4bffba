"""Loading SQL files: comments are removed and column lists are filled in."""

import pytest

from holdfast.drivers.statements import COLUMN_LISTS, Expression, fill_lists, load_statements, strip_comments
from holdfast.model.job import JobRecord


def test_a_list_of_columns_is_quoted_and_separated():
    assert fill_lists("SELECT {some} FROM t", {"some": ("a", "offset")}) == 'SELECT "a", "offset" FROM t'


def test_an_alias_is_put_before_each_column_but_not_before_an_expression():
    lists = {"some": ("a", Expression("NULL"), Expression("a + 1"))}
    assert fill_lists("SELECT {j.some} FROM t AS j", lists) == 'SELECT j."a", NULL, a + 1 FROM t AS j'


def test_a_list_that_does_not_exist_is_an_error():
    with pytest.raises(KeyError, match="nothing"):
        fill_lists("SELECT {nothing}", {})


def test_braces_without_a_list_name_stay():
    assert fill_lists("SELECT '{}', '{1, 2}'", {}) == "SELECT '{}', '{1, 2}'"


def test_only_whole_lines_of_comment_are_removed():
    assert strip_comments("-- why\n  -- more\nSELECT 1 -- kept\n") == "SELECT 1 -- kept\n"


def test_a_statement_is_named_by_its_folder_and_file(tmp_path, monkeypatch):
    folder = tmp_path / "package_with_queries" / "queries" / "enqueue"
    folder.mkdir(parents=True)
    (tmp_path / "package_with_queries" / "__init__.py").touch()
    (folder / "insert.sql").write_text("-- Insert.\nINSERT INTO t ({fixed_columns})\n")
    monkeypatch.syspath_prepend(tmp_path)
    [(name, text)] = load_statements("package_with_queries").items()
    assert name == "enqueue/insert"
    assert text.startswith('INSERT INTO t ("id", "type", "queue", "payload"')
    assert '"attempts"' not in text


def test_the_columns_of_a_job_are_the_fields_of_its_record():
    assert COLUMN_LISTS["job_columns"] == JobRecord.__struct_fields__
    assert len(COLUMN_LISTS["live_job_columns"]) == len(JobRecord.__struct_fields__)
