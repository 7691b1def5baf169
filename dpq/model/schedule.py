"""Recurring tasks: checks what a push names, and computes the next times of a cron line.

A schedule is a text, as lua/lib/begin.lua has it: "e expires_in first ms", or "c expires_in first
LINE", where a line is a cron expression and a zone: `*/5 * * * * Europe/Berlin`. Times are ms of
the server's clock; this module knows no other one.
"""

from datetime import UTC, datetime, tzinfo
from functools import lru_cache
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from cronsim import CronSim, CronSimError

from dpq.model.errors import ConfigurationError
from dpq.model.validation import MAX_SECONDS, milliseconds

MAX_LINE_CHARACTERS = 300
"""Of a cron expression with its zone: it is kept with each task."""

_START_MS = 946_684_800_000
"""Where lines are tried: 2000, so that 50 years hold what comes every 28."""

MAX_PERIOD_DIGITS = 15
"""Of a period in ms that is stored; more is damage."""

_LOCAL_ZONES = ("localtime", "posixrules")
"""Files beside the zones that say where a machine is: each consumer would compute other times."""

_LEAPING = "right/"
"""Zones that count leap seconds, as no server does: half a minute off."""

_AT = "@"
"""Stands in a spec for the first time of a cron line, until the server has told its clock."""


class Schedule(NamedTuple):
    """What a record says about a recurring task."""

    every: float | None
    cron: str | None


class Later(NamedTuple):
    """A refusal: the cron task stays as it is, for want of a time that is late enough.

    Attributes:
        after_ms: After when the next run must be.
        line: The cron line as it is now.
    """

    after_ms: int
    line: str


def named_schedule(
    every: Any, cron: Any, timezone: Any, delay_ms: int, expires_ms: int
) -> tuple[str, str]:
    """Check what a push names: its schedule for the spec, and its cron line ("" for `every`).

    Raises:
        ConfigurationError: An argument is out of its bounds, or two exclude each other.
    """
    if cron is None:
        if timezone != "UTC":
            raise ConfigurationError(
                f"timezone is {timezone!r} without cron: give cron, or leave it out"
            )
        return f"e {expires_ms} 0 {milliseconds('every', every, least=0.001)}", ""
    if every is not None:
        raise ConfigurationError(f"every is {every!r} and cron is {cron!r}: give one of them")
    if delay_ms:
        raise ConfigurationError(
            f"delay is {delay_ms / 1000} s and cron is {cron!r}: the first run is cron's next "
            "time; leave out the delay"
        )
    line = cron_line(cron, timezone)
    return f"c {expires_ms} {_AT} {line}", line


def named_moment(at: Any) -> tuple[str, str]:
    """Check when a push is to be due: what stands for its delay, and its line, until the clock is
    known by which it is counted.

    Raises:
        ConfigurationError: It is no datetime with a time zone.
    """
    if not isinstance(at, datetime) or at.utcoffset() is None:
        raise ConfigurationError(
            f"at is {at!r}: it must be a datetime with a time zone, as datetime.now(UTC) has"
        )
    return _AT, f"{_AT}{round(at.timestamp() * 1000)}"


def with_first(spec: str, line: str, now_ms: int) -> str:
    """Put into a spec the first time of a cron line after now, or the ms until its moment."""
    if line.startswith(_AT):
        wait = int(line.removeprefix(_AT)) - now_ms
        if wait > MAX_SECONDS * 1000:
            raise ConfigurationError("at is over 10 years from now: at most 315360000 seconds")
        return spec.replace(f" {_AT} ", f" {max(wait, 0)} ", 1)
    return spec.replace(f" {_AT} ", f" {next_times(line, now_ms, 1)[0]} ", 1)


def cron_line(cron: Any, timezone: Any) -> str:
    """Check a cron expression and a zone, as one line.

    Raises:
        ConfigurationError: One of them is not understood, or no time matches.
    """
    fields = cron.split() if isinstance(cron, str) else []
    if len(fields) not in (5, 6) or len(cron) > MAX_LINE_CHARACTERS:
        raise ConfigurationError(
            f"cron is {cron!r}: it must be five fields, minute hour day month weekday, as in "
            "'*/5 * * * *' (or six, with seconds before them)"
        )
    if not isinstance(timezone, str) or not timezone.isascii() or len(timezone.split()) != 1:
        raise ConfigurationError(
            f"timezone is {timezone!r}: it must be an IANA name, as in 'Europe/Berlin'"
        )
    if timezone.lower() in _LOCAL_ZONES or timezone.lower().startswith(_LEAPING):
        raise ConfigurationError(
            f"timezone is {timezone!r}: it means another time on each machine, or counts leap "
            "seconds; give an IANA name, as in 'Europe/Berlin'"
        )
    line = f"{' '.join(fields)} {timezone}"
    next_times(line, _START_MS, 1)
    return line


def next_times(line: str, after_ms: int, count: int) -> list[int]:
    """The next times of a cron line, later than a moment.

    Raises:
        ConfigurationError: The line or its zone is not understood here, or no time matches.
    """
    cron, _, timezone = line.rpartition(" ")
    start = datetime.fromtimestamp(after_ms // 1000, _zone(timezone))
    times: list[int] = []
    try:
        for moment in CronSim(cron, start):
            ms = round(moment.timestamp() * 1000)
            if ms > after_ms:  # an hour that comes twice may offer its first time again
                times.append(ms)
            if len(times) == count:
                break
    except CronSimError as error:
        raise ConfigurationError(
            f"cron is {cron!r}: {str(error).lower()}; five fields are minute 0-59, hour 0-23, day "
            "1-31, month 1-12, weekday 0-7 (0 and 7 are Sunday), each *, a number, a-b, a,b or */n"
        ) from None
    if not times:
        raise ConfigurationError(f"cron is {cron!r}: no time matches it; check day and month")
    return times


@lru_cache(1000)
def computable(line: str, zone: str | None = None) -> bool:
    """Say whether a cron line has times; in another zone, since it may be known elsewhere only."""
    try:
        next_times(f"{line.rpartition(' ')[0]} {zone}" if zone else line, _START_MS, 1)
    except Exception:  # whatever it is that somebody has written there
        return False
    return True


def _zone(name: str) -> tzinfo:
    if name == "UTC":
        return UTC
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise ConfigurationError(
            f"timezone is {name!r}: this machine knows no such zone; give an IANA name, as in "
            "'Europe/Berlin', and see that zone data are there (pip install tzdata)"
        ) from None


def read_schedule(text: str) -> Schedule:
    """The schedule of a record."""
    kind, _, rest = text.partition(" ")
    period = rest.split(" ", 2)[-1]
    whole = period.isascii() and period.isdecimal() and len(period) <= MAX_PERIOD_DIGITS
    if kind == "e" and whole:
        return Schedule(int(period) / 1000, None)
    return Schedule(None, period or None if kind == "c" else None)


def read_later(reply: bytes, task_id: str) -> Later:
    """What ack and fail answer when they want a later time.

    Raises:
        ConfigurationError: The stored schedule is none: somebody has written into it.
    """
    after, _, text = reply.decode("utf-8", "replace").partition("\t")
    line = read_schedule(text).cron
    if line is None:
        raise ConfigurationError(
            f"the schedule of task {task_id} is {text!r}: it cannot be read; cancel the task, or "
            "push its key again with on_duplicate='update'"
        )
    return Later(int(after), line)


def claim(token: int, later: Later, count: int) -> str:
    """The token that ends a cron task's run, with the next times to choose from."""
    times = " ".join(map(str, next_times(later.line, later.after_ms, count)))
    return f"{token}\t{later.line}\t{times}"
