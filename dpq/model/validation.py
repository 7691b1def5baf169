"""Arguments of the public calls: checked against their bounds, and converted for the scripts.

Every error names the argument, the value and the bound. Knows no queue and no server.
"""

import math
import re
import unicodedata
from collections.abc import Iterable, Sequence
from datetime import date, timedelta
from numbers import Integral
from typing import Any

from dpq.model.errors import ConfigurationError

MAX_SECONDS = 315_360_000
"""Seconds of the longest duration: 10 years. No use needs more, and a double still holds the ms."""

MAX_NAME_BYTES = 200
"""Bytes of the name of a queue, a group or a unique key: they are parts of keys and records."""

MAX_TEXT_CHARACTERS = 1000
"""Characters of an error or a reason that is stored with a task."""

MAX_UNIT_CHARACTERS = 16

_UNIT = re.compile(rf"[a-z][a-z0-9_]{{0,{MAX_UNIT_CHARACTERS - 1}}}", re.ASCII)

MAX_ATTEMPTS = 1_000_000

NO_LIMIT = 10**12
"""The number of attempts that is stored for `math.inf`. No task ever fails so often, and doubles
and records hold it exactly."""

MAX_DELAYS = 16
"""Delays in a list: they are stored with a task that has its own, at most 207 bytes."""

Delays = Sequence[float | timedelta]
"""The delays after the first failure, the second and so on, seconds; the last one repeats."""

MAX_BATCH = 1000
"""Tasks in one call of pop_many: a script can lease so many in a short time."""


def number(name: str, value: float, what: str, low: float, high: float, note: str = "") -> None:
    """Check an int or float that must lie between two finite bounds, both included."""
    if not isinstance(value, int | float) or isinstance(value, bool) or not low <= value <= high:
        bounds = f"{low} to {high}{note}"
        raise ConfigurationError(f"{name} is {value!r}: it must be {what} from {bounds}")


def milliseconds(name: str, seconds: float, *, least: float = 0) -> int:
    """Convert a duration; anything above zero is at least one millisecond."""
    number(name, seconds, "seconds", least, MAX_SECONDS, " (10 years)")
    return max(1, round(seconds * 1000)) if seconds > 0 else 0


def in_seconds(delay: float | timedelta) -> float:
    """Convert a timedelta to seconds; return any other value as it is."""
    return delay.total_seconds() if isinstance(delay, timedelta) else delay


def delay_milliseconds(delay: float | timedelta) -> int:
    """Convert a delay: seconds, or a timedelta."""
    if isinstance(delay, date):
        raise ConfigurationError(f"delay is {delay!r}: it must be seconds; a moment is `at=`")
    return milliseconds("delay", in_seconds(delay))


def listed_delays(delays: Any, otherwise: str = "") -> tuple[float, ...]:
    """Check a list of delays; return their seconds, to the millisecond."""
    known = isinstance(delays, Sequence) and not isinstance(delays, str | bytes)
    if not known or not 1 <= len(delays) <= MAX_DELAYS:
        raise ConfigurationError(
            f"backoff is {delays!r:.200}: it must be {otherwise}a list of 1 to {MAX_DELAYS} delays "
            "in seconds"
        )
    return tuple(
        milliseconds(f"backoff[{index}]", in_seconds(delay)) / 1000
        for index, delay in enumerate(delays)
    )


def attempt_bound(name: str, value: float) -> int:
    """Check a bound of failed attempts; return it as it is stored."""
    if value == math.inf:
        return NO_LIMIT
    return whole_number(name, value, 1, MAX_ATTEMPTS, ", or math.inf for no limit")


def whole_number(name: str, value: Any, low: int, high: int, note: str = "") -> int:
    """Check a whole number (no bool) between two bounds, both included; return an int."""
    whole = isinstance(value, Integral) and not isinstance(value, bool)
    if not whole or not low <= int(value) <= high:
        raise ConfigurationError(
            f"{name} is {value!r}: it must be an int from {low} to {high}{note}"
        )
    return int(value)


def label(name: str, value: Any) -> str:
    """Check the name of a group or a unique key."""
    if not isinstance(value, str) or not value:
        raise ConfigurationError(
            f"{name} is {value!r}: it must be a string of 1 to {MAX_NAME_BYTES} bytes"
        )
    if value.isascii() and value.isprintable() and len(value) <= MAX_NAME_BYTES:
        return value
    try:
        size = len(value.encode())
    except UnicodeEncodeError:
        raise ConfigurationError(f"{name} is {value!r}: it must be valid Unicode") from None
    if size > MAX_NAME_BYTES:
        raise ConfigurationError(
            f"{name} is {size} bytes ({value[:40]!r}...): it must be at most {MAX_NAME_BYTES}"
        )
    if any(unicodedata.category(character) == "Cc" for character in value):
        raise ConfigurationError(f"{name} is {value!r}: control characters are not allowed")
    return value


def unit_name(name: str, value: Any) -> str:
    """Check the name of a unit."""
    if not isinstance(value, str) or not _UNIT.fullmatch(value):
        raise ConfigurationError(
            f"{name} is {value!r}: it must be 1 to {MAX_UNIT_CHARACTERS} of a-z, 0-9 and _, a "
            "letter first, as in 'tokens'"
        )
    return value


def queue_label(value: Any) -> str:
    """Check the name of a queue: as a group's, and without braces."""
    if re.search("[{}]", label("queue_name", value)):
        raise ConfigurationError(
            f"queue_name is {value!r}: it must have no braces; DPQ puts them around the name, to "
            "keep all keys of a queue in one slot of a cluster"
        )
    return str(value)


def one_line(text: object) -> str:
    """Shorten a text that is stored with a task to its bound, without control characters."""
    line = "".join(
        c if unicodedata.category(c) != "Cc" else " " for c in str(text)[:MAX_TEXT_CHARACTERS]
    )
    return line.encode("utf-8", "replace").decode()


def error_line(error: BaseException) -> str:
    """Describe an error in one line."""
    kind = type(error).__name__
    try:
        return one_line(f"{kind}: {error}")
    except Exception:  # its `__str__` fails
        return f"{kind}: its text cannot be had"


def nearest(name: str, names: Iterable[str], likeness: float = 0.6) -> str:
    """Return a hint at the name that is most like another: `; did you mean 'to'?`, or ""."""
    from difflib import get_close_matches  # this is for errors only

    found = get_close_matches(name, list(names), 1, likeness)
    return f"; did you mean {found[0]!r}?" if found else ""
