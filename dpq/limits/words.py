"""A limit in words, as people write it: `10/s`, `5000/h,burst=1000`, and back. No I/O, no clock.

A quota is such a word, too: `10000/day@America/Los_Angeles,spread`.
"""

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any, NoReturn, TypeVar

from dpq.limits.limits import Adaptive, RateLimit, Reserve, rate_text, read_rate
from dpq.limits.quota import Quota, as_written, quota_text, read_quota
from dpq.limits.rules import LimitRules
from dpq.model.errors import ConfigurationError

T = TypeVar("T")

_NUMBER = r"([0-9]+(?:\.[0-9]+)?)"
_SETTINGS = (
    "moving, burst=N, reserve=UNITS:PRIORITY, adaptive=FLOOR:CEILING[:STEP], slack=SECONDS, "
    "estimate=UNITS"
)


def read_word(word: str) -> RateLimit | Quota:
    """Read `UNITS/TIME`, and after it the options of this window, with commas between.

    A `@` makes it a quota, `AMOUNT/PERIOD@ZONE`.
    """
    first, *settings = word.split(",")
    if "@" in first:
        return _quota(word, read_quota(first), settings)
    window = read_rate(first)
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
            _refuse(word, f"{setting!r:.200} is not one of spread, reserve=UNITS:PRIORITY")
    return quota


def _setting(word: str, setting: str) -> tuple[str, Any]:
    name, equals, value = setting.partition("=")
    if setting == "moving":
        return name, True
    if not equals or name not in _PARSERS:
        _refuse(word, f"{setting!r:.200} is not one of {_SETTINGS}")
    return name, _PARSERS[name](value)


def reserve(word: str) -> Reserve:
    """Read `UNITS:PRIORITY`."""
    found = re.fullmatch(r"([0-9]{1,10}):(\S+)", word)
    if not found:
        _refuse(word, "reserve must be UNITS:PRIORITY, as in 500:10")
    return _made(word, lambda: Reserve(int(found[1]), as_written(found[2])))


def adaptive(word: str) -> Adaptive:
    """Read `FLOOR:CEILING[:STEP]`."""
    if not re.fullmatch(rf"{_NUMBER}:{_NUMBER}(:{_NUMBER})?", word):
        _refuse(word, "adaptive must be FLOOR:CEILING[:STEP], as in 1:20 or 1:20:0.5")
    return _made(word, lambda: Adaptive(*map(as_written, word.split(":"))))


def _number(form: str, otherwise: str) -> Callable[[str], Any]:
    def read(word: str) -> float:
        if not re.fullmatch(form, word):
            _refuse(word, otherwise)
        return as_written(word)

    return read


burst = _number("[0-9]{1,10}", "burst must be a whole number of units, as in 5")
slack = _number(_NUMBER, "slack must be a number of seconds, as in 0.1")
_PARSERS: dict[str, Callable[[str], Any]] = {
    "burst": burst,
    "reserve": reserve,
    "adaptive": adaptive,
    "slack": slack,
    "estimate": _number("[0-9]{1,10}", "estimate must be a whole number of units, as in 2000"),
}
"""Readers of the options of a window; RateLimit knows the bounds of numbers."""


def _made(word: str, make: Callable[[], T]) -> T:
    try:
        return make()
    except ConfigurationError as error:
        _refuse(word, str(error))
    except ValueError:  # of number
        _refuse(word, "the priority must be a number")


def _refuse(word: str, reason: str) -> NoReturn:
    raise ConfigurationError(f"{word!r:.200}: {reason}")


def write_word(window: RateLimit | Quota) -> str:
    """Write a window or a quota as `read_word` reads it."""
    if isinstance(window, Quota):
        return quota_text(window)
    text = rate_text(window)
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


def limit_words(limit: LimitRules, members: int = 3) -> list[str]:
    """Say a limit in words, each window and each other part by itself; name so many members."""
    said = [*map(write_word, limit.windows), *map(write_word, limit.quotas)]
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
