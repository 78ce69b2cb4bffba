"""The content of a report, shared by the HTML page and the picture: headline numbers, plots, and their texts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate

from holdfast.clock import DAY, HOUR, SECOND, to_datetime
from holdfast.spark.report.figures import Figures
from holdfast.spark.report.plots import Number, Series, plot

DURATION_UNITS = (60.0, 3600.0)  # seconds; a duration axis changes to a unit from twice its length on


@dataclass(frozen=True, slots=True, kw_only=True)
class Panel:
    """One plot with its title and its legend."""

    title: str
    subtitle: str
    series: Sequence[Series]
    svg: str


def time_range(figures: Figures) -> str:
    """Return the first and the last instant of the history."""
    certificate = figures.certificate
    return f"{_instant(certificate.first)} to {_instant(certificate.last)}" if certificate.rows else "nothing has ended"


def verdict(figures: Figures) -> str:
    """Return the result of the audit in a few words."""
    return f"{'✓' if figures.certificate.holds else '✗'} {figures.certificate.verdict}"


def headline_numbers(figures: Figures) -> list[tuple[str, str]]:
    """Return the numbers at the top of the report, as (name, value)."""
    certificate = figures.certificate
    states = certificate.states
    seconds = max((certificate.last or 0) - (certificate.first or 0), 1) / SECOND
    return [
        ("jobs", f"{certificate.jobs:,}"),
        ("done", f"{states.get('done', 0):,}"),
        ("dead", f"{states.get('dead', 0):,}"),
        ("cancelled", f"{states.get('cancelled', 0):,}"),
        ("waiting", f"{states.get('waiting', 0):,}"),
        ("leases", f"{certificate.leases:,}"),
        ("done a second", format_number(states.get("done", 0) / seconds)),
    ]


def panels(figures: Figures) -> list[Panel]:
    """Return the plots, in their order."""
    buckets = figures.buckets
    seconds = figures.step / SECOND

    def values(name: str, scale: float = 1.0) -> list[Number]:
        return [(bucket.get(name) or 0) * scale for bucket in buckets]

    def percentile(name: str, rank: int) -> list[Number]:
        return [None if bucket.get(name) is None else bucket[name][rank] for bucket in buckets]

    def percentiles(name: str) -> list[Series]:
        labels = (("99 %", 6), ("95 %", 2), ("half", 1))
        return [
            Series(name=label, colour=colour, values=percentile(name, 2 - number))
            for number, (label, colour) in enumerate(labels)
        ]

    changes = zip(values("arrivals"), values("requeued"), values("finished"), strict=True)
    depth = list(
        accumulate((arrived or 0) + (requeued or 0) - (finished or 0) for arrived, requeued, finished in changes)
    )
    plots: list[tuple[str, str, list[Series], Callable[[float], str]]] = [
        (
            "Throughput",
            "jobs a second",
            [
                Series(name="done", colour=4, values=values("acked", 1 / seconds), shape="area"),
                Series(name="arrived", colour=1, values=values("arrivals", 1 / seconds)),
            ],
            format_number,
        ),
        (
            "Depth",
            "jobs that have not ended",
            [Series(name="jobs", colour=1, values=depth, shape="area")],
            format_number,
        ),
        ("Waiting", "from being due to being leased", percentiles("wait"), format_duration),
        ("Running", "from the start of a handler to the end of its lease", percentiles("run"), format_duration),
        (
            "Attempts that failed",
            f"in {format_duration(seconds)}",
            [
                Series(name="retried", colour=2, values=values("retried"), shape="bar"),
                Series(name="expired", colour=5, values=values("expired"), shape="bar"),
                Series(name="dead", colour=3, values=values("dead")),
            ],
            format_number,
        ),
        (
            "In flight",
            "jobs that were leased at a time, on average",
            [Series(name="leased", colour=4, values=values("busy"), shape="area")],
            format_number,
        ),
        (
            "Slots",
            "slots and workers that ended something",
            [Series(name="at work", colour=6, values=values("workers"), shape="area")],
            format_number,
        ),
    ]
    labels = _time_labels(figures)
    return [
        Panel(
            title=title,
            subtitle=subtitle,
            series=series,
            svg=plot(
                series,
                labels=labels,
                format_value=format_value,
                units=DURATION_UNITS if format_value is format_duration else (),
            ),
        )
        for title, subtitle, series, format_value in plots
    ]


def _time_labels(figures: Figures) -> list[str]:
    length = figures.step * len(figures.buckets)
    style = "%H:%M:%S" if length < HOUR else "%H:%M" if length < DAY else "%d %b %H:%M" if length < 7 * DAY else "%d %b"
    return [to_datetime(figures.start + step * figures.step).strftime(style) for step in range(len(figures.buckets))]


def _instant(value: int | None) -> str:
    return "" if value is None else to_datetime(value).strftime("%Y-%m-%d %H:%M:%SZ")


def format_number(value: float) -> str:
    """Return a number that is short enough for an axis."""
    for size, unit in ((1e9, "G"), (1e6, "M"), (1e4, "k")):
        if value >= size:
            return f"{value / min(size, 1e3) if unit == 'k' else value / size:.3g} {unit}"
    return f"{value:,.0f}" if value >= 100 or value == int(value) else f"{value:.3g}"


def format_duration(seconds: float) -> str:
    """Return a duration in its most readable unit."""
    if seconds >= 2 * 3600:
        return f"{seconds / 3600:.3g} h"
    if seconds >= 120:
        return f"{seconds / 60:.3g} min"
    if seconds >= 1 or not seconds:
        return f"{seconds:.3g} s"
    return f"{seconds * 1e3:.3g} ms" if seconds >= 1e-3 else f"{seconds * 1e6:.3g} µs"
