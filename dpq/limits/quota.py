"""Quotas: units in a calendar period of a time zone, and their text among the rules of a limit.

No I/O, no clock: the moment from which a zone's changes are listed is an argument. The text is in
docs/storage.md, "Meters"; lua/lib/limits/window_rule.lua reads it.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Literal, get_args

from dpq.model.errors import ConfigurationError
from dpq.model.validation import MAX_SECONDS, number, unit_name, whole_number
from dpq.model.zones import offset_changes, zone, zone_name

__all__ = ["Period", "Quota", "Reserve"]

MAX_RATE = 1_000_000_000
"""Units in one window or burst at most; lua/lib/limits/rules.lua has the same number."""

MAX_AMOUNT = 1_000_000_000_000
"""Units of a quota at most: doubles count them exactly; lib/limits/window_rule.lua has the same."""

MAX_QUOTAS = 8

Period = Literal["hour", "day", "week", "month"]
"""The calendar periods of a quota; a week begins on Monday."""

_LETTERS: dict[str, str] = {"hour": "H", "day": "D", "week": "W", "month": "M"}
_PERIODS: dict[str, Period] = {letter: name for name, letter in _LETTERS.items()}  # type: ignore[misc]

_DAY_MS = 86_400_000
_DAYS_BEFORE = 40
"""Days before now from which changes of a zone are listed: the running month is shorter."""

_HOUR = 3600


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
        if self.unit != "":
            unit_name("unit", self.unit)
        if self.reserve is not None and not isinstance(self.reserve, Reserve):
            raise ConfigurationError(f"reserve is {self.reserve!r}: it must be a Reserve")
        if self.reserve and self.reserve.units >= self.amount:
            raise ConfigurationError(
                f"reserve.units is {self.reserve.units} and amount is {self.amount}: amount must "
                "be larger, or no other task would ever run"
            )
        if not isinstance(self.spread, bool):
            raise ConfigurationError(f"spread is {self.spread!r}: it must be True or False")


_READS = "AMOUNT/PERIOD@ZONE, as in 10000/day@America/Los_Angeles, 500/hour@UTC, usd=250/month@UTC"
_QUOTA = re.compile(r"(?:([^=]*)=)?([0-9]{1,13})/([a-z]+)@(.*)")


def read_quota(text: str) -> Quota:
    """Read `AMOUNT/PERIOD@ZONE`, as the command line and `set_limit` take it."""
    found = _QUOTA.fullmatch(text)
    if not found or found[3] not in get_args(Period):
        raise ConfigurationError(
            f"{text!r:.200}: write a quota as {_READS}; the periods are hour, day, week, month"
        )
    try:
        unit = "" if found[1] is None else unit_name("unit", found[1])
        return Quota(int(found[2]), found[3], found[4], unit)  # type: ignore[arg-type]
    except ConfigurationError as error:
        raise ConfigurationError(f"{text!r:.200}: {error}") from None


def split_quotas(rate: Any) -> tuple[Any, tuple[Quota, ...]]:
    """Take the quotas out of the first argument of `set_limit`."""
    if isinstance(rate, str) and "@" in rate:
        rate = read_quota(rate)
    if isinstance(rate, Quota):
        return None, (rate,)
    if isinstance(rate, str) or not isinstance(rate, Sequence):
        return rate, ()
    quotas = tuple(one for one in rate if isinstance(one, Quota))
    if len(quotas) > MAX_QUOTAS:
        raise ConfigurationError(
            f"the limit has {len(quotas)} quotas: it may have at most {MAX_QUOTAS}"
        )
    counted = [(quota.period, quota.unit) for quota in quotas]
    for period, unit in counted:
        if counted.count((period, unit)) > 1:
            raise ConfigurationError(
                f"the limit has {counted.count((period, unit))} quotas of a {period} for "
                f"{f'the unit {unit!r}' if unit else 'requests'}: keep one of them"
            )
    return ([one for one in rate if not isinstance(one, Quota)] or None) if quotas else rate, quotas


def write_quotas(quotas: Sequence[Quota], now_ms: int) -> str:
    """Make the text that stands behind the windows in the rules of a limit."""
    texts = []
    for quota in quotas:
        changes = ",".join(f"{moment}:{offset}" for moment, offset in _changes(quota, now_ms))
        text = f"|{_LETTERS[quota.period]}{quota.unit} {quota.amount} {quota.timezone} {changes}"
        text += " ~" if quota.spread else ""
        if quota.reserve:
            text += f" {quota.reserve.units} {number_text(quota.reserve.priority)}"
        texts.append(text)
    return "".join(texts)


def _changes(quota: Quota, now_ms: int) -> Sequence[tuple[int, int]]:
    """List the offsets that matter for the quota's periods."""
    first = max(0, now_ms // _DAY_MS - _DAYS_BEFORE)
    changes = offset_changes(quota.timezone, first, MAX_SECONDS * 1000 // _DAY_MS + _DAYS_BEFORE)
    if quota.period != "hour":
        return changes
    kept = [changes[0]]
    for (_, before), (moment, offset) in pairwise(changes):
        if (offset - before) % _HOUR:
            kept.append((moment, kept[-1][1] + offset - before))
    return kept


def is_quota(part: str) -> bool:
    """Return True if a part of the rules of a limit is a quota."""
    return part[:1] in _PERIODS


def read_quotas(rules: str) -> tuple[Quota, ...]:
    """Read the quotas of the rules of a limit."""
    quotas = []
    for part in filter(is_quota, rules.split("|")):
        name, amount, timezone, _, *more = part.split(" ")
        spread = more[:1] == ["~"]
        kept = more[spread:]
        reserve = Reserve(int(kept[0]), as_written(kept[1])) if kept else None
        quotas.append(
            _known(int(amount), _PERIODS[name[0]], timezone, name[1:], reserve, spread),
        )
    return tuple(quotas)


def _known(*values: Any) -> Quota:
    """Make a quota that was checked when it was set, by a machine that may know more zones."""
    quota = object.__new__(Quota)
    for name, value in zip(Quota.__dataclass_fields__, values, strict=True):
        object.__setattr__(quota, name, value)
    return quota


def quota_text(quota: Quota) -> str:
    """Write a quota as the command line reads it."""
    text = f"{quota.unit}=" if quota.unit else ""
    text += f"{quota.amount}/{quota.period}@{quota.timezone}"
    text += ",spread" if quota.spread else ""
    if quota.reserve:
        text += f",reserve={quota.reserve.units}:{quota.reserve.priority}"
    return text


def number_text(value: float) -> str:
    """Write a number as Lua and Python read it, also of a subclass."""
    return str(int(value)) if isinstance(value, int) else repr(float(value))


def as_written(text: str) -> float:
    """Read what `number_text` has written."""
    whole = text.lstrip("-").isdigit() and len(text) < 100  # Python reads no int of 5000 digits
    return int(text) if whole else float(text)
