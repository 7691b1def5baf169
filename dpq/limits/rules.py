"""The rules of one limit: the arguments of `set_limit`, checked once, and their stored text.

    LimitRules.checked(10, 1, group="a").text()  ->  "0|10 1000 1"

No I/O, no clock. docs/storage.md, "Rules", has the text; lua/lib/limits reads it.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

from dpq.limits.limits import (
    EVERY_GROUP,
    MAX_CONCURRENCY,
    MAX_QUOTAS,
    MAX_WINDOWS,
    Adaptive,
    Quota,
    RateLimit,
    Reserve,
    per_ms,
    whole_ms,
)
from dpq.limits.pools import pool_members
from dpq.limits.words import as_written, read_word, write_word
from dpq.model.errors import ConfigurationError
from dpq.model.validation import MAX_SECONDS, label, number, whole_number
from dpq.model.zones import offset_changes

_PERIODS = {"H": "hour", "D": "day", "W": "week", "M": "month"}
_LETTERS = {name: letter for letter, name in _PERIODS.items()}

_HEAD = re.compile(r"(\d+)(?:\*([\d.]+))?(!?)(?:~(\S+) (\S+) (\S+))?")
_WINDOW = re.compile(r"(\S+) (\d+)(\S*) (m|\d+)(?: (\d+) (\S+))?(?: \+(\d+))?(?: ~(\d+))?")
_QUOTA = re.compile(r"([HDWM])(\S*) ([1-9]\d*) (\S+) \S+( ~)?(?: (\d+) (\S+))?")
_CLOCK_CHANGES = re.compile(r" -?[0-9]+:-?[0-9][0-9:,-]*")

_DAY_MS = 86_400_000
_DAYS_BEFORE = 40
"""Days before now from which changes of a zone are listed: the running month is shorter."""

_HOUR = 3600


def plain_rules(text: str) -> str:
    """Leave out of rules the days on which a zone's clock changes, as `plain_rules.lua` does."""
    windows, tab, members = text.partition("\t")
    return _CLOCK_CHANGES.sub(" 0:0", windows) + tab + members


@dataclass(frozen=True, kw_only=True)
class LimitRules:
    """A limit that is checked; only `checked` and `stored` make one."""

    group: str | None = None  # `"*"` for every group without a limit of its own, None for the queue
    windows: tuple[RateLimit, ...] = ()  # the shortest first
    quotas: tuple[Quota, ...] = ()
    concurrency: int | None = None  # leases that exist at once
    members: tuple[str, ...] = ()  # of a pool
    weight: float | None = None  # turns of its group
    reset: bool = False  # forget what was granted and counted
    in_order: bool = False  # a task that waits for its retry keeps its place before all others

    @classmethod
    def checked(
        cls,
        rate: float | str | RateLimit | Quota | Sequence[RateLimit | Quota] | None = None,
        per: float | None = None,
        burst: int = 1,
        *,
        group: str | None = None,
        concurrency: int | None = None,
        adaptive: Adaptive | None = None,
        reserve: Reserve | None = None,
        slack: float | None = None,
        members: Sequence[str] | None = None,
        weight: float | None = None,
        reset: bool = False,
        in_order: bool = False,
    ) -> "LimitRules":
        """Check the arguments of `set_limit`.

        Raises:
            ConfigurationError: An argument is out of its bounds, or two exclude each other.
        """
        if in_order is not False:
            _check_in_order(in_order, group, concurrency, members)
            concurrency = 1
        if concurrency is not None:
            whole_number("concurrency", concurrency, 1, MAX_CONCURRENCY)
        if weight is not None:
            _check_weight(weight, group)
        options = {"burst": burst, "adaptive": adaptive, "reserve": reserve, "slack": slack}
        limits = _limits(rate, per, options)
        if not limits and concurrency is None and weight is None:
            raise ConfigurationError(
                "the limit is empty: give a rate, a concurrency, or both; or a quota"
            )
        return cls(
            group=group if group in (None, EVERY_GROUP) else label("group", group),
            windows=_windows([each for each in limits if not isinstance(each, Quota)]),
            quotas=_quotas([each for each in limits if isinstance(each, Quota)]),
            concurrency=concurrency,
            members=pool_members(members, group),
            weight=weight,
            reset=reset,
            in_order=in_order,
        )

    @classmethod
    def stored(cls, text: str) -> "LimitRules":
        """Read a stored text, whole or as `plain_rules`; it names no group, and is not checked.

        Raises:
            ConfigurationError: It is no such text.
        """
        rules, *members = text.split("\t")
        head, *parts = rules.split("|")
        try:
            slots, weight, ordered, *learning = _groups(_HEAD, head)
            windows = [_read_window(part) for part in parts if part[:1] not in _PERIODS]
            if learning[0] and windows:
                learns = Adaptive(*map(as_written, learning))
                windows[0] = replace(windows[0], adaptive=learns)
            quotas = [_read_quota(part) for part in parts if part[:1] in _PERIODS]
        except ValueError:
            raise ConfigurationError(
                f"the limit {text!r:.200} is not what this DPQ stores: set another one"
            ) from None
        return cls(
            windows=tuple(windows),
            quotas=tuple(quotas),
            concurrency=int(slots) or None,
            members=tuple(members),
            weight=float(weight) if weight else None,
            in_order=bool(ordered),
        )

    @classmethod
    def read(cls, text: str, group: str | None) -> "LimitRules":
        """Read a stored text, whole or as `plain_rules`, and check it; `text` writes it again.

        Raises:
            ConfigurationError: It is no such text, or out of the bounds of `set_limit`.
        """
        rules = cls.stored(text)
        return cls.checked(
            rules.limits or None,
            group=group,
            concurrency=rules.concurrency,
            members=rules.members or None,
            weight=rules.weight,
            in_order=rules.in_order,
        )

    @property
    def limits(self) -> list[RateLimit | Quota]:
        """The windows and the quotas."""
        return [*self.windows, *self.quotas]

    def text(self, now_ms: int = 0) -> str:
        """Write the text of the hash `limits`; quotas carry the clock changes after `now_ms`."""
        head = str(self.concurrency or 0)
        if self.weight is not None:
            head += f"*{_number_text(self.weight)}".removesuffix(".0")
        if self.in_order:
            head += "!"
        if self.windows and (learns := self.windows[0].adaptive):
            head += "~" + " ".join(map(_number_text, (learns.floor, learns.ceiling, learns.step)))
        parts = [head, *map(_window_text, self.windows)]
        parts += [_quota_text(quota, now_ms) for quota in self.quotas]
        return "\t".join(["|".join(parts), *self.members])


