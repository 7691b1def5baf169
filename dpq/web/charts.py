"""Charts of a queue's history, drawn as SVG by the server: no library, and text for all else.

A slot of the history has totals. So the counts of a bin are differences between its two edges,
and a slot that is missing costs resolution only.
"""

import json
from bisect import bisect_right
from collections import Counter
from collections.abc import Sequence
from datetime import datetime
from itertools import pairwise
from typing import Any, NamedTuple

from markupsafe import Markup

from dpq import Event, Slot, Times
from dpq.model.event_text import event_text
from dpq.model.rates import span as say_span

DAY_MS = 86_400_000


class Span(NamedTuple):
    """A length of history that pages show.

    Attributes:
        words: Its name.
        seconds: Its length.
        bins: Bins that it is drawn in.
        each: One bin in words.
        ask: Seconds of history to read. Beyond a day they come as quarters of an hour.
    """

    words: str
    seconds: int
    bins: int
    each: str
    ask: int


SPANS = {
    "1h": Span("1 h", 3600, 60, "a minute", 3600 + 120),
    "24h": Span("24 h", 86_400, 96, "a quarter of an hour", 86_400 + 1800),
    "14d": Span("14 days", 1_209_600, 112, "3 hours", 1_209_600),
}
"""The lengths of history, by their names in URLs."""


class Line(NamedTuple):
    """A line of a chart: its name, its class in the style sheet, a value for each bin or None."""

    name: str
    kind: str
    values: list[float | None]


class Chart(NamedTuple):
    """A chart: lines over time, or bars, with a common axis from zero up.

    Attributes:
        title: Its title.
        unit: What stands behind each value.
        lines: Its lines.
        from_ms: When the first bin begins.
        step_ms: The length of a bin.
        bars: Draw bars.
    """

    title: str
    unit: str
    lines: list[Line]
    from_ms: float
    step_ms: float
    bars: bool = False


class Story(NamedTuple):
    """The history of a queue: charts, what was counted in all, and since when it is known."""

    charts: list[Chart]
    totals: dict[str, int]
    since: datetime | None


