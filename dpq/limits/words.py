"""Windows and quotas as people write them: `10/s`, `5000/h,burst=1000`, and back. No I/O, no clock.

A quota is such a word, too: `10000/day@America/Los_Angeles,spread`.
"""

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any, NoReturn, TypeVar, get_args

from dpq.limits.header_values import SECONDS
from dpq.limits.limits import Adaptive, Period, Quota, RateLimit, Reserve, quota_text
from dpq.model.errors import ConfigurationError
from dpq.model.rates import per_text

T = TypeVar("T")

_NUMBER = r"([0-9]+(?:\.[0-9]+)?)"
_RATE = re.compile(rf"(?:([^=]+)=)?{_NUMBER}/(?=.){_NUMBER}?([a-z]*)")
_QUOTA = re.compile(r"(?:([^=]+)=)?([0-9]{1,13})/([a-z]+)@(.*)")


def as_written(text: str) -> float:
    """Read a number, whole or not."""
    whole = text.lstrip("-").isdigit() and len(text) < 100  # Python reads no int of 5000 digits
    return int(text) if whole else float(text)


def read_word(word: str) -> RateLimit | Quota:
    """Read `UNITS/TIME` or `AMOUNT/PERIOD@ZONE`, and behind it options with commas between."""
    first, *settings = word.split(",")
    limit, options = (_quota(first), _OF_QUOTA) if "@" in first else (_window(first), _OF_WINDOW)
    more = dict(_option(word, setting.strip(), options) for setting in settings)
    return _made(word, lambda: replace(limit, **more))


def _window(text: str) -> RateLimit:
    found = _RATE.fullmatch(text)
    seconds = SECONDS.get(found[4] or "s") if found else None
    if not found or seconds is None:
        _refuse(
            text,
            "write a rate as UNITS/TIME, as in 10/s, 300/15m, 5000/h, 2.5/min, 100/60 (seconds), "
            "tokens=200000/m, 300/15m,moving; the units of time are ms, s, m or min, h, d",
        )
    per = float(found[3] or 1) * seconds
    return _made(text, lambda: RateLimit(as_written(found[2]), per, unit=found[1] or ""))


def _quota(text: str) -> Quota:
    found = _QUOTA.fullmatch(text)
    if not found or found[3] not in get_args(Period):
        _refuse(
            text,
            "write a quota as AMOUNT/PERIOD@ZONE, as in 10000/day@America/Los_Angeles, "
            "500/hour@UTC, usd=250/month@UTC; the periods are hour, day, week, month",
        )
    period: Any = found[3]
    return _made(text, lambda: Quota(int(found[2]), period, found[4], found[1] or ""))


_Options = dict[str, tuple[str, str, Callable[..., Any]] | None]
_RESERVE: _Options = {
    "reserve=UNITS:PRIORITY": (
        r"([0-9]{1,10}):(\S+)",
        "UNITS:PRIORITY, as in 500:10",
        lambda units, priority: Reserve(int(units), as_written(priority)),
    )
}
_OF_QUOTA: _Options = {"spread": None, **_RESERVE}
_OF_WINDOW: _Options = {
    "moving": None,
    "burst=N": ("([0-9]{1,10})", "a whole number of units, as in 5", int),
    **_RESERVE,
    "adaptive=FLOOR:CEILING[:STEP]": (
        rf"{_NUMBER}:{_NUMBER}(?::{_NUMBER})?",
        "FLOOR:CEILING[:STEP], as in 1:20 or 1:20:0.5",
        lambda *bounds: Adaptive(*(as_written(each) for each in bounds if each)),
    ),
    "slack=SECONDS": (_NUMBER, "a number of seconds, as in 0.1", as_written),
    "estimate=UNITS": ("([0-9]{1,10})", "a whole number of units, as in 2000", int),
}
"""The options of a window: the form of a value, its words, and its reader, which knows bounds."""


def _option(word: str, setting: str, options: _Options) -> tuple[str, Any]:
    name, equals, value = setting.partition("=")
    option = next((each for each in options if each.partition("=")[:2] == (name, equals)), None)
    if option is None:
        _refuse(word, f"{setting!r:.200} is not one of {', '.join(options)}")
    if (given := options[option]) is None:
        return name, True
    form, said, read = given
    found = re.fullmatch(form, value)
    if not found:
        _refuse(value, f"{name} must be {said}")
    return name, _made(value, lambda: read(*found.groups()))


def _made(word: str, make: Callable[[], T]) -> T:
    try:
        return make()
    except ConfigurationError as error:
        _refuse(word, str(error))
    except ValueError:  # of a number
        _refuse(word, "the priority must be a number")


def _refuse(word: str, reason: str) -> NoReturn:
    raise ConfigurationError(f"{word!r:.200}: {reason}") from None


def write_word(limit: RateLimit | Quota) -> str:
    """Write a window or a quota as `read_word` reads it."""
    if isinstance(limit, Quota):
        return quota_text(limit)
    text = rate_text(limit)
    if limit.burst != 1:
        text += f",burst={limit.burst}"
    if limit.reserve:
        text += f",reserve={limit.reserve.units}:{limit.reserve.priority}"
    if learns := limit.adaptive:
        text += f",adaptive={learns.floor:.15g}:{learns.ceiling:.15g}"
        text += f":{learns.step:.15g}" if learns.step != 1 else ""
    if limit.slack is not None:
        text += f",slack={limit.slack:.15g}"
    if limit.estimate:
        text += f",estimate={limit.estimate}"
    return text


def rate_text(window: RateLimit) -> str:
    """Write the rate of a window: `tokens=9000/min`, `300/15min,moving`."""
    unit = f"{window.unit}=" if window.unit else ""
    return unit + per_text(window.rate, window.per) + (",moving" if window.moving else "")
