"""`python3 run docs`: write the generated parts of the pages, check every link, and build the site.

The site is HTML in `docs/_build/html`, made by Sphinx (see `conf.py`); its warnings are errors. `--check` writes
nothing, builds nothing, and fails if something generated is out of date. A generated part is between two comments,
`<!-- generated: NAME -->` and `<!-- end -->`; everything else on a page is written by hand. A long list is only in the
site, where the page says `<!-- in the site: NAME -->`.
"""

from __future__ import annotations

import argparse
import inspect
import logging
import re
import sys
import tempfile
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import get_args
from urllib.parse import unquote

import click
import msgspec

import holdfast
from docs import architecture, settings_tables
from holdfast import errors
from holdfast.cli.root import root
from holdfast.drivers import requests
from holdfast.drivers.capabilities import FACTS, FIELDS, GROUPS, Capabilities
from holdfast.drivers.http.description import DriverDescription
from holdfast.drivers.http.protocol import PROTOCOL_VERSION
from holdfast.drivers.postgres.engine import CAPABILITIES
from holdfast.log import events
from holdfast.observability.metric_table import METRICS
from holdfast.service.problems import Code, Problem
from holdfast.testing.drivers.conformance import LAWS, Case, cases

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
SITE_PART = re.compile(r"<!-- in the site: ([\w ]+) -->")
PART = re.compile(r"(<!-- generated: ([\w ]+) -->\n).*?(?=<!-- end -->)", re.DOTALL)
FENCED = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)

JOB_FIELDS = frozenset({"job_id", "type", "queue", "attempt", "fence", "worker"})

# A case has the name of a function, which has no commas, apostrophes or capitals, and underscores only between words.
SPELLINGS = {
    "run at": "`run_at`",
    "expires at": "`expires_at`",
    "available at": "`available_at`",
    "enqueued at": "`enqueued_at`",
    "started at": "`started_at`",
    "paused until": "`paused_until`",
    "max inflight": "`max_inflight`",
    "max attempts": "`max_attempts`",
    "max crashes": "`max_crashes`",
    "unique for": "`unique_for`",
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
    "jobs leases and": "jobs, leases and",
    "ids types and": "ids, types and",
    "domains names and": "domains, names and",
    "cancel requeue purge get and": "cancel, requeue, purge, get and",
    "kinds keys and": "kinds, keys and",
    "acks retries fails and": "acks, retries, fails and",
    "ready running and": "ready, running and",
}


def pages() -> list[Path]:
    """Return all Markdown pages of the repository's root and of docs/."""
    built = DOCS / "_build"
    return [*sorted(ROOT.glob("*.md")), *sorted(page for page in DOCS.rglob("*.md") if built not in page.parents)]


# Generated parts --------------------------------------------------------------------------------------------


def sentence(case: Case) -> str:
    """Return the name of a case as a sentence."""
    text = case.name
    for words, spelling in SPELLINGS.items():
        text = re.sub(rf"\b{words}\b", spelling, text)
    return f"{text[0].upper()}{text[1:]}."


def overview() -> str:
    """Return the table of laws with the number of cases of each."""
    rows = [f"| [{law}](#{slug(heading(law))}) | {title} | {len(cases_of(law))} |" for law, title in LAWS.items()]
    return "\n".join(
        [
            f"{len(cases())} cases. A case may belong to several laws.",
            "",
            "| law | says | cases |",
            "|---|---|---|",
            *rows,
        ]
    )


def heading(law: str) -> str:
    """Return the heading of the section of a law."""
    return f"{law}: {LAWS[law]}"


def cases_of(law: str) -> list[Case]:
    """Return the cases that cite a law, in the order of the suite."""
    return [case for case in cases() if law in case.laws]


