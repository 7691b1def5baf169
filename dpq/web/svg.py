"""The lines, bars and words of charts; the template `charts.html` draws them as SVG."""

import json
from collections.abc import Iterator, Sequence
from typing import Any

from dpq.model.rates import span
from dpq.views.charts import Chart, Line
from dpq.views.words import number

WIDTH, HEIGHT = 600.0, 100.0
"""The box of a chart; the page stretches it."""


def figure(value: float) -> str:
    """Write a value of a chart with three digits."""
    return number(round(value)) if value >= 1000 else f"{value:.3g}"


def say_value(value: float | None, unit: str) -> str:
    """Write a value of a chart with its unit; seconds as a duration."""
    if value is None:
        return "–"  # noqa: RUF001
    return span(value) if unit == "s" else f"{figure(value)}{unit}"


def drawn(chart: Chart) -> dict[str, Any]:
    """Return what the template needs of a chart: paths, words, and the data under a pointer."""
    known = [value for line in chart.lines for value in line.values if value is not None]
    most = max(known, default=0.0) or 1.0
    step = WIDTH / len(chart.lines[0].values)
    said = [
        f"{line.name}: at most {say_value(max(values), chart.unit)}"
        for line in chart.lines
        if (values := [value for value in line.values if value is not None])
    ]
    names = [line.name for line in chart.lines]
    words = [[say_value(value, chart.unit) for value in line.values] for line in chart.lines]
    if any(chart.marks):
        names, words = [*names, "rate limited"], [*words, [str(count) for count in chart.marks]]
    path = bars_of if chart.bars else line_of
    return {
        "said": "; ".join(said) or "nothing is known",
        "data": json.dumps([names, words], ensure_ascii=False),
        "most": say_value(most, chart.unit) if known else "",
        "paths": [(line.kind, "".join(path(line, step, most))) for line in chart.lines],
        "marks": "".join(
            f"M{step * (n + 0.5):.1f} 4v20" for n, hits in enumerate(chart.marks) if hits
        ),
        "ago": span(chart.step_ms * len(chart.lines[0].values) / 1000),
    }


def _height(value: float, most: float) -> float:
    return HEIGHT - 1 - (HEIGHT - 4) * value / most


def line_of(line: Line, step: float, most: float) -> Iterator[str]:
    """Write the path of a line, a limit in steps, with gaps where no value is known."""
    down = False
    for i, value in enumerate(line.values):
        if value is None:
            down = False
            continue
        x, y = step * (i + 0.5), _height(value, most)
        if line.kind == "limit":
            yield f"{'L' if down else 'M'}{step * i:.1f} {y:.1f}h{step:.1f}"
            down = True
            continue
        if down or (i + 1 < len(line.values) and line.values[i + 1] is not None):
            yield f"{'L' if down else 'M'}{x:.1f} {y:.1f}"
            down = True
        else:  # a value without neighbours is a short line
            yield f"M{x - 0.4 * step:.1f} {y:.1f}h{0.8 * step:.1f}"


def bars_of(line: Line, step: float, most: float) -> Iterator[str]:
    """Write the path of bars; nothing for zero."""
    for i, value in enumerate(line.values):
        if value:
            top = _height(value, most)
            yield f"M{step * i:.1f} {HEIGHT:g}V{top:.1f}h{step * 0.8:.1f}V{HEIGHT:g}z"


def points(values: Sequence[float]) -> str:
    """Write the last minutes of a number as the points of a small line, from zero up."""
    most, step = max(*values, 1e-9), 100 / (len(values) - 1)
    return " ".join(f"{i * step:.1f},{22 - 20 * v / most:.1f}" for i, v in enumerate(values))
