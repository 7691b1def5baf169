"""The time that a limited host asks for, and what it says is left, read from its answers.

`RateLimited.from_headers` and `Budget.from_headers` call it. An answer is a limit if its status is
429, or one that the caller names. A 403, a 503 or a 529 (Anthropic's "overloaded") is a limit if
its headers say that a limit is spent or when to come again. Without that, the host has failed, and
has limited nobody. The seconds are read in this order of trust:

1. `Retry-After` (seconds or an HTTP date); then its kin: `X-RateLimit-Retry-After`,
   `Retry-After-Ms`, `X-Ms-Retry-After-Ms`.
2. The limits that are spent: less than one unit is left. The longest of their resets, over all of
   `RateLimit: "name";r=0;t=30`, the older `RateLimit: remaining=0, reset=30`, and every pair
   `...-Remaining` and `...-Reset` whose name has "limit" in it, as `X-RateLimit-Remaining`,
   `X-Rate-Limit-Reset`, `x-ratelimit-reset-tokens`, `anthropic-ratelimit-requests-reset`. Without
   a `t` it is the window `w` of the same name in `RateLimit-Policy`.
3. The longest `...-Reset` of a limit that does not say how many units are left. If a limit has
   units left, it is ignored: it was not the one that was hit.
4. The shortest window of `RateLimit-Policy`: a guess, since the spent one is not named.
5. `DEFAULT_RETRY_AFTER`.

Units of a budget come back all at once at the reset, but for Anthropic's, and where the reset is a
span such as 6m0s, as OpenAI's: there `...-Limit` are left after it, and they come back evenly.

A moment counts from the answer's own `Date`, so that no two clocks need agree; without a `Date`,
from the clock of this machine. A header that cannot be read is ignored. Nothing here raises, and
any answer takes at most a few ms. `X-RateLimit-Global` and the like are not read: only the caller
knows the part that a limit covers.

No library reads these headers. Of the 65 answers in the tests that name a time, retryheader 1.0
reads 23, ratelimit-headers 0.1 reads 20, the `Retry` of urllib3 2.8 reads 11, and http-sf 1.5 reads
8. None reads the other 30: an epoch as Retry-After, draft 07, OpenAI's spans, and the headers of
Anthropic, Reddit, Zendesk, Atlassian, Linear and others. urllib3 and ratelimit-headers read an HTTP
date against the clock of this machine.

Source: RFC 9110, 10.2.3 and 5.6.7; draft-ietf-httpapi-ratelimit-headers, versions 00 to 10; the
documents of the hosts that tests/unit/test_rate_headers.py names beside its cases.
"""

import re
from collections import defaultdict
from collections.abc import Container, Iterable, Iterator
from contextlib import suppress
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from itertools import islice
from typing import Any, NamedTuple, Protocol

__all__ = [
    "DEFAULT_RETRY_AFTER",
    "MAX_RETRY_AFTER",
    "Headers",
    "HostLimit",
    "limits_in",
    "seconds_to_wait",
]

TOO_MANY = (429,)
"""The status that says that a limit was hit, whatever the headers say."""

OVERLOADED = (503, 529)
"""The statuses of a host that is overloaded. With a time to come again, they are limits."""

MAX_RETRY_AFTER = 86_400.0
"""Seconds that an answer can close a group at most: one day, however large its number is.

If a host asks for more, it says so again after the day, and that costs one request: the probe.
"""

DEFAULT_RETRY_AFTER = 5.0
"""Seconds to wait if a limited host does not say how long, with a 429.

Most limits are per second or per minute. After a closing a single probe goes first. So a guess that
is too short costs one request in five seconds, and a guess that is too long leaves a ready host
idle.
"""

_EPOCH = 1e9
"""A number from here on is a moment (2001, in epoch seconds), not a wait (of 31 years)."""

_EPOCH_MS = 1e11
"""A number from here on is a moment in epoch milliseconds (1973), not seconds (the year 5138)."""

_MAX_HEADERS = 128  # http.client stops at 100
_MAX_CHARACTERS = 1000  # characters of a name or a value; a longer header counts as absent
_MAX_TEXT = 4000  # characters of all headers that are read; hosts send a few hundred


class _Items(Protocol):
    def items(self) -> Iterable[tuple[Any, Any]]: ...


Headers = _Items | Iterable[tuple[str | bytes, str | bytes]]
"""Headers as HTTP clients give them: a mapping, another object with `items()`, or pairs."""

_Fields = defaultdict[str, list[str]]


