"""Latencies and rates as an SVG: one row per situation.

A latency has a mark for the median and a mark for the 99th percentile, a rate has a bar.
"""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from math import ceil

ROW, LEFT, WIDTH, TOP, RIGHT = 30, 340, 460, 64, 90  # pixels
GRID_STEPS = (0.5, 1, 2, 5, 10, 20, 50, 100, 200, 500)  # milliseconds between two grid lines
MAX_GRID_LINES = 8

STYLE = """
  text { font: 13px system-ui, sans-serif; fill: #1f2328 }
  .small { font-size: 11px; fill: #656d76 } .grid { stroke: #d0d7de } .span { stroke: #9db7d5; stroke-width: 6 }
  .bar { stroke: #1f6feb; stroke-width: 12 } .half { fill: #1f6feb } .most { fill: #bc4c00 } .ground { fill: #ffffff }
  @media (prefers-color-scheme: dark) {
    text { fill: #e6edf3 } .small { fill: #8d96a0 } .grid { stroke: #30363d } .span { stroke: #33475f }
    .bar { stroke: #58a6ff } .half { fill: #58a6ff } .most { fill: #f0883e } .ground { fill: #0d1117 }
  }
"""


def draw_latencies(title: str, rows: Mapping[str, tuple[float, float]]) -> str:
    """Return the SVG; ``rows`` maps a name to (median, 99th percentile) in seconds."""
    longest = max(p99 for _, p99 in rows.values()) * 1000
    step = next((step for step in GRID_STEPS if longest / step <= MAX_GRID_LINES), ceil(longest / MAX_GRID_LINES))
    scale = WIDTH / (ceil(longest / step) * step)
    parts, height = _begin(title, len(rows))
    for line in range(ceil(longest / step) + 1):
        x = LEFT + line * step * scale
        parts.append(f'<line class="grid" x1="{x:.1f}" x2="{x:.1f}" y1="{TOP - 8}" y2="{height - 16}"/>')
        parts.append(f'<text class="small" x="{x:.1f}" y="{TOP - 14}" text-anchor="middle">{line * step:g} ms</text>')
    for place, (name, (median, p99)) in enumerate(rows.items()):
        y = TOP + ROW * place + ROW / 2
        at, to = (LEFT + seconds * 1000 * scale for seconds in (median, p99))
        parts.append(f'<text x="{LEFT - 12}" y="{y + 4:.1f}" text-anchor="end">{escape(name)}</text>')
        parts.append(f'<line class="span" x1="{at:.1f}" x2="{to:.1f}" y1="{y}" y2="{y}"/>')
        parts.append(f'<circle class="half" cx="{at:.1f}" cy="{y}" r="5"/>')
        parts.append(f'<circle class="most" cx="{to:.1f}" cy="{y}" r="5"/>')
        parts.append(
            f'<text class="small" x="{to + 10:.1f}" y="{y + 4:.1f}">{median * 1000:.2f} · {p99 * 1000:.2f}</text>'
        )
    parts.append(f'<text class="small" x="16" y="{TOP - 14}">reserve of 10 jobs: median · 99th percentile</text></svg>')
    return "\n".join(parts) + "\n"


def draw_rates(title: str, rows: Mapping[str, float]) -> str:
    """Return the SVG; ``rows`` maps a name to jobs per second. The first row is what the others are compared with."""
    parts, _ = _begin(title, len(rows))
    largest = max(rows.values())
    for place, (name, rate) in enumerate(rows.items()):
        y = TOP + ROW * place + ROW / 2
        end = LEFT + WIDTH * rate / largest
        parts.append(f'<text x="{LEFT - 12}" y="{y + 4:.1f}" text-anchor="end">{escape(name)}</text>')
        parts.append(f'<line class="bar" x1="{LEFT}" x2="{end:.1f}" y1="{y}" y2="{y}"/>')
        parts.append(f'<text class="small" x="{end + 10:.1f}" y="{y + 4:.1f}">{rate:,.0f}</text>')
    return "\n".join([*parts, "</svg>"]) + "\n"


def _begin(title: str, rows: int) -> tuple[list[str], int]:
    """Return the first elements of a plot with so many rows, and its height in pixels."""
    height = TOP + ROW * rows + 20
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {LEFT + WIDTH + RIGHT} {height}" role="img">',
        f"<title>{escape(title)}</title><style>{STYLE}</style>",
        f'<rect class="ground" width="100%" height="100%"/><text x="16" y="26">{escape(title)}</text>',
    ]
    return parts, height