def case_list(law: str) -> str:
    """Return the list of the cases of a law, grouped by topic."""
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
    """Return the table of what each driver guarantees, with the reason for each gap."""
    with tempfile.TemporaryDirectory(prefix="holdfast-docs-") as folder:
        declared = [capabilities(url) for url in ("memory://", f"sqlite:///{folder}/docs.db")]
    declared += [CAPABILITIES, over_http(CAPABILITIES)]  # no server is needed to read them
    kinds = (("group", GROUPS), ("field", FIELDS), ("fact", FACTS))
    rows = [
        f"| {kind} | {feature} | "
        + " | ".join(f"no: {one.gaps[feature]}" if feature in one.gaps else "yes" for one in declared)
        + " |"
        for kind, features in kinds
        for feature in features
    ]
    names = " | ".join(f"`{one.driver}`" for one in declared)  # that of http is over postgres
    durability = " | ".join(f"`{one.durability.name.lower()}`" for one in declared)
    skipped = " | ".join(str(sum(case.gap(one) is not None for case in cases())) for one in declared)
    return "\n".join(
        [
            f"| | | {names} |",
            f"|---|---|{'---|' * len(declared)}",
            f"| | durability by default (L15) | {durability} |",
            *rows,
            f"| | cases skipped because of a gap | {skipped} |",
        ]
    )


def over_http(store: Capabilities) -> Capabilities:
    """Return the capabilities of the HTTP driver for a service with this store, and a token with the role admin."""
    return DriverDescription(
        protocol=PROTOCOL_VERSION,
        store=store.driver,
        durability=store.durability,
        gaps={feature.value: reason for feature, reason in store.gaps.items()},
        has_serial_arrivals=False,
        has_numbered_ledger=False,
        space="main",
        all_spaces=True,
    ).capabilities(is_loopback=False)


def capabilities(url: str) -> Capabilities:
    """Return the capabilities that the driver of a URL declares."""
    store = holdfast.connect(url)
    try:
        return store.capabilities
    finally:
        store.close()


def request_tables() -> str:
    """Return a table of the requests of the core and of each group."""
    all_requests = [value for value in vars(requests).values() if isinstance(value, type)]
    found = [one for one in all_requests if issubclass(one, requests.Request) and one is not requests.Request]
    parts = []
    for group in (None, *GROUPS):
        of_group = [one for one in found if one.needs == (() if group is None else (group,))]
        title = "Core" if group is None else group.name.capitalize()
        rows = [f"| `{request_call(one)}` | {first_sentence(one)} | `{answer_of(one)}` |" for one in of_group]
        parts.append("\n".join([f"### {title}", "", "| request | what it does | answer |", "|---|---|---|", *rows]))
    return "\n\n".join(parts)


def request_call(request: type[requests.Request[object]]) -> str:
    """Return a request with its fields; those with a default have a question mark. Every request has ``now``."""
    fields = [one for one in msgspec.structs.fields(request) if one.name != "now"]
    names = [one.name if one.required else f"{one.name}?" for one in fields]
    return f"{request.__name__}({', '.join(names)})"


def first_sentence(request: type[requests.Request[object]]) -> str:
    """Return the first sentence of the promise of a request."""
    text = " ".join(inspect.cleandoc(request.__doc__ or "").split())
    return re.split(r"(?<=[.;]) ", text)[0].rstrip(".;").replace("``", "`")


def answer_of(request: type[requests.Request[object]]) -> str:
    """Return the type of the answer of a request, without modules."""
    bases: tuple[object, ...] = vars(request)["__orig_bases__"]
    [base] = [one for one in bases if get_args(one)]
    [answer] = get_args(base)
    text = answer.__name__ if isinstance(answer, type) and not get_args(answer) else repr(answer)
    return re.sub(r"\b(?:\w+\.)+(?=\w)", "", text).replace("NoneType", "None").replace("|", r"\|")


def field_needs() -> str:
    """Return the table of the fields that an engine may lack."""
    rows = [
        f"| `{name}` of `{type_.__name__}` | {'; '.join(features)} |"
        for type_, needs in requests.FIELD_NEEDS.items()
        for name, features in needs.items()
    ]
    return "\n".join(["| field | needs |", "|---|---|", *rows])


def core_driver(*names: str) -> str:
    """Return parts of `examples/core_driver.py`: the head of the class, or methods and functions by their names."""
    text = (ROOT / "examples" / "core_driver.py").read_text(encoding="utf-8")
    found = []
    for name in names:
        part = re.search(rf"^( *)(?:def|class) {name}\b.*\n(?:(?:\1 .*)?\n)*", text, re.MULTILINE)
        assert part is not None, f"the example has no {name}"
        source = re.split(r"\n    def ", part[0])[0] if name == "DictEngine" else part[0]
        found.append(source.rstrip())
    return "```py\n" + textwrap.dedent(("\n\n" if "DictEngine" in names else "\n\n\n").join(found)) + "\n```"


