"""The picture of docs/explanation/architecture.md: boxes and arrows on a fixed grid, drawn as plain SVG.

``docs/build.py`` writes ``docs/images/architecture.svg`` from it. A word in a box that ends in ``.py`` or ``/`` is a
path below ``src/holdfast``; ``tests/docs`` checks that each path exists.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

WIDTH, HEIGHT = 1120, 900
INK, FAINT, LINE = "#1f2933", "#52606d", "#7b8794"
MARKER = 'markerWidth="7" markerHeight="7"'
FONT = "Helvetica, Arial, 'DejaVu Sans', sans-serif"
MONO = "ui-monospace, 'DejaVu Sans Mono', Menlo, Consolas, monospace"


@dataclass(frozen=True)
class Colour:
    """The fill and the border of a box."""

    fill: str
    border: str


GREY = Colour("#f5f7fa", "#cbd2d9")
BLUE = Colour("#e3f0fc", "#7fb2e5")
GREEN = Colour("#e3f6ec", "#7cc8a0")
AMBER = Colour("#fdf3d9", "#e0b95a")
WHITE = Colour("#ffffff", "#b8c2cc")


@dataclass(frozen=True)
class Box:
    """A rectangle with a title and lines below it. A frame has its title at the top left and other boxes inside."""

    x: int
    y: int
    width: int
    height: int
    title: str
    lines: Sequence[str] = ()
    colour: Colour = WHITE
    frame: bool = False
    dashed: bool = False
    title_x: int = 16  # of a frame: pixels from its left edge, to leave space for arrows


@dataclass(frozen=True)
class Arrow:
    """A line through some points, with its head at the last one. ``step`` is its number on the page."""

    points: Sequence[tuple[int, int]]
    label: str = ""
    label_at: tuple[int, int] = (0, 0)
    step: int | None = None
    step_at: tuple[int, int] = (0, 0)
    dashed: bool = False


BOXES = [
    Box(20, 20, 1080, 128, "Producers", colour=BLUE, frame=True),
    Box(
        40,
        56,
        320,
        76,
        "send.enqueue(...), Client.enqueue(...)",
        ("app.py  client.py", "model/request.py  wire/codec.py"),
    ),
    Box(
        400, 56, 320, 76, 'df.write.format("holdfast")', ("spark/datasource/sink.py", "spark/datasource/row_to_job.py")
    ),
    Box(760, 56, 320, 76, "run(df, handler)", ("spark/execution/dataframe.py", "spark/execution/row_source.py")),
    Box(20, 206, 1080, 196, "Store", colour=AMBER, frame=True),
    Box(
        40,
        242,
        220,
        140,
        "one driver, one contract",
        ("connect.py", "drivers/requests/", "drivers/memory/", "drivers/sqlite/", "drivers/postgres/"),
    ),
    Box(310, 242, 220, 140, "jobs", ("ready and inflight", "in reserve order:", "model/order.py")),
    Box(590, 242, 210, 140, "ended", ("done, dead, cancelled", "new state of a job:", "model/transition.py")),
    Box(860, 242, 220, 140, "ledger", ("one row per ended lease,", "in the same transaction", "model/ledger.py")),
    Box(
        20,
        462,
        1080,
        246,
        "Worker process, or slot: the same worker in a Spark task",
        colour=GREEN,
        frame=True,
        title_x=300,
    ),
    Box(40, 504, 210, 78, "reserve loop", ("worker/reserve_loop.py", "worker/job_source.py")),
    Box(40, 612, 210, 78, "heartbeat", ("worker/heartbeat.py", "extends every lease")),
    Box(290, 504, 232, 78, "dispatch to children", ("worker/processes/dispatch.py", "worker/processes/pool.py")),
    Box(290, 612, 232, 78, "fork server", ("worker/processes/forkserver.py", "starts and reaps children")),
    Box(570, 496, 240, 194, "child process", colour=GREY, frame=True, dashed=True),
    Box(586, 530, 208, 64, "an attempt: your handler", ("worker/processes/child.py", "worker/attempt.py")),
    Box(586, 616, 208, 60, "outcome", ("worker/outcome.py",)),
    Box(862, 612, 218, 78, "ack, retry, fail or release", ("worker/decide.py", "model/retry.py")),
    Box(862, 504, 218, 78, "settlements in batches", ("worker/settler.py", "model/settlement.py")),
    Box(20, 766, 1080, 114, "Readers", colour=BLUE, frame=True),
    Box(40, 800, 240, 64, "Client.wait, Client.result", ("client.py",)),
    Box(300, 800, 260, 64, "spark.read, spark.readStream", ("spark/datasource/source.py",)),
    Box(580, 800, 240, 64, "history in Parquet", ("spark/history/sync.py",)),
    Box(840, 800, 240, 64, "audit, report", ("spark/history/audit.py",)),
]

ARROWS = [
    Arrow([(200, 132), (200, 174), (360, 174), (360, 242)], step=1, step_at=(200, 161)),
    Arrow(
        [(560, 132), (560, 174), (420, 174), (420, 242)],
        step=1,
        step_at=(560, 161),
        label="enqueue",
        label_at=(214, 194),
    ),
    Arrow(
        [(920, 132), (920, 186), (480, 186), (480, 242)],
        step=1,
        step_at=(920, 161),
        label="enqueue, enqueue_leased",
        label_at=(690, 180),
    ),
    Arrow(
        [(330, 382), (330, 432), (110, 432), (110, 504)],
        label="reserve",
        label_at=(124, 452),
        step=2,
        step_at=(220, 432),
    ),
    Arrow([(250, 543), (290, 543)], step=3, step_at=(268, 543)),
    Arrow([(522, 543), (586, 543)], step=4, step_at=(551, 543)),
    Arrow([(690, 594), (690, 616)]),
    Arrow([(794, 651), (862, 651)], step=5, step_at=(832, 651)),
    Arrow([(971, 612), (971, 582)], step=6, step_at=(971, 600)),
    Arrow([(971, 504), (971, 382)], step=7, step_at=(971, 432), label="settle", label_at=(986, 452)),
    Arrow([(900, 504), (900, 432), (695, 432), (695, 382)], label="ended for good", label_at=(710, 426)),
    Arrow([(862, 530), (838, 530), (838, 446), (450, 446), (450, 382)], label="runs again", label_at=(464, 440)),
    Arrow([(40, 651), (30, 651), (30, 418), (390, 418), (390, 382)], label="extend", label_at=(38, 436), dashed=True),
    Arrow([(522, 651), (570, 651)], dashed=True),
    Arrow([(1080, 312), (1109, 312), (1109, 738), (560, 738), (560, 766)], dashed=True, step=8, step_at=(840, 738)),
]


def draw() -> str:
    """Return the picture as an SVG document."""
    head = f'<path d="M0 0L10 5L0 10z" fill="{LINE}"/>'
    size = f'viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}"'
    label = "The path of a job from enqueue to the ledger"
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="{FONT}" role="img" aria-label="{label}">',
        f'<defs><marker id="head" viewBox="0 0 10 10" refX="9" refY="5" {MARKER} orient="auto">{head}</marker></defs>',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#ffffff"/>',
        *(_box(box) for box in BOXES),
        *(_arrow(arrow) for arrow in ARROWS),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def module_names() -> set[str]:
    """Return every path below ``src/holdfast`` that the picture names."""
    words = [word for box in BOXES for text in (box.title, *box.lines) for word in text.strip("()").split()]
    return {word.strip("():,") for word in words if word.strip("():,").endswith((".py", "/"))}


def _box(box: Box) -> str:
    dash = ' stroke-dasharray="5 4"' if box.dashed else ""
    rectangle = (
        f'<rect x="{box.x}" y="{box.y}" width="{box.width}" height="{box.height}" rx="{10 if box.frame else 6}" '
        f'fill="{box.colour.fill}" stroke="{box.colour.border}" stroke-width="1.4"{dash}/>'
    )
    if box.frame:
        return rectangle + _text(box.x + box.title_x, box.y + 23, box.title, size=14, weight="600", anchor="start")
    middle = box.x + box.width // 2
    pitch = 18
    top = box.y + (box.height - pitch * len(box.lines)) // 2 + 4
    title = _text(middle, top, box.title, size=13.5, weight="600")
    lines = [
        _text(middle, top + pitch * (number + 1), line, size=12, colour=FAINT, mono=_is_path(line))
        for number, line in enumerate(box.lines)
    ]
    return "".join([rectangle, title, *lines])


def _arrow(arrow: Arrow) -> str:
    path = "M" + "L".join(f"{x} {y}" for x, y in arrow.points)
    dash = ' stroke-dasharray="5 4"' if arrow.dashed else ""
    parts = [f'<path d="{path}" fill="none" stroke="{LINE}" stroke-width="1.6"{dash} marker-end="url(#head)"/>']
    if arrow.label:
        parts.append(_text(*arrow.label_at, arrow.label, size=12.5, weight="600", anchor="start", halo=True))
    if arrow.step is not None:
        x, y = arrow.step_at
        parts.append(f'<circle cx="{x}" cy="{y}" r="10" fill="{INK}"/>')
        parts.append(_text(x, y + 4, str(arrow.step), size=12, weight="700", colour="#ffffff"))
    return "".join(parts)


def _text(
    x: int,
    y: int,
    text: str,
    *,
    size: float,
    weight: str = "400",
    colour: str = INK,
    anchor: str = "middle",
    mono: bool = False,
    halo: bool = False,
) -> str:
    font = f' font-family="{MONO}"' if mono else ""
    outline = ' stroke="#ffffff" stroke-width="4" paint-order="stroke"' if halo else ""
    return (
        f'<text x="{x}" y="{y}" font-size="{size}" font-weight="{weight}" fill="{colour}" '
        f'text-anchor="{anchor}"{font}{outline}>{escape(text, quote=False)}</text>'
    )


def _is_path(line: str) -> bool:
    return all(word.endswith((".py", "/")) for word in line.split())
