"""The counts of a gate beside its windows: quotas, and budgets that a host has told. No I/O.

Only `gates` makes and asks them, as it asks windows. A quota does what `lua/lib/limits/quota.lua`
does, a budget what `lua/lib/limits/budgets.lua` does. Times are ms.
"""

import math
from collections.abc import Sequence
from itertools import cycle
from typing import NamedTuple

from dpq.model.clearing import (
    FOR_EVER_MS,
    Course,
    Line,
    Periods,
    Share,
    Wanted,
    fits,
    fitting,
    needs_of,
    packed,
)
from dpq.model.cost import Units
from dpq.model.limits import Reason
from dpq.model.priority import Aging
from dpq.model.quota import Quota, quota_text

PERIOD_MS = {
    "hour": 3_600_000.0,
    "day": 86_400_000.0,
    "week": 604_800_000.0,
    "month": 2_592_000_000.0,
}
"""The length of a period that is not the running one, about: clocks change, and months differ."""

KEPT_MS = 3_600_000
"""ms that a limit holds after its last told reset; lua/lib/limits/budgets.lua has it, too."""


class Counted:
    """One quota, and what it has counted.

    Attributes:
        quota: The quota as it was set.
        count: The units that were granted in the running period.
        reset: The end of the period.
        next: The moment of the next grant, if the quota is spread.
        rolled: The running period is one that was assumed.
    """

    reason: Reason = "quota"

    def __init__(self, quota: Quota, count: int, reset: float, next_ms: float) -> None:
        self.quota, self.count, self.reset, self.next = quota, count, reset, next_ms
        self.rolled = False

    def look(self, instant: float) -> None:
        """Begin the next period, if this one is over."""
        while instant >= self.reset:
            self.reset += PERIOD_MS[self.quota.period]
            self.count, self.next, self.rolled = 0, 0.0, True

    def units(self, cost: Units) -> int:
        """Return the units that a task takes of it."""
        return min(cost.get(self.quota.unit, 0), self.quota.amount)

    def opens_at(self, cost: Units, rank: float, instant: float, aging: Aging) -> float:
        """Compute when it has enough units for a task of this rank."""
        units, quota = self.units(cost), self.quota
        if not units or not self.count:
            return 0.0
        if not fits(quota.amount, self.count, units):
            return self.reset
        at, reserve = self.next if quota.spread else 0.0, quota.reserve
        if reserve and not fits(quota.amount, self.count, units + reserve.units):
            return max(at, min(self.reset, aging.entitled_at(reserve.priority, rank, instant)))
        return at

    def charge(self, cost: Units, instant: float) -> None:
        """Take the units of a task."""
        if units := self.units(cost):
            if self.quota.spread:
                left = max(units, self.quota.amount - self.count)
                self.next = math.ceil(instant + (self.reset - instant) * units / left)
            self.count += units

    @property
    def length(self) -> float:
        """Return the ms of a whole period, about."""
        return PERIOD_MS[self.quota.period]

    def courses(
        self, now: Course, fresh: Course, wanted: Sequence[Wanted], begin: float
    ) -> tuple[Course, Course]:
        """Lay it over the courses of windows and shorter quotas: from now, and of a new period."""
        quota, length, text = self.quota, self.length, self.words()
        needs = needs_of(wanted, self.units, quota.reserve)
        mean, left = sum(need.units for need in needs) / len(needs), quota.amount - self.count
        running = Share(fitting(quota.amount, self.count, cycle(needs)))
        whole = Share(packed(quota.amount, needs))
        ends = self.reset - begin
        if quota.spread and mean:
            first = max(0.0, self.next - begin)
            running = Share(running.tasks, Line(first, (ends - first) * mean / max(mean, left)))
            whole = Share(whole.tasks, Line(0.0, length * mean / quota.amount))
        return (
            Periods(now, fresh, ends, running, whole, length, text),
            Periods(fresh, fresh, length, whole, whole, length, text),
        )

    def words(self) -> str:
        """Write it for people, as in `500/day@UTC`."""
        return quota_text(self.quota)


