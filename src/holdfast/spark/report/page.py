"""The report as one HTML page. The page needs no script, no font and no network. Runs on the Spark driver."""

from __future__ import annotations

from html import escape
from pathlib import Path
from typing import Any

from holdfast.clock import to_datetime
from holdfast.spark.history.certificate import CHECKS
from holdfast.spark.report.figures import MAX_TABLE_ROWS, Figures
from holdfast.spark.report.panels import headline_numbers, panels, time_range, verdict
from holdfast.spark.report.plots import legend

STYLE_SHEET = Path(__file__).with_name("page.css")
MAX_ERROR_CHARACTERS = 160  # in the table of dead letters


def page(figures: Figures, *, title: str = "Holdfast report") -> str:
    """Return the whole page."""
    cards = [_audit_card(figures), *_plot_cards(figures), _failures_card(figures), _queues_card(figures)]
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)}</title><style>{STYLE_SHEET.read_text(encoding='utf-8')}</style></head><body><main>"
        f'<header><h1>{escape(title)}</h1><p class="soft">{time_range(figures)}</p></header>'
        f"{_tiles(figures)}"
        f'<div class="cards">{"".join(cards)}</div></main></body></html>\n'
    )


def _tiles(figures: Figures) -> str:
    tiles = (
        f'<div class="tile"><b>{value}</b><span class="soft small">{name}</span></div>'
        for name, value in headline_numbers(figures)
    )
    return f'<div class="tiles">{"".join(tiles)}</div>'


def _audit_card(figures: Figures) -> str:
    certificate = figures.certificate
    headline = f'<p class="verdict {"good" if certificate.holds else "bad"}">{verdict(figures)}</p>'
    checks = (
        f"<li>{escape(CHECKS[check])}</li>"
        if not count
        else f'<li class="bad">{escape(CHECKS[check])}: <b>{count:,}</b> against it</li>'
        for check, count in certificate.violation_counts.items()
    )
    scope = (
        f"{certificate.rows:,} ledger rows, {certificate.leases:,} leases, {certificate.jobs:,} jobs, "
        f"{certificate.domains:,} domains and {certificate.keys:,} idempotency keys were checked."
    )
    evidence = "".join(
        f"<tr><td>{escape(each.check)}</td><td><code>{escape(each.job_id)}</code></td>"
        f"<td>{escape(', '.join(f'{name} {_fact(name, value)}' for name, value in each.facts.items()))}</td></tr>"
        for each in certificate.violations[:MAX_TABLE_ROWS]
    )
    table = f"<table><tr><th>check</th><th>job</th><th>evidence</th></tr>{evidence}</table>" if evidence else ""
    return (
        f'<section class="card wide">{headline}<ul class="checks">{"".join(checks)}</ul>'
        f'<p class="soft small" style="margin-top:8px">{scope}</p><div class="scroll">{table}</div></section>'
    )


def _fact(name: str, value: Any) -> str:
    """Return a fact of a violation. An instant is recognised by its name."""
    return to_datetime(value).strftime("%Y-%m-%dT%H:%M:%S.%fZ") if name.endswith(("_at", "_until")) else str(value)


def _plot_cards(figures: Figures) -> list[str]:
    return [
        f'<section class="card"><h2>{panel.title} <span class="soft small" style="font-weight:400">{panel.subtitle}'
        f"</span></h2>{legend(panel.series)}{panel.svg}</section>"
        for panel in panels(figures)
    ]


def _failures_card(figures: Figures) -> str:
    most = max((row["dead"] for row in figures.failures), default=1)
    rows = "".join(
        f"<tr><td><code>{escape(row['fingerprint'])}</code></td><td>{escape(row['type'])}</td>"
        f"<td>{escape(row['reason'] or '')}<br><code>{escape((row['error'] or '')[:MAX_ERROR_CHARACTERS])}</code></td>"
        f'<td class="n">{row["dead"]:,}</td>'
        f'<td style="width:18%"><span class="meter" style="width:{100 * row["dead"] / most:.0f}%"></span></td></tr>'
        for row in figures.failures
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


def _queues_card(figures: Figures) -> str:
    names = ("jobs", "waiting", "done", "dead", "cancelled")
    rows = "".join(
        f"<tr><td>{escape(row['queue'])}</td><td>{escape(row['type'])}</td>"
        + "".join(f'<td class="n">{row[name]:,}</td>' for name in names)
        + "</tr>"
        for row in figures.queues
    )
    headers = "".join(f'<th class="n">{name}</th>' for name in names)
    return (
        '<section class="card wide"><h2>Queues</h2><div class="scroll"><table>'
        f"<tr><th>queue</th><th>type</th>{headers}</tr>{rows}</table></div></section>"
    )
