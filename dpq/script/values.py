"""Single values of replies: texts. replies.py and the operations call it. No I/O."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

READERS: dict[Any, Callable[[str], Any]] = {
    str: str,
    int: lambda text: int(text or 0),
    bool: lambda text: text == "1",
    float: float,
    float | None: lambda text: float(text) if text else None,
}


def read_texts(reply: list[Any]) -> list[str]:
    """Read a reply that has only texts."""
    return [text.decode("utf-8", "replace") for text in reply]


def in_rows(flat: Sequence[Any], width: int) -> Iterator[tuple[Any, ...]]:
    """Divide a flat reply into rows of that many values."""
    return zip(*(flat[i::width] for i in range(width)), strict=True)


def read_fields(kind: type[Any], texts: Sequence[str]) -> list[Any]:
    """Read texts as the first fields of a named tuple, by their types; "" is 0 or None."""
    return [
        READERS[each](text)
        for each, text in zip(kind.__annotations__.values(), texts, strict=False)
    ]
