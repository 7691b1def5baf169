"""The moment when the last of many tasks may start under one limit. No I/O, no clock.

`Gate.clears_at` builds a course of the limit, for `drain`. A run over virtual time, as a forecast
makes, takes too long for a million tasks. A course knows one function and its inverse:

    course.start(n)    ms from now until the n-th task may start
    course.count(ms)   the tasks that may start before then

Windows are lines, or rounds if they move. A quota cuts the course below it into periods: the
running one, and fresh ones. Source: docs/design.md, "Forecast".
"""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import cycle
from typing import NamedTuple, Protocol

from dpq.model.cost import Units
from dpq.model.quota import Reserve

FOR_EVER_MS = 1e15
"""ms that no drain time reaches: the period behind a budget, which no other follows."""

MOST_PACKED = 300
"""Tasks that are packed into periods one by one; what more of them need follows from these."""


class Course(Protocol):
    """The tasks that may start, over the time from now on, in ms."""

    @property
    def rate(self) -> float:
        """Tasks per ms in the long run."""

    def start(self, n: float) -> float:
        """Compute when the n-th task may start, at the soonest."""

    def count(self, ms: float) -> float:
        """Count the tasks that may start before a moment."""

    def words(self, n: float) -> str:
        """Say what holds the n-th task back."""


class Wanted(NamedTuple):
    """A task that waits.

    Attributes:
        units: Its units.
        rank: Minus its score.
        order: Its order among equal ranks.
        smallest_first: In its queue the smallest priority runs first.
    """

    units: Units
    rank: float
    order: str = ""
    smallest_first: bool = False

    def leaves(self, reserve: Reserve) -> bool:
        """Return True if the units of a reserve are kept for better tasks."""
        return self.rank < (-reserve.priority if self.smallest_first else reserve.priority)

    @property
    def place(self) -> tuple[float, str]:
        """Return what decides which task comes first: the lower one."""
        return -self.rank, self.order


@dataclass(frozen=True)
class Line:
    """A window, or the pace of a spread quota: when the first task may start, and each further."""

    first: float
    each: float
    words: str = ""

    def start(self, n: float) -> float:
        """Compute when the n-th task may start; less than 0 if it may already."""
        return self.first + self.each * (n - 1)

    def count(self, ms: float) -> float:
        """Count the tasks that may start before a moment."""
        if self.each > 0:
            return max(0, math.ceil((ms - self.first) / self.each))
        return math.inf if self.first < ms else 0


@dataclass(frozen=True)
class Rounds:
    """A moving window: units that leave it are granted again, and then after each of its lengths.

    Attributes:
        free: The ms from now, and the units that are free from then on, in the order of time.
        length: The ms of the window.
        tasks: The tasks that fit into it, on average.
        units: The units of a task, on average; `keeps`: those that it must leave.
    """

    free: Sequence[tuple[float, float]]
    length: float
    tasks: float
    units: float
    keeps: float
    words: str

    @property
    def each(self) -> float:
        """The ms for each task in the long run."""
        return self.length / self.tasks

    def start(self, n: float) -> float:
        """Compute when the n-th task may start; 0 if it may already."""
        over, place = divmod(max(n, 1.0) - 1, self.tasks)
        needed = min((place + 1) * self.units + self.keeps, self.free[-1][1])
        at = next(at for at, units in self.free if units >= needed)
        return over * self.length + at

    def count(self, ms: float) -> float:
        """Count the tasks that may start before a moment."""
        if ms <= 0:
            return 0
        over, rest = divmod(ms, self.length)
        free = max((units for at, units in self.free if at < rest), default=0.0)
        tasks = max(0, math.floor((free - self.keeps) / self.units + 1e-9))
        return over * self.tasks + min(self.tasks, tasks)


class Steady:
    """All windows of a scope: the slowest decides."""

    def __init__(self, lines: Sequence[Line | Rounds]) -> None:
        self._lines = lines
        self.rate = min((1 / line.each for line in lines if line.each > 0), default=math.inf)

    def start(self, n: float) -> float:
        """Compute when the n-th task may start, at the soonest."""
        return max((line.start(n) for line in self._lines), default=0.0)

    def count(self, ms: float) -> float:
        """Count the tasks that may start before a moment."""
        return min((line.count(ms) for line in self._lines), default=math.inf)

    def words(self, n: float) -> str:
        """Say what holds the n-th task back."""
        return max(self._lines, key=lambda line: line.start(n)).words


class Share(NamedTuple):
    """The tasks that fit into one period of a quota.

    Attributes:
        tasks: Their number.
        pace: The line on which they start, if the quota is spread.
    """

    tasks: float
    pace: Line | None = None


