"""Single values of replies: times and texts. replies.py and the operations call it. No I/O."""

from typing import Any

from dpq.model.moments import moment_of as moment_of


def read_texts(reply: list[Any]) -> list[str]:
    """Read a reply that has only texts."""
    return [text.decode("utf-8", "replace") for text in reply]
