"""The windows of a gate, even or moving: what they have granted, and when they grant more.

No I/O, no clock; times are ms. Only `gates` makes and asks them. They do in doubles what these
scripts do, and a change on one side is a change on the other:

* `lua/lib/limits/pace.lua`: how fast a window grants;
* `lua/lib/limits/opens.lua`: when it lets a task run, and what a reserve keeps;
* `lua/pop/charge.lua`: what a grant takes;
* `lua/lib/limits/moving.lua`: all three for a moving window.
"""

import math
from collections.abc import Sequence

from dpq.model.clearing import Line, Rounds, Wanted, needs_of, packed
from dpq.model.cost import Units
from dpq.model.limits import RateLimit, Reason, most_granted, per_ms, rate_text, whole_ms
from dpq.model.priority import Aging

SLOTS = 64
"""Slots in a moving window, about: so many parts of it may be lost; moving.lua has it, too."""


def last_to_open(windows: Sequence[RateLimit], units_left: Sequence[float]) -> RateLimit | None:
    """Return the window that takes longest until it has a unit; None if there is none."""
    both = zip(windows, units_left, strict=False)
    last = max(both, key=lambda each: (1 - each[1]) * each[0].per / each[0].rate, default=None)
    return last and last[0]


class Window:
    """One rate of a limit, and what it has granted evenly.

    Attributes:
        rule: The rate as it was set.
        per_ms: Its length without slack.
        slack_ms: Its slack, or None if that is learned.
        length: Its length.
        paid: The moment until which its units are paid for.
        owed: `paid`, or later while a 429 has just closed the gate.
        interval: The ms that one unit takes.
        most: The units that any window grants at most.
    """

    reason: Reason = "spent"

    def __init__(self, rule: RateLimit, paid: float) -> None:
        self.rule, self.per_ms = rule, per_ms(rule.per)
        self.slack_ms = None if rule.slack is None else whole_ms(rule.slack)
        self.paid = self.owed = paid
        self.length, self.interval, self.most = float(self.per_ms), 0.0, 1

    def pace(self, rate: float, learned_slack_ms: float) -> None:
        """Compute how long it is, and how fast it grants its units."""
        slack = learned_slack_ms if self.slack_ms is None else self.slack_ms
        self.length = self.per_ms + slack
        interval = self.length / rate
        self.interval = interval if interval < 0.25 else math.ceil(interval * 4096) / 4096
        self.most = most_granted(rate, self.rule.burst)

    def look(self, instant: float) -> None:
        """Forget what counts no more at a moment."""

    def time_of(self, units: float) -> float:
        """Compute the ms that so many units take, rounded up."""
        return math.ceil(units * self.interval * 4096) / 4096

    def units(self, cost: Units) -> int:
        """Return the units that a task takes of it."""
        return min(cost.get(self.rule.unit, 0), self.most)

    def opens_at(self, cost: Units, rank: float, instant: float, aging: Aging) -> float:
        """Compute when it has enough units for a task of this rank; 0 if it takes none."""
        units, reserve = self.units(cost), self.rule.reserve
        if not units:
            return 0.0
        at = self._has(units)
        if reserve and (grown := aging.entitled_at(reserve.priority, rank, instant)):
            at = min(self._has(units, reserve.units), max(at, grown))
        return at

    def _has(self, units: int, spared: int = 0) -> float:
        """Compute when it has so many units, and leaves others."""
        at = self.owed + self.time_of(units - self.rule.burst)
        return at + self.time_of(spared) if spared else at

    def charge(self, cost: Units, instant: float) -> None:
        """Take the units of a task."""
        units = self.units(cost)
        if units:
            self.owed = max(self.owed, instant) + self.time_of(units)
        self.paid = self.owed

    def lines(
        self, wanted: Sequence[Wanted], begin: float | None = None
    ) -> Sequence[Line | Rounds]:
        """Say when tasks like these start; without a moment, when all of its burst is left."""
        burst = self.rule.burst
        users = [
            (units, burst - keeps)
            for units, keeps in needs_of(wanted, self.units, self.rule.reserve)
            if units
        ]
        if not users:
            return []
        debt = 0.0 if begin is None else max(0.0, self.owed - begin)
        # A task of more units than the burst starts late, and pays from then on.
        each = sum(max(units, 2 * units - burst) for units, burst in users) / len(wanted)
        first = sum(units - burst for units, burst in users) / len(users)
        return [Line(debt + first * self.interval, each * self.interval, self.words())]

    def words(self) -> str:
        """Write it for people, as in `500/min` or `tokens=9000/min`."""
        return rate_text(self.rule)


