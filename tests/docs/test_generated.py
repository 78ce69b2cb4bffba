"""What is generated is up to date, what is linked is there, and what is there is listed."""

from __future__ import annotations

import pytest

from docs import build
from holdfast.testing.drivers.conformance import cases


@pytest.fixture
def a_tree(tmp_path, monkeypatch):
    """A small tree of pages to break."""
    (tmp_path / "docs" / "adr").mkdir(parents=True)
    monkeypatch.setattr(build, "ROOT", tmp_path)
    monkeypatch.setattr(build, "DOCS", tmp_path / "docs")
    return tmp_path


def test_the_generated_parts_are_up_to_date():
    stale = [page.name for page, _ in build.out_of_date()]
    assert stale == [], "python3 run docs"


def test_every_part_has_its_place_and_every_law_its_section():
    assert build.missing_parts() == []


def test_every_link_between_pages_leads_somewhere():
    assert build.broken_links() == []


def test_every_page_is_listed_in_the_index():
    index = (build.DOCS / "index.md").read_text(encoding="utf-8")
    written = {page.relative_to(build.DOCS).as_posix() for page in build.DOCS.rglob("*.md")} - {"index.md"}
    assert written == set(build.LINK.findall(index)) - {"../README.md"}


def test_every_case_reads_as_a_sentence():
    assert [text for case in cases() if (text := build.sentence(case)) != text.strip() or not text.endswith(".")] == []


def test_a_stale_part_is_found_and_written_again(a_tree):
    page = a_tree / "docs" / "page.md"
    page.write_text("# P\n\n<!-- generated: errors -->\nstale\n<!-- end -->\n\nby hand\n", encoding="utf-8")
    [(found, wanted)] = build.out_of_date()
    assert found == page
    assert "HoldfastError" in wanted
    assert "stale" not in wanted
    assert wanted.endswith("<!-- end -->\n\nby hand\n")
    assert build.built(wanted) == wanted


@pytest.mark.parametrize(
    ("link", "problem"),
    [
        ("(gone.md)", "gone.md leads nowhere"),
        ("(b.md#nothing)", "b.md#nothing leads to no heading"),
        ("(#a-b-c)", None),
        ("(b.md#the-end)", None),
        ("(https://example.org/gone.md)", None),
    ],
)
def test_a_link_is_followed_to_its_heading(a_tree, link, problem):
    (a_tree / "docs" / "a.md").write_text(f"# A: `b` c\n\n[x]{link}\n\n```\n[y](nowhere.md)\n```\n", encoding="utf-8")
    (a_tree / "docs" / "b.md").write_text("# B\n\n## The end\n", encoding="utf-8")
    assert build.broken_links() == ([] if problem is None else [f"docs/a.md: {problem}"])
