"""Moments of the server's clock, in ms, as dates and as words. No I/O, no clock."""

from datetime import UTC, datetime
from functools import lru_cache

_EVER, _LONG_AGO = datetime.max.replace(tzinfo=UTC), datetime.min.replace(tzinfo=UTC)


@lru_cache(maxsize=1000)
def moment_of(milliseconds: float) -> datetime:
    """Convert a time of the server. A damaged time, too far for a date, gives the farthest date.

    Tasks that were pushed together have the same times, so that a batch needs few conversions.
    """
    try:
        return datetime.fromtimestamp(milliseconds / 1000, UTC)
    except (OverflowError, ValueError, OSError):  # another program wrote into Redis
        return _EVER if milliseconds > 0 else _LONG_AGO


def say_moment(at: datetime, now: datetime) -> str:
    """Write a moment for people: `14:32:05 UTC`, with its date if that is not today's."""
    there, here = at.astimezone(UTC), now.astimezone(UTC)
    clock = there.time().isoformat("seconds")
    return f"{clock} UTC" if there.date() == here.date() else f"{there.date()} {clock} UTC"
