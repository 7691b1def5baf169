"""The share of a limit that was used in each minute of the last hour, and what hosts refused.

The pages about limits and the page of a queue call it on what the queue's history holds of grants.
A share is measured by the rate that stands now: a window of 1000 in an hour gives each minute a
sixtieth of that, so a burst uses more than all of a minute. Concurrency and quotas have no share.
No I/O, no clock.
"""

import re
from collections.abc import Mapping, Sequence
from functools import reduce
from itertools import pairwise
from typing import NamedTuple

from dpq import RateLimit
from dpq.model.history import Granted
from dpq.types import LimitState, MemberState
from dpq.views.charts import Chart, Line, counted, scaled
from dpq.views.limits import window_text
from dpq.views.words import cut

MINUTES = 60
"""Minutes that a picture shows, which the history keeps."""

STEP_MS = 60_000

BUSIEST = 4
"""Groups with a colour of their own in a chart; more would not be told apart."""

KINDS = ("k2", "k3", "k1", "k0", "k4")
"""The classes of the busiest groups in the style sheet, and of all others."""

WHOLE_BYTES = 6000
"""Bytes of a slot that has room for one more scope: it ends at 8000. Source: lua/lib/grants.lua."""

REQUESTS = re.compile(r"\d+_?")
"""The names of windows that count requests; any other unit is a part of the name."""


class Used(NamedTuple):
    """The last hour of a limit, or of one member.

    Attributes:
        name: The member of a pool; "" for the limit itself.
        shares: The used share in each minute, of the window that is used most; None if not known.
        hits: The tasks in each minute that met a limit of their host, mostly a 429.
        share: The used share of all known minutes; None without a rate.
        window: That window in words, or "".
    """

    name: str
    shares: list[float | None]
    hits: list[int]
    share: float | None
    window: str

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
    if not state.members:
        used = _used(found, group, state, state.windows, now_ms)
        return [used] if used else []
    members = [
        _used(found, f"{group}\t{member.name}", member, state.windows, now_ms)
        for member in state.members
    ]
    return [used for used in members if used]


def hour_text(found: Sequence[Used]) -> str:
    """Write the hour of a limit in words, of a pool on average; "" if nothing is known."""
    shares = [used.share for used in found if used.share is not None]
    share = sum(shares) / len(shares) if shares else None
    return Used("", [], [sum(used.hits) for used in found], share, "").words


def by_group(found: Sequence[Granted], now_ms: float) -> list[Chart]:
    """Make two charts of the last hour, by group: what was granted in each minute, and the 429s."""
    edges = _edges(now_ms)
    granted, met = dict[str, list[float | None]](), dict[str, list[float | None]]()
    for scope in {scope for slot in found for scope in slot.totals} - {""}:
        group = scope.partition("\t")[0]
        at, hits, units = _totals(found, scope)
        counts = counted(at, hits, edges, whole=True), counted(at, units, edges, whole=True)
        for into, each in zip((met, granted), counts, strict=True):
            into[group] = _added(into.get(group, [None] * MINUTES), each)
    charts = [
        ("Requests granted in a minute, by group", granted),
        ("Rate limited in a minute, by group", met),
    ]
    return [
        Chart(title, "", lines, edges[0], STEP_MS, bars=True)
        for title, groups in charts
        if (lines := _busiest(groups))
    ]


def _totals(found: Sequence[Granted], scope: str) -> tuple[list[float], list[int], list[int]]:
    """Return moments, 429s and granted requests of a scope; of several windows each has all."""
    first = next((n for n, slot in enumerate(found) if scope in slot.totals), 0)
    if first and _length(found[first - 1]) < WHOLE_BYTES:
        first -= 1
    slots = [slot for slot in found[first:] if scope in slot.totals or slot is found[first]]
    totals = [slot.totals.get(scope, (0, {})) for slot in slots]
    sums = [0]
    for (_, before), (_, after) in pairwise(totals):
        grown = [
            units - before.get(name, 0) if units >= before.get(name, 0) else units
            for name, units in after.items()
            if REQUESTS.fullmatch(name)
        ]
        sums.append(sums[-1] + max(grown, default=0))
    return [float(slot.at_ms) for slot in slots], [hits for hits, _ in totals], sums


def _length(slot: Granted) -> int:
    """Return about how many bytes a slot takes on the server."""
    return sum(
        len(f"{hits} {scope}".encode())
        + sum(len(f"{name} {count}  ") for name, count in of.items())
        for scope, (hits, of) in slot.totals.items()
    )


def _busiest(groups: Mapping[str, list[float | None]]) -> list[Line]:
    """Make the lines of the busiest groups, and one of all others."""
    ranked = sorted(groups, key=lambda group: (-sum(each or 0 for each in groups[group]), group))
    lines = [Line(cut(group), "", groups[group]) for group in ranked if any(groups[group])]
    if lines[BUSIEST:]:
        rest = reduce(_added, (line.values for line in lines[BUSIEST:]))
        lines[BUSIEST:] = [Line(f"{len(lines) - BUSIEST} others", "", rest)]
    return [line._replace(kind=kind) for line, kind in zip(lines, KINDS, strict=False)]


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
    edges = _edges(now_ms)
    slots = [slot for slot in found if scope in slot.totals]
    at = [float(slot.at_ms) for slot in slots]
    met = counted(at, [slot.totals[scope][0] for slot in slots], edges, whole=True)
    if all(count is None for count in met):
        return None
    best: tuple[float, list[float | None], str] | None = None
    for number, window in enumerate(windows):
        learned = state.rate if number == 0 and state.rate else window.rate
        a_minute = learned / window.per * STEP_MS / 1000
        held = [(slot.at_ms, slot.totals[scope][1].get(_name(window))) for slot in slots]
        known = [(float(at_ms), total) for at_ms, total in held if total is not None]
        at = [moment for moment, _ in known]
        units = scaled(counted(at, [total for _, total in known], edges), at, edges)
        shares = [None if count is None else count / a_minute for count in units]
        seen = [share for share in shares if share is not None]
        share = sum(seen) / len(seen) if seen else 0.0
        if seen and (best is None or share > best[0]):
            best = share, shares, window_text(window)
    hits = [round(count or 0) for count in met]
    if best is None:
        return Used(getattr(state, "name", ""), [None] * MINUTES, hits, None, "")
    return Used(getattr(state, "name", ""), best[1], hits, best[0], best[2])


def _name(window: RateLimit) -> str:
    """Return the name that a window has in a gate; see lua/lib/limits/window_rule.lua."""
    return f"{round(window.per * 1000)}{'_' if window.moving else ''}{window.unit}"


def _added(one: list[float | None], other: list[float | None]) -> list[float | None]:
    return [b if a is None else a if b is None else a + b for a, b in zip(one, other, strict=True)]