class MovingWindow(Window):
    """One moving window of a limit: it grants what it has not granted within its length.

    `docs/design.md`, "Moving windows", says why the bound holds.
    """

    def __init__(self, rule: RateLimit, paid: float, slots: str = "") -> None:
        """Read the slots that the gate keeps; "" if it has none."""
        super().__init__(rule, paid)
        self._rate, self._tick = int(rule.rate), tick_of(self.per_ms)
        self._slots: list[list[float]] = []  # the tick of each, and its units, the oldest first
        self._taken = self._join = 0.0  # all units; the tick of the first grant of the last slot
        if not slots:
            return
        _, _, join, last, held, tick, _, *each = slots[1:].split(":")
        self._join, at = float(join), float(tick)
        for slot in each:
            units, _, gap = slot.partition(".")
            self._slots.append([at, float(units)])
            at += float(gap or 0)
        if float(held) > 0:
            self._slots.append([float(last), float(held)])
        self._taken = sum(units for _, units in self._slots)

    def look(self, instant: float) -> None:
        """Forget the slots that have left it."""
        gone = (instant - self.length) / self._tick
        while self._slots and self._slots[0][0] <= gone:
            self._taken -= self._slots.pop(0)[1]

    def units(self, cost: Units) -> int:
        """Return the units that a task takes of it, also if that is more than its rate."""
        return cost.get(self.rule.unit, 0)

    def _has(self, units: int, spared: int = 0) -> float:
        over = min(self._taken + units + spared - self._rate, self._taken)
        if over <= 0:
            return 0.0
        for tick, held in self._slots:
            over -= held
            if over <= 0:
                return tick * self._tick + self.length
        raise AssertionError("the sum is that of the slots")

    def charge(self, cost: Units, instant: float) -> None:
        """Take the units of a task."""
        units = self.units(cost)
        if units <= 0:
            return
        token = math.floor(instant * 1000)
        tick = math.ceil(max(instant, (token + 1) / 1000) / self._tick)
        span = max(0, math.floor(self.length / SLOTS / self._tick) - 1)
        if self._slots and (tick <= self._slots[-1][0] or tick - self._join <= span):
            last = self._slots[-1]
            last[0], last[1] = max(last[0], tick), last[1] + units
        else:
            self._slots.append([tick, units])
            self._join = tick
        self._taken += units

    def lines(
        self, wanted: Sequence[Wanted], begin: float | None = None
    ) -> Sequence[Line | Rounds]:
        """Say when tasks like these start; without a moment, when nothing is in it."""
        needs = needs_of(wanted, self.units, self.rule.reserve)
        units, keeps = (sum(each) / len(needs) for each in zip(*needs, strict=True))
        if not units:
            return []
        free = [(0.0, float(self._rate))] if begin is None else self._frees(begin)
        tasks = packed(self._rate, needs)
        return [Rounds(free, self.length, tasks, units, keeps, self.words())]

    def _frees(self, begin: float) -> list[tuple[float, float]]:
        """List when units leave it: the ms from a moment on, and how many are free from then on."""
        free = self._rate - self._taken
        found = [(0.0, free)]
        for tick, held in self._slots:
            free += held
            found.append((max(0.0, tick * self._tick + self.length - begin), free))
        return found


def tick_of(per_ms: float) -> float:
    """Compute the step of a moving window's moments: doubles count a power of two without loss."""
    return 2.0 ** max(math.frexp(per_ms / 262144)[1], -10)


def read_window(rule: RateLimit, text: float | str) -> Window:
    """Read a window as `lua/lib/limits/gate_line.lua` writes it."""
    paid, colon, slots = str(text).partition(":")
    if rule.moving:
        return MovingWindow(rule, float(paid), colon + slots)
    return Window(rule, float(paid))
