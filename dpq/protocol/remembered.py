"""The replies of the scripts `stats`, `history` and `events` -> values of the model. No I/O."""

from collections.abc import Callable, Iterable, Sequence
from itertools import repeat
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

_NAMES = (*_STATES, *_TOTALS)
_NUMBERS = len(_NAMES) + 1

_OTHER_NAMES = {"invisible": "held", "popped": "deliveries", "expired_leases": "lease_expired"}
_NAMES_IN_SLOTS = tuple(_OTHER_NAMES.get(name, name) for name in _NAMES)


def _tally(numbers: Sequence[Any], names: Sequence[str]) -> tuple[dict[str, int], float | None]:
    found = list(map(int, numbers))
    oldest = found.pop(len(_STATES))
    return dict(zip(names, found, strict=True)), None if oldest < 0 else oldest / 1000


_WAITS, _RUNS = ([f"{letter}{n}" for n in range(len(BOUNDS) + 1)] for letter in "wr")
"""The names of the buckets of waits and of runs."""


_DEATHS = ("attempts_spent", "lease_expired", "expired", "payload_missing")
"""The classes of deaths, in the order of lua/lib/bury.lua."""


_STATUSES = ("403", "503", "529")
"""The statuses that are counted by themselves, as in lua/rate_limited.lua; `m0` are all others."""


def _times(names: Iterable[str], counts: Iterable[Any]) -> tuple[Times | None, Times | None]:
    """Read the buckets of waits and of runs."""
    found = dict(zip(names, map(int, counts), strict=True))
    wait, run = (map(found.get, each, repeat(0)) for each in (_WAITS, _RUNS))
    return Times.of(wait), Times.of(run)


def read_stats(reply: Sequence[Any]) -> QueueStats:
    """Read the reply of stats."""
    counts, oldest = _tally(reply[:_NUMBERS], _NAMES)
    found = dict(zip(read_texts(list(reply[_NUMBERS::2])), reply[_NUMBERS + 1 :: 2], strict=True))
    deaths = {f"buried_{name}": int(found.get(f"d{n}", 0)) for n, name in enumerate(_DEATHS)}
    met = {f"rate_limited_{status}": int(found.get(f"m{status}", 0)) for status in _STATUSES}
    met["rate_limited_other"] = int(found.get("m0", 0))
    wait, run = _times(found, found.values())
    return QueueStats(**counts, oldest_ready_seconds=oldest, wait=wait, run=run, **deaths, **met)


def read_slots(seconds: int) -> Callable[[list[Any]], list[Slot]]:
    """Make the reader of history, for slots of so many seconds."""

    def read(reply: list[Any]) -> list[Slot]:
        return [slot for text in read_texts(reply) if (slot := _read_slot(text, seconds))]

    return read


def _read_slot(text: str, seconds: int) -> Slot | None:
    words = text.split(" ")
    first = 3 + _NUMBERS
    try:
        at, closed, workers = map(int, words[:3])
        counts, oldest = _tally(words[3:first], _NAMES_IN_SLOTS)
        wait, run = _times(words[first::2], words[first + 1 :: 2])
    except (ValueError, LookupError):  # somebody wrote into Redis
        return None
    return Slot(
        at=moment_of(at),
        seconds=seconds,
        closed_groups=closed,
        workers=workers,
        oldest_due_seconds=oldest,
        wait=wait,
        run=run,
        **counts,
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
