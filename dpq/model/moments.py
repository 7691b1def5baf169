"""Moments of the server's clock, in ms, as dates. No I/O, no clock."""

from datetime import UTC, datetime
from functools import lru_cache

from dpq.model.interrupts import raise_interruption

_EVER, _LONG_AGO = datetime.max.replace(tzinfo=UTC), datetime.min.replace(tzinfo=UTC)


@lru_cache(maxsize=1000)
def moment_of(milliseconds: float) -> datetime:
    """Convert a time of the server. A damaged time, too far for a date, gives the farthest date.

    Tasks that were pushed together have the same times, so that a batch needs few conversions.
    """
    try:
        return datetime.fromtimestamp(milliseconds / 1000, UTC)
    except (OverflowError, ValueError, OSError) as error:  # another program wrote into Redis
        raise_interruption(error)
        return _EVER if milliseconds > 0 else _LONG_AGO
