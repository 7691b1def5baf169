"""Recurring tasks: checks what a push names, and computes the next times of a cron line.

A schedule is a text, as begin.lua has it: "e expires_in first ms", or "c expires_in first
LINE", where a line is a cron expression and a zone: `*/5 * * * * Europe/Berlin`. Times are ms of
the server's clock; this module knows no other one.
"""

from datetime import datetime
from typing import Any, NamedTuple

from cronsim import CronSim, CronSimError

from dpq.model.errors import ConfigurationError
from dpq.model.zones import zone, zone_name

MAX_LINE_CHARACTERS = 300
"""Characters of a cron expression with its zone at most: it is stored with each task."""

_START_MS = 946_684_800_000
"""The time from which a cron line is tried, ms: the year 2000. The next 50 years, which CronSim
looks at, contain each date that comes every 28 years."""

MAX_PERIOD_DIGITS = 15
"""Digits of a stored period in ms at most; more mean damage."""


class Schedule(NamedTuple):
    """The schedule of a recurring task, as its record has it."""

    every: float | None
    cron: str | None


class Later(NamedTuple):
    """A refusal of ack or fail: the next run must be after `after_ms`, by the cron `line`."""

    after_ms: int
    line: str


def require_schedule(every: Any, cron: Any, timezone: Any, delay_ms: int) -> str | None:
    """Check the schedule of a push; return its cron line, or None for `every`."""
    if cron is None:
        if timezone != "UTC":
            raise ConfigurationError(
                f"timezone is {timezone!r:.200} without cron: give cron, or leave out timezone"
            )
        return None
    if every is not None:
        raise ConfigurationError(f"every is {every!r:.200} and cron is {cron!r}: give one of them")
    if delay_ms:
        raise ConfigurationError(
            f"delay is {delay_ms / 1000} s and cron is {cron!r}: the first run is cron's next "
            "time; leave out the delay"
        )
    return cron_line(cron, timezone)


def moment_ms(at: Any) -> int:
    """Check the moment when a push is to be due; return it in ms."""
    if not isinstance(at, datetime) or at.utcoffset() is None:
        raise ConfigurationError(
            f"at is {at!r}: it must be a datetime with a time zone, as datetime.now(UTC) has"
        )
    return round(at.timestamp() * 1000)


def cron_line(cron: Any, timezone: Any) -> str:
    """Check a cron expression and a zone; return them as one line."""
    fields = cron.split() if isinstance(cron, str) else []
    if len(fields) not in (5, 6) or len(cron) > MAX_LINE_CHARACTERS:
        raise ConfigurationError(
            f"cron is {cron!r}: it must have five fields (minute hour day month weekday), as in "
            "'*/5 * * * *', or six, with seconds first"
        )
    zone_name(timezone)
    line = f"{' '.join(fields)} {timezone}"
    next_times(line, _START_MS, 1)
    return line


def next_times(line: str, after_ms: int, count: int) -> list[int]:
    """Compute the next times of a cron line, later than a moment."""
    cron, _, timezone = line.rpartition(" ")
    start = datetime.fromtimestamp(after_ms // 1000, zone(timezone))
    times: list[int] = []
    try:
        for moment in CronSim(cron, start):
            ms = round(moment.timestamp() * 1000)
            if ms > after_ms:  # in an hour that comes twice, CronSim may repeat a time
                times.append(ms)
            if len(times) == count:
                break
    except CronSimError as error:
        raise ConfigurationError(
            f"cron is {cron!r}: {str(error).lower()}; five fields are minute 0-59, hour 0-23, day "
            "1-31, month 1-12, weekday 0-7 (0 and 7 are Sunday); each is *, a number, a-b, a,b or "
            "*/n"
        ) from None
    if not times:
        raise ConfigurationError(f"cron is {cron!r}: no time matches it; check day and month")
    return times


def read_schedule(text: str) -> Schedule:
    """Read the schedule of a record."""
    kind, _, rest = text.partition(" ")
    period = rest.split(" ", 2)[-1]
    whole = period.isascii() and period.isdecimal() and len(period) <= MAX_PERIOD_DIGITS
    if kind == "e" and whole:
        return Schedule(int(period) / 1000, None)
    return Schedule(None, period or None if kind == "c" else None)


def read_later(reply: bytes, task_id: str) -> Later:
    """Read the answer of ack and fail if they need a later time."""
    after, _, text = reply.decode("utf-8", "replace").partition("\t")
    line = read_schedule(text).cron
    if line is None:
        raise ConfigurationError(
            f"the schedule of task {task_id} cannot be read ({text!r}): cancel the task, or "
            "push its key again with on_duplicate='update'"
        )
    return Later(int(after), line)


def claim(token: int, later: Later, count: int) -> str:
    """Make the token that ends a cron task's run, with the next times to choose from."""
    times = " ".join(map(str, next_times(later.line, later.after_ms, count)))
    return f"{token}\t{later.line}\t{times}"
