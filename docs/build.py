"""`python3 run docs`: write the generated parts of the pages, then follow every link between them.

`--check` writes nothing and fails if a generated part is out of date. A generated part stands between two comments,
`<!-- generated: NAME -->` and `<!-- end -->`; everything else on a page is written by hand.
"""

from __future__ import annotations

import argparse
import inspect
import re
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import unquote

import holdfast
from holdfast import errors
from holdfast.drivers.contract import Capabilities, Feature
from holdfast.drivers.postgres.driver import PROMISES
from holdfast.testing.drivers.conformance import LAWS, Case, cases

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
PART = re.compile(r"(<!-- generated: ([\w ]+) -->\n).*?(?=<!-- end -->)", re.DOTALL)
FENCED = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)

# A case is named by a function, and a function's name has no apostrophes, capitals or underscores of its own.
WORDS = {
    "run at": "`run_at`",
    "expires at": "`expires_at`",
    "available at": "`available_at`",
    "enqueued at": "`enqueued_at`",
    "started at": "`started_at`",
    "paused until": "`paused_until`",
    "max inflight": "`max_inflight`",
    "max attempts": "`max_attempts`",
    "max crashes": "`max_crashes`",
    "any open": "`any_open`",
    "refuses now": "refuses `now`",
    "refused now": "refused `now`",
    "without now": "without `now`",
    "now must": "`now` must",
    "callers now": "caller's `now`",
    "callers clock": "caller's clock",
    "callers lease": "caller's lease",
    "stores own": "store's own",
    "stores clock": "store's clock",
    "most limit": "most `limit`",
    "none": "`None`",
    "64 kib": "64 KiB",
    "json": "JSON",
    "ttl": "TTL",
    "unicode": "Unicode",
}


def pages() -> list[Path]:
    """Everything that is written in Markdown here."""
    return [*sorted(ROOT.glob("*.md")), *sorted(DOCS.rglob("*.md"))]


# Generated parts --------------------------------------------------------------------------------------------


def sentence(case: Case) -> str:
    """The name of a case as people write it."""
    text = case.name
    for spoken, written in WORDS.items():
        text = re.sub(rf"\b{spoken}\b", written, text)
    return f"{text[0].upper()}{text[1:]}."


def overview() -> str:
    """One line per law: its name and how many cases prove it."""
    rows = [f"| [{law}](#{slug(heading(law))}) | {title} | {len(cases_of(law))} |" for law, title in LAWS.items()]
    return "\n".join(
        [f"{len(cases())} cases, some of more than one law.", "", "| law | says | cases |", "|---|---|---|", *rows]
    )


def heading(law: str) -> str:
    """What the section of a law is called on the page."""
    return f"{law}: {LAWS[law]}"


def cases_of(law: str) -> list[Case]:
    """The cases that cite a law, in the order of the suite."""
    return [case for case in cases() if law in case.laws]


def listed(law: str) -> str:
    """The cases of a law, topic by topic."""
    lines: list[str] = []
    topic = ""
    for case in cases_of(law):
        if case.topic != topic:
            topic = case.topic
            lines += ["", f"**{topic}**", ""]
        needs = ", ".join(sorted(case.needs))
        lines.append(f"- {sentence(case)}" + (f" *(needs {needs})*" if needs else ""))
    return "\n".join(lines[1:])


def drivers() -> str:
    """What each driver keeps, and the reason for what it does not."""
    with tempfile.TemporaryDirectory(prefix="holdfast-docs-") as folder:
        found = [capabilities(url) for url in ("memory://", f"sqlite:///{folder}/docs.db")]
    found.append(PROMISES)  # without a server to ask
    names = " | ".join(f"`{one.driver}`" for one in found)
    durable = " | ".join(f"`{one.durability.name.lower()}`" for one in found)
    left_out = " | ".join(str(sum(case.gap(one) is not None for case in cases())) for one in found)
    rows = [
        f"| {feature} | "
        + " | ".join(f"no: {one.gaps[feature]}" if feature in one.gaps else "yes" for one in found)
        + " |"
        for feature in Feature
    ]
    columns = "---|" * (len(found) + 1)
    return "\n".join(
        [
            f"| promise | {names} |",
            f"|{columns}",
            f"| durability, as it opens by default (L15) | {durable} |",
            *rows,
            f"| cases skipped because of a gap | {left_out} |",
        ]
    )