class HostLimit(NamedTuple):
    """One limit of a host: units left, and seconds until there are more; None when not said.

    Attributes:
        name: The words that say what it counts, as "input-tokens"; "" if there are none.
        even: The units come back evenly until then.
        size: The units of the whole limit.
        window: The seconds of its window.
    """

    left: float | None
    wait: float | None
    name: str = ""
    even: bool = False
    size: float | None = None
    window: float | None = None

    @property
    def unit(self) -> str | None:
        """The unit that it counts, "" for requests; None if it counts what is under way, which no
        task uses up."""
        words = [word for word in re.split("[^a-z0-9]+", self.name.lower()) if word]
        if "concurrent" in words or "concurrency" in words:
            return None
        unit = "_".join(word for word in words if not _NO_UNIT.fullmatch(word))
        return unit if re.fullmatch("[a-z][a-z0-9_]{0,15}", unit) else ""


def seconds_to_wait(
    status: int, headers: Headers, statuses: Container[int] | None = None
) -> float | None:
    """Return the seconds to wait, up to `MAX_RETRY_AFTER`; None if the answer is no limit.

    `statuses` are the limits that need no header, in place of 429, 503 and 529.
    """
    if not isinstance(status, int):
        return None
    is_limit = status in (TOO_MANY if statuses is None else statuses)
    overloaded = statuses is None and status in OVERLOADED
    if not (is_limit or overloaded or status == 403):
        return None
    fields = _read(headers)
    now = _now(fields)
    windows = _windows(fields)
    limits = [*_paired(fields, now), *_listed(fields, windows, now)]
    spent = [limit for limit in limits if limit.left is not None and limit.left < 1]
    asked = _asked(fields, now)
    reset = _longest(limit.wait for limit in limits if limit.left is None)
    is_told = asked is not None or bool(spent) or (overloaded and reset is not None)
    if not (is_limit or is_told):
        return None
    in_order = (
        asked,
        _longest(limit.wait for limit in spent),
        reset,
        min(windows.values(), default=None),
        DEFAULT_RETRY_AFTER,
    )
    wait = next(wait for wait in in_order if wait is not None)
    return max(0.0, min(wait, MAX_RETRY_AFTER))


def limits_in(headers: Headers) -> list[HostLimit]:
    """Read all limits that an answer names."""
    fields = _read(headers)
    now = _now(fields)
    return [*_paired(fields, now), *_listed(fields, _windows(fields), now)]


_NO_UNIT = re.compile(
    r"requests?|limit|limits|user|app|project|org|organization|ip|global|default|account|core"
    r"|[0-9]*-?(?:s|m|h|d|sec|min|seconds?|minutes?|hours?|days?|weeks?|months?|hourly|daily)"
    r"|[0-9]+"
)
"""Words of a header's name that say whose limit it is, or of which window: no unit."""


def _now(fields: _Fields) -> float:
    date = _longest(map(_moment, fields["date"]))
    return datetime.now(UTC).timestamp() if date is None else date


def _longest(waits: Iterable[float | None]) -> float | None:
    return max((wait for wait in waits if wait is not None), default=None)


# The headers


def _read(headers: Headers) -> _Fields:
    """Collect the readable headers by name, in lower case and with one spelling of "ratelimit"."""
    fields: _Fields = defaultdict(list)
    room = _MAX_TEXT
    with suppress(TypeError):  # the caller's object holds no pairs, or no more pairs
        items = getattr(headers, "items", None)
        pairs: Any = items() if callable(items) else headers
        for pair in islice(pairs, _MAX_HEADERS):
            if isinstance(pair, tuple | list) and len(pair) == 2:
                name, value = _text(pair[0]).lower(), _text(pair[1])
                size = len(name) + len(value)
                says = name == "date" or "limit" in name or "retry-after" in name
                if says and size <= room:
                    room -= size
                    fields[name.replace("rate-limit", "ratelimit")].append(value)
    return fields


def _text(value: object) -> str:
    """Convert a name or a value to ASCII text; "" if it is no such text, or too long."""
    if not isinstance(value, str | bytes) or len(value) > _MAX_CHARACTERS:
        return ""
    text = value.decode("latin-1") if isinstance(value, bytes) else value
    return text.strip(" \t\r\n") if text.isascii() else ""


def _asked(fields: _Fields, now: float) -> float | None:
    """Read Retry-After, else the longest of the headers like it."""
    exact = _longest(_wait(value, now) for value in fields["retry-after"])
    if exact is not None:
        return exact
    kin = ((name, value) for name, values in fields.items() for value in values)
    return _longest(
        _wait(value + "ms" if name.endswith("-ms") else value, now)
        for name, value in kin
        if name.endswith(("-retry-after", "retry-after-ms"))
    )


_PAIR = re.compile(r"-(remaining|reset)(?:-?(?:after|time|date))?(?=-|$)")


