"""Templates and what they call: numbers, times, payloads, lines of charts. All text is escaped."""

import json
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Any, Literal
from urllib.parse import quote, unquote

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape
from pydantic_core import to_jsonable_python

from dpq.explain.verdict_facts import hangs
from dpq.explain.waiting import spent
from dpq.limits.limits import quota_text
from dpq.model.display import attempt_of
from dpq.model.payload import bytes_text
from dpq.model.rates import many, span
from dpq.views.charts import Chart, Line
from dpq.views.events import event_text, kind_text, limited_by
from dpq.views.limits import all_begun_ms, gauges
from dpq.views.used import hour_chart, hour_text, used_by
from dpq.views.words import batch_counts, batch_left, number, say_drain, say_schedule, say_state
from dpq.views.workers import say_quiet

SHOWN = 20_000
"""Characters of a payload that its page shows."""

CUT = 200
"""Characters of a payload in a list."""

SAFE_INT = 2**53
"""Integers above it are damaged by JSON readers that know doubles only, as in browsers."""


def segment(name: str) -> str:
    """Write a name as a part of a path: with `~` for `%`, which servers would decode too early."""
    return quote(name, safe="").replace("~", "%7E").replace("%", "~")


def from_segment(text: str) -> str:
    """Read the text that `segment` has written."""
    return unquote(text.replace("~", "%"))


def rate(value: float | None) -> str:
    """Write tasks per second; a dash before there are two samples."""
    if value is None:
        return "–"  # noqa: RUF001
    return f"{value:.1f}" if value < 100 else number(round(value))


How = Literal["", "clock", "until", "about", "utc"]


def moment(value: datetime | float | None, how: How = "") -> Markup:
    """Write a time, UTC, which the browser turns into "in 12 s" or "3 m ago"."""
    if value is None:
        return Markup("–")  # noqa: RUF001
    if not isinstance(value, datetime):
        try:
            value = datetime.fromtimestamp(value / 1000, UTC)
        except (ValueError, OverflowError, OSError):
            return Markup("a time that cannot be read")
    at = value.strftime("%Y-%m-%d %H:%M:%S")
    stamp = value.isoformat(timespec="milliseconds")
    return Markup('<time datetime="{}" data-at="{}"{}>{} UTC</time>').format(
        stamp, round(value.timestamp() * 1000), Markup(" data-{}").format(how) if how else "", at
    )


def coded(text: str) -> Markup:
    """Write a sentence, with what stands between backticks as code, which a button copies."""
    code = Markup('<code>{}</code> <button type="button" class="copy" data-copy="{}">Copy</button>')
    whole = Markup('<span class="whole">{}</span>')  # no line ends in an option
    parts: list[str | Markup] = [*text.split("`")]
    for n in range(1, len(parts), 2):
        words = [whole.format(word) if word[:1] == "-" else word for word in parts[n].split(" ")]
        parts[n] = code.format(Markup(" ").join(words), parts[n])
    return Markup("").join(parts)


def schedule(task: Any) -> Markup:
    """Write the schedule of a task in words, and its cron line as it stands."""
    words = say_schedule(task.every, task.cron)
    if not task.cron or words == task.cron:
        return Markup("<code>{}</code>").format(words) if task.cron else escape(words)
    return Markup('{} <code class="soft">{}</code>').format(words, task.cron.rpartition(" ")[0])


def plain(payload: Any) -> Any:
    """Return a payload as JSON values, whatever its type."""
    return to_jsonable_python(payload, fallback=str, inf_nan_mode="constants")


def one_line_of(payload: Any) -> str:
    """Write a payload in a line of at most `CUT` characters."""
    text = bytes_text(payload) or json.dumps(plain(payload), ensure_ascii=False)
    return text if len(text) <= CUT else f"{text[:CUT]}…"


def pretty(payload: Any) -> str:
    """Write a payload as JSON with a line for each value; a long one is cut, and says so."""
    size = bytes_text(payload)
    text = json.dumps(plain(payload), ensure_ascii=False, indent=2)
    left = f"… ({len(text)} characters)" if len(text) > SHOWN else ""
    return (f"{size}\n" if size else "") + text[:SHOWN] + left


def json_safe(value: Any) -> Any:
    """Return JSON values in which integers beyond 2^53 are texts."""
    kind = type(value)
    if kind is int:
        return value if -SAFE_INT <= value <= SAFE_INT else str(value)
    if kind is list:
        return [json_safe(each) for each in value]
    if kind is dict:
        return {name: json_safe(each) for name, each in value.items()}
    return value


# Charts: the template `charts.html` draws them as SVG


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


def environment(**shared: Any) -> Environment:
    """Make the environment of the templates: everything is escaped, a wrong name is an error.
    All pages have what is `shared`."""
    made = Environment(
        loader=PackageLoader("dpq.web"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    named: list[Any] = [
        all_begun_ms,
        attempt_of,
        batch_counts,
        batch_left,
        coded,
        drawn,
        event_text,
    ]
    named += [gauges, hangs, hour_chart, hour_text, kind_text, limited_by, many, moment, number]
    named += [one_line_of, points, pretty, quota_text, rate, say_drain, say_quiet, say_state]
    named += [schedule, span, spent, used_by]
    functions = {function.__name__: function for function in named}
    made.filters |= functions
    made.globals |= functions | shared
    return made
