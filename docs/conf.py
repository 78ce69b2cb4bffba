"""Sphinx: how the site is built from the pages of this folder and from the docstrings. See ``build.py``.

The pages stay plain Markdown, readable in any viewer. The navigation is taken from the tables of ``index.md``: one
section of the navigation for each heading, one entry for each linked page. Nothing is fetched at build time, and the
site loads nothing from other hosts.
"""

from __future__ import annotations

import dataclasses
import inspect
import re
import sys
import tokenize
from collections.abc import Iterator
from importlib.metadata import version as installed_version
from io import StringIO
from pathlib import Path

from sphinx.application import Sphinx

DOCS = Path(__file__).parent
sys.path.insert(0, str(DOCS.parent))  # for a plain `sphinx-build docs`
from docs import build  # noqa: E402

PAGE_LINK = re.compile(r"\]\((?!\.\./|https?:)([\w/-]+)\.md\)")

project = "Holdfast"
author = "the Holdfast authors"
copyright = author  # noqa: A001 - Sphinx prescribes the name
version = release = installed_version("holdfast")

extensions = ["myst_parser", "sphinx.ext.autodoc"]
source_suffix = {".md": "markdown"}
exclude_patterns = ["_build"]
suppress_warnings = [
    "myst.header",  # records in adr/ begin below the first level
]

myst_heading_anchors = 4  # the anchors of GitHub, so that links work in both places
myst_links_external_new_tab = False
autodoc_member_order = "bysource"
autodoc_default_options = {"members": True}
autodoc_class_signature = "mixed"
autodoc_preserve_defaults = True
autodoc_typehints_format = "short"
python_use_unqualified_type_names = True
python_maximum_signature_line_length = 88
add_module_names = False
default_role = "code"
nitpicky = False  # many types are private and have no page

html_theme = "furo"
html_title = "Holdfast"
html_static_path = ["_static"]
html_css_files = ["holdfast.css"]
html_favicon = "_static/mark.svg"
html_show_sphinx = False
html_copy_source = False
html_theme_options = {
    "light_logo": "logo-light.svg",
    "dark_logo": "logo-dark.svg",
    "sidebar_hide_name": True,
    "light_css_variables": {"color-brand-primary": "#0b6e6e", "color-brand-content": "#0b6e6e"},
    "dark_css_variables": {"color-brand-primary": "#5fd0c5", "color-brand-content": "#5fd0c5"},
}
pygments_style = "tango"
pygments_dark_style = "github-dark"


# Navigation -------------------------------------------------------------------------------------------------


def navigation(index: str) -> Iterator[tuple[str, list[str]]]:
    """Yield each heading of the index that links to pages, with these pages in order."""
    for section in re.split(r"^## ", index, flags=re.MULTILINE)[1:]:
        caption, _, body = section.partition("\n")
        pages = list(dict.fromkeys(PAGE_LINK.findall(body)))
        if pages:
            yield caption.strip(), pages


def complete_page(_app: Sphinx, name: str, source: list[str]) -> None:
    """Add the lists that only the site has, and the navigation to the index."""
    source[0] = build.with_site_parts(source[0])
    if name == "index":
        for caption, pages in navigation(source[0]):
            source[0] += toctree(caption, pages)
    elif name.startswith("adr/0"):
        source[0] = f"---\norphan: true\n---\n{source[0]}"  # listed by adr/index.md, not by the navigation


def toctree(caption: str, pages: list[str]) -> str:
    return "\n".join(["", "```{toctree}", ":hidden:", ":titlesonly:", f":caption: {caption}", "", *pages, "```", ""])


# Docstrings -------------------------------------------------------------------------------------------------


def add_fields(_app: Sphinx, what: str, _name: str, value: object, _options: object, lines: list[str]) -> None:
    """Describe the fields of a dataclass or a Struct by the comments at the end of their lines."""
    if what != "class":
        return
    if dataclasses.is_dataclass(value):
        names = [field.name for field in dataclasses.fields(value)]
    else:
        names = list(getattr(value, "__struct_fields__", ()))
    if not names:
        return
    comments = field_comments(value)
    described = [name for name in names if name in comments]
    lines += ["", *(f":param {name}: {comments[name]}" for name in described)]


def field_comments(cls: object) -> dict[str, str]:
    """Return the comment at the end of the line of each field that has one."""
    comments: dict[str, str] = {}
    source = inspect.cleandoc(inspect.getsource(cls))  # type: ignore[arg-type]
    name = ""
    for token in tokenize.generate_tokens(StringIO(source).readline):
        if token.type == tokenize.COMMENT and (found := re.match(r"\s+(\w+): ", token.line)):
            comments[found[1]] = token.string.lstrip("# ").replace("*", r"\*")
            name = found[1]
        elif token.type == tokenize.COMMENT and name and token.line.strip() == token.string:
            comments[name] += " " + token.string.lstrip("# ")
        elif token.type not in (tokenize.NL, tokenize.NEWLINE, tokenize.COMMENT):
            name = ""
    return comments


def setup(app: Sphinx) -> None:
    app.connect("source-read", complete_page)
    app.connect("autodoc-process-docstring", add_fields)
