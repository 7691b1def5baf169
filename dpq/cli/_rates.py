"""A rate as one word of the command line, `10/s` or `5000/h,burst=1000`, and back.

A quota is such a word, too: `10000/day@America/Los_Angeles,spread`.

A wrong word is a usage error that names the word and shows the right form.
"""

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any, NoReturn, TypeVar

import typer

from dpq import Adaptive, Quota, RateLimit, Reserve
from dpq.cli._options import number
from dpq.model.errors import ConfigurationError
from dpq.model.limits import rate_text as plain_rate_text
from dpq.model.limits import read_rate
from dpq.model.quota import quota_text, read_quota

T = TypeVar("T")

_NUMBER = r"([0-9]+(?:\.[0-9]+)?)"
_SETTINGS = (
    "moving, burst=N, reserve=UNITS:PRIORITY, adaptive=FLOOR:CEILING[:STEP], slack=SECONDS, "
    "estimate=UNITS"
)
_ONE_RATE = (
    "--burst, --reserve, --adaptive, --slack and --estimate go with exactly one RATE; with "
    "several, write them into the RATE, as in 5000/h,burst=1000,reserve=500:10"
)


def rate(word: str) -> RateLimit | Quota:
    """Read `UNITS/TIME`, and after it the options of this window, with commas between.

    A `@` makes it a quota, `AMOUNT/PERIOD@ZONE`.
    """
    first, *settings = word.split(",")
    try:
        if "@" in first:
            return _quota(word, read_quota(first), settings)
        window = read_rate(first)
    except ConfigurationError as error:
        raise typer.BadParameter(str(error)) from None
    more = dict(_setting(word, setting.strip()) for setting in settings)
    return _made(word, lambda: replace(window, **more))


def _quota(word: str, quota: Quota, settings: list[str]) -> Quota:
    for setting in map(str.strip, settings):
        name, _, value = setting.partition("=")
        if setting == "spread":
            quota = replace(quota, spread=True)
        elif name == "reserve":
            kept = reserve(value)
            quota = _made(word, lambda old=quota, kept=kept: replace(old, reserve=kept))  # type: ignore[misc]
        else:
            _refuse(word, f"{setting!r} is not one of spread, reserve=UNITS:PRIORITY")
    return quota


def _setting(word: str, setting: str) -> tuple[str, Any]:
    name, equals, value = setting.partition("=")
    if setting == "moving":
        return name, True
    if not equals or name not in _PARSERS:
        _refuse(word, f"{setting!r} is not one of {_SETTINGS}")
    return name, _PARSERS[name](value)


def burst(word: str) -> int:
    """Read a number of units; RateLimit knows its bounds."""
    if not re.fullmatch("[0-9]{1,10}", word):
        _refuse(word, "burst must be a whole number of units, as in 5")
    return int(word)


def reserve(word: str) -> Reserve:
    """Read `UNITS:PRIORITY`."""
    found = re.fullmatch(r"([0-9]{1,10}):(\S+)", word)
    if not found:
        _refuse(word, "reserve must be UNITS:PRIORITY, as in 500:10")
    return _made(word, lambda: Reserve(int(found[1]), number(found[2])))


def adaptive(word: str) -> Adaptive:
    """Read `FLOOR:CEILING[:STEP]`."""
    if not re.fullmatch(rf"{_NUMBER}:{_NUMBER}(:{_NUMBER})?", word):
        _refuse(word, "adaptive must be FLOOR:CEILING[:STEP], as in 1:20 or 1:20:0.5")
    return _made(word, lambda: Adaptive(*map(number, word.split(":"))))


def slack(word: str) -> float:
    """Read a number of seconds; RateLimit knows its bounds."""
    if not re.fullmatch(_NUMBER, word):
        _refuse(word, "slack must be a number of seconds, as in 0.1")
    return number(word)


def estimate(word: str) -> int:
    """Read a number of units that are reserved for a task without a cost."""
    if not re.fullmatch("[0-9]{1,10}", word):
        _refuse(word, "estimate must be a whole number of units, as in 2000")
    return int(word)


_PARSERS: dict[str, Callable[[str], Any]] = {
    "burst": burst,
    "reserve": reserve,
    "adaptive": adaptive,
    "slack": slack,
    "estimate": estimate,
}


def _made(word: str, make: Callable[[], T]) -> T:
    try:
        return make()
    except ConfigurationError as error:
        _refuse(word, str(error))
    except ValueError:  # of number
        _refuse(word, "the priority must be a number")


def _refuse(word: str, reason: str) -> NoReturn:
    raise typer.BadParameter(f"{word!r}: {reason}")


def with_options(rates: list[RateLimit | Quota], **options: Any) -> list[RateLimit | Quota]:
    """Add options to the only rate, beside quotas; an option that is None was not given."""
    said = {name: value for name, value in options.items() if value is not None}
    if said and sum(isinstance(one, RateLimit) for one in rates) != 1:
        raise typer.BadParameter(_ONE_RATE)
    return [replace(one, **said) if isinstance(one, RateLimit) else one for one in rates]


def rate_text(window: RateLimit | Quota) -> str:
    """Write a window or a quota as `rate` reads it."""
    if isinstance(window, Quota):
        return quota_text(window)
    text = plain_rate_text(window)
    if window.burst != 1:
        text += f",burst={window.burst}"
    if window.reserve:
        text += f",reserve={window.reserve.units}:{window.reserve.priority}"
    if learns := window.adaptive:
        text += f",adaptive={learns.floor:.15g}:{learns.ceiling:.15g}"
        text += f":{learns.step:.15g}" if learns.step != 1 else ""
    if window.slack is not None:
        text += f",slack={window.slack:.15g}"
    if window.estimate:
        text += f",estimate={window.estimate}"
    return text
