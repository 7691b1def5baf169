"""Templates and what they call: numbers, times, payload trees, sparklines. All text is escaped."""

import json
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
from dpq.views.events import event_text, kind_text, limited_by
from dpq.views.limits import gauges
from dpq.views.used import hour_chart, hour_text, used_by
from dpq.views.words import number, say_drain, say_schedule, say_state
from dpq.views.workers import say_quiet
from dpq.web.svg import drawn, points

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
    if size := bytes_text(payload):
        return size
    if isinstance(payload, str):
        text = json.dumps(payload[: 2 * CUT], ensure_ascii=False)
    else:
        text = json.dumps(plain(payload), ensure_ascii=False)
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


def environment() -> Environment:
    """Make the environment of the templates: everything is escaped, a wrong name is an error."""
    made = Environment(
        loader=PackageLoader("dpq.web"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    filters: list[Any] = [attempt_of, coded, event_text, kind_text, moment, number, one_line_of]
    filters += [pretty, quota_text, rate, schedule, span]
    made.filters |= {function.__name__: function for function in filters}
    functions: list[Any] = [drawn, gauges, hangs, hour_chart, hour_text, limited_by]
    functions += [many, points, say_drain, say_quiet, say_state, spent, used_by]
    made.globals |= {function.__name__: function for function in functions}
    return made
