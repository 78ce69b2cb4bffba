"""The report as one picture: the verdict, the headline numbers and the plots of the page. Runs on the Spark driver."""

from __future__ import annotations

from pyspark.sql import SparkSession

from holdfast.spark.report.figures import Figures
from holdfast.spark.report.java_image import JavaImage
from holdfast.spark.report.page import STYLE_SHEET
from holdfast.spark.report.panels import headline_numbers, panels, time_range, verdict
from holdfast.spark.report.plots import WIDTH as PLOT_WIDTH

WIDTH, MARGIN, GAP = 1280, 36, 14
HEADER_HEIGHT, TILE_HEIGHT, PANEL_HEIGHT, FAILURE_HEIGHT = 100, 74, 296, 26
MAX_FAILURES = 6
MAX_FAILURE_CHARACTERS = 110


def picture(spark: SparkSession, figures: Figures, *, title: str) -> bytes:
    """Return the picture as PNG."""
    plots = panels(figures)
    failures = figures.failures[:MAX_FAILURES]
    rows = -(-len(plots) // 2)
    bottom = HEADER_HEIGHT + TILE_HEIGHT + GAP + rows * (PANEL_HEIGHT + GAP)
    footer = 46 + FAILURE_HEIGHT * len(failures) if failures else -GAP
    image = JavaImage(spark, WIDTH, bottom + footer + MARGIN, STYLE_SHEET.read_text(encoding="utf-8"))
    _draw_header(image, figures, title)
    _draw_tiles(image, figures)
    width = (WIDTH - 2 * MARGIN - GAP) / 2
    for number, panel in enumerate(plots):
        x = MARGIN + number % 2 * (width + GAP)
        y = HEADER_HEIGHT + TILE_HEIGHT + GAP + number // 2 * (PANEL_HEIGHT + GAP)
        image.card(x, y, width, PANEL_HEIGHT)
        end = image.text(x + 18, y + 29, panel.title, "ink", size=15, bold=True)
        image.text(end + 8, y + 29, panel.subtitle, "soft", size=13)
        legend_x = x + 18
        for series in panel.series:
            image.box(legend_x, y + 41, 10, 10, f"c{series.colour}")
            legend_x = image.text(legend_x + 16, y + 51, series.name, "soft", size=13) + 16
        image.draw_svg(panel.svg, x + 18, y + 62, (width - 36) / PLOT_WIDTH)
    if failures:
        _draw_failures(image, figures, bottom)
    return image.png()


def _draw_header(image: JavaImage, figures: Figures, title: str) -> None:
    image.text(MARGIN, 52, title, "ink", size=26, bold=True)
    image.text(WIDTH - MARGIN, 52, time_range(figures), "soft", size=14, align="end")
    certificate = figures.certificate
    end = image.text(MARGIN, 82, verdict(figures), "good" if certificate.holds else "bad", size=16, bold=True)
    scope = f"{certificate.rows:,} ledger rows were checked"
    image.text(end + 12, 82, scope, "soft", size=13)


def _draw_tiles(image: JavaImage, figures: Figures) -> None:
    numbers = headline_numbers(figures)
    width = (WIDTH - 2 * MARGIN - GAP * (len(numbers) - 1)) / len(numbers)
    for column, (name, value) in enumerate(numbers):
        x = MARGIN + column * (width + GAP)
        image.card(x, HEADER_HEIGHT, width, TILE_HEIGHT)
        image.text(x + 16, HEADER_HEIGHT + 37, value, "ink", size=24, bold=True)
        image.text(x + 16, HEADER_HEIGHT + 60, name, "soft", size=13)


def _draw_failures(image: JavaImage, figures: Figures, y: float) -> None:
    failures = figures.failures[:MAX_FAILURES]
    image.card(MARGIN, y, WIDTH - 2 * MARGIN, 46 + FAILURE_HEIGHT * len(failures))
    end = image.text(MARGIN + 18, y + 29, "Dead letters", "ink", size=15, bold=True)
    image.text(end + 8, y + 29, "by fingerprint", "soft", size=13)
    most = max(row["dead"] for row in failures)
    for number, row in enumerate(failures):
        line = y + 56 + FAILURE_HEIGHT * number
        image.text(MARGIN + 100, line, f"{row['dead']:,}", "ink", size=13, bold=True, align="end")
        image.box(MARGIN + 116, line - 9, max(3.0, 140 * row["dead"] / most), 8, "c3")
        text = " ".join(f"{row['type']}: {row['reason'] or ''} {row['error'] or ''}".split())
        image.text(MARGIN + 272, line, _shorten(text), "ink", size=13)


def _shorten(text: str) -> str:
    return text if len(text) <= MAX_FAILURE_CHARACTERS else f"{text[: MAX_FAILURE_CHARACTERS - 1]}…"
