"""The share of a limit that was used in each minute of the last hour, and what hosts refused.

The pages about limits and the page of a queue call it on what the queue's history holds of grants.
A share is measured by the rate that stands now: a window of 1000 in an hour gives each minute a
sixtieth of that, so a burst uses more than all of a minute. Concurrency and quotas have no share.
No I/O, no clock.
"""

from collections.abc import Sequence
from typing import NamedTuple

from dpq import RateLimit
from dpq.model.history import Granted
from dpq.types import LimitState, MemberState
from dpq.views.charts import counted, scaled
from dpq.views.limits import window_text

MINUTES = 60
"""Minutes that a picture shows, which the history keeps."""

STEP_MS = 60_000


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
