"""Charts as SVG, drawn by the server without a library; all else is text."""

import json
from collections.abc import Sequence

from markupsafe import Markup

from dpq.model.rates import span
from dpq.views.charts import Chart, Line

WIDTH, HEIGHT = 600.0, 100.0
"""The box of a chart; the page stretches it."""

RECT = Markup('<rect class="{}" x="{:.1f}" y="{:.1f}" width="{:.1f}" height="{:.1f}"></rect>')
MARK = Markup('<line class="limited" x1="{0:.1f}" x2="{0:.1f}" y1="4" y2="24"></line>')
"""A bar of a chart, and the mark of a 429."""


def figure(value: float) -> str:
    """Write a value of a chart with three digits."""
    if value >= 1000:
        return f"{value:,.0f}".replace(",", "\u202f")
    return f"{value:.3g}"


def say_value(value: float | None, unit: str) -> str:
    """Write a value of a chart with its unit; seconds as a duration."""
    if value is None:
        return "–"  # noqa: RUF001
    return span(value) if unit == "s" else f"{figure(value)}{unit}"


def draw(chart: Chart) -> Markup:
    """Draw a chart, with the data from which a browser shows the values under a pointer."""
    known = [value for line in chart.lines for value in line.values if value is not None]
    most = max(known, default=0.0) or 1.0
    drawn = bars_of if chart.bars else path_of
    shapes = Markup("").join(drawn(line, most) for line in chart.lines)
    step = WIDTH / len(chart.lines[0].values)
    shapes += Markup("").join(
        MARK.format(step * (n + 0.5)) for n, count in enumerate(chart.marks) if count
    )
    said = "; ".join(
        f"{line.name}: at most {say_value(max(values), chart.unit)}"
        for line in chart.lines
        if (values := [value for value in line.values if value is not None])
    )
    names = [line.name for line in chart.lines]
    words = [[say_value(value, chart.unit) for value in line.values] for line in chart.lines]
    if any(chart.marks):
        names, words = [*names, "rate limited"], [*words, [str(count) for count in chart.marks]]
    keys = Markup(" ").join(
        Markup('<span class="legend {}">{}</span>').format(line.kind, line.name)
        for line in chart.lines
    )
    return Markup(
        '<figure class="chart" tabindex="0" data-key="{}" '
        'data-chart="{}" data-from="{}" data-step="{}" '
        'aria-label="{}: {}"><figcaption><b>{}</b> {} <output class="soft"></output></figcaption>'
        '<div class="plot"><span class="most">{}</span>'
        '<svg viewBox="0 0 {:g} {:g}" preserveAspectRatio="none" aria-hidden="true">{}'
        '<line class="cursor" x1="-1" x2="-1" y1="0" y2="{:g}"></line></svg></div>'
        '<div class="axis"><span>{} ago</span><span>now</span></div></figure>'
    ).format(
        chart.title,
        json.dumps([names, words], ensure_ascii=False),
        round(chart.from_ms), round(chart.step_ms), chart.title, said or "nothing is known",
        chart.title, keys if len(chart.lines) > 1 else "",
        say_value(most, chart.unit) if known else "", WIDTH, HEIGHT, shapes, HEIGHT,
        span(chart.step_ms * len(chart.lines[0].values) / 1000),
    )  # fmt: skip


def _height(value: float, most: float) -> float:
    return HEIGHT - 1 - (HEIGHT - 4) * value / most


def path_of(line: Line, most: float) -> Markup:
    """Draw a line, with gaps where no value is known."""
    step, parts, down = WIDTH / len(line.values), list[str](), False
    for i, value in enumerate(line.values):
        if value is None:
            down = False
            continue
        x, y = step * (i + 0.5), _height(value, most)
        if not down and (i + 1 == len(line.values) or line.values[i + 1] is None):
            # A value without neighbours is a short line.
            parts.append(f"M{x - 0.4 * step:.1f} {y:.1f}h{0.8 * step:.1f}")
            continue
        parts.append(f"{'L' if down else 'M'}{x:.1f} {y:.1f}")
        down = True
    return Markup('<path class="{}" d="{}"></path>').format(line.kind, "".join(parts))


def bars_of(line: Line, most: float) -> Markup:
    """Draw bars; nothing for zero."""
    step = WIDTH / len(line.values)
    return Markup("").join(
        RECT.format(line.kind, step * i, top, step * 0.8, HEIGHT - top)
        for i, value in enumerate(line.values)
        if value and (top := _height(value, most))
    )


def spark(values: Sequence[float], label: str) -> Markup:
    """Draw the last minutes of a number as a small line, from zero up."""
    if len(values) < 2:
        return Markup('<svg class="spark" viewBox="0 0 100 24" aria-hidden="true"></svg>')
    most = max(max(values), 1e-9)
    step = 100 / (len(values) - 1)
    points = " ".join(f"{i * step:.1f},{22 - 20 * v / most:.1f}" for i, v in enumerate(values))
    return Markup(
        '<svg class="spark" viewBox="0 0 100 24" preserveAspectRatio="none" role="img" '
        'aria-label="{}"><polygon points="0,24 {} 100,24"></polygon>'
        '<polyline points="{}"></polyline></svg>'
    ).format(label, points, points)
