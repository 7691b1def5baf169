"""Time zones by name, and when their clocks change. No I/O but the zone data, no clock.

`schedule` and `quota` call it. Lua knows no zones, so a quota carries the changes of its zone.
"""

from bisect import bisect_left
from datetime import UTC, datetime, tzinfo
from functools import lru_cache
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from dpq.model.errors import ConfigurationError

_LOCAL_ZONES = ("localtime", "posixrules")
"""Names that mean the zone of a machine: each consumer would compute other times."""

_LEAPING = "right/"
"""The beginning of zones that count leap seconds, as no server does: half a minute wrong."""

_DAY = 86_400


def zone_name(timezone: Any) -> str:
    """Check that a text may be the name of a zone, the same on all machines."""
    if not isinstance(timezone, str) or not timezone.isascii() or len(timezone.split()) != 1:
        raise ConfigurationError(
            f"timezone is {timezone!r}: it must be an IANA name, as in 'Europe/Berlin'"
        )
    if timezone.lower() in _LOCAL_ZONES or timezone.lower().startswith(_LEAPING):
        raise ConfigurationError(
            f"timezone is {timezone!r}: its meaning differs between machines, or it counts leap "
            "seconds; give an IANA name, as in 'Europe/Berlin'"
        )
    return timezone


def zone(name: str) -> tzinfo:
    """Load the zone of a name."""
    if name == "UTC":
        return UTC
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise ConfigurationError(
            f"timezone is {name!r}: this machine knows no such zone; give an IANA name, as in "
            "'Europe/Berlin', or install the zone data (pip install tzdata)"
        ) from None


@lru_cache(100)
def offset_changes(name: str, first_day: int, days: int) -> tuple[tuple[int, int], ...]:
    """List the offsets of a zone from UTC, in seconds, in so many days since 1970 from the first.

    Each pair is a moment, in epoch seconds, and the offset from then on. The moment of the first
    pair is 0: its offset holds before the next pair.
    """
    there = zone(name)

    def offset(moment: int) -> int:
        shift = datetime.fromtimestamp(moment, there).utcoffset()
        return round(shift.total_seconds()) if shift else 0

    changes = [(0, offset(first_day * _DAY))]
    for day in range(first_day, first_day + days):
        moments, before = range(day * _DAY + 1, (day + 1) * _DAY + 1), changes[-1][1]
        if offset(moments[-1]) != before:
            first = bisect_left(moments, True, key=lambda moment: offset(moment) != before)
            changes.append((moments[first], offset(moments[first])))
    return tuple(changes)
