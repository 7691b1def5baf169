"""The pace of a queue: how many tasks come and end a second, and when its backlog is done.

Callers read the totals of a queue at some moments of the last minutes: from its history, from their
own looks, or from both. No I/O, no clock. Source: docs/observability.md, "Pace".
"""

import math
from collections.abc import Iterator, Sequence
from itertools import pairwise, starmap
from operator import sub
from typing import Literal, NamedTuple

from dpq.model.history import Slot
from dpq.model.rates import few, span, span_between
from dpq.model.reports import QueueStats

COVERED_SECONDS, STRETCH_SECONDS = 300.0, 10.0
"""Seconds that a pace covers: over a shorter time, random arrivals make estimates jump. It is cut
into stretches, the least time over which counts are compared with each other."""

TOGETHER = (1, 2, 3, 6)
"""Stretches that are compared as one: 600 pushes at the start of each minute scatter over 10 s, and
not over 60 s."""

KEPT_SECONDS = COVERED_SECONDS + 2 * STRETCH_SECONDS
"""Seconds for which callers keep points: those of a pace, and of its first stretch all."""

LATELY_SECONDS = 60.0
"""Seconds after its last finished task in which a queue counts as moving: the history has a point
a minute, so less would be a matter of chance."""

CHANGED_SECONDS, CHANGED = 20.0, 20.0
"""Seconds after which a change is seen: all consumers are gone, or a load is over. And the squared
standard errors by which rates before and after differ; by chance in about one of 100 hours."""

ERRORS, SURE_ERRORS, SIMILAR = 2.0, 5.0, 1.25
"""Standard errors on each side of a range: the true rate is in 95 of 100 of them. Which of two
rates is higher takes more of them if the rates are within this factor of each other."""

WIDEST = 4.0
"""The most by which the end of a range is a multiple of its start. A wider range has no end."""

PaceKind = Literal["counting", "stopped", "clears", "open", "even", "grows"]
"""`counting`: too little was seen. `stopped`: no task is finished. `clears`: between `low` and
`high`. `open`: not before `low`. `even`: about as many tasks come as end. `grows`: more come."""


class Point(NamedTuple):
    """The counts of a queue at one moment; `at` in seconds, of any clock that does not jump."""

    at: float
    backlog: int
    delayed: int
    pushed: int
    replayed: int
    acked: int
    buried: int = 0
    failed: int = 0

    @classmethod
    def of(cls, at: float, seen: QueueStats | Slot) -> "Point":
        """Take the counts of a look, or of a slot of the history."""
        lapsed = seen.expired_leases if isinstance(seen, QueueStats) else seen.lease_expired
        failed = seen.failed + lapsed + seen.buried_expired
        totals = seen.pushed, seen.replayed, seen.acked, seen.buried, failed
        return cls(at, seen.due, seen.delayed, *totals)

    @property
    def came(self) -> int:
        """Return how many tasks have become due, from any number on: it shrinks with a retry."""
        return self.pushed + self.replayed - self.delayed

    @property
    def ended(self) -> int:
        """Return how many tasks have ended."""
        return self.acked + self.buried


class Pace(NamedTuple):
    """The rates of a queue, and when its backlog is done at these rates."""

    kind: PaceKind
    come: float | None = None  # tasks that become due a second; None before there are two points
    done: float | None = None  # tasks that are finished a second: a death is no throughput
    net: float | None = None  # by how much the backlog shrinks a second, also by deaths
    low: float = math.inf  # the least seconds until the backlog is done; infinity: not known
    high: float = math.inf  # the most seconds
    seconds: float = 0.0  # that the rates cover: the last 300, or those since a change
    acked: int = 0  # tasks that were finished in the last 300 seconds
    failed: int = 0  # attempts of that time that have failed, lapsed, or came too late
    lately: bool = False  # a task was finished in the last minute
    died: int = 0  # tasks that became dead letters in the last 300 seconds

    @property
    def say(self) -> str:
        """Say in a few words when the backlog is done."""
        if self.kind in ("clears", "open"):
            return f"done in {span_between(self.low, self.high)}"
        return {
            "stopped": f"none finished in {span(round(self.seconds))}",
            "even": "about as many come as end",
            "grows": f"growing by {_a_time(-(self.net or 0.0))}",
        }.get(self.kind, "counting")


UNKNOWN = Pace("counting")
"""The pace of a queue of which nothing was seen."""


class _Stretch(NamedTuple):
    """Tasks that came, ended and were finished between two points, `STRETCH_SECONDS` or more."""

    seconds: float
    came: int
    ended: int
    acked: int


def lasting(points: Sequence[Point]) -> list[Point]:
    """Return the points since the queue was made, the oldest first."""
    first = 0
    for number, (before, after) in enumerate(pairwise(points), 1):
        grew = before.pushed <= after.pushed and before.ended <= after.ended
        if before.at > after.at or not grew:
            first = number
    return list(points[first:])


