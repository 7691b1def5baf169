"""The replies of the scripts `stats`, `history` and `events` -> values of the model. No I/O."""

from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from typing import Any

from dpq.model.history import BOUNDS, Event, Slot, Times
from dpq.model.reports import QueueStats
from dpq.protocol.values import moment_of, read_texts

_STATES = ("ready", "delayed", "invisible", "waiting", "dead")
_TOTALS = (
    *("pushed", "popped", "acked", "failed", "deferred", "expired_leases", "buried"),
    *("replayed", "dropped", "rate_limited"),
)
"""The order of lua/lib/tally.lua; between them stands how long the oldest task has been ready."""

_NUMBERS = len(_STATES) + 1 + len(_TOTALS)

_OTHER_NAMES = {"invisible": "held", "popped": "deliveries", "expired_leases": "lease_expired"}


def _tally(numbers: Sequence[Any]) -> tuple[dict[str, int], float | None]:
    found = [int(number) for number in numbers[:_NUMBERS]]
    oldest = found.pop(len(_STATES))
    counts = dict(zip((*_STATES, *_TOTALS), found, strict=True))
    return counts, None if oldest < 0 else oldest / 1000


def _times(letter: str, names: Iterable[str], counts: Iterable[Any]) -> Times | None:
    numbers: dict[int, int] = {}
    for name, count in zip(names, counts, strict=True):
        if name.startswith(letter) and name[1:].isdecimal() and int(name[1:]) <= len(BOUNDS):
            numbers[int(name[1:])] = int(count)
    return Times.of(numbers)


def read_stats(reply: Sequence[Any]) -> QueueStats:
    """Read the reply of stats."""
    counts, oldest = _tally(reply)
    names = read_texts(list(reply[_NUMBERS::2]))
    wait, run = (_times(letter, names, reply[_NUMBERS + 1 :: 2]) for letter in "wr")
    return QueueStats(**counts, oldest_ready_seconds=oldest, wait=wait, run=run)


def read_slots(seconds: int) -> Callable[[list[Any]], list[Slot]]:
    """Make the reader of history, for slots of so many seconds."""

    def read(reply: list[Any]) -> list[Slot]:
        return [slot for text in read_texts(reply) if (slot := _read_slot(text, seconds))]

    return read


def _read_slot(text: str, seconds: int) -> Slot | None:
    words = iter(text.split(" "))
    try:
        at, closed, workers = (int(word) for word in islice(words, 3))
        counts, oldest = _tally(list(islice(words, _NUMBERS)))
        rest = list(words)
        wait, run = (_times(letter, rest[::2], rest[1::2]) for letter in "wr")
    except ValueError:  # somebody wrote into Redis
        return None
    named = {_OTHER_NAMES.get(name, name): count for name, count in counts.items()}
    return Slot(
        at=moment_of(at),
        seconds=seconds,
        closed_groups=closed,
        workers=workers,
        oldest_due_seconds=oldest,
        wait=wait,
        run=run,
        **named,
    )


def read_events(reply: list[Any]) -> list[Event]:
    """Read the reply of events; what somebody else wrote there is left out."""
    found = []
    for place, fields in zip(reply[::2], reply[1::2], strict=True):
        texts = read_texts(fields)
        told = dict(zip(texts[::2], texts[1::2], strict=True))
        try:
            at = int(told.pop("at"))
            task_id = told.pop("task")
            event = Event(id=place.decode(), at=moment_of(at), task_id=task_id, **told)
        except (KeyError, ValueError, TypeError):
            continue
        found.append(event)
    return found
