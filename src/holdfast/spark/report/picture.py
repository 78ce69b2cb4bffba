"""A history as one picture: the verdict, the numbers and the plots of the page, for a chat or a slide."""

from __future__ import annotations

from pyspark.sql import SparkSession

from holdfast.spark.report.canvas import Canvas
from holdfast.spark.report.page import STYLE, Figures, panels, span, tiles, verdict

WIDTH, MARGIN, GAP = 1280, 36, 14
HEAD, TILE, PANEL, LETTER = 100, 74, 296, 26  # heights
PLOT = 560  # units that a plot is wide
LETTERS = 6  # failures that are shown
LONGEST = 110  # characters of one


def figure(spark: SparkSession, shown: Figures, *, title: str) -> bytes:
    """The whole of it as PNG."""
    drawn = panels(shown)
    letters = shown.failures[:LETTERS]
    rows = -(-len(drawn) // 2)
    below = HEAD + TILE + GAP + rows * (PANEL + GAP)
    foot = 46 + LETTER * len(letters) if letters else -GAP
    canvas = Canvas(spark, WIDTH, below + foot + MARGIN, STYLE.read_text(encoding="utf-8"))
    _head(canvas, shown, title)
    _tiles(canvas, shown)
    width = (WIDTH - 2 * MARGIN - GAP) / 2
    for place, panel in enumerate(drawn):
        x = MARGIN + place % 2 * (width + GAP)
        y = HEAD + TILE + GAP + place // 2 * (PANEL + GAP)
        canvas.card(x, y, width, PANEL)
        end = canvas.text(x + 18, y + 29, panel.title, "ink", size=15, bold=True)
        canvas.text(end + 8, y + 29, panel.says, "soft", size=13)
        at = x + 18
        for series in panel.series:
            canvas.box(at, y + 41, 10, 10, f"c{series.colour}")
            at = canvas.text(at + 16, y + 51, series.name, "soft", size=13) + 16
        canvas.drawing(panel.svg, x + 18, y + 62, (width - 36) / PLOT)
    if letters:
        _letters(canvas, shown, below)
    return canvas.png()


def _head(canvas: Canvas, shown: Figures, title: str) -> None:
    canvas.text(MARGIN, 52, title, "ink", size=26, bold=True)
    canvas.text(WIDTH - MARGIN, 52, span(shown), "soft", size=14, align="end")
    certificate = shown.certificate
    end = canvas.text(MARGIN, 82, verdict(shown), "good" if certificate.holds else "bad", size=16, bold=True)
    looked = f"{certificate.rows:,} ledger rows were looked at"
    canvas.text(end + 12, 82, looked, "soft", size=13)


def _tiles(canvas: Canvas, shown: Figures) -> None:
    told = tiles(shown)
    width = (WIDTH - 2 * MARGIN - GAP * (len(told) - 1)) / len(told)
    for place, (name, value) in enumerate(told):
        x = MARGIN + place * (width + GAP)
        canvas.card(x, HEAD, width, TILE)
        canvas.text(x + 16, HEAD + 37, value, "ink", size=24, bold=True)
        canvas.text(x + 16, HEAD + 60, name, "soft", size=13)


def _letters(canvas: Canvas, shown: Figures, y: float) -> None:
    letters = shown.failures[:LETTERS]
    canvas.card(MARGIN, y, WIDTH - 2 * MARGIN, 46 + LETTER * len(letters))
    end = canvas.text(MARGIN + 18, y + 29, "Dead letters", "ink", size=15, bold=True)
    canvas.text(end + 8, y + 29, "by fingerprint", "soft", size=13)
    most = max(row["dead"] for row in letters)
    for place, row in enumerate(letters):
        line = y + 56 + LETTER * place
        canvas.text(MARGIN + 100, line, f"{row['dead']:,}", "ink", size=13, bold=True, align="end")
        canvas.box(MARGIN + 116, line - 9, max(3.0, 140 * row["dead"] / most), 8, "c3")
        why = " ".join(f"{row['type']}: {row['reason'] or ''} {row['error'] or ''}".split())
        canvas.text(MARGIN + 272, line, why if len(why) <= LONGEST else f"{why[: LONGEST - 1]}…", "ink", size=13)