class Whole(NamedTuple):
    """The limit that a budget has whole again at its reset.

    Attributes:
        size: Its units.
        length: Its window.
        reset: The last reset that was told.
    """

    size: int
    length: float
    reset: float


class Told:
    """A budget that a host has told: the units that are left, until when.

    Attributes:
        asks: The moment when one task may ask the host anew, alone; 0 if its reset is believed.
        whole: The limit, if the host has said it.
    """

    reason: Reason = "observed"

    def __init__(
        self, unit: str, left: int, ends: float, asks: float = 0.0, whole: Whole | None = None
    ) -> None:
        self.unit, self.left, self.ends = unit, left, ends
        self.asks, self.whole = asks or math.inf, whole

    def look(self, instant: float) -> None:
        """Begin the next window, if this one is over."""
        whole = self.whole
        if whole and self.ends <= instant < whole.reset + KEPT_MS:
            self.ends += (math.floor((instant - self.ends) / whole.length) + 1) * whole.length
            self.left, self.asks = whole.size, math.inf

    def opens_at(self, cost: Units, rank: float, instant: float, aging: Aging) -> float:
        """Compute when it lets a task run, whatever its rank."""
        return min(self._has(cost, instant), self.asks)

    def _has(self, cost: Units, instant: float) -> float:
        """Compute when it has enough units for a task."""
        short = instant < self.ends and self._units(cost) > self.left
        return self.ends if short else 0.0

    def _units(self, cost: Units) -> int:
        units = cost.get(self.unit, 0)
        return min(units, self.whole.size) if self.whole else units

    def charge(self, cost: Units, instant: float) -> bool:
        """Take the units of a task; True if it asks the host anew, since it has none."""
        if self._has(cost, instant) > instant:
            return True
        self._take(cost.get(self.unit, 0), instant)
        return False

    def _take(self, units: int, instant: float) -> None:
        self.left = max(0, self.left - units)

    def lines(self, wanted: Sequence[Wanted], begin: float) -> list[Line]:
        """Say when tasks like these start, if it refills."""
        return []

    def course(self, now: Course, fresh: Course, wanted: Sequence[Wanted], begin: float) -> Course:
        """Lay it over the course of its limit: after its end, that decides."""
        if begin >= self.ends:
            return now
        needs = needs_of(wanted, self._units)
        # Without a limit, one unit counts as taken: what is left serves no task that takes more.
        size = self.whole.size if self.whole else self.left + 1
        running = Share(fitting(size, size - self.left, cycle(needs)))
        rest, length = Share(math.inf), FOR_EVER_MS
        if self.whole:
            rest, length = Share(packed(size, needs)), self.whole.length
        return Periods(now, fresh, self.ends - begin, running, rest, length, self.words())

    def words(self) -> str:
        """Write it for people."""
        return "what its host has left"


class Refilling(Told):
    """A budget that refills evenly, up to `full` units at `ends`."""

    def __init__(
        self, unit: str, left: int, ends: float, full: int, interval: float, asks: float = 0.0
    ) -> None:
        super().__init__(unit, left, ends, asks)
        self._full, self._interval = full, interval

    def _has(self, cost: Units, instant: float) -> float:
        units = min(cost.get(self.unit, 0), self._full)
        return self._at(units) if units and instant < self.ends else 0.0

    def _take(self, units: int, instant: float) -> None:
        if instant < self.ends:
            self.ends += units * self._interval

    def lines(self, wanted: Sequence[Wanted], begin: float) -> list[Line]:
        """Say when tasks like these start."""
        mean = sum(each.units.get(self.unit, 0) for each in wanted) / len(wanted)
        if not mean:
            return []
        return [Line(self._at(mean) - begin, mean * self._interval, self.words())]

    def course(self, now: Course, fresh: Course, wanted: Sequence[Wanted], begin: float) -> Course:
        """Leave the course of its limit as it is: its line is one of the windows."""
        return now

    def _at(self, units: float) -> float:
        return self.ends + (units - self._full) * self._interval
