"""A history as one page: what a few small frames say, drawn. Nothing on it needs a script, a font or a network."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from itertools import accumulate
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame

from holdfast.clock import DAY, HOUR, MINUTE, SECOND, to_datetime
from holdfast.spark.history.audit import CHECKS, Certificate
from holdfast.spark.report.plots import Number, Series, legend, plot
from holdfast.spark.statements import query

STEPS = 120  # in a plot, at the most
SHOWN = 12  # rows of a table
LENGTHS = tuple(
    count * unit
    for unit, counts in (
        (SECOND, (1, 2, 5, 10, 15, 30)),
        (MINUTE, (1, 2, 5, 10, 15, 30)),
        (HOUR, (1, 2, 3, 6, 12)),
        (DAY, (1, 2, 7, 14, 30, 90, 365)),
    )
    for count in counts
)
UNITS = (60.0, 3600.0)  # in which lengths are written once they are twice as long
STYLE = Path(__file__).with_name("page.css")


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """All that the page shows, as plain values."""

    start: int
    step: int  # microseconds
    buckets: Sequence[Mapping[str, Any]]  # one for each step, in order
    queues: Sequence[Mapping[str, Any]]
    failures: Sequence[Mapping[str, Any]]
    certificate: Certificate


def figures(leases: DataFrame, jobs: DataFrame, failures: DataFrame, certificate: Certificate) -> Figures:
    """Collect what is shown: some rows for each step of time, queue and failure, however large the history is."""
    [(came,)] = jobs.selectExpr("unix_micros(min(enqueued_at))").collect()
    last = certificate.last or 0
    first = min(certificate.first or 0, came or last)
    step = next((length for length in LENGTHS if (last - first) // length < STEPS), LENGTHS[-1])
    start = first // step * step
    literals = {"start": f"{start:d}L", "step": f"{step:d}L", "last": f"{(last - start) // step:d}L"}
    rows = query(leases.sparkSession, "report_buckets", leases=leases, jobs=jobs, **literals).collect()
    by_queue = (
        jobs.groupBy("queue", "type")
        .pivot("state", ["ready", "inflight", "done", "dead", "cancelled"])
        .count()
        .fillna(0)
        .selectExpr("*", "ready + inflight AS waiting", "ready + inflight + done + dead + cancelled AS jobs")
        .orderBy("jobs", ascending=False)
        .limit(SHOWN)
        .collect()
    )
    letters = failures.orderBy("dead", ascending=False).limit(SHOWN)
    return Figures(
        start=start,
        step=step,
        buckets=_whole([row.asDict() for row in rows]),
        queues=[row.asDict() for row in by_queue],
        failures=[
            row.asDict()
            for row in letters.selectExpr(
                "fingerprint", "type", "reason", "error", "dead", "unix_micros(last_at) AS last_at"
            ).collect()
        ],
        certificate=certificate,
    )


def _whole(rows: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """A row for every step, also for those in which nothing happened."""
    known = {row["bucket"]: row for row in rows}
    empty = {"wait": None, "run": None}
    return [known.get(place, empty) for place in range(max(known, default=-1) + 1)]


# The page ---------------------------------------------------------------------------------------------------


def page(shown: Figures, *, title: str = "Holdfast report") -> str:
    """The whole page, as one text."""
    cards = [_certificate(shown), *_plots(shown), _failures(shown), _queues(shown)]
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)}</title><style>{STYLE.read_text(encoding='utf-8')}</style></head><body><main>"
        f'<header><h1>{escape(title)}</h1><p class="soft">{span(shown)}</p></header>'
        f"{_tiles(shown)}"
        f'<div class="cards">{"".join(cards)}</div></main></body></html>\n'
    )


def span(shown: Figures) -> str:
    """From when to when."""
    certificate = shown.certificate
    return f"{_instant(certificate.first)} to {_instant(certificate.last)}" if certificate.rows else "nothing has ended"


def verdict(shown: Figures) -> str:
    """What the audit found, in a few words."""
    count = sum(shown.certificate.found.values())
    return "✓ Every law held" if shown.certificate.holds else f"✗ {count:,} violation{'s' * (count != 1)}"


def tiles(shown: Figures) -> list[tuple[str, str]]:
    """The numbers at the top, each with its name."""
    certificate = shown.certificate
    states = certificate.states
    length = max((certificate.last or 0) - (certificate.first or 0), 1) / SECOND
    return [
        ("jobs", f"{certificate.jobs:,}"),
        ("done", f"{states.get('done', 0):,}"),
        ("dead", f"{states.get('dead', 0):,}"),
        ("cancelled", f"{states.get('cancelled', 0):,}"),
        ("waiting", f"{states.get('waiting', 0):,}"),
        ("leases", f"{certificate.leases:,}"),
        ("done a second", _number(states.get("done", 0) / length)),
    ]


def _tiles(shown: Figures) -> str:
    each = tiles(shown)
    told = (f'<div class="tile"><b>{value}</b><span class="soft small">{name}</span></div>' for name, value in each)
    return f'<div class="tiles">{"".join(told)}</div>'


def _certificate(shown: Figures) -> str:
    certificate = shown.certificate
    judged = f'<p class="verdict {"good" if certificate.holds else "bad"}">{verdict(shown)}</p>'
    lines = (
        f"<li>{escape(says)}</li>"
        if not certificate.found[check]
        else f'<li class="bad">{escape(says)}: <b>{certificate.found[check]:,}</b> against it</li>'
        for check, says in CHECKS.items()
    )
    looked = (
        f"{certificate.rows:,} ledger rows, {certificate.leases:,} leases, {certificate.jobs:,} jobs, "
        f"{certificate.domains:,} domains and {certificate.keys:,} idempotency keys were looked at."
    )
    evidence = "".join(
        f"<tr><td>{escape(each.check)}</td><td><code>{escape(each.job_id)}</code></td>"
        f"<td>{escape(', '.join(f'{name} {told(name, value)}' for name, value in each.facts.items()))}</td></tr>"
        for each in certificate.violations[:SHOWN]
    )
    table = f"<table><tr><th>check</th><th>job</th><th>evidence</th></tr>{evidence}</table>" if evidence else ""
    return (
        f'<section class="card wide">{judged}<ul class="checks">{"".join(lines)}</ul>'
        f'<p class="soft small" style="margin-top:8px">{looked}</p><div class="scroll">{table}</div></section>'
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Panel:
    """One plot with its words."""

    title: str
    says: str
    series: Sequence[Series]
    svg: str


def panels(shown: Figures) -> list[Panel]:
    """The plots, in their order."""
    rows = shown.buckets
    seconds = shown.step / SECOND

    def values(name: str, scale: float = 1.0) -> list[Number]:
        return [(row.get(name) or 0) * scale for row in rows]

    def percentile(name: str, place: int) -> list[Number]:
        return [None if row.get(name) is None else row[name][place] for row in rows]

    def percentiles(name: str) -> list[Series]:
        names = (("99 %", 6), ("95 %", 2), ("half", 1))
        return [
            Series(name=called, colour=colour, values=percentile(name, 2 - place))
            for place, (called, colour) in enumerate(names)
        ]

    changes = zip(values("arrivals"), values("requeued"), values("finished"), strict=True)
    depth = list(accumulate((came or 0) + (again or 0) - (went or 0) for came, again, went in changes))
    plots: list[tuple[str, str, list[Series], Callable[[float], str]]] = [
        (
            "Throughput",
            "jobs a second",
            [
                Series(name="done", colour=4, values=values("acked", 1 / seconds), shape="area"),
                Series(name="arrived", colour=1, values=values("arrivals", 1 / seconds)),
            ],
            _number,
        ),
        ("Depth", "jobs that have not ended", [Series(name="jobs", colour=1, values=depth, shape="area")], _number),
        ("Waiting", "from being due to being leased", percentiles("wait"), _length),
        ("Running", "from the start of a handler to the end of its lease", percentiles("run"), _length),
        (
            "Attempts that failed",
            f"in {_length(seconds)}",
            [
                Series(name="retried", colour=2, values=values("retried"), shape="bar"),
                Series(name="expired", colour=5, values=values("expired"), shape="bar"),
                Series(name="dead", colour=3, values=values("dead")),
            ],
            _number,
        ),
        (
            "In flight",
            "jobs that were leased at a time, on average",
            [Series(name="leased", colour=4, values=values("busy"), shape="area")],
            _number,
        ),
        (
            "Slots",
            "slots and workers that ended something",
            [Series(name="at work", colour=6, values=values("workers"), shape="area")],
            _number,
        ),
    ]
    labels = _labels(shown)
    return [
        Panel(
            title=title,
            says=says,
            series=series,
            svg=plot(series, labels=labels, written=written, units=UNITS if written is _length else ()),
        )
        for title, says, series, written in plots
    ]


def _plots(shown: Figures) -> list[str]:
    return [
        f'<section class="card"><h2>{panel.title} <span class="soft small" style="font-weight:400">{panel.says}'
        f"</span></h2>{legend(panel.series)}{panel.svg}</section>"
        for panel in panels(shown)
    ]


def _labels(shown: Figures) -> list[str]:
    length = shown.step * len(shown.buckets)
    style = "%H:%M:%S" if length < HOUR else "%H:%M" if length < DAY else "%d %b %H:%M" if length < 7 * DAY else "%d %b"
    return [to_datetime(shown.start + place * shown.step).strftime(style) for place in range(len(shown.buckets))]


def _failures(shown: Figures) -> str:
    most = max((row["dead"] for row in shown.failures), default=1)
    rows = "".join(
        f"<tr><td><code>{escape(row['fingerprint'])}</code></td><td>{escape(row['type'])}</td>"
        f"<td>{escape(row['reason'] or '')}<br><code>{escape((row['error'] or '')[:160])}</code></td>"
        f'<td class="n">{row["dead"]:,}</td>'
        f'<td style="width:18%"><span class="meter" style="width:{100 * row["dead"] / most:.0f}%"></span></td></tr>'
        for row in shown.failures
    )
    table = (
        "<table><tr><th>fingerprint</th><th>type</th><th>reason and error</th>"
        f'<th class="n">letters</th><th></th></tr>{rows}</table>'
        if rows
        else '<p class="soft">There are none.</p>'
    )
    return (
        '<section class="card wide"><h2>Dead letters <span class="soft small" style="font-weight:400">by fingerprint'
        f'</span></h2><div class="scroll">{table}</div></section>'
    )


def _queues(shown: Figures) -> str:
    names = ("jobs", "waiting", "done", "dead", "cancelled")
    rows = "".join(
        f"<tr><td>{escape(row['queue'])}</td><td>{escape(row['type'])}</td>"
        + "".join(f'<td class="n">{row[name]:,}</td>' for name in names)
        + "</tr>"
        for row in shown.queues
    )
    heads = "".join(f'<th class="n">{name}</th>' for name in names)
    return (
        '<section class="card wide"><h2>Queues</h2><div class="scroll"><table>'
        f"<tr><th>queue</th><th>type</th>{heads}</tr>{rows}</table></div></section>"
    )


# Words ------------------------------------------------------------------------------------------------------


def told(name: str, value: Any) -> str:
    """A fact of a violation: instants by their names, everything else as it is."""
    return to_datetime(value).strftime("%Y-%m-%dT%H:%M:%S.%fZ") if name.endswith(("_at", "_until")) else str(value)


def _instant(value: int | None) -> str:
    return "" if value is None else to_datetime(value).strftime("%Y-%m-%d %H:%M:%SZ")


def _number(value: float) -> str:
    """Short enough for the side of a plot."""
    for size, name in ((1e9, "G"), (1e6, "M"), (1e4, "k")):
        if value >= size:
            return f"{value / min(size, 1e3) if name == 'k' else value / size:.3g} {name}"
    return f"{value:,.0f}" if value >= 100 or value == int(value) else f"{value:.3g}"


def _length(seconds: float) -> str:
    """In the unit in which it is easiest to read."""
    if seconds >= 2 * 3600:
        return f"{seconds / 3600:.3g} h"
    if seconds >= 120:
        return f"{seconds / 60:.3g} min"
    if seconds >= 1 or not seconds:
        return f"{seconds:.3g} s"
    return f"{seconds * 1e3:.3g} ms" if seconds >= 1e-3 else f"{seconds * 1e6:.3g} µs"
