"""The site builds without a warning, offline, and every link and anchor in its HTML leads somewhere."""

from __future__ import annotations

import importlib
import os
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote

import pytest

from docs import build

built = pytest.mark.long  # of the pages themselves, tests/docs/test_generated.py checks links and generated parts

API = build.DOCS / "reference" / "api"


class Page(HTMLParser):
    """The anchors and links of one HTML page, and what it loads."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.anchors: set[str] = set()
        self.links: list[str] = []
        self.loaded: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {name: value or "" for name, value in attrs}
        if "id" in values:
            self.anchors.add(values["id"])
        if tag == "a" and "href" in values:
            self.links.append(values["href"])
        elif "src" in values or (tag == "link" and values.get("rel") != "canonical"):
            self.loaded.append(values.get("src") or values.get("href", ""))


@pytest.fixture(scope="module")
def site(tmp_path_factory) -> dict[Path, Page]:
    """Build the site in a temporary folder."""
    target = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "docs.build", "--only-site", str(target)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(build.ROOT / "src"), str(build.ROOT)])}
    built = subprocess.run(
        command, cwd=build.ROOT, env=environment, capture_output=True, text=True, timeout=300, check=False
    )
    assert built.returncode == 0, built.stderr
    return {file: Page(file.read_text(encoding="utf-8")) for file in (target / "html").rglob("*.html")}


@built
def test_every_page_is_in_the_site_and_in_its_navigation(site):
    [index] = [page for file, page in site.items() if file.name == "index.html" and file.parent.name == "html"]
    pages = [page for page in build.pages() if build.DOCS in page.parents and "adr" not in page.parts]
    assert len(pages) > 20
    names = {page.relative_to(build.DOCS).with_suffix(".html").as_posix() for page in pages} - {"index.html"}
    assert names <= set(index.links)


@built
def test_every_link_of_the_site_leads_to_a_file_and_an_anchor(site):
    broken = []
    for file, page in site.items():
        for link in [*page.links, *page.loaded]:
            path, _, anchor = unquote(link).partition("#")
            target = (file.parent / path.partition("?")[0]).resolve() if path else file
            if re.match(r"[a-z]+:", link):
                continue
            if not target.exists() or (anchor and target in site and anchor not in site[target].anchors):
                broken.append(f"{file.name}: {link}")
    assert broken == []


@built
def test_the_site_loads_nothing_from_other_hosts(site):
    foreign = [url for page in site.values() for url in page.loaded if re.match(r"[a-z]+:|//", url)]
    assert [url for url in foreign if not url.startswith("data:")] == []


@built
def test_the_search_finds_names_of_the_api_and_words_of_the_pages(site):
    [root] = {file.parent for file in site if file.name == "search.html"}
    index = (root / "searchindex.js").read_text(encoding="utf-8")
    assert "enqueue_many" in index
    assert "fastapi" in index


@pytest.mark.parametrize(
    "module",
    ["holdfast", "holdfast.fencing", "holdfast.ordering", "holdfast.spark", "holdfast.testing", "holdfast.driver"],
)
def test_every_public_name_has_its_place_in_the_api_reference(module):
    page = (API / f"{module.rpartition('.')[2]}.md").read_text(encoding="utf-8")
    described = set(re.findall(rf"\.\. auto\w+:: {re.escape(module)}\.(\w+)$", page, re.MULTILINE))
    mentioned = set(re.findall(r"`(\w+)`", page))
    assert set(importlib.import_module(module).__all__) - {"__version__"} <= described | mentioned