def pace_of(points: Sequence[Point], patience: float = CHANGED_SECONDS) -> Pace:
    """Compute the pace from points of the last minutes, the oldest first, the newest now."""
    known = lasting(points)
    ends, stretches = _ends(known), _stretches(known)
    while cut := _change(stretches):
        stretches = stretches[cut:]
    seconds = sum(each.seconds for each in stretches)
    if not seconds:
        return Pace("counting", None, None, None, math.inf, math.inf, 0.0, *ends)
    came, ended = sum(each.came for each in stretches), sum(each.ended for each in stretches)
    come, leave = max(0, came) / seconds, ended / seconds
    net, done = leave - come, sum(each.acked for each in stretches) / seconds
    by_chance = sum(abs(each.came) + each.ended for each in stretches) / seconds
    spread = min(_spread_of_net(stretches, by_chance))
    error = math.sqrt(spread / seconds)
    similar = leave / SIMILAR <= come <= leave * SIMILAR
    kind: PaceKind
    low = high = math.inf
    if not done:
        kind = "stopped" if seconds >= patience else "counting"
    elif come and abs(net) < (SURE_ERRORS if similar else ERRORS) * error:
        kind = "even"
    elif net <= 0:
        kind = "grows"
    else:
        low, high = _range(points[-1].backlog, net, spread, error)
        kind = "open" if high == math.inf else "clears"
    return Pace(kind, come, done, net, low, high, seconds, *ends)


def _ends(points: Sequence[Point]) -> tuple[int, int, bool, int]:
    """Return `acked`, `failed`, `lately` and `died` of a pace."""
    known = [point for point in points if point.at >= points[-1].at - KEPT_SECONDS]
    if not known:
        return 0, 0, False, 0
    first, last = known[0], known[-1]
    before = [point for point in known if point.at <= last.at - LATELY_SECONDS] or [first]
    lately, died = last.acked > before[-1].acked, last.buried - first.buried
    return last.acked - first.acked, last.failed - first.failed, lately, died


def _range(backlog: int, net: float, spread: float, error: float) -> tuple[float, float]:
    """Return the least and the most seconds until a backlog is gone that shrinks by `net`/s."""
    seconds = backlog / net
    to_come = ERRORS * math.sqrt(spread * seconds) / net
    fast, slow = net + ERRORS * error, net - ERRORS * error
    low = max(0.0, seconds - math.hypot(seconds - backlog / fast, to_come))
    if fast > WIDEST * slow:
        return low, math.inf
    return low, seconds + math.hypot(backlog / slow - seconds, to_come)


def _stretches(points: Sequence[Point]) -> list[_Stretch]:
    """Make stretches of the first point in each 10 s, so that no look between changes them."""
    cells = {point.at // STRETCH_SECONDS: point for point in reversed(points)}
    ends = [cells[cell] for cell in sorted(cells)]
    ends = [end for end in ends if end.at >= ends[-1].at - COVERED_SECONDS]
    if len(ends) < 3:
        ends = [*points[:1], *points[-1:]]
    counts = [(end.at, end.came, end.ended, end.acked) for end in ends]
    grown = (map(sub, after, before) for before, after in pairwise(counts))
    return [stretch for stretch in starmap(_Stretch, grown) if stretch.seconds > 0]


def _spread(
    counts: Sequence[int], stretches: Sequence[_Stretch], by_chance: float, left_out: int = 0
) -> float:
    """Estimate the variance of counts a second from neighbours; at least that of pure chance."""
    lengths = [each.seconds for each in stretches]
    pairs = sorted(
        (one / a - other / b) ** 2 / (1 / a + 1 / b)
        for (a, one), (b, other) in pairwise(zip(lengths, counts, strict=True))
    )
    pairs = pairs[: len(pairs) - left_out] if len(pairs) > left_out else [by_chance]
    return max(by_chance, sum(pairs) / len(pairs))


def _spread_of_net(stretches: Sequence[_Stretch], by_chance: float) -> Iterator[float]:
    """Estimate the variance of what a backlog shrinks by a second, over 10 s and longer times."""
    for size in TOGETHER:
        known = stretches[len(stretches) % size :]
        longer = [known[n : n + size] for n in range(0, len(known), size)]
        if size == 1 or len(longer) > 2:
            sums = [_Stretch(*map(sum, zip(*few, strict=True))) for few in longer]
            yield _spread([each.ended - each.came for each in sums], sums, by_chance)


def _change(stretches: Sequence[_Stretch]) -> int:
    """Find the stretch with which the clearest change of a rate begins; 0 if there is none."""
    largest, found = CHANGED, 0
    seconds = sum(each.seconds for each in stretches)
    for counts in ([each.came for each in stretches], [each.ended for each in stretches]):
        by_chance = sum(map(abs, counts)) / seconds if seconds else 0.0
        # A change is in one pair, a short load in two: if more differ, no change is clear.
        spread = _spread(counts, stretches, by_chance, left_out=2)
        before = counted = 0.0
        for number, stretch in enumerate(stretches[:-1], 1):
            before, counted = before + stretch.seconds, counted + counts[number - 1]
            after = seconds - before
            if after < CHANGED_SECONDS or not spread:
                break
            differ = counted / before - (sum(counts) - counted) / after
            size = differ**2 / (spread * (1 / before + 1 / after))
            if size > largest:
                largest, found = size, number
    return found


def _a_time(rate: float) -> str:
    """Write tasks per time with two digits: `2.5/s`, `12/min`."""
    for seconds, unit in ((1, "s"), (60, "min")):
        if rate * seconds >= 1:
            return f"{few(rate * seconds):g}/{unit}"
    return f"{few(rate * 3600):g}/h"
