"""Something to draw on, by the Java that Spark runs on: a picture needs no library that is not there already."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any
from xml.etree import ElementTree as ET

from pyspark.sql import SparkSession

from holdfast.errors import SparkUnavailable

SHARP = 2  # pixels for each unit of length, in both directions
Point = tuple[float, float]


class Canvas:
    """A picture of so many units. Colours are names of the page's style sheet, such as ``ink`` and ``c1``."""

    def __init__(self, spark: SparkSession, width: int, height: int, style: str) -> None:
        jvm: Any = getattr(spark, "_jvm")  # noqa: B009 - a Connect session has none, and no history either
        jvm.java.lang.System.setProperty("java.awt.headless", "true")
        self._jvm = jvm
        self._awt = jvm.java.awt
        self._geom = jvm.java.awt.geom
        self._colours = dict(re.findall(r"--(\w+): (#\w+);", style.partition("@media")[0]))
        try:
            self._image = self._awt.image.BufferedImage(width * SHARP, height * SHARP, 1)  # 1: red, green, blue
            self._pen = self._image.createGraphics()
            hints = self._awt.RenderingHints
            self._pen.setRenderingHint(hints.KEY_ANTIALIASING, hints.VALUE_ANTIALIAS_ON)
            self._pen.setRenderingHint(hints.KEY_TEXT_ANTIALIASING, hints.VALUE_TEXT_ANTIALIAS_ON)
            self._pen.setRenderingHint(hints.KEY_STROKE_CONTROL, hints.VALUE_STROKE_PURE)
            self._pen.scale(float(SHARP), float(SHARP))
            self._pen.getFontMetrics()
        except Exception as error:  # py4j's own kind, which a client of Spark Connect does not even have
            raise SparkUnavailable(
                "wanted a Java that can draw text, this one finds no fonts: install fontconfig and a font, "
                "or write the report as HTML"
            ) from error
        self.box(0, 0, width, height, "paper")

    # Shapes -----------------------------------------------------------------------------------------------------

    def box(self, x: float, y: float, width: float, height: float, colour: str, *, opacity: float = 1.0) -> None:
        """A filled rectangle."""
        self._take(colour, opacity)
        self._pen.fill(self._geom.Rectangle2D.Double(float(x), float(y), float(width), float(height)))

    def card(self, x: float, y: float, width: float, height: float) -> None:
        """Paper with round corners and a rule around it, for something to stand on."""
        shape = self._geom.RoundRectangle2D.Double(float(x), float(y), float(width), float(height), 20.0, 20.0)
        self._take("card")
        self._pen.fill(shape)
        self._take("rule")
        self._pen.setStroke(self._awt.BasicStroke(1.0))
        self._pen.draw(shape)

    def dot(self, x: float, y: float, radius: float, colour: str) -> None:
        """A filled circle."""
        self._take(colour)
        self._pen.fill(self._geom.Ellipse2D.Double(x - radius, y - radius, 2 * radius, 2 * radius))

    def line(self, points: Iterable[Point], colour: str, *, width: float = 1.0) -> None:
        """Through these points."""
        self._take(colour)
        self._pen.setStroke(self._awt.BasicStroke(width, 1, 1))  # round ends and corners
        self._pen.draw(self._path(points))

    def area(self, points: Iterable[Point], colour: str, *, opacity: float) -> None:
        """Inside these points."""
        self._take(colour, opacity)
        path = self._path(points)
        path.closePath()
        self._pen.fill(path)

    def text(
        self, x: float, y: float, text: str, colour: str, *, size: float, bold: bool = False, align: str = "start"
    ) -> float:
        """On a line at ``y``; gives where it ends."""
        font = self._awt.Font("SansSerif", int(bold), 1).deriveFont(float(size))
        self._pen.setFont(font)
        self._take(colour)
        width = float(self._pen.getFontMetrics().stringWidth(text))
        x -= {"start": 0.0, "middle": width / 2, "end": width}[align]
        self._pen.drawString(text, float(x), float(y))
        return x + width

    def drawing(self, svg: str, x: float, y: float, scale: float) -> None:
        """A plot as ``plots.py`` writes it: the few elements of SVG that it uses, in the page's classes."""

        def at(point: str) -> Point:
            across, _, down = point.partition(",")
            return x + float(across) * scale, y + float(down) * scale

        for element in ET.fromstring(svg):  # noqa: S314 - of our own making
            classes = element.get("class", "").split()
            colour = {"grid": "rule", "axis": "c6", "tick": "soft"}.get(classes[0], f"c{classes[0][1:]}")
            value = {name: text for name, text in element.attrib.items() if name != "class"}
            match element.tag:
                case "line":
                    ends = [at(f"{value['x1']},{value['y1']}"), at(f"{value['x2']},{value['y2']}")]
                    self.line(ends, colour, width=1.0)
                case "text":
                    place = at(f"{value['x']},{value['y']}")
                    self.text(*place, element.text or "", colour, size=11 * scale, align=value["text-anchor"])
                case "polyline":
                    self.line([at(point) for point in value["points"].split()], colour, width=1.75 * scale)
                case "polygon":
                    self.area([at(point) for point in value["points"].split()], colour, opacity=0.16)
                case "circle":
                    self.dot(*at(f"{value['cx']},{value['cy']}"), float(value["r"]) * scale, colour)
                case "rect" if "hint" not in classes:
                    size = float(value["width"]) * scale, float(value["height"]) * scale
                    self.box(*at(f"{value['x']},{value['y']}"), *size, colour)

    # The end ----------------------------------------------------------------------------------------------------

    def png(self) -> bytes:
        """The picture."""
        self._pen.dispose()
        stream = self._jvm.java.io.ByteArrayOutputStream()
        self._jvm.javax.imageio.ImageIO.write(self._image, "png", stream)
        return bytes(stream.toByteArray())

    def _take(self, colour: str, opacity: float = 1.0) -> None:
        number = self._colours[colour].removeprefix("#")
        whole = "".join(digit * 2 for digit in number) if len(number) == 3 else number
        red, green, blue = (int(whole[place : place + 2], 16) for place in (0, 2, 4))
        self._pen.setColor(self._awt.Color(red, green, blue, round(255 * opacity)))

    def _path(self, points: Iterable[Point]) -> Any:
        path = self._geom.Path2D.Double()
        first, *more = points
        path.moveTo(*map(float, first))
        for point in more:
            path.lineTo(*map(float, point))
        return path