def story(slots: Sequence[Slot], chosen: Span, now_ms: float) -> Story:
    """Draw the history of a queue as far as it is known."""
    step = chosen.seconds * 1000 / chosen.bins
    first = (now_ms // step + 1) * step - chosen.seconds * 1000
    edges = [first + step * i for i in range(chosen.bins + 1)]
    at = [slot.at.timestamp() * 1000 for slot in slots]

    def counts(name: str, *, whole: bool = True) -> list[float | None]:
        return counted(at, [getattr(slot, name) for slot in slots], edges, whole=whole)

    def a_second(name: str) -> list[float | None]:
        parts = scaled(counts(name, whole=False), at, edges)
        return [None if n is None else n * 1000 / step for n in parts]

    named = {"pushed": "in", "acked": "out", "rate_limited": "rate limited", "buried": "dead"}
    every = {name: counts(name) for name in named}
    held = last_of(slots, at, edges)
    backlog = [float(slot.ready + slot.waiting) if slot else None for slot in held]
    flows = [Line("in", "in", a_second("pushed")), Line("out", "out", a_second("acked"))]
    limited = Line("rate limited", "limited", every["rate_limited"])
    died = Line("dead", "dead", every["buried"])
    charts = [
        Chart("In and out", "/s", flows, first, step),
        Chart("Backlog", "", [Line("ready and waiting", "in", backlog)], first, step),
        Chart(f"Rate limited in {chosen.each}", "", [limited], first, step, bars=True),
        Chart(f"Dead letters in {chosen.each}", "", [died], first, step, bars=True),
    ]
    for title, name in (("Wait for the first delivery", "wait"), ("Run", "run")):
        shares = percentiles([getattr(slot, name) for slot in slots], at, edges)
        drawn = [Line(share, share, values) for share, values in shares.items()]
        charts.append(Chart(title, "s", drawn, first, step))
    totals = {words: round(sum(n or 0 for n in every[name])) for name, words in named.items()}
    known = [moment for moment in at if moment >= first]
    since = next((slot.at for slot in slots), None)
    return Story(charts if len(known) > 1 else [], totals, since)


def counted(
    at: Sequence[float], totals: Sequence[int], edges: Sequence[float], *, whole: bool = False
) -> list[float | None]:
    """Count what totals grew by between edges; None where nothing is known.

    Totals that fall are those of a queue that was made anew. Between two totals they grew evenly;
    with `whole`, all at the later one, unless that is more than two bins away.
    """
    if len(at) < 2:
        return [None] * (len(edges) - 1)
    risen = [0.0]
    for before, after in pairwise(totals):
        risen.append(risen[-1] + (after - before if after >= before else after))

    def grown(moment: float) -> float:
        i = bisect_right(at, moment)
        if i == len(at):
            return risen[-1]
        if not i:
            return 0.0
        apart = at[i] - at[i - 1]
        if whole and apart <= 2 * (edges[1] - edges[0]):
            return risen[i - 1]
        part = (moment - at[i - 1]) / max(1.0, apart)
        return risen[i - 1] + part * (risen[i] - risen[i - 1])

    return [
        None if right <= at[0] or left >= at[-1] else grown(right) - grown(left)
        for left, right in pairwise(edges)
    ]


def scaled(
    counts: Sequence[float | None], at: Sequence[float], edges: Sequence[float]
) -> list[float | None]:
    """Scale the counts of bins that are known in part, the first and the last, to whole bins."""
    found: list[float | None] = []
    for count, (left, right) in zip(counts, pairwise(edges), strict=True):
        known = (min(right, at[-1]) - max(left, at[0])) / (right - left) if at else 0.0
        found.append(None if count is None or known < 0.05 else count / min(1.0, known))
    return found


def last_of(
    slots: Sequence[Slot], at: Sequence[float], edges: Sequence[float]
) -> list[Slot | None]:
    """Choose the last slot of each bin; None for a bin without one."""
    found: list[Slot | None] = []
    for left, right in pairwise(edges):
        i = bisect_right(at, right) - 1
        found.append(slots[i] if i >= 0 and at[i] > left else None)
    return found


def percentiles(
    times: Sequence[Times | None], at: Sequence[float], edges: Sequence[float]
) -> dict[str, list[float | None]]:
    """Read percentiles of what was added in each bin; None where nothing was."""
    found: dict[str, list[float | None]] = {"p50": [], "p95": [], "p99": []}
    for left, right in pairwise(edges):
        before, after = bisect_right(at, left) - 1, bisect_right(at, right) - 1
        added = None
        if 0 <= before < after and (now := times[after]):
            added = now.since(times[before])
        for share, values in found.items():
            values.append(getattr(added, share) if added else None)
    return found


# SVG

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
    return say_span(value) if unit == "s" else f"{figure(value)}{unit}"


def draw(chart: Chart) -> Markup:
    """Draw a chart, with what a browser needs to say the values under a pointer."""
    known = [value for line in chart.lines for value in line.values if value is not None]
    most = max(known, default=0.0) or 1.0
    shapes = Markup("").join(
        bars_of(line, most) if chart.bars else path_of(line, most) for line in chart.lines
    )
    said = "; ".join(
        f"{line.name}: at most {say_value(max(values), chart.unit)}"
        for line in chart.lines
        if (values := [value for value in line.values if value is not None])
    )
    words = [[say_value(value, chart.unit) for value in line.values] for line in chart.lines]
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
        json.dumps([[line.name for line in chart.lines], words], ensure_ascii=False),
        round(chart.from_ms), round(chart.step_ms), chart.title, said or "nothing is known",
        chart.title, keys if len(chart.lines) > 1 else "",
        say_value(most, chart.unit) if known else "", WIDTH, HEIGHT, shapes, HEIGHT,
        say_span(chart.step_ms * len(chart.lines[0].values) / 1000),
    )  # fmt: skip


