"""Rates as callers set them. No I/O, no clock."""

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from dpq.limits.quota import MAX_RATE, Reserve, check_reserve, check_unit
from dpq.model.errors import ConfigurationError
from dpq.model.validation import MAX_SECONDS, number, whole_number

__all__ = ["Adaptive", "RateLimit", "Reserve"]

EVERY_GROUP = "*"
"""The `group` of the limit that holds for all groups without a limit of their own."""

MAX_REFILL_SECONDS = 100 * MAX_SECONDS
"""Seconds until a taken burst is there again, at most: 1000 years, so that a date can hold it."""

MAX_SLACK_SECONDS = 3600
"""Seconds of the longest slack, also of a learned one; lua/lib/limits/pace.lua has it, too."""

MAX_WINDOWS = 8
MAX_CONCURRENCY = 1_000_000

Reason = Literal[
    "rate limited",
    "closed by hand",
    "unreadable",
    "probe",
    "concurrency",
    "spent",
    "quota",
    "observed",
    "in order",
]

_REASONS: dict[str, Reason] = {
    "l": "rate limited",
    "h": "closed by hand",
    "u": "unreadable",
    "p": "probe",
    "c": "concurrency",
    "s": "spent",
    "q": "quota",
    "o": "observed",
    "i": "in order",
}


@dataclass(frozen=True)
class Adaptive:
    """The bounds of a learned rate: up after each clean window, down at a 429.

    Attributes:
        floor: The lowest rate, above 0, units in a window.
        ceiling: The highest rate.
        step: Units that are added after a window that was used at least half, until the first 429.
            From then on the steps follow from where the 429s came (docs/storage.md, "Learning").
    """

    floor: float
    ceiling: float
    step: float = 1.0

    def __post_init__(self) -> None:
        number("adaptive.floor", self.floor, "units", 0.001, MAX_RATE)
        number("adaptive.ceiling", self.ceiling, "units", self.floor, MAX_RATE)
        number("adaptive.step", self.step, "units", 0.001, MAX_RATE)


