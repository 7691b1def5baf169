"""Single values of replies: times and texts. replies.py and the operations call it. No I/O."""

from datetime import UTC, datetime
from functools import lru_cache
from typing import Any

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


def read_texts(reply: list[Any]) -> list[str]:
    """Read a reply that has only texts."""
    return [text.decode("utf-8", "replace") for text in reply]
