"""Single values of replies: texts. replies.py and the operations call it. No I/O."""

from typing import Any


def read_texts(reply: list[Any]) -> list[str]:
    """Read a reply that has only texts."""
    return [text.decode("utf-8", "replace") for text in reply]