# What may be set


def _check_in_order(
    in_order: object, group: str | None, concurrency: int | None, members: Any
) -> None:
    if in_order is not True:
        raise ConfigurationError(f"in_order is {in_order!r}: it must be True or False")
    if group is None:
        raise ConfigurationError(
            "in_order is given for the queue: only a group keeps its order; name one, or '*' for "
            "every group"
        )
    if concurrency not in (None, 1) or members is not None:
        more = f"concurrency is {concurrency!r}" if members is None else f"members are {members!r}"
        raise ConfigurationError(f"in_order runs one task at a time, and {more:.200}: leave it out")


def _check_weight(weight: float, group: str | None) -> None:
    if group is None:
        raise ConfigurationError(
            "weight is given for the queue: only groups take turns; name one, or '*' for every "
            "group"
        )
    number("weight", weight, "turns for each turn of others", 0.01, 100)


_DEFAULTS = {"burst": 1, "adaptive": None, "reserve": None, "slack": None}


def _limits(rate: Any, per: float | None, options: dict[str, Any]) -> Sequence[Any]:
    """List the windows and quotas that the first arguments of `set_limit` name."""
    given = {name: value for name, value in options.items() if value != _DEFAULTS[name]}
    if isinstance(rate, str):
        if per is not None:
            raise ConfigurationError(
                f"rate is {rate!r}: leave out per, since a text names its window, as in "
                "set_limit('10/s'); a group is named as group='api'"
            )
        rate = read_word(rate)
        if isinstance(rate, RateLimit):
            return [replace(rate, **given)]
    if isinstance(rate, RateLimit | Quota):
        rate = [rate]
    if rate is None or isinstance(rate, Sequence):
        if per is not None or given:
            raise ConfigurationError(
                "per, burst, adaptive, reserve and slack go with a single rate: give them to each "
                "RateLimit"
            )
        return rate or ()
    if per is None:
        raise ConfigurationError(
            f"rate is {rate!r:.200}, but per is missing: give the seconds of its window"
        )
    return [RateLimit(rate, per, **given)]


