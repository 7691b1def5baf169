"""The last hour of a limit: what it granted in each minute, beside what it allowed, and the 429s.

The pages about limits call it on what the queue's history holds of grants. The used share is
measured by the rate that stands now. Concurrency and quotas have no share. No I/O, no clock.
"""

from collections.abc import Sequence
from typing import NamedTuple

from dpq import ConfigurationError, RateLimit
from dpq.explain.drain import gate_name
from dpq.limits.rules import LimitRules
from dpq.model.history import Granted
from dpq.types import Event, LimitState, MemberState
from dpq.views.charts import Chart, Line, counted, scaled

MINUTES = 60
"""Minutes that a picture shows, which the history keeps."""

STEP_MS = 60_000


class Used(NamedTuple):
    """The last hour of a limit, or of one member."""

    name: str  # the member of a pool; "" for the limit itself
    hits: list[int]  # the tasks in each minute that met a limit of their host, mostly a 429
    share: float | None = None  # the used share of all known minutes; None without a rate
    window: RateLimit | None = None  # the window that is used most; None without one
    used: Sequence[float | None] = ()  # the units a second that it granted in each minute

    @property
    def words(self) -> str:
        """The share and the hits in words; "" if nothing is known."""
        said = [] if self.share is None else [f"{100 * self.share:.0f} % used"]
        if met := sum(self.hits):
            said.append(f"{met} × rate limited")  # noqa: RUF001
        return ", ".join(said)


def used_by(found: Sequence[Granted], state: LimitState, now_ms: float) -> list[Used]:
    """Find the last hour of a limit, of a pool for each member; [] if nothing is known."""
    if state.default:
        return []
    group = state.group or ""
    scopes: list[tuple[str, LimitState | MemberState]] = [(group, state)]
    if state.members:
        scopes = [(f"{group}\t{member.name}", member) for member in state.members]
    each = [_used(found, scope, of, state.windows, now_ms) for scope, of in scopes]
    return [used for used in each if used]


def hour_text(found: Sequence[Used]) -> str:
    """Write the hour of a limit in words, of a pool on average; "" if nothing is known."""
    shares = [used.share for used in found if used.share is not None]
    share = sum(shares) / len(shares) if shares else None
    return Used("", [sum(used.hits) for used in found], share).words


def hour_chart(used: Used, state: LimitState, events: Sequence[Event], now_ms: float) -> Chart:
    """Make the chart of an hour: the used units, below the limit as it stood in each minute."""
    edges, lines = _edges(now_ms), [Line("used", "in", list(used.used) or [None] * MINUTES)]
    unit = "/s"
    if used.window:
        unit = f" {used.window.unit}/s" if used.window.unit else "/s"
        lines.append(Line("limit", "limit", _allowed(used, state, events, edges)))
    title = ": ".join(filter(None, (used.name, used.words)))
    return Chart(title, unit, lines, edges[0], STEP_MS, marks=used.hits)


def _allowed(
    used: Used, state: LimitState, events: Sequence[Event], edges: Sequence[float]
) -> list[float | None]:
    """Find the rate that the window of `used` had at the end of each minute, units a second."""
    of = next((each for each in state.members if each.name == used.name), state)
    first = used.window == state.windows[0]
    known: list[tuple[float, float | None]] = []
    for event in sorted(events, key=lambda each: each.at):
        at = event.at.timestamp() * 1000
        if event.kind == "limit_set" and event.group == (state.group or ""):
            if not known:
                known.append((0.0, _rate(event.before or "", state.group, used)))
            known.append((at, _rate(event.detail, state.group, used)))
        elif event.kind == "learned" and first and event.member == used.name:
            now, _, before = event.detail.partition(", was ")
            known += [(0.0, float(before))] * (not known) + [(at, float(now))]
    present = of.rate if first and of.rate else used.window.rate if used.window else None
    known = [*(known or [(0.0, present)]), (edges[-2], present)]
    per = used.window.per if used.window else 1.0
    values = [[rate for at, rate in known if at < edge][-1] for edge in edges[1:]]
    return [None if value is None else value / per for value in values]


def _rate(text: str, group: str | None, used: Used) -> float | None:
    """Read the rate of a window in rules that stood once; None if they had no such window."""
    try:
        rules = LimitRules.read(text, group) if text not in ("", "removed") else None
    except ConfigurationError:
        return None
    name = gate_name(used.window) if used.window else ""
    windows = rules.windows if rules else ()
    return next((each.rate for each in windows if gate_name(each) == name), None)


def _edges(now_ms: float) -> list[float]:
    first = (now_ms // STEP_MS + 1 - MINUTES) * STEP_MS
    return [first + STEP_MS * n for n in range(MINUTES + 1)]


def _used(
    found: Sequence[Granted],
    scope: str,
    state: LimitState | MemberState,
    windows: Sequence[RateLimit],
    now_ms: float,
) -> Used | None:
    edges, name = _edges(now_ms), getattr(state, "name", "")
    slots = [slot for slot in found if scope in slot.totals]
    at = [float(slot.at_ms) for slot in slots]
    met = counted(at, [slot.totals[scope][0] for slot in slots], edges, whole=True)
    if all(count is None for count in met):
        return None
    best = Used(name, [round(count or 0) for count in met])
    for number, window in enumerate(windows):
        rate = (number == 0 and state.rate) or window.rate
        held = [(slot.at_ms, slot.totals[scope][1].get(gate_name(window))) for slot in slots]
        known = [(float(at_ms), total) for at_ms, total in held if total is not None]
        at = [moment for moment, _ in known]
        units = scaled(counted(at, [total for _, total in known], edges), at, edges)
        used = [None if count is None else count * 1000 / STEP_MS for count in units]
        seen = [value for value in used if value is not None]
        share = sum(seen) / len(seen) * window.per / rate if seen else 0.0
        if seen and (best.share is None or share > best.share):
            best = best._replace(share=share, window=window, used=used)
    return best
