"""Draw a PNG with the Java2D classes of Spark's JVM, so that a picture needs no other library."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any
from xml.etree import ElementTree as ET

from pyspark.sql import SparkSession

from holdfast.errors import SparkUnavailable

PIXELS_PER_UNIT = 2  # in both directions
Point = tuple[float, float]


class JavaImage:
    """An image of ``width`` by ``height`` units. Colours are names of the style sheet, such as ``ink`` and ``c1``."""

    def __init__(self, spark: SparkSession, width: int, height: int, style: str) -> None:
        jvm: Any = getattr(spark, "_jvm")  # noqa: B009 - a Connect session has no JVM, and no history either
        jvm.java.lang.System.setProperty("java.awt.headless", "true")
        self._jvm = jvm
        self._awt = jvm.java.awt
        self._geom = jvm.java.awt.geom
        self._colours = dict(re.findall(r"--(\w+): (#\w+);", style.partition("@media")[0]))
        try:
            self._image = self._awt.image.BufferedImage(
                width * PIXELS_PER_UNIT, height * PIXELS_PER_UNIT, 1
            )  # 1: TYPE_INT_RGB
            self._graphics = self._image.createGraphics()
            hints = self._awt.RenderingHints
            self._graphics.setRenderingHint(hints.KEY_ANTIALIASING, hints.VALUE_ANTIALIAS_ON)
            self._graphics.setRenderingHint(hints.KEY_TEXT_ANTIALIASING, hints.VALUE_TEXT_ANTIALIAS_ON)
            self._graphics.setRenderingHint(hints.KEY_STROKE_CONTROL, hints.VALUE_STROKE_PURE)
            self._graphics.scale(float(PIXELS_PER_UNIT), float(PIXELS_PER_UNIT))
            self._graphics.getFontMetrics()
        except Exception as error:  # py4j's exception; py4j is missing beside a Connect-only pyspark
            raise SparkUnavailable(
                "wanted a Java that can draw text, this one finds no fonts: install fontconfig and a font, "
                "or write the report as HTML"
            ) from error
        self.box(0, 0, width, height, "paper")

    # Shapes -----------------------------------------------------------------------------------------------------

    def box(self, x: float, y: float, width: float, height: float, colour: str, *, opacity: float = 1.0) -> None:
        """Draw a filled rectangle."""
        self._set_colour(colour, opacity)
        self._graphics.fill(self._geom.Rectangle2D.Double(float(x), float(y), float(width), float(height)))

    def card(self, x: float, y: float, width: float, height: float) -> None:
        """Draw a card: a filled rectangle with round corners and a border."""
        shape = self._geom.RoundRectangle2D.Double(float(x), float(y), float(width), float(height), 20.0, 20.0)
        self._set_colour("card")
        self._graphics.fill(shape)
        self._set_colour("rule")
        self._graphics.setStroke(self._awt.BasicStroke(1.0))
        self._graphics.draw(shape)

    def dot(self, x: float, y: float, radius: float, colour: str) -> None:
        """Draw a filled circle."""
        self._set_colour(colour)
        self._graphics.fill(self._geom.Ellipse2D.Double(x - radius, y - radius, 2 * radius, 2 * radius))

    def line(self, points: Iterable[Point], colour: str, *, width: float = 1.0) -> None:
        """Draw a line through these points."""
        self._set_colour(colour)
        self._graphics.setStroke(self._awt.BasicStroke(width, 1, 1))  # round ends and corners
        self._graphics.draw(self._path(points))

    def area(self, points: Iterable[Point], colour: str, *, opacity: float) -> None:
        """Fill the polygon of these points."""
        self._set_colour(colour, opacity)
        path = self._path(points)
        path.closePath()
        self._graphics.fill(path)

    def text(
        self, x: float, y: float, text: str, colour: str, *, size: float, bold: bool = False, align: str = "start"
    ) -> float:
        """Write text with its baseline at ``y``. Return the x where the text ends."""
        font = self._awt.Font("SansSerif", int(bold), 1).deriveFont(float(size))
        self._graphics.setFont(font)
        self._set_colour(colour)
        width = float(self._graphics.getFontMetrics().stringWidth(text))
        x -= {"start": 0.0, "middle": width / 2, "end": width}[align]
        self._graphics.drawString(text, float(x), float(y))
        return x + width

    def draw_svg(self, svg: str, x: float, y: float, scale: float) -> None:
        """Draw a plot of ``plots.py``: only the SVG elements and classes that it uses are supported."""

        def to_point(point: str) -> Point:
            across, _, down = point.partition(",")
            return x + float(across) * scale, y + float(down) * scale

        for element in ET.fromstring(svg):  # noqa: S314 - our own SVG
            classes = element.get("class", "").split()
            colour = {"grid": "rule", "axis": "c6", "tick": "soft"}.get(classes[0], f"c{classes[0][1:]}")
            values = {name: text for name, text in element.attrib.items() if name != "class"}
            match element.tag:
                case "line":
                    ends = [to_point(f"{values['x1']},{values['y1']}"), to_point(f"{values['x2']},{values['y2']}")]
                    self.line(ends, colour, width=1.0)
                case "text":
                    point = to_point(f"{values['x']},{values['y']}")
                    self.text(*point, element.text or "", colour, size=11 * scale, align=values["text-anchor"])
                case "polyline":
                    self.line([to_point(point) for point in values["points"].split()], colour, width=1.75 * scale)
                case "polygon":
                    self.area([to_point(point) for point in values["points"].split()], colour, opacity=0.16)
                case "circle":
                    self.dot(*to_point(f"{values['cx']},{values['cy']}"), float(values["r"]) * scale, colour)
                case "rect" if "hint" not in classes:
                    size = float(values["width"]) * scale, float(values["height"]) * scale
                    self.box(*to_point(f"{values['x']},{values['y']}"), *size, colour)

    def png(self) -> bytes:
        """Return the image as PNG. Nothing can be drawn afterwards."""
        self._graphics.dispose()
        stream = self._jvm.java.io.ByteArrayOutputStream()
        self._jvm.javax.imageio.ImageIO.write(self._image, "png", stream)
        return bytes(stream.toByteArray())

    def _set_colour(self, colour: str, opacity: float = 1.0) -> None:
        code = self._colours[colour].removeprefix("#")
        digits = "".join(digit * 2 for digit in code) if len(code) == 3 else code
        red, green, blue = (int(digits[start : start + 2], 16) for start in (0, 2, 4))
        self._graphics.setColor(self._awt.Color(red, green, blue, round(255 * opacity)))

    def _path(self, points: Iterable[Point]) -> Any:
        path = self._geom.Path2D.Double()
        first, *others = points
        path.moveTo(*map(float, first))
        for point in others:
            path.lineTo(*map(float, point))
        return path