def error_tree() -> str:
    """Return the tree at the top of errors.py."""
    text = inspect.cleandoc(errors.__doc__ or "")
    tree = re.search(r"^    HoldfastError\n(?:    .*\n)+", text, re.MULTILINE)
    assert tree is not None, "errors.py has no tree at its top"
    return f"```\n{inspect.cleandoc(tree[0])}\n```"


def decisions() -> str:
    """Return the list of decision records, by number."""
    records = sorted((DOCS / "adr").glob("[0-9]*.md"))
    return "\n".join(f"- [{title_of(record)}]({record.name})" for record in records)


def title_of(page: Path) -> str:
    """Return the first heading of a page."""
    title = HEADING.search(page.read_text(encoding="utf-8"))
    assert title is not None, f"{page.name} has no heading"
    return title[1]


def log_events() -> str:
    """Return the table of log events."""
    rows = [
        f"| `{event.name}` | {logging.getLevelName(event.level).lower()} | {event.says} | {shown_fields(event)} |"
        for event in events.EVENTS
    ]
    return "\n".join(["| event | level | it says | fields |", "|---|---|---|---|", *rows])


def shown_fields(event: events.Event) -> str:
    """Return the fields of a log event. The word *job* stands for the fields that every event about a job has."""
    shared = JOB_FIELDS if set(event.fields) >= JOB_FIELDS else frozenset[str]()
    others = [f"`{field}`" for field in event.fields if field not in shared]
    return ", ".join((["*job*"] if shared else []) + others)


def log_fields() -> str:
    """Return the table of the fields of log events."""
    rows = [f"| `{name}` | {meaning} |" for name, meaning in events.FIELDS.items()]
    return "\n".join(["| field | meaning |", "|---|---|", *rows])


def metrics() -> str:
    """Return the table of the metrics."""
    rows = [
        f"| `{name}` | {metric.kind} | {', '.join(f'`{label}`' for label in metric.labels)} | {metric.meaning} |"
        for name, metric in METRICS.items()
    ]
    return "\n".join(["| metric | kind | labels | meaning |", "|---|---|---|---|", *rows])


def http_problems() -> str:
    """Return the table of the problems of the HTTP service."""
    rows = [f"| `{code}` | {problem.status} | {problem.title} |" for code in Code for problem in [Problem(code)]]
    return "\n".join(["| code | status | meaning |", "|---|---|---|", *rows])


PARTS: dict[str, Callable[[], str]] = {
    "overview": overview,
    "drivers": drivers,
    "requests": request_tables,
    "fields that an engine may lack": field_needs,
    "example engine": lambda: core_driver("DictEngine", "execute"),
    "example reserve": lambda: core_driver("reserve"),
    "example settle": lambda: core_driver("_settle_one", "_end"),
    "example harness": lambda: core_driver("DictHarness"),
    "example opener": lambda: core_driver("open_url"),
    "errors": error_tree,
    "decisions": decisions,
    "metrics": metrics,
    "http problems": http_problems,
    "log events": log_events,
    "log fields": log_fields,
    "settings": settings_tables.settings_table,
}


def command_options(name: str) -> str:
    """Return the table of the options of a command, without those that every command has.

    An option that several subcommands share has one row, which names them.
    """
    command = root.commands[name]
    is_group = isinstance(command, click.Group) and not command.invoke_without_command
    commands = command.commands if is_group else {"": command}
    shared = {option.name for option in root.params}
    users: dict[str, list[str]] = {}
    for subcommand, each in commands.items():
        for option in each.params:
            if isinstance(option, click.Option) and option.name not in shared:
                users.setdefault(f"{shown_options(option)} | {option.help}", []).append(subcommand)
    if not users:
        return ""
    if commands.keys() == {""}:
        return "\n".join([f"| option of `{name}` | meaning |", "|---|---|", *(f"| {row} |" for row in users)])
    rows = [f"| {', '.join(f'`{subcommand}`' for subcommand in names)} | {row} |" for row, names in users.items()]
    return "\n".join([f"| `{name}` | option | meaning |", "|---|---|---|", *rows])


def shown_options(option: click.Option) -> str:
    """Return the spellings of an option, with the name of its value."""
    match option.type:
        case click.Choice(choices=choices):
            name = "|".join(str(choice) for choice in choices)
        case click.IntRange():
            name = "N"
        case kind:
            name = kind.name.upper()
    value = "" if option.is_flag else f" {option.metavar or name}"
    spellings = ", ".join(f"`{spelling}{value}`" for spelling in (*option.opts, *option.secondary_opts))
    return spellings.replace("|", r"\|")


