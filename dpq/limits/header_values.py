"""Values as hosts write them: numbers, spans of time, moments, lists with parameters. No I/O."""

import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

_EPOCH = 1e9
"""A number from here on is a moment (2001, in epoch seconds), not a wait (of 31 years)."""

_LATEST = 1e11
"""Epoch seconds (the year 5138): larger numbers are milli-, micro- or nanoseconds, or nonsense."""

_NUMBER = re.compile(r"-?\d+(?:\.\d*)?", re.ASCII)
_NUMBERS = re.compile(rf"{_NUMBER.pattern}(?: *, *{_NUMBER.pattern})*", re.ASCII)
SECONDS = {
    **dict.fromkeys(("d", "day", "days"), 86_400.0),
    **dict.fromkeys(("h", "hr", "hrs", "hour", "hours"), 3600.0),
    **dict.fromkeys(("m", "min", "mins", "minute", "minutes"), 60.0),
    **dict.fromkeys(("s", "sec", "secs", "second", "seconds"), 1.0),
    **dict.fromkeys(("ms", "millisecond", "milliseconds"), 0.001),
}
"""Seconds of each unit of time, as people and hosts write it."""

_UNITS = "|".join(sorted(SECONDS, key=len, reverse=True))
_TIME = rf"\d+(?:\.\d*)? ?(?:{_UNITS})(?![a-z])"
SPAN = rf"{_TIME}(?:,? ?(?:and )?{_TIME})*"
"""The pattern of a span in lower case, as 6m0s, or 1 hour and 30 minutes."""

_CLOCK = re.compile(r"(\d+):(\d\d):(\d\d(?:\.\d+)?)", re.ASCII)


def numbers_in(text: str) -> list[float]:
    """Read a number, or the numbers of a repeated header, joined with commas; else nothing."""
    text = text.partition(";")[0].strip()  # parameters of a structured number
    return [float(number) for number in _NUMBER.findall(text)] if _NUMBERS.fullmatch(text) else []


def longest(waits: Iterable[float | None]) -> float | None:
    """Return the longest wait that is known."""
    return max((wait for wait in waits if wait is not None), default=None)


def wait_in(text: str, now: float) -> float | None:
    """Convert a number, a span or a moment to seconds; below 0 if it is past, None if neither."""
    text = text.strip('" ').removeprefix("+")
    if numbers := numbers_in(text):
        return longest(_from_now(number, now) for number in numbers if number >= 0)
    wait = span_in(text)
    if wait is None:
        moment = moment_in(text)
        return None if moment is None else moment - now
    return wait if wait < _EPOCH else None


def span_in(text: str) -> float | None:
    """Convert a span to seconds: 6m0s, 1 hour and 30 minutes, PT30S or 00:00:30."""
    if clock := _CLOCK.fullmatch(text):
        return float(clock[1]) * 3600 + float(clock[2]) * 60 + float(clock[3])
    text = text.lower()
    if text.startswith("p"):  # as ISO 8601
        text = re.sub("[pt]", "", text)
    if not re.fullmatch(SPAN, text, re.ASCII):
        return None
    parts = re.findall(r"([\d.]+) ?([a-z]+)", text)
    return sum(float(number) * SECONDS[unit] for number, unit in parts)


def _from_now(number: float, now: float) -> float | None:
    if number < _EPOCH:
        return number
    in_seconds = (number / unit for unit in (1, 1e3, 1e6, 1e9))
    return next((moment - now for moment in in_seconds if moment < _LATEST), None)


def moment_in(text: str) -> float | None:
    """Convert an ISO 8601 or HTTP date to epoch seconds; without a zone it is UTC, as in HTTP."""
    text = text.replace("GMT+", "+").replace("GMT-", "-")  # JavaScript prints a Date so
    for parse in (datetime.fromisoformat, parsedate_to_datetime):
        with suppress(ValueError, OverflowError):
            moment = parse(text.removesuffix(" UTC"))
            return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
    return None


# A string in quotes may hold separators. Without a closing quote, it goes on to the end.
_PIECES = {at: re.compile(rf'(?:"(?:[^"\\]|\\.)*"?|[^"{at}])+') for at in ",;"}


def list_in(text: str) -> Iterator[tuple[str, dict[str, str]]]:
    """Read a list of items with their parameters; parameters without an item come last, as ""."""
    loose: dict[str, str] = {}
    for item in _PIECES[","].findall(text):
        parts = [part.strip() for part in _PIECES[";"].findall(item)] or [""]
        named = parts[0].startswith('"') or "=" not in parts[0]
        params = {} if named else loose
        for part in parts[named:]:
            key, _, value = part.partition("=")
            params[key.strip().lower()] = value.strip(' "')
        if named:
            yield parts[0].strip('"'), params
    yield "", loose
