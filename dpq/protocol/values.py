"""Single values of replies: times and texts. replies.py and the operations call it. No I/O."""

from datetime import UTC, datetime
from typing import Any

from dpq.model.interrupts import raise_interruption

_EVER, _LONG_AGO = datetime.max.replace(tzinfo=UTC), datetime.min.replace(tzinfo=UTC)


def moment_of(milliseconds: float) -> datetime:
    """A time of the server; one that no calendar holds, as damage may leave, is its end."""
    try:
        return datetime.fromtimestamp(milliseconds / 1000, UTC)
    except (OverflowError, ValueError, OSError) as error:  # somebody wrote into Redis
        raise_interruption(error)
        return _EVER if milliseconds > 0 else _LONG_AGO


def read_texts(reply: list[Any]) -> list[str]:
    """A reply of texts alone."""
    return [text.decode("utf-8", "replace") for text in reply]
