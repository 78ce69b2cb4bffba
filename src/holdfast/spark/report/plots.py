"""Plots as SVG. They need no script and no network, and take their colours from the page's style sheet."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from html import escape

WIDTH, HEIGHT = 560, 220
LEFT, RIGHT, TOP, BOTTOM = 52, 10, 12, 26
MAX_GRID_LINES = 4
TIME_LABELS = 5  # on the horizontal axis

Number = float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """A line, an area or bars. ``colour`` is the number of a colour of the style sheet. The value None is a gap."""

    name: str
    colour: int
    values: Sequence[Number]
    shape: str = "line"  # or "area" or "bar"; bars are stacked


def plot(
    series: Sequence[Series],
    *,
    labels: Sequence[str],
    format_value: Callable[[float], str],
    units: Sequence[float] = (),
) -> str:
    """Return one plot. ``labels`` name the steps. The axis uses the largest of ``units`` that fits the values."""
    steps = max(len(labels), 1)
    highest = _highest(series)
    unit = max((unit for unit in units if 2 * unit <= highest), default=1.0)
    ticks = [tick * unit for tick in _ticks(highest / unit)]
    scale = _Scale(steps, ticks[-1])
    parts = [
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img">',
        *_grid(ticks, scale, format_value),
        *_times(labels, scale),
        *_shapes(series, scale),
        *_hints(series, labels, scale, format_value),
        "</svg>",
    ]
    return "".join(parts)


def legend(series: Sequence[Series]) -> str:
    """Return the names of the series with their colours."""
    keys = (f'<span class="key"><i class="b{each.colour}"></i>{escape(each.name)}</span>' for each in series)
    return f'<p class="legend">{"".join(keys)}</p>'


@dataclass(frozen=True, slots=True)
class _Scale:
    steps: int
    top: float

    @property
    def pitch(self) -> float:
        return (WIDTH - LEFT - RIGHT) / self.steps

    def x(self, step: float) -> float:
        return LEFT + step * self.pitch

    def y(self, value: float) -> float:
        return HEIGHT - BOTTOM - value / self.top * (HEIGHT - TOP - BOTTOM)


def _highest(series: Sequence[Series]) -> float:
    bars = [each.values for each in series if each.shape == "bar"]
    stacked = [sum(value or 0 for value in column) for column in zip(*bars, strict=True)]
    return max([*stacked, *(value or 0 for each in series if each.shape != "bar" for value in each.values)], default=0)


def _ticks(highest: float) -> list[float]:
    """Return round values from zero to the first one that is not below the highest."""
    if highest <= 0:
        return [0.0, 1.0]
    rough = highest / MAX_GRID_LINES
    power = 10 ** math.floor(math.log10(rough))
    step = next(power * factor for factor in (1, 2, 2.5, 5, 10) if power * factor >= rough * 0.999)
    return [step * count for count in range(math.ceil(highest / step - 1e-9) + 1)]


def _grid(ticks: Sequence[float], scale: _Scale, format_value: Callable[[float], str]) -> Iterator[str]:
    for tick in ticks:
        y = scale.y(tick)
        kind = "grid" if tick else "axis"
        yield f'<line class="{kind}" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>'
        label = escape(format_value(tick))
        yield f'<text class="tick" x="{LEFT - 6}" y="{y + 3.5:.1f}" text-anchor="end">{label}</text>'


def _times(labels: Sequence[str], scale: _Scale) -> Iterator[str]:
    last = len(labels) - 1
    steps = {round(number * last / (TIME_LABELS - 1)) for number in range(TIME_LABELS)} if labels else set()
    for step in sorted(steps):
        anchor = "start" if step == 0 else "end" if step == last else "middle"
        x = scale.x(step + (0 if anchor == "start" else 1 if anchor == "end" else 0.5))
        yield f'<text class="tick" x="{x:.1f}" y="{HEIGHT - 8}" text-anchor="{anchor}">{escape(labels[step])}</text>'


def _shapes(series: Sequence[Series], scale: _Scale) -> Iterator[str]:
    below = [0.0] * scale.steps
    for each in series:
        if each.shape == "bar":
            yield from _bars(each, scale, below)
        else:
            for run in _runs(each.values):
                yield _line(each, run, scale)


def _bars(each: Series, scale: _Scale, below: list[float]) -> Iterator[str]:
    gap = min(1.0, scale.pitch * 0.15)
    for step, value in enumerate(each.values):
        if value:
            top, bottom = scale.y(below[step] + value), scale.y(below[step])
            below[step] += value
            yield (
                f'<rect class="f{each.colour}" x="{scale.x(step) + gap / 2:.1f}" y="{top:.1f}" '
                f'width="{scale.pitch - gap:.1f}" height="{bottom - top:.1f}"/>'
            )


def _runs(values: Sequence[Number]) -> Iterator[list[tuple[int, float]]]:
    """Return the parts of a series without a gap, as (step, value)."""
    run: list[tuple[int, float]] = []
    for step, value in enumerate(values):
        if value is not None:
            run.append((step, value))
        elif run:
            yield run
            run = []
    if run:
        yield run


def _line(each: Series, run: list[tuple[int, float]], scale: _Scale) -> str:
    points = [(scale.x(step + 0.5), scale.y(value)) for step, value in run]
    if len(points) == 1:
        return f'<circle class="f{each.colour}" cx="{points[0][0]:.1f}" cy="{points[0][1]:.1f}" r="2"/>'
    polyline = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    line = f'<polyline class="s{each.colour}" points="{polyline}"/>'
    if each.shape != "area":
        return line
    ends = f"{points[-1][0]:.1f},{scale.y(0):.1f} {points[0][0]:.1f},{scale.y(0):.1f}"
    return f'<polygon class="f{each.colour} area" points="{polyline} {ends}"/>{line}'


def _hints(
    series: Sequence[Series], labels: Sequence[str], scale: _Scale, format_value: Callable[[float], str]
) -> Iterator[str]:
    """Return a tooltip for each step."""
    for step, label in enumerate(labels):
        lines = [f"{each.name}: {format_value(value)}" for each in series if (value := each.values[step]) is not None]
        if lines:
            text = escape("\n".join([label, *lines]))
            yield (
                f'<rect class="hint" x="{scale.x(step):.1f}" y="{TOP}" width="{scale.pitch:.1f}" '
                f'height="{HEIGHT - TOP - BOTTOM}"><title>{text}</title></rect>'
            )
