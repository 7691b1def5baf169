"""The operations on the history and the events of a queue. No I/O."""

import re
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple

from dpq.model.errors import ConfigurationError
from dpq.model.history import Event, Granted, Slot, joined
from dpq.model.pace import COVERED_SECONDS, Point
from dpq.model.validation import number, whole_number
from dpq.operations.partition import Partition
from dpq.protocol.command import Steps, all_of, together
from dpq.protocol.remembered import read_granted, read_slots

MINUTE, QUARTER = 60, 900
"""Seconds of the two kinds of slots."""

MINUTES, QUARTERS = 1440, 1344
"""Slots of each kind that are kept: a day, and 14 days. Source: lua/lib/remember.lua."""

GRANTED_MINUTES = 60
"""Slots of what limits have granted. Source: lua/lib/remember.lua."""

MAX_EVENTS = 1000
"""Events in one call: about as many as the stream keeps."""

_POSITION = re.compile(r"\d{1,20}-\d{1,20}", re.ASCII)


def remember(parts: Sequence[Partition[Any]]) -> Steps[list[int]]:
    """Store a slot of each partition, unless this minute has one."""
    return all_of([part.report("remember", [], int) for part in parts])


def history(parts: Sequence[Partition[Any]], seconds: float) -> Steps[list[Slot]]:
    """Read the slots of the last seconds, the oldest first."""
    number("seconds", seconds, "seconds", 1, QUARTERS * QUARTER)
    is_day = seconds <= MINUTES * MINUTE
    ring, length, kept = ("m", MINUTE, MINUTES) if is_day else ("q", QUARTER, QUARTERS)
    most = min(kept, int(seconds // length) + 1)
    found = yield from all_of(
        [part.report("history", [ring, most], read_slots(length)) for part in parts]
    )
    return found[0] if len(found) == 1 else _summed(found)


def recent(parts: Sequence[Partition[Any]]) -> Steps[list[Point]]:
    """Read the points of the last minutes; at each of them all partitions have stored a slot.

    If the history cannot be read, there are none: what a page reads along raises what concerns it.
    """
    most = int(COVERED_SECONDS // MINUTE) + 1
    found = yield from together(
        [part.report("history", ["m", most], read_slots(MINUTE)) for part in parts]
    )
    if any(isinstance(slots, Exception) for slots in found):
        return []
    rows = [
        {int(slot.at.timestamp() // MINUTE): Point.of(slot.at.timestamp(), slot) for slot in slots}
        for slots in found
    ]
    common = sorted(set(rows[0]).intersection(*rows[1:]))
    return [Point.joined([row[minute] for row in rows]) for minute in common]


def granted(parts: Sequence[Partition[Any]]) -> Steps[list[list[Granted]]]:
    """Read what limits had granted at each minute of the last hour, of each partition."""
    return all_of([part.report("history", ["u", GRANTED_MINUTES], read_granted) for part in parts])


def _summed(found: Sequence[list[Slot]]) -> list[Slot]:
    """Add up the partitions; a partition without a slot counts as in its last slot."""
    rows: dict[int, dict[int, Slot]] = {}
    for part, slots in enumerate(found):
        for slot in slots:
            rows.setdefault(int(slot.at.timestamp() // slot.seconds), {})[part] = slot
    latest: dict[int, Slot] = {}
    result = []
    sums = Slot.model_fields.keys() - {"at", "seconds", "oldest_due_seconds", "wait", "run"}
    for row in sorted(rows):
        latest |= rows[row]
        slots = list(latest.values())
        ages = [s.oldest_due_seconds for s in slots if s.oldest_due_seconds is not None]
        result.append(
            Slot(
                at=max(slot.at for slot in rows[row].values()),
                seconds=slots[0].seconds,
                oldest_due_seconds=max(ages, default=None),
                wait=joined([slot.wait for slot in slots]),
                run=joined([slot.run for slot in slots]),
                **{name: sum(getattr(slot, name) for slot in slots) for name in sums},
            )
        )
    return result


class _Found(NamedTuple):
    """An event, the partition that it comes from, and its moment among the events around it.

    Attributes:
        moment: The time of the event; not less than that of earlier events of its stream, since a
            clock may go back.
    """

    event: Event
    part: int
    moment: datetime


def events(
    parts: Sequence[Partition[Any]], after: str, limit: int, stream: str = ""
) -> Steps[list[Event]]:
    """Read the events, or the "trail", behind a position; or the newest ones; the oldest first."""
    most = whole_number("limit", limit, 1, MAX_EVENTS)
    behind = after.split(",") if after else [""] * len(parts)
    if len(behind) != len(parts) or (after and not all(map(_POSITION.fullmatch, behind))):
        raise ConfigurationError(f"after is {after!r}: it must be the id of an event of this queue")
    while True:
        found = yield from all_of(
            [part.events(at, most, stream) for part, at in zip(parts, behind, strict=True)]
        )
        if len(parts) == 1:
            return found[0]
        result, last = _merged(found, behind, most)
        if result or last == behind or not after:
            return result
        behind = last  # the first partition has all these events as well: read on


def _merged(
    found: Sequence[list[Event]], behind: Sequence[str], most: int
) -> tuple[list[Event], list[str]]:
    """Join the streams of the partitions into one; return also the positions behind it."""
    ordered = sorted(_in_order(found), key=lambda one: (one.moment, _numbers(one.event.id)))
    seen = [not (one.part and _is_everywhere(one.event)) for one in ordered]
    surplus = 0 if any(behind) else max(0, sum(seen) - most)
    result: list[Event] = []
    last = [position or "0-0" for position in behind]
    if not any(behind):  # each partition goes on before its first event of this read
        last = [_before(each[0].id) if each else "0-0" for each in found]
    for (event, part, _), is_seen in zip(ordered, seen, strict=True):
        if len(result) == most:
            break
        last[part] = event.id
        if is_seen and surplus:
            surplus -= 1
        elif is_seen:
            result.append(event.model_copy(update={"id": ",".join(last)}))
    return result, last


def _in_order(found: Sequence[list[Event]]) -> Iterator[_Found]:
    for part, each in enumerate(found):
        moment = datetime.min.replace(tzinfo=UTC)
        for event in each:
            moment = max(moment, event.at)
            yield _Found(event, part, moment)


def _is_everywhere(event: Event) -> bool:
    """Return True if each partition has this event: a pause, or a limit that holds for all."""
    return event.kind in ("paused", "resumed") or (
        event.kind == "limit_set" and event.group in ("", "*")
    )


def _numbers(position: str) -> tuple[int, int]:
    ms, _, sequence = position.partition("-")
    return int(ms), int(sequence)


def _before(position: str) -> str:
    ms, sequence = _numbers(position)
    return f"{ms}-{sequence - 1}" if sequence else f"{ms - 1}-{2**64 - 1}"