def capabilities(url: str) -> Capabilities:
    """What the driver behind a URL declares."""
    store = holdfast.connect(url)
    try:
        return store.capabilities
    finally:
        store.close()


def error_tree() -> str:
    """The tree at the top of errors.py."""
    text = inspect.cleandoc(errors.__doc__ or "")
    tree = re.search(r"^    HoldfastError\n(?:    .*\n)+", text, re.MULTILINE)
    assert tree is not None, "errors.py begins with its tree"
    return f"```\n{inspect.cleandoc(tree[0])}\n```"


def decisions() -> str:
    """The decision records, by number."""
    records = sorted((DOCS / "adr").glob("[0-9]*.md"))
    return "\n".join(f"- [{title_of(record)}](adr/{record.name})" for record in records)


def title_of(page: Path) -> str:
    """The first heading of a page."""
    found = HEADING.search(page.read_text(encoding="utf-8"))
    assert found is not None, f"{page.name} has no heading"
    return found[1]


PARTS: dict[str, Callable[[], str]] = {
    "overview": overview,
    **{f"cases of {law}": lambda law=law: listed(law) for law in LAWS},
    "drivers": drivers,
    "errors": error_tree,
    "decisions": decisions,
}


def built(text: str) -> str:
    """A page with its generated parts as they should be. Raises ``KeyError`` for a part that nobody generates."""
    return PART.sub(lambda part: f"{part[1]}\n{PARTS[part[2]]()}\n\n", text)


def out_of_date() -> Iterator[tuple[Path, str]]:
    """The pages that are not as they should be, with what they should be."""
    for page in pages():
        text = page.read_text(encoding="utf-8")
        wanted = built(text)
        if wanted != text:
            yield page, wanted


def missing_parts() -> list[str]:
    """Parts that stand on no page, or on more than one; and laws without a section of their own."""
    texts = [page.read_text(encoding="utf-8") for page in pages()]
    found = [part[2] for text in texts for part in PART.finditer(text)]
    wrong = [f"{name}: wanted on one page, is on {found.count(name)}" for name in PARTS if found.count(name) != 1]
    headings = HEADING.findall((DOCS / "guarantees.md").read_text(encoding="utf-8"))
    return wrong + [
        f"docs/guarantees.md has no heading {heading(law)!r}" for law in LAWS if heading(law) not in headings
    ]


# Links ------------------------------------------------------------------------------------------------------


def slug(title: str) -> str:
    """The anchor of a heading, as the usual renderers make it."""
    return re.sub(r"[^\w\- ]", "", title.strip().lower()).replace(" ", "-")


def broken_links() -> list[str]:
    """Relative links that lead to no file, or to no heading of it."""
    return [
        f"{page.relative_to(ROOT)}: {target} {problem}"
        for page in pages()
        for target in LINK.findall(FENCED.sub("", page.read_text(encoding="utf-8")))
        if (problem := _problem(page, target))
    ]


def _problem(page: Path, target: str) -> str | None:
    if re.match(r"[a-z]+:", target):
        return None
    path, _, anchor = unquote(target).partition("#")
    there = (page.parent / path).resolve() if path else page
    if not there.exists():
        return "leads nowhere"
    if anchor and anchor not in {slug(title) for title in HEADING.findall(there.read_text(encoding="utf-8"))}:
        return "leads to no heading"
    return None


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="run docs", description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; fail if a generated part is out of date")
    check = parser.parse_args(arguments).check
    problems = missing_parts()
    for page, wanted in out_of_date():
        name = page.relative_to(ROOT)
        if check:
            problems.append(f"{name}: its generated parts are out of date; `python3 run docs` writes them")
        else:
            page.write_text(wanted, encoding="utf-8")
            print(f"wrote {name}")
    problems += broken_links()
    print(*problems, f"{len(pages())} pages, {len(problems)} problems", sep="\n")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