@dataclass(frozen=True)
class RateLimit:
    """At most `rate` units `per` seconds, evenly: never more than rate + burst - 1 in any window.

    With `moving=True` never more than `rate` in any window, at whatever speed.

    Attributes:
        rate: Units, from 0.001 to 10^9; a fraction counts as the next whole one in the bound.
        per: Seconds, from 0.001 to 315 360 000 (10 years).
        burst: Units that may be taken at once after a rest, from 1 to 10^9.
        reserve: Units kept back for better priorities; needs a burst above them.
        adaptive: Learn the rate, from `rate` on; of several windows only the shortest may.
        slack: Seconds by which `per` is widened, 0 to 3600: requests may reach a host closer
            together than they were granted. None: learned from 429s, up to the length of the
            shortest window.
        unit: What it counts, as in `tokens`: 1 to 16 of a-z, 0-9 and _, a letter first; `""` is
            requests. A task is charged what it costs of that unit (`push(cost=)`).
        estimate: Units that are reserved for a task which names no cost in this unit, until enough
            of them have told what they spent: 0 to 10^9. Then it is the 95th percentile of the
            last twenty. Not for requests, of which a task takes one unless it says more.
        moving: Grant all `rate` units at once if no others were granted within `per`. The rate is a
            whole number then, and `burst` and `adaptive` are left out.
    """

    rate: float
    per: float
    burst: int = 1
    reserve: Reserve | None = None
    adaptive: Adaptive | None = None
    slack: float | None = None
    unit: str = ""
    estimate: int = 0
    moving: bool = False

    @classmethod
    def within(
        cls, most: int, per: float, burst: int = 1, *, slack: float | None = None, unit: str = ""
    ) -> "RateLimit":
        """Make the limit that keeps to what a host says: never more than `most` in any window.

        `RateLimit.within(300, 900, burst=50)` is `RateLimit(251, 900, burst=50)`. A burst comes off
        the rate: with more than half of `most` it warns. `moving=True` takes nothing off.

        Args:
            most: The units that the host allows in `per` seconds.
            per: Seconds, as of a `RateLimit`.
            burst: Units that may be taken at once after a rest, from 1 to `most`.
            slack: As of a `RateLimit`.
            unit: As of a `RateLimit`.

        Raises:
            ConfigurationError: A value is out of its bounds.
        """
        whole_number("most", most, 1, MAX_RATE)
        whole_number("burst", burst, 1, most)
        if 2 * (most - burst + 1) < most:
            warnings.warn(
                f"within({most!r}, {per!r}, burst={burst!r}) leaves {most - burst + 1} in "
                f"{per!r} s: for {most} in any {per!r} s, at whatever speed, write "
                f"RateLimit({most!r}, {per!r}, moving=True)",
                stacklevel=2,
            )
        return cls(most - burst + 1, per, burst, slack=slack, unit=unit)

    def __post_init__(self) -> None:
        number("rate", self.rate, "units", 0.001, MAX_RATE)
        check_unit(self.unit)
        number("per", self.per, "seconds", 0.001, MAX_SECONDS, " (10 years)")
        whole_number("burst", self.burst, 1, MAX_RATE)
        if self.adaptive is not None and not isinstance(self.adaptive, Adaptive):
            raise ConfigurationError(f"adaptive is {self.adaptive!r}: it must be an Adaptive")
        if self.slack is not None:
            number("slack", self.slack, "seconds", 0, MAX_SLACK_SECONDS)
        whole_number("estimate", self.estimate, 0, MAX_RATE)
        if self.estimate and self.unit == "":
            raise ConfigurationError(
                f"estimate is {self.estimate} for requests, of which every task names its number: "
                "give it to a window with a unit, as in unit='tokens'"
            )
        if not isinstance(self.moving, bool):
            raise ConfigurationError(f"moving is {self.moving!r}: it must be True or False")
        if self.moving:
            self._check_moving()
        slowest = min(self.rate, self.adaptive.floor if self.adaptive else self.rate)
        if self.burst * per_ms(self.per) / slowest > MAX_REFILL_SECONDS * 1000:  # as stored
            raise ConfigurationError(
                f"a burst of {self.burst} at {slowest!r} per {self.per!r} s takes "
                f"{self.burst * self.per / slowest:.3g} s to refill: it must be at most "
                f"{MAX_REFILL_SECONDS} s (1000 years)"
            )
        check_reserve(self.reserve, "rate" if self.moving else "burst", self.at_once)
        if self.adaptive and not self.adaptive.floor <= self.rate <= self.adaptive.ceiling:
            raise ConfigurationError(
                f"rate is {self.rate!r}: it must be from adaptive.floor {self.adaptive.floor!r} "
                f"to adaptive.ceiling {self.adaptive.ceiling!r}"
            )

    @property
    def at_once(self) -> int:
        """The units that may be granted at once after a rest."""
        return int(self.rate) if self.moving else self.burst

    def _check_moving(self) -> None:
        """Raise ConfigurationError if another setting does not fit a moving window."""
        if self.rate < 1 or self.rate != int(self.rate):
            raise ConfigurationError(
                f"rate is {self.rate!r} of a moving window, which grants whole units: it must be a "
                "whole number of at least 1, as in 1 per 2 s for 0.5 a second"
            )
        if self.burst != 1:
            raise ConfigurationError(
                f"burst is {self.burst} of a moving window, which grants all {self.rate:.15g} at "
                "once if it may: leave burst out"
            )
        if self.adaptive is not None:
            raise ConfigurationError(
                "adaptive is given for a moving window: only an even window learns its rate, so "
                "leave out adaptive or moving"
            )


def most_granted(rate: float, burst: int) -> int:
    """Compute the units that any window grants at most; a moving window has a burst of 1."""
    return max(1, math.ceil(rate) + burst - 1)


def per_ms(seconds: float) -> int:
    """Return the length of a window as it is stored: 1 ms at least."""
    return max(1, whole_ms(seconds))


def whole_ms(seconds: float) -> int:
    """Convert to ms, rounded up: so it grants less, never more. The last digits do not count."""
    return math.ceil(float(f"{seconds * 1000:.12g}"))


def reason_of(letter: str) -> Reason | None:
    """Return the reason for a letter of the script `view`."""
    return _REASONS.get(letter)


def last_to_open(
    windows: Sequence[RateLimit], units_left: Sequence[float]
) -> tuple[RateLimit, float] | None:
    """Return the window that takes longest until it has a unit, and what it has left; or None."""
    both = zip(windows, units_left, strict=False)
    return max(both, key=lambda each: (1 - each[1]) * each[0].per / each[0].rate, default=None)


def spent_words(left: float) -> str:
    """Say that no task may run by a window or a quota: with units left, a task needs more."""
    return "is spent" if left < 1 else "has too few units left"
