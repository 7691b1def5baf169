"""The replies of the scripts `stats`, `history` and `events` -> values of the model. No I/O."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import repeat
from typing import Any

from dpq.model.history import BOUNDS, OTHER_NAMES, Event, Granted, Slot, Times
from dpq.model.moments import moment_of
from dpq.model.reports import QueueStats
from dpq.script.values import in_rows, read_texts

_STATES = ("ready", "delayed", "invisible", "waiting", "dead")

_WAITS, _RUNS = ([f"{letter}{n}" for n in range(len(BOUNDS) + 1)] for letter in "wr")
"""The names of the buckets of waits and of runs."""


def read_stats(reply: Sequence[Any]) -> QueueStats:
    """Read the reply of stats."""
    found = _counts(read_texts(list(reply[::2])), reply[1::2])
    states = dict.fromkeys(_STATES, 0)
    return QueueStats(**states | found, oldest_ready_seconds=found["oldest_ready"])


def _counts(names: Iterable[str], counts: Iterable[Any]) -> dict[str, Any]:
    """Read names and counts: a missing name counts 0, and models ignore unknown names."""
    found: dict[str, Any] = dict(zip(names, map(int, counts), strict=True))
    oldest = found.get("oldest_ready")
    wait, run = (Times.of(map(found.get, each, repeat(0))) for each in (_WAITS, _RUNS))
    seconds = None if oldest is None else oldest / 1000
    return found | {"wait": wait, "run": run, "oldest_ready": seconds}


def read_slots(seconds: int, reply: list[Any]) -> list[Slot]:
    """Read the reply of history, for slots of that many seconds."""
    pairs = in_rows(read_texts(reply[0]), 2)
    long = {short: OTHER_NAMES.get(name, name) for name, short in pairs}
    return [slot for text in read_texts(reply[1:]) if (slot := _read_slot(text, long, seconds))]


def _read_slot(text: str, long: Mapping[str, str], seconds: int) -> Slot | None:
    """Read a slot, also if another version wrote it, which counts more or less."""
    try:
        at, *words = text.split()
        found = _counts([long.get(name, name) for name in words[::2]], words[1::2])
        found |= {"at": moment_of(int(at)), "seconds": seconds}
        return Slot(**found, oldest_due_seconds=found["oldest_ready"])
    except (ValueError, LookupError):  # another program wrote into Redis
        return None


def read_granted(reply: list[Any]) -> list[Granted]:
    """Read what limits had granted, from the reply of history."""
    return [_granted(text) for text in read_texts(reply[1:])]


def _granted(text: str) -> Granted:
    """Read one minute of it; leave out lines that another program wrote."""
    at, _, lines = text.partition(" ")
    totals = {}
    for line in lines.split("\n"):
        counts, tab, scope = line.partition("\t")
        words = counts.split()
        if tab and all(map(str.isdecimal, [*words[:1], *words[2::2]])) and len(words) % 2:
            units = dict(zip(words[1::2], map(int, words[2::2]), strict=True))
            totals[scope] = int(words[0]), units
    return Granted(int(at), totals)


def read_events(reply: list[Any]) -> tuple[str, list[Event]]:
    """Read the reply of events: where the next call goes on, or "", and the events."""
    found = []
    for place, fields in in_rows(reply[1:], 2):
        told: dict[str, Any] = dict(in_rows(read_texts(fields), 2))
        try:
            at = moment_of(int(told.pop("at")))
            frames = tuple(filter(None, told.pop("frames", "").split("\t")))
            task_id = told.pop("task")
            found.append(Event(id=place.decode(), at=at, task_id=task_id, frames=frames, **told))
        except (KeyError, ValueError, TypeError):
            continue
    return reply[0].decode(), found
