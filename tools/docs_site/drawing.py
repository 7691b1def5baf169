"""Draws the boxes, arrows and texts of the documents' pictures as SVG.

Each picture has a ground of its own, and colours for a dark and a light reader. So it can be read
on a page that is dark while the reader's system is light. Sizes are SVG's units: pixels at 100 %.
"""

from collections.abc import Iterable
from html import escape

STYLE = """
text { font: 14px system-ui, "Segoe UI", "DejaVu Sans", sans-serif; fill: #1f2430 }
.small { font-size: 12px; fill: #4b5262 }
.small { paint-order: stroke; stroke: #fbfbfd; stroke-width: 4px }
.inner { font-size: 12px }
.code { font-family: ui-monospace, "DejaVu Sans Mono", monospace; font-size: 13px }
.name { font-weight: 600 }
.ground { fill: #fbfbfd; stroke: #d9dce4 }
.box { fill: #e8edfb; stroke: #4a63b8 }
.quiet { fill: #eef0f4; stroke: #8a91a3 }
.good { fill: #d9f0e1; stroke: #1d7a45 }
.bad { fill: #fbe0dc; stroke: #b3372a }
.warm { fill: #fdefcf; stroke: #946200 }
.line { stroke: #5a6274; fill: none }
.thin { stroke: #c3c8d4; fill: none }
.head { fill: #5a6274; stroke: none }
@media (prefers-color-scheme: dark) {
  text { fill: #e6e9f2 } .small { fill: #b4bccd; stroke: #171a21 }
  .ground { fill: #171a21; stroke: #343a48 }
  .box { fill: #24305a; stroke: #8ea4f0 } .quiet { fill: #262b36; stroke: #7b8396 }
  .good { fill: #17402a; stroke: #5cc98a } .bad { fill: #54231d; stroke: #f08a7d }
  .warm { fill: #4a3810; stroke: #e3b54f } .line { stroke: #a3abbd } .thin { stroke: #3c4352 }
  .head { fill: #a3abbd }
}
""".strip()

Point = tuple[float, float]


def number(value: float) -> str:
    """Write a coordinate with one digit, or none."""
    return f"{value:.1f}".removesuffix(".0")


class Picture:
    """A picture of so many pixels that says in one sentence, for screen readers, what it shows."""

    def __init__(self, width: int, height: int, says: str) -> None:
        self.width, self.height, self.says = width, height, says
        self._parts: list[str] = []

    def text(self, x: float, y: float, text: str, kind: str = "", anchor: str = "middle") -> None:
        """Write a text whose base line begins, or has its middle, at a point."""
        marks = f'text-anchor="{anchor}"' + (f' class="{kind}"' if kind else "")
        self._parts.append(f'<text x="{number(x)}" y="{number(y)}" {marks}>{escape(text)}</text>')

    def box(
        self,
        x: float,
        y: float,
        width: float,
        height: float,
        lines: Iterable[str],
        kind: str = "box",
    ) -> None:
        """Draw a box with lines of text in its middle; the first one is bold."""
        self._parts.append(
            f'<rect x="{number(x)}" y="{number(y)}" width="{number(width)}" '
            f'height="{number(height)}" rx="6" class="{kind}"/>'
        )
        lines = list(lines)
        top = y + height / 2 + 5 - 9 * (len(lines) - 1)
        for place, line in enumerate(lines):
            self.text(x + width / 2, top + 18 * place, line, "inner" if place else "name")

    def line(self, *points: Point, kind: str = "line", dashed: bool = False) -> None:
        """Draw a line through points."""
        way = "M" + " L".join(f"{number(x)} {number(y)}" for x, y in points)
        dashes = ' stroke-dasharray="4 4"' if dashed else ""
        self._parts.append(f'<path d="{way}" class="{kind}" stroke-width="1.5"{dashes}/>')

    def arrow(self, *points: Point, dashed: bool = False) -> None:
        """Draw a line through points that ends with an arrow's head."""
        self.line(*points, dashed=dashed)
        (x0, y0), (x, y) = points[-2:]
        length = ((x - x0) ** 2 + (y - y0) ** 2) ** 0.5
        across, down = (x - x0) / length * 9, (y - y0) / length * 9
        left = (x - across - down / 2, y - down + across / 2)
        right = (x - across + down / 2, y - down - across / 2)
        way = " ".join(f"{number(a)},{number(b)}" for a, b in ((x, y), left, right))
        self._parts.append(f'<polygon points="{way}" class="head"/>')

    def mark(self, x: float, y: float, kind: str, radius: float = 6) -> None:
        """Draw a dot: a request, a task."""
        self._parts.append(
            f'<circle cx="{number(x)}" cy="{number(y)}" r="{number(radius)}" class="{kind}"/>'
        )

    def svg(self) -> str:
        """Return the picture's text."""
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {self.width} {self.height}" '
            f'width="{self.width}" height="{self.height}" role="img">\n'
            f"<title>{escape(self.says)}</title>\n<style>\n{STYLE}\n</style>\n"
            f'<rect x="0.5" y="0.5" width="{self.width - 1}" height="{self.height - 1}" rx="8" '
            'class="ground"/>\n' + "\n".join(self._parts) + "\n</svg>\n"
        )


def sequence(steps: str) -> str:
    """Draw the steps of a mermaid `sequenceDiagram`, of the kind `a->>b: text`, as SVG.

    A step that is no such line raises ValueError: it would be missing in the picture.
    """
    read = []
    for line in steps.strip().splitlines():
        ends, colon, text = line.strip().partition(": ")
        dashed = "-->>" in ends
        first, arrow, second = ends.partition("-->>" if dashed else "->>")
        if not (arrow and colon):
            raise ValueError(f"no step of a sequence: {line}")
        read.append((first, second, text, dashed))
    names = list(dict.fromkeys(name for first, second, *_ in read for name in (first, second)))
    places = {name: 60 + 100 * at for at, name in enumerate(names)}
    width = max(120 + 100 * (len(names) - 1), 500)
    picture = Picture(width, 72 + 36 * len(read), "The calls from room to room, in their order")
    for name, x in places.items():
        picture.line((x, 44), (x, picture.height - 16), kind="thin")
        picture.box(x - 46, 14, 92, 30, [name])
    for at, (first, second, text, dashed) in enumerate(read):
        y, x, end = 80 + 36 * at, places[first], places[second]
        if first == second:
            way = ((x, y - 8), (x + 20, y - 8), (x + 20, y + 6), (x + 2, y + 6))
            picture.arrow(*way, dashed=dashed)
            left, right, lower = x + 26, x - 8, y + 2
        else:
            picture.arrow((x, y), (end, y), dashed=dashed)
            left, right, lower = min(x, end) + 8, max(x, end) - 8, y - 6
        if left + 6.6 * len(text) < width - 8:
            picture.text(left, lower, text, "small", "start")
        else:
            picture.text(right, lower, text, "small", "end")
    return picture.svg()
