"""The slots of a moving window: what it has granted, and when that leaves it. No I/O, no clock.

It does in doubles what `moving.lua` does: a change there is a change here. `gates` computes
with it. Times are ms. `docs/design.md`, "Moving windows", says why the bound holds.
"""

import math

SLOTS = 64
"""Slots in a window, about: so many parts of it may be lost; lib/limits/moving.lua has it, too."""


def tick_of(per_ms: float) -> float:
    """Compute the step of moments: a power of two, so that doubles count it without loss."""
    return 2.0 ** max(math.frexp(per_ms / 262144)[1], -10)


class Slots:
    """The units that a moving window has granted, by the moment when they were.

    Attributes:
        length: The ms after which a slot leaves the window.
    """

    def __init__(self, rate: int, per_ms: int, text: str) -> None:
        """Read the slots.

        Args:
            rate: The units that the window grants at most.
            per_ms: Its length without slack.
            text: What the gate keeps of it, or "" if that is nothing.
        """
        self._rate, self._tick, self.length = rate, tick_of(per_ms), float(per_ms)
        self._slots: list[list[float]] = []  # the tick of each, and its units, the oldest first
        self._join = 0.0  # the tick of the first grant of the last slot
        if not text:
            return
        _, _, self._join, last, held, tick, _ = map(float, text[1:].split(":")[:7])
        for slot in text[1:].split(":")[7:]:
            units, _, gap = slot.partition(".")
            self._slots.append([tick, float(units)])
            tick += float(gap or 0)
        if held > 0:
            self._slots.append([last, held])

    def look(self, instant: float) -> None:
        """Forget the slots that have left."""
        gone = (instant - self.length) / self._tick
        self._slots = [slot for slot in self._slots if slot[0] > gone]

    def opens_at(self, units: float) -> float:
        """Compute when the window has so many units; 0 if it has them now."""
        taken = sum(held for _, held in self._slots)
        over = min(taken + units - self._rate, taken)
        if over <= 0:
            return 0.0
        for tick, held in self._slots:
            over -= held
            if over <= 0:
                return tick * self._tick + self.length
        raise AssertionError("the sum is that of the slots")

    def charge(self, units: float, instant: float) -> None:
        """Take units at a moment."""
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

    def frees(self, begin: float) -> list[tuple[float, float]]:
        """List when units leave it: the ms from a moment on, and how many are free from then on."""
        free = self._rate - sum(held for _, held in self._slots)
        found = [(0.0, free)]
        for tick, held in self._slots:
            free += held
            found.append((max(0.0, tick * self._tick + self.length - begin), free))
        return found
