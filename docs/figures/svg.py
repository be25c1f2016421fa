"""An SVG writer for the figures: boxes, lines and text on a grid of pixels, with reproducible output."""

from collections.abc import Sequence
from xml.sax.saxutils import escape

__all__ = ["ARRAY", "CONTROL", "INK", "LINE", "MEMORY", "MOVE", "MUTED", "PAD", "VECTOR", "Drawing"]

Point = tuple[float, float]

#: Colours of lines and text.
INK, MUTED, LINE = "#1f2933", "#5f6c7b", "#7b8794"
#: Fills: one for each kind of part, in all figures.
MEMORY, MOVE, PAD, ARRAY, VECTOR, CONTROL = "#ece6f6", "#dcebfa", "#fbf3d0", "#fde3cf", "#d9f0e0", "#eceff2"

_HEAD = 7
_STYLE = """\
text { font-family: "Helvetica Neue", Helvetica, Arial, "Liberation Sans", sans-serif; }
.code { font-family: "SFMono-Regular", Menlo, Consolas, "Liberation Mono", monospace; }
"""


class Drawing:
    """Collects elements; `text()` is the file.

    `title` is what a reader hears who does not see the picture.
    """

    def __init__(self, width: int, height: int, title: str) -> None:
        self._parts = [
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
            f'viewBox="0 0 {width} {height}" role="img">',
            f"<title>{escape(title)}</title>", f"<style>\n{_STYLE}</style>",
            f'<rect width="{width}" height="{height}" rx="8" fill="#ffffff"/>']

    def text(self) -> str:
        """Return the whole file."""
        return "\n".join([*self._parts, "</svg>", ""])

    def rect(self, x: float, y: float, width: float, height: float, *, fill: str = "none", stroke: str = LINE,
             radius: float = 5, dash: str = "", line: float = 1.2) -> None:
        """Draw a rectangle with round corners."""
        dashed = f' stroke-dasharray="{dash}"' if dash else ""
        self._parts.append(
            f'<rect x="{_number(x)}" y="{_number(y)}" width="{_number(width)}" height="{_number(height)}" '
            f'rx="{_number(radius)}" fill="{fill}" stroke="{stroke}" stroke-width="{_number(line)}"{dashed}/>')

    def words(self, x: float, y: float, text: str, *, size: float = 13, color: str = INK, anchor: str = "middle",
              bold: bool = False, code: bool = False) -> None:
        """Write one line; `y` is its base line."""
        weight = ' font-weight="600"' if bold else ""
        kind = ' class="code"' if code else ""
        self._parts.append(
            f'<text x="{_number(x)}" y="{_number(y)}" font-size="{_number(size)}" fill="{color}" '
            f'text-anchor="{anchor}"{weight}{kind}>{escape(text)}</text>')

    def box(self, x: float, y: float, width: float, height: float, title: str, lines: Sequence[str] = (), *,
            fill: str = "#ffffff", code: str = "") -> None:
        """Draw a box: a title, lines below it, and a path in code at the end, all centred."""
        self.rect(x, y, width, height, fill=fill)
        rows = 1 + len(lines) + bool(code)
        base = y + height / 2 - (rows - 1) * 8.5 + 5
        middle = x + width / 2
        self.words(middle, base, title, size=14, bold=True)
        for number, line in enumerate(lines, 1):
            self.words(middle, base + 17 * number, line, size=12)
        if code:
            self.words(middle, base + 17 * (rows - 1), code, size=11, color=MUTED, code=True)

    def line(self, *points: Point, color: str = LINE, dash: str = "", line: float = 1.5) -> None:
        """Draw a line through points."""
        dashed = f' stroke-dasharray="{dash}"' if dash else ""
        path = " ".join(f"{_number(x)},{_number(y)}" for x, y in points)
        self._parts.append(
            f'<polyline points="{path}" fill="none" stroke="{color}" stroke-width="{_number(line)}"{dashed}/>')

    def arrow(self, *points: Point, color: str = LINE, dash: str = "", both: bool = False, line: float = 1.5) -> None:
        """Draw a line of horizontal and vertical pieces with a head at its end, or at both ends."""
        inner = list(points)
        inner[-1] = _short(points[-2], points[-1])
        if both:
            inner[0] = _short(points[1], points[0])
        self.line(*inner, color=color, dash=dash, line=line)
        self._head(points[-2], points[-1], color)
        if both:
            self._head(points[1], points[0], color)

    def polygon(self, *points: Point, fill: str, stroke: str = LINE, line: float = 1) -> None:
        """Draw a filled outline."""
        path = " ".join(f"{_number(x)},{_number(y)}" for x, y in points)
        self._parts.append(f'<polygon points="{path}" fill="{fill}" stroke="{stroke}" stroke-width="{_number(line)}"/>')

    def _head(self, before: Point, at: Point, color: str) -> None:
        dx, dy = _direction(before, at)
        back = at[0] - _HEAD * dx, at[1] - _HEAD * dy
        side = _HEAD / 2
        self.polygon(at, (back[0] - side * dy, back[1] + side * dx), (back[0] + side * dy, back[1] - side * dx),
                     fill=color, stroke=color, line=0.5)


def _direction(before: Point, at: Point) -> Point:
    dx, dy = at[0] - before[0], at[1] - before[1]
    if dx and dy:
        raise ValueError(f"arrows are horizontal or vertical, not from {before} to {at}")
    return (dx > 0) - (dx < 0), (dy > 0) - (dy < 0)


def _short(before: Point, at: Point) -> Point:
    dx, dy = _direction(before, at)
    return at[0] - (_HEAD - 1) * dx, at[1] - (_HEAD - 1) * dy


def _number(value: float) -> str:
    return f"{value:.2f}".rstrip("0").rstrip(".")