def _height(value: float, most: float) -> float:
    return HEIGHT - 1 - (HEIGHT - 4) * value / most


def path_of(line: Line, most: float) -> Markup:
    """Draw a line; it has gaps where nothing is known."""
    step, parts, down = WIDTH / len(line.values), list[str](), False
    for i, value in enumerate(line.values):
        if value is None:
            down = False
            continue
        x, y = step * (i + 0.5), _height(value, most)
        if not down and (i + 1 == len(line.values) or line.values[i + 1] is None):
            parts.append(f"M{x - 0.4 * step:.1f} {y:.1f}h{0.8 * step:.1f}")  # it stands alone
            continue
        parts.append(f"{'L' if down else 'M'}{x:.1f} {y:.1f}")
        down = True
    return Markup('<path class="{}" d="{}"></path>').format(line.kind, "".join(parts))


def bars_of(line: Line, most: float) -> Markup:
    """Draw bars; nothing for zero."""
    step = WIDTH / len(line.values)
    return Markup("").join(
        Markup(
            '<rect class="{}" x="{:.1f}" y="{:.1f}" width="{:.1f}" height="{:.1f}"></rect>'
        ).format(
            line.kind, step * i, _height(value, most), step * 0.8, HEIGHT - _height(value, most)
        )
        for i, value in enumerate(line.values)
        if value
    )


class Limited(NamedTuple):
    """The 429s of a scope in the last day, and how its learned rate has changed.

    Attributes:
        hits: How many the stream of events has of each status, as text; "" if it has none.
        last: The last one.
        svg: Marks of them over a day, and the rate as steps.
        rates: The lowest and the highest rate of the day; None if none was learned.
    """

    hits: str
    last: datetime | None
    svg: Markup
    rates: tuple[float, float] | None


def limited_by(events: Sequence[Event], rate: float | None, group: str, now_ms: float) -> Limited:
    """Draw the 429s of a scope over the last day: "" for the whole queue."""
    start = now_ms - DAY_MS

    def x(event: Event) -> float:
        return 600 * (event.at.timestamp() * 1000 - start) / DAY_MS

    own = [event for event in events if event.group == group and x(event) >= 0]
    hits = [event for event in own if event.kind == "rate_limited"]
    learned = [(x(event), *read_learned(event.detail)) for event in own if event.kind == "learned"]
    learned = [each for each in learned if each[1] is not None and each[2] is not None]
    parts = [MARK.format(x(hit)) for hit in hits]
    rates = None
    if rate is not None:
        steps: list[tuple[float, float]] = [(0.0, learned[0][2] if learned else rate)]  # type: ignore[list-item]
        steps += [(at, value) for at, value, _ in learned if value is not None]
        steps.append((600.0, rate))
        most = max(value for _, value in steps) or 1.0
        path = f"M0 {22 - 20 * steps[0][1] / most:.1f}" + "".join(
            f"H{at:.1f}V{22 - 20 * value / most:.1f}" for at, value in steps[1:]
        )
        parts.append(Markup('<path class="in" d="{}"></path>').format(path))
        rates = min(value for _, value in steps), most
    met = Counter(event_text(hit).kind for hit in hits)
    said = ", ".join(f"{count} × {status}" for status, count in sorted(met.items()))  # noqa: RUF001
    words = f"{said or 'no limits'} in the last 24 hours"
    svg = Markup(
        '<svg class="day" viewBox="0 0 600 24" preserveAspectRatio="none" role="img" '
        'aria-label="{}">{}</svg>'
    ).format(words, Markup("").join(parts))
    return Limited(said, hits[-1].at if hits else None, svg, rates)


def read_learned(detail: str) -> tuple[float | None, float | None]:
    """Read the rate of an event `learned`, and the one before: `4.5, was 9`."""
    words = detail.split(", was ")
    try:
        return float(words[0]), float(words[1])
    except (ValueError, IndexError):
        return None, None


def chart_globals() -> dict[str, Any]:
    """Return the functions of this module that templates call."""
    return {"draw": draw, "limited_by": limited_by}
