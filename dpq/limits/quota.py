"""Quotas: units in a calendar period of a time zone. No I/O, no clock."""

from dataclasses import dataclass
from typing import Literal, get_args

from dpq.model.errors import ConfigurationError
from dpq.model.validation import number, unit_name, whole_number
from dpq.model.zones import zone, zone_name

__all__ = ["Period", "Quota", "Reserve"]

MAX_RATE = 1_000_000_000
"""Units in one window or burst at most; lua/lib/limits/rules.lua has the same number."""

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
