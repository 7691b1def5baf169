"""The data of charts of a queue's history. `dpq.web.render` draws them.

A slot of the history has totals. So the counts of a bin are differences between its two edges,
and a slot that is missing costs resolution only.
"""

from bisect import bisect_right
from collections.abc import Sequence
from datetime import datetime
from itertools import pairwise
from typing import NamedTuple

from dpq.types import Slot, Times


class Span(NamedTuple):
    """A length of history that pages show: its name, seconds and bins, and one bin in words."""

    words: str
    seconds: int
    bins: int
    each: str
    before: str = ""  # the name of the time before it, with which runs are compared

    @property
    def ask(self) -> float:
        """Seconds of history that a page reads: with the time before, and a bin on either side."""
        return 2 * self.seconds * (1 + 1 / self.bins) if self.before else self.seconds


SPANS = {
    "1h": Span("1 h", 3600, 60, "a minute", "an hour before"),
    "24h": Span("24 h", 86_400, 96, "a quarter of an hour", "a day before"),
    "14d": Span("14 days", 1_209_600, 112, "3 hours"),
}
"""The lengths of history, by their names in URLs. Beyond a day it has quarters of an hour."""


class Line(NamedTuple):
    """A line of a chart: its name, its class in the style sheet, a value for each bin or None."""

    name: str
    kind: str
    values: list[float | None]


class Chart(NamedTuple):
    """A chart: lines over time, or bars, with a common axis from zero up."""

    title: str
    unit: str  # the text behind each value
    lines: list[Line]
    from_ms: float  # the start of the first bin, ms
    step_ms: float  # the length of a bin
    bars: bool = False  # draw the line as bars
    marks: Sequence[int] = ()  # the 429s in each bin, which stand at the upper edge


class Story(NamedTuple):
    """The history of a queue: charts, the sums of its counts, and its start."""

    charts: list[Chart]
    totals: dict[str, int]
    since: datetime | None


def story(slots: Sequence[Slot], chosen: Span, now_ms: float) -> Story:
    """Make the charts of a queue from the slots that are known."""
    length = chosen.seconds * 1000
    step = length / chosen.bins
    first = (now_ms // step + 1) * step - length
    edges = [first + step * i for i in range(chosen.bins + 1)]
    at = [slot.at.timestamp() * 1000 for slot in slots]

    def counts(name: str, *, whole: bool = True) -> list[float | None]:
        return counted(at, [getattr(slot, name) for slot in slots], edges, whole=whole)

    def a_second(name: str) -> list[float | None]:
        parts = scaled(counts(name, whole=False), at, edges)
        return [None if n is None else n * 1000 / step for n in parts]

    def times(name: str, back: float = 0) -> list[Line]:
        moved = [edge - back for edge in edges]
        found = percentiles([getattr(slot, name) for slot in slots], at, moved)
        return [Line(share, share, values) for share, values in found.items()]

    named = {"pushed": "in", "acked": "out", "rate_limited": "rate limited", "buried": "dead"}
    every = {name: counts(name) for name in [*named, "failed", "lease_expired"]}
    ends = zip(every["acked"], every["failed"], every["lease_expired"], strict=True)
    failed = [failed_share(*(count or 0 for count in each)) for each in ends]
    last = last_of(slots, at, edges)
    backlog = [float(slot.due) if slot else None for slot in last]
    flows = [Line("in", "in", a_second("pushed")), Line("out", "out", a_second("acked"))]
    limited = Line("rate limited", "k0", every["rate_limited"])
    runs = times("run")
    if chosen.before and any((before := times("run", length)[1]).values):
        runs.append(before._replace(name=f"p95 {chosen.before}", kind="before"))
    charts = [
        Chart("In and out", "/s", flows, first, step),
        Chart("Backlog", "", [Line("ready and waiting", "in", backlog)], first, step),
        Chart("Failed or expired", " %", [Line("failed", "k0", failed)], first, step, bars=True),
        Chart("Rate limited", "", [limited], first, step, bars=True),
        Chart("Wait for the first delivery", "s", times("wait"), first, step),
        Chart("Run", "s", runs, first, step),
    ]
    totals = {words: round(sum(n or 0 for n in every[name])) for name, words in named.items()}
    since = next((slot.at for slot in slots), None)
    return Story(charts if sum(moment >= first for moment in at) > 1 else [], totals, since)


def failed_share(well: float, failed: float, expired: float) -> float | None:
    """Return the percentage of attempts that failed or expired; None if none ended."""
    bad = failed + expired
    return 100 * bad / (well + bad) if well + bad else None


def counted(
    at: Sequence[float], totals: Sequence[int], edges: Sequence[float], *, whole: bool = False
) -> list[float | None]:
    """Count the growth of totals between edges; None where no total is known."""
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
    """Read percentiles of the times that each bin added; None for a bin without new times."""
    found: dict[str, list[float | None]] = {"p50": [], "p95": []}
    for left, right in pairwise(edges):
        before, after = bisect_right(at, left) - 1, bisect_right(at, right) - 1
        added = None
        if 0 <= before < after and (now := times[after]):
            added = now.since(times[before])
        for share, values in found.items():
            values.append(getattr(added, share) if added else None)
    return found