class Periods:
    """A quota over another course: the rest of the running period, then whole ones."""

    def __init__(
        self,
        now: Course,
        fresh: Course,
        ends: float,
        running: Share,
        whole: Share,
        length: float,
        text: str,
    ) -> None:
        """Make a course.

        Args:
            now: The course that the windows, and shorter quotas, have from now on.
            fresh: The course that they have at the begin of a period.
            ends: The ms until the running period ends.
            running: What fits into it.
            whole: What fits into each of the others.
            length: The ms of each of the others.
            text: The quota, in words.
        """
        self._now, self._fresh, self._ends, self._length = now, fresh, ends, length
        self._running, self._whole, self._text = running, whole, text
        steady = fresh.rate * length
        self._per = max(1.0, min(whole.tasks, steady if steady < whole.tasks else math.inf))
        self.rate = self._per / length

    def start(self, n: float) -> float:
        """Compute when the n-th task may start, at the soonest."""
        taken = self._in(self._now, self._running, self._ends)
        if n <= taken:
            return _paced(self._now, self._running, n)
        left = n - taken
        over = max(0, math.ceil(left / self._per - 1e-9) - 1)
        begin = self._ends + over * self._length
        last = max(1.0, left - over * self._per) if over else left
        return max(self._now.start(n), begin + _paced(self._fresh, self._whole, last))

    def count(self, ms: float) -> float:
        """Count the tasks that may start before a moment."""
        if ms <= self._ends:
            return self._in(self._now, self._running, ms)
        over, rest = divmod(ms - self._ends, self._length)
        first = self._in(self._now, self._running, self._ends)
        last = min(self._per, self._in(self._fresh, self._whole, rest))
        return min(self._now.count(ms), first + (over and over * self._per) + last)

    def words(self, n: float) -> str:
        """Say what holds the n-th task back."""
        return self._text if self.start(n) > self._now.start(n) else self._now.words(n)

    @staticmethod
    def _in(course: Course, share: Share, ms: float) -> float:
        paced = share.pace.count(ms) if share.pace else math.inf
        return min(share.tasks, course.count(ms), paced)


def _paced(course: Course, share: Share, n: float) -> float:
    at = course.start(n)
    return max(at, share.pace.start(n)) if share.pace else at


class Joined:
    """The members of a pool: each task takes the one that is free first."""

    def __init__(self, courses: Sequence[tuple[float, Course]]) -> None:
        """Make a course of members: the ms until each opens, and its course from then on."""
        self._courses = courses
        self.rate = sum(course.rate for _, course in courses)

    def start(self, n: float) -> float:
        """Compute when the n-th task may start, at the soonest."""
        low, high = 0.0, min(at + max(0.0, course.start(n)) for at, course in self._courses)
        while high - low > 0.5 + high * 1e-9:
            middle = (low + high) / 2
            low, high = (low, middle) if self.count(middle) >= n else (middle, high)
        return high

    def count(self, ms: float) -> float:
        """Count the tasks that may start before a moment."""
        return sum(course.count(ms - at) for at, course in self._courses if ms > at)

    def words(self, n: float) -> str:
        """Say what holds the n-th task back."""
        _, course = min(self._courses, key=lambda pair: pair[0])
        return course.words(max(1.0, n / len(self._courses)))


class Need(NamedTuple):
    """The units that a task takes of a limit, and those it must leave for others."""

    units: int
    keeps: int = 0


def needs_of(
    wanted: Sequence[Wanted],
    units: Callable[[Units], int],
    reserve: Reserve | None = None,
) -> list[Need]:
    """List what tasks need of a limit, of which a cost takes so many `units`."""
    return [
        Need(units(each.units), reserve.units if reserve and each.leaves(reserve) else 0)
        for each in wanted
    ]


def fits(amount: int, counted: float, units: float) -> bool:
    """Return True if units fit into the rest of a period; those of its first task always do."""
    return not counted or counted + units <= amount


def fitting(amount: int, counted: float, needs: Iterable[Need]) -> float:
    """Count the tasks that fit into the rest of a period, one after the other.

    Args:
        amount: The units of a period.
        counted: The units that are taken.
        needs: What the tasks need, without an end.
    """
    taken, tasks = counted, 0
    for units, keeps in needs:
        if units and not fits(amount, taken, units + keeps):
            return tasks
        taken, tasks = taken + units, tasks + 1
        if tasks >= MOST_PACKED:
            break
    if taken == counted:
        return math.inf
    return max(tasks, math.floor(tasks * (amount - counted) / (taken - counted)))


def packed(amount: int, needs: Sequence[Need]) -> float:
    """Count the tasks that fit into a whole period, on average."""
    if len(set(needs)) == 1:
        return fitting(amount, 0, cycle(needs))
    again = _Again(needs)
    shares: list[float] = []
    while sum(shares) < MOST_PACKED and len(shares) < MOST_PACKED:
        shares.append(fitting(amount, 0, again))
    return sum(shares) / len(shares)


class _Again:
    """An endless iterator over needs that gives back the one that did not fit."""

    def __init__(self, needs: Sequence[Need]) -> None:
        self._needs, self._next = needs, 0

    def __iter__(self) -> Iterator[Need]:
        while True:
            yield self._needs[self._next % len(self._needs)]
            self._next += 1
