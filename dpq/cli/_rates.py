"""A rate as one word of the command line, `10/s` or `5000/h,burst=1000`, and back.

What is said wrongly is a usage error that names the word and shows how it reads.
"""

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any, NoReturn, TypeVar

import typer

from dpq import Adaptive, RateLimit, Reserve
from dpq.cli._options import number
from dpq.errors import ConfigurationError

T = TypeVar("T")

SHOWN_UNITS = {"d": 86_400, "h": 3600, "min": 60, "s": 1}
"""Seconds of each unit that a window is shown in, the longest first; what is left is in ms."""

TIME_UNITS = {
    **{"": 1.0, "ms": 0.001, "s": 1.0, "sec": 1.0, "second": 1.0},
    **{"m": 60.0, "min": 60.0, "minute": 60.0},
    **{"h": 3600.0, "hour": 3600.0, "d": 86_400.0, "day": 86_400.0},
}
"""Seconds of each unit that a window may be said in; none is seconds."""

_NUMBER = r"([0-9]+(?:\.[0-9]+)?)"
_RATE = re.compile(rf"{_NUMBER}/(?=.){_NUMBER}?([a-z]*)")

_READS = "UNITS/TIME, as in 10/s, 300/15m, 5000/h, 2.5/min, 100/60 (seconds)"
_SETTINGS = "burst=N, reserve=UNITS:PRIORITY, adaptive=FLOOR:CEILING[:STEP]"
_ONE_RATE = (
    "--burst, --reserve and --adaptive go with exactly one RATE; of several, "
    "say it in the RATE itself, as in 5000/h,burst=1000,reserve=500:10"
)


def rate(word: str) -> RateLimit:
    """Read `UNITS/TIME`, and behind commas what else holds for this window."""
    first, *settings = word.split(",")
    found = _RATE.fullmatch(first)
    if not found or found[3] not in TIME_UNITS:
        _refuse(word, f"a rate reads {_READS}; the units of time are ms, s, m or min, h, d")
    more = dict(_setting(word, setting.strip()) for setting in settings)
    per = float(found[2] or 1) * TIME_UNITS[found[3]]
    return _made(word, lambda: RateLimit(number(found[1]), per, **more))


def _setting(word: str, setting: str) -> tuple[str, Any]:
    name, equals, value = setting.partition("=")
    if not equals or name not in _PARSERS:
        _refuse(word, f"{setting!r} is none of {_SETTINGS}")
    return name, _PARSERS[name](value)


def burst(word: str) -> int:
    """Read a number of units; RateLimit knows its bounds."""
    if not re.fullmatch("[0-9]{1,9}", word):
        _refuse(word, "burst is a whole number of units, as in 5")
    return int(word)


def reserve(word: str) -> Reserve:
    """Read `UNITS:PRIORITY`."""
    found = re.fullmatch(r"([0-9]{1,9}):(\S+)", word)
    if not found:
        _refuse(word, "reserve reads UNITS:PRIORITY, as in 500:10")
    return _made(word, lambda: Reserve(int(found[1]), number(found[2])))


def adaptive(word: str) -> Adaptive:
    """Read `FLOOR:CEILING[:STEP]`."""
    if not re.fullmatch(rf"{_NUMBER}:{_NUMBER}(:{_NUMBER})?", word):
        _refuse(word, "adaptive reads FLOOR:CEILING or FLOOR:CEILING:STEP, as in 1:20 or 1:20:0.5")
    return _made(word, lambda: Adaptive(*map(number, word.split(":"))))


_PARSERS: dict[str, Callable[[str], Any]] = {
    "burst": burst,
    "reserve": reserve,
    "adaptive": adaptive,
}


def _made(word: str, make: Callable[[], T]) -> T:
    try:
        return make()
    except ConfigurationError as error:
        _refuse(word, str(error))
    except ValueError:  # of number
        _refuse(word, "the priority is a number")


def _refuse(word: str, reason: str) -> NoReturn:
    raise typer.BadParameter(f"{word!r}: {reason}")


def with_options(rates: list[RateLimit], **options: Any) -> list[RateLimit]:
    """Add to the only rate what the options of the same names say; None is not said."""
    said = {name: value for name, value in options.items() if value is not None}
    if said and len(rates) != 1:
        raise typer.BadParameter(_ONE_RATE)
    return [replace(window, **said) for window in rates]


def rate_text(window: RateLimit) -> str:
    """Write a window as `rate` reads it."""
    text = per_text(window.rate, window.per)
    if window.burst != 1:
        text += f",burst={window.burst}"
    if window.reserve:
        text += f",reserve={window.reserve.units}:{window.reserve.priority}"
    if learns := window.adaptive:
        text += f",adaptive={learns.floor:.15g}:{learns.ceiling:.15g}"
        text += f":{learns.step:.15g}" if learns.step != 1 else ""
    return text


def per_text(units: float, per: float) -> str:
    """Write so many units in so many seconds: `10/s`, `300/15min`."""
    name, long = next(
        ((name, per / s) for name, s in SHOWN_UNITS.items() if per % s == 0), ("ms", per * 1000)
    )
    return f"{units:.15g}/{'' if long == 1 else f'{long:.15g}'}{name}"
