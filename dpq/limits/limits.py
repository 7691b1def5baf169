"""Rates and quotas as callers set them. No I/O, no clock."""

import math
from dataclasses import dataclass
from typing import Literal, get_args

from dpq.model.errors import ConfigurationError
from dpq.model.validation import MAX_SECONDS, number, unit_name, whole_number
from dpq.model.zones import zone, zone_name

__all__ = ["Adaptive", "Period", "Quota", "RateLimit", "Reserve"]

EVERY_GROUP = "*"
"""The `group` of the limit that holds for all groups without a limit of their own."""

MAX_REFILL_SECONDS = 100 * MAX_SECONDS
"""Seconds until a taken burst is there again, at most: 1000 years, so that a date can hold it."""

MAX_SLACK_SECONDS = 3600
"""Seconds of the longest slack, also of a learned one; lua/lib/limits/pace.lua has it, too."""

MAX_WINDOWS = 8
MAX_CONCURRENCY = 1_000_000

MAX_RATE = 1_000_000_000
"""Units in one window or burst at most; lua/lib/limits/window_rule.lua has it, too."""

MAX_AMOUNT = 1_000_000_000_000
"""Units of a quota at most: doubles count them exactly; lib/limits/window_rule.lua has the same."""

MAX_QUOTAS = 8

Period = Literal["hour", "day", "week", "month"]
"""The calendar periods of a quota; a week begins on Monday."""


@dataclass(frozen=True)
class Reserve:
    """Units of a window or a quota that are kept for tasks of better priority.

    Attributes:
        units: The units that other tasks leave: 1 to the window's burst - 1, or to the
            quota's amount - 1.
        priority: The priority (aging included) from which on tasks may take them: this one, and all
            that come before it in the queue; with `order="min"` the smaller ones.
    """

    units: int
    priority: float

    def __post_init__(self) -> None:
        whole_number("reserve.units", self.units, 1, MAX_RATE - 1)
        number("reserve.priority", self.priority, "a priority", -(2**63), 2**63)


def check_reserve(reserve: object, name: str, units: int) -> None:
    """Check the reserve of a limit that grants so many units at once."""
    if reserve is not None and not isinstance(reserve, Reserve):
        raise ConfigurationError(f"reserve is {reserve!r}: it must be a Reserve")
    if reserve and reserve.units >= units:
        raise ConfigurationError(
            f"reserve.units is {reserve.units} and {name} is {units}: {name} must be larger, or no "
            "other task would ever run"
        )


def check_unit(unit: str) -> None:
    """Check the unit of a limit; "" is requests."""
    if unit != "":
        unit_name("unit", unit)


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


@dataclass(frozen=True)
class Quota:
    """At most `amount` units in each calendar period of a time zone, by the server's clock.

    The count begins anew with the period: at midnight of the zone, also on days of 23 or 25 hours.
    A limit carries the clock changes of its zones for the 10 years after `set_limit`. Set it again
    before that time is over, and when the rules of the zone change.

    Attributes:
        amount: Units in a period, from 1 to 10^12. A task that costs more takes all of them.
        period: "hour", "day", "week" (from Monday on) or "month".
        timezone: The IANA name of the zone whose calendar counts, as in "America/Los_Angeles".
        unit: What it counts, as of a `RateLimit`; `""` is requests.
        reserve: Units kept back for better priorities, fewer than `amount`. Only the first task of
            a period may take of them for a worse priority, if it costs more than is left beside.
        spread: Pace what is left over the rest of the period, and grant no faster.

    Raises:
        ConfigurationError: A value is out of its bounds, or this machine knows no such zone.
    """

    amount: int
    period: Period
    timezone: str = "UTC"
    unit: str = ""
    reserve: Reserve | None = None
    spread: bool = False

    def __post_init__(self) -> None:
        whole_number("amount", self.amount, 1, MAX_AMOUNT)
        if self.period not in get_args(Period):
            raise ConfigurationError(
                f"period is {self.period!r}: it must be 'hour', 'day', 'week' or 'month'"
            )
        zone(zone_name(self.timezone))
        check_unit(self.unit)
        check_reserve(self.reserve, "amount", self.amount)
        if not isinstance(self.spread, bool):
            raise ConfigurationError(f"spread is {self.spread!r}: it must be True or False")


def quota_text(quota: Quota) -> str:
    """Write a quota as the command line reads it."""
    text = f"{quota.unit}=" if quota.unit else ""
    text += f"{quota.amount}/{quota.period}@{quota.timezone}"
    text += ",spread" if quota.spread else ""
    if quota.reserve:
        text += f",reserve={quota.reserve.units}:{quota.reserve.priority}"
    return text


def most_granted(rate: float, burst: int) -> int:
    """Compute the units that any window grants at most; a moving window has a burst of 1."""
    return max(1, math.ceil(rate) + burst - 1)


def per_ms(seconds: float) -> int:
    """Return the length of a window as it is stored: 1 ms at least."""
    return max(1, whole_ms(seconds))


def whole_ms(seconds: float) -> int:
    """Convert to ms, rounded up: so it grants less, never more. The last digits do not count."""
    return math.ceil(float(f"{seconds * 1000:.12g}"))