def _windows(windows: Sequence[RateLimit]) -> tuple[RateLimit, ...]:
    """Check windows together; the shortest comes first."""
    for window in windows:
        if not isinstance(window, RateLimit):
            raise ConfigurationError(f"a window is {window!r}: it must be a RateLimit")
    _at_most(MAX_WINDOWS, windows, "windows")
    ordered = sorted(windows, key=lambda each: (each.per, each.unit, each.moving))
    if any(window.adaptive for window in ordered[1:]):
        raise ConfigurationError(
            "adaptive is given for a longer window: only the shortest can learn, so give it to "
            "that one"
        )
    return tuple(ordered)


def _quotas(quotas: Sequence[Quota]) -> tuple[Quota, ...]:
    """Check quotas together."""
    _at_most(MAX_QUOTAS, quotas, "quotas")
    counted = [(quota.period, quota.unit) for quota in quotas]
    for period, unit in counted:
        if (times := counted.count((period, unit))) > 1:
            raise ConfigurationError(
                f"the limit has {times} quotas of a {period} for "
                f"{f'the unit {unit!r}' if unit else 'requests'}: keep one of them"
            )
    return tuple(quotas)


def _at_most(most: int, limits: Sequence[Any], what: str) -> None:
    if len(limits) > most:
        raise ConfigurationError(f"the limit has {len(limits)} {what}: it may have at most {most}")


# The stored text


def _groups(form: re.Pattern[str], text: str) -> Sequence[Any]:
    found = form.fullmatch(text)
    if not found:
        raise ValueError
    return found.groups()


def _window_text(window: RateLimit) -> str:
    at_once = "m" if window.moving else window.burst
    text = f"{_number_text(window.rate)} {per_ms(window.per)}{window.unit} {at_once}"
    text += _reserve_text(window.reserve)
    text += "" if window.slack is None else f" +{whole_ms(window.slack)}"
    return text + (f" ~{window.estimate}" if window.estimate else "")


def _read_window(text: str) -> RateLimit:
    rate, per, unit, burst, units, priority, slack, estimate = _groups(_WINDOW, text)
    return RateLimit(
        as_written(rate),
        int(per) / 1000,
        1 if burst == "m" else int(burst),
        reserve=_read_reserve(units, priority),
        slack=int(slack) / 1000 if slack else None,
        unit=unit,
        estimate=int(estimate or 0),
        moving=burst == "m",
    )


def _quota_text(quota: Quota, now_ms: int) -> str:
    changes = ",".join(f"{moment}:{offset}" for moment, offset in _changes(quota, now_ms))
    text = f"{_LETTERS[quota.period]}{quota.unit} {quota.amount} {quota.timezone} {changes}"
    return text + (" ~" if quota.spread else "") + _reserve_text(quota.reserve)


def _read_quota(text: str) -> Quota:
    """Make a quota that was checked when it was set, by a machine that may know more zones."""
    letter, unit, amount, timezone, spread, units, priority = _groups(_QUOTA, text)
    reserve = _read_reserve(units, priority)
    values = (int(amount), _PERIODS[letter], timezone, unit, reserve, bool(spread))
    quota = object.__new__(Quota)
    vars(quota).update(zip(Quota.__dataclass_fields__, values, strict=True))
    return quota


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


def _reserve_text(reserve: Reserve | None) -> str:
    return f" {reserve.units} {_number_text(reserve.priority)}" if reserve else ""


def _read_reserve(units: Any, priority: Any) -> Reserve | None:
    return Reserve(int(units), as_written(priority)) if units else None


def _number_text(value: float) -> str:
    """Write a number as Lua and Python read it, also of a subclass."""
    return str(int(value)) if isinstance(value, int) else repr(float(value))


# In words


def limit_words(limit: LimitRules, members: int = 3) -> list[str]:
    """Say a limit in words, each window and each other part by itself; name so many members."""
    said = [write_word(each) for each in limit.limits]
    said += [f"{limit.concurrency} at once"] if limit.concurrency is not None else []
    said += ["in order"] if limit.in_order else []
    said += [f"weight {limit.weight:g}"] if limit.weight is not None else []
    if limit.members:
        more = len(limit.members) - members
        named = ", ".join(limit.members[:members]) + (f" and {more} more" if more > 0 else "")
        said.append(f"for each of {named}")
    return said


def rules_words(text: str, group: str | None) -> str:
    """Say stored rules in words; a text that cannot be read stays as it is."""
    try:
        return "; ".join(limit_words(LimitRules.read(text, group)))
    except ConfigurationError:
        return text