def _paired(fields: _Fields, now: float) -> Iterator[HostLimit]:
    """Read the limits that stand in two headers, whose names differ in one word."""
    limits: defaultdict[str, _Fields] = defaultdict(lambda: defaultdict(list))
    for name, values in fields.items():
        word = _PAIR.search(name)
        if word and "limit" in name:
            limits[name[: word.start()] + name[word.end() :]][word[1]] += values
    sizes = {n.replace("-limit", "", 1): v for n, v in fields.items() if "ratelimit" in n}
    for name, limit in limits.items():
        left = [number for value in limit["remaining"] for number in _numbers(value)]
        wait = _longest(_wait(value, now) for value in limit["reset"])
        words = re.search(r"limit(.*)", name)
        even = name.startswith("anthropic-") or all(map(_SPANS.fullmatch, limit["reset"]))
        size = min((size for text in sizes.get(name, []) for size in _numbers(text)), default=None)
        yield HostLimit(min(left, default=None), wait, words[1] if words else "", even, size)


def _listed(fields: _Fields, windows: dict[str, float], now: float) -> Iterator[HostLimit]:
    """Read the limits of `RateLimit`, in the syntax of any draft, and of headers like it."""
    policies = _policies(fields)
    for name, values in fields.items():
        if "ratelimit" in name and not _PAIR.search(name) and not name.endswith("-policy"):
            for policy, params in _structured(", ".join(values)):
                left = _numbers(params.get("r") or params.get("remaining", ""))
                wait = _wait(
                    params.get("t") or params.get("reset") or params.get("resets", ""), now
                )
                if left:  # Atlassian leaves it out while plenty is left
                    window, said = windows.get(policy), policies.get(policy, {})
                    sizes = _numbers(said.get("q") or params.get("limit", ""))
                    yield HostLimit(
                        min(left),
                        window if wait is None else wait,
                        said.get("qu", ""),
                        size=min(sizes, default=None),
                        window=window,
                    )


def _windows(fields: _Fields) -> dict[str, float]:
    """Read the windows of the policies that name one, in seconds."""
    params = {policy: _wait(p.get("w", ""), 0) for policy, p in _policies(fields).items()}
    return {policy: window for policy, window in params.items() if window}


def _policies(fields: _Fields) -> dict[str, dict[str, str]]:
    """Read the parameters of each policy: its units (`q`), its window (`w`), its unit (`qu`)."""
    texts = (", ".join(v) for name, v in fields.items() if name.endswith("ratelimit-policy"))
    return {policy: params for text in texts for policy, params in _structured(text)}


# A string in quotes may hold separators. Without a closing quote, it goes on to the end.
_PIECES = {at: re.compile(rf'(?:"(?:[^"\\]|\\.)*"?|[^"{at}])+') for at in ",;"}


def _structured(text: str) -> Iterator[tuple[str, dict[str, str]]]:
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


# The values

_NUMBER = re.compile(r"-?\d+(?:\.\d*)?", re.ASCII)
_NUMBERS = re.compile(rf"{_NUMBER.pattern}(?: *, *{_NUMBER.pattern})*", re.ASCII)
_SECONDS = {"d": 86_400, "h": 3600, "m": 60, "s": 1, "ms": 0.001}
_SPAN = re.compile(r"(\d+(?:\.\d*)?)(ms|[dhms])", re.ASCII)
_SPANS = re.compile(rf"(?:{_SPAN.pattern})+", re.ASCII)


def _numbers(text: str) -> list[float]:
    """Read a number, or the numbers of a repeated header, joined with commas; else nothing."""
    text = text.partition(";")[0].strip()  # parameters of a structured number
    return [float(number) for number in _NUMBER.findall(text)] if _NUMBERS.fullmatch(text) else []


def _wait(text: str, now: float) -> float | None:
    """Convert a number, a span such as 6m0s or a moment to seconds; below 0 if it is past."""
    if numbers := _numbers(text):
        return _longest(_from_now(number, now) for number in numbers if number >= 0)
    if _SPANS.fullmatch(text):
        return sum(float(number) * _SECONDS[unit] for number, unit in _SPAN.findall(text))
    moment = _moment(text)
    return None if moment is None else moment - now


def _from_now(number: float, now: float) -> float:
    if number < _EPOCH:
        return number
    return (number / 1000 if number >= _EPOCH_MS else number) - now


def _moment(text: str) -> float | None:
    """Convert an ISO 8601 or HTTP date to epoch seconds; without a zone it is UTC, as in HTTP."""
    text = text.replace("GMT+", "+").replace("GMT-", "-")  # JavaScript prints a Date so
    for parse in (datetime.fromisoformat, parsedate_to_datetime):
        with suppress(ValueError, OverflowError):
            moment = parse(text)
            return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
    return None