SITE_PARTS: dict[str, Callable[[], str]] = {
    **{f"cases of {law}": lambda law=law: case_list(law) for law in LAWS},  # type: ignore[misc]
    **{f"options of {name}": lambda name=name: command_options(name) for name in root.commands},  # type: ignore[misc]
}


def with_site_parts(text: str) -> str:
    """Return a page with the lists that only the site has."""
    return SITE_PART.sub(lambda part: SITE_PARTS[part[1]](), text)


def with_generated_parts(text: str) -> str:
    """Return a page with its generated parts up to date. Raises ``KeyError`` for a part that has no generator."""
    return PART.sub(lambda part: f"{part[1]}\n{PARTS[part[2]]()}\n\n", text)


def out_of_date() -> Iterator[tuple[Path, str]]:
    """Yield each file that is out of date, with its correct content."""
    for page in pages():
        text = page.read_text(encoding="utf-8")
        wanted = with_generated_parts(text)
        if wanted != text:
            yield page, wanted
    picture = DOCS / "images" / "architecture.svg"
    if not picture.exists() or picture.read_text(encoding="utf-8") != architecture.draw():
        yield picture, architecture.draw()


def missing_parts() -> list[str]:
    """Return the parts that are not on exactly one page, and the laws that have no section."""
    texts = [page.read_text(encoding="utf-8") for page in pages()]
    names = [name for text in texts for name in (*(part[2] for part in PART.finditer(text)), *SITE_PART.findall(text))]
    misplaced = [
        f"{name}: wanted on one page, is on {names.count(name)}"
        for name in (*PARTS, *SITE_PARTS)
        if names.count(name) != 1
    ]
    headings = HEADING.findall((DOCS / "reference" / "guarantees.md").read_text(encoding="utf-8"))
    return misplaced + [
        f"docs/reference/guarantees.md has no heading {heading(law)!r}" for law in LAWS if heading(law) not in headings
    ]


# Links ------------------------------------------------------------------------------------------------------


def slug(title: str) -> str:
    """Return the anchor of a heading, by the rule that GitHub and others use."""
    return re.sub(r"[^\w\- ]", "", title.strip().lower()).replace(" ", "-")


def broken_links() -> list[str]:
    """Return the relative links whose file or heading does not exist."""
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
    file = (page.parent / path).resolve() if path else page
    if not file.exists():
        return "does not exist"
    if anchor and anchor not in {slug(title) for title in HEADING.findall(file.read_text(encoding="utf-8"))}:
        return "has no such heading"
    return None


# The site ---------------------------------------------------------------------------------------------------


def build_site(target: Path) -> int:
    """Build the site as HTML; return 0 if there was no warning. Always anew: parts of pages come from the code."""
    from sphinx.cmd.build import main as sphinx  # noqa: PLC0415 - slow to import, and not needed to check pages

    options = ["-b", "html", "--fail-on-warning", "--fresh-env", "--write-all", "--quiet"]
    return sphinx([*options, "--doctree-dir", str(target / "doctrees"), str(DOCS), str(target / "html")])


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="run docs", description=__doc__)
    parser.add_argument(
        "--check", action="store_true", help="write nothing; fail if something generated is out of date"
    )
    parser.add_argument("--only-site", type=Path, metavar="FOLDER", help="only build the site, into this folder")
    options = parser.parse_args(arguments)
    if options.only_site:
        return build_site(options.only_site)
    check = options.check
    problems = missing_parts()
    for page, wanted in out_of_date():
        name = page.relative_to(ROOT)
        if check:
            problems.append(f"{name}: out of date; `python3 run docs` writes it")
        else:
            page.write_text(wanted, encoding="utf-8")
            print(f"wrote {name}")
    problems += broken_links()
    print(*problems, f"{len(pages())} pages, {len(problems)} problems", sep="\n")
    if problems or check:
        return 1 if problems else 0
    built = DOCS / "_build"
    code = build_site(built)
    print("the site has warnings" if code else f"open {(built / 'html' / 'index.html').relative_to(ROOT)}")
    return code


if __name__ == "__main__":
    sys.exit(main())
