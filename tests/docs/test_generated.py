"""Generated parts are up to date, links point to existing headings, and the index lists every page."""

from __future__ import annotations

import importlib
import re

import pytest

from docs import architecture, build
from holdfast.testing.drivers.conformance import cases


@pytest.fixture
def empty_tree(tmp_path, monkeypatch):
    """A tree without pages, for tests that write wrong ones."""
    (tmp_path / "docs" / "adr").mkdir(parents=True)
    (tmp_path / "docs" / "images").mkdir()
    (tmp_path / "docs" / "images" / "architecture.svg").write_text(architecture.draw(), encoding="utf-8")
    monkeypatch.setattr(build, "ROOT", tmp_path)
    monkeypatch.setattr(build, "DOCS", tmp_path / "docs")
    return tmp_path


def test_the_generated_parts_are_up_to_date():
    stale = [page.name for page, _ in build.out_of_date()]
    assert stale == [], "python3 run docs"


def test_every_part_is_on_one_page_and_every_law_has_a_section():
    assert build.missing_parts() == []


def test_every_link_points_to_an_existing_heading():
    assert build.broken_links() == []


def test_every_page_is_listed_in_the_index_or_among_the_decisions():
    listed = {
        (index.parent / link).relative_to(build.DOCS).as_posix()
        for index in (build.DOCS / "index.md", build.DOCS / "adr" / "index.md")
        for link in build.LINK.findall(index.read_text(encoding="utf-8"))
        if link.endswith(".md")
    }
    existing = {page.relative_to(build.DOCS).as_posix() for page in build.pages() if build.DOCS in page.parents}
    assert existing - {"index.md"} == listed


def test_every_module_that_the_picture_and_its_page_name_exists():
    page = (build.DOCS / "explanation" / "architecture.md").read_text(encoding="utf-8")
    named = architecture.module_names() | set(re.findall(r"`([a-z_/]+(?:\.py|/))`", page))
    assert len(named) > 50
    assert [path for path in sorted(named) if not (build.ROOT / "src" / "holdfast" / path).exists()] == []


def test_every_file_that_a_page_names_exists():
    text = "\n".join(page.read_text(encoding="utf-8") for page in build.pages())
    named = set(re.findall(r"`((?:benchmarks|docs|examples|tests|requirements)/[\w/.-]*)`", text)) - {
        "docs/_build/html"
    }
    package_files = set(re.findall(r"`((?:drivers|model|spark|wire|worker)/[\w/]+\.py)`", text))
    assert len(named) > 5
    assert len(package_files) > 30
    paths = [build.ROOT / path for path in named] + [build.ROOT / "src" / "holdfast" / path for path in package_files]
    assert [str(path.relative_to(build.ROOT)) for path in sorted(paths) if not path.exists()] == []


def test_every_module_that_a_page_names_can_be_imported():
    text = "\n".join(page.read_text(encoding="utf-8") for page in build.pages())
    for name in sorted(set(re.findall(r"(?:`|-m )(holdfast(?:\.\w+)+)", text))):
        if name.startswith(
            ("holdfast.codec", "holdfast.payload_ref", "holdfast.retry", "holdfast.toml")
        ):  # keys of meta, and a file
            continue
        parent, _, last = name.rpartition(".")
        if name != "holdfast.drivers" and not hasattr(importlib.import_module(parent), last):
            importlib.import_module(name)


def test_every_case_reads_as_a_sentence():
    assert [text for case in cases() if (text := build.sentence(case)) != text.strip() or not text.endswith(".")] == []


def test_an_outdated_part_is_found_and_rewritten(empty_tree):
    page = empty_tree / "docs" / "page.md"
    page.write_text("# P\n\n<!-- generated: errors -->\nstale\n<!-- end -->\n\nby hand\n", encoding="utf-8")
    [(outdated, wanted)] = build.out_of_date()
    assert outdated == page
    assert "HoldfastError" in wanted
    assert "stale" not in wanted
    assert wanted.endswith("<!-- end -->\n\nby hand\n")
    assert build.with_generated_parts(wanted) == wanted


@pytest.mark.parametrize(
    ("link", "problem"),
    [
        ("(gone.md)", "gone.md does not exist"),
        ("(b.md#nothing)", "b.md#nothing has no such heading"),
        ("(#a-b-c)", None),
        ("(b.md#the-end)", None),
        ("(https://example.org/gone.md)", None),
    ],
)
def test_a_link_is_checked_down_to_its_heading(empty_tree, link, problem):
    (empty_tree / "docs" / "a.md").write_text(
        f"# A: `b` c\n\n[x]{link}\n\n```\n[y](nowhere.md)\n```\n", encoding="utf-8"
    )
    (empty_tree / "docs" / "b.md").write_text("# B\n\n## The end\n", encoding="utf-8")
    assert build.broken_links() == ([] if problem is None else [f"docs/a.md: {problem}"])
