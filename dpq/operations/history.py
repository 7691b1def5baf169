"""The operations about what a queue remembers: its history and its events. No I/O."""

import re
from collections.abc import Sequence
from typing import Any, NamedTuple

from dpq.model.errors import ConfigurationError
from dpq.model.history import Event, Slot, joined
from dpq.model.validation import number, whole_number
from dpq.operations.partition import Partition
from dpq.protocol.command import Steps, all_of
from dpq.protocol.remembered import read_slots

MINUTE, QUARTER = 60, 900
"""Seconds of the two kinds of slots."""

MINUTES, QUARTERS = 1440, 1344
"""Slots of each kind that are kept: a day, and 14 days. Source: lua/lib/remember.lua."""

MAX_EVENTS = 1000
"""Events in one call: about as many as the stream keeps."""

_POSITION = re.compile(r"\d{1,20}-\d{1,20}", re.ASCII)


def remember(parts: Sequence[Partition[Any]]) -> Steps[list[int]]:
    """Store a slot of each partition, if nobody has done so in this minute."""
    return all_of([part.report("remember", [], int) for part in parts])


def history(parts: Sequence[Partition[Any]], seconds: float) -> Steps[list[Slot]]:
    """Read the slots of the last seconds, the oldest first."""
    number("seconds", seconds, "seconds", 1, QUARTERS * QUARTER)
    length, kept = (MINUTE, MINUTES) if seconds <= MINUTES * MINUTE else (QUARTER, QUARTERS)
    most = min(kept, int(seconds // length) + 1)
    found = yield from all_of(
        [part.report("history", [length * 1000, most], read_slots(length)) for part in parts]
    )
    return found[0] if len(found) == 1 else _summed(found)


def _summed(found: Sequence[list[Slot]]) -> list[Slot]:
    """Add up the partitions; one without a slot counts as it stood in its last one."""
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
    """An event, and the partition that it comes from."""

    event: Event
    part: int


def events(
    parts: Sequence[Partition[Any]], after: str, limit: int, stream: str = ""
) -> Steps[list[Event]]:
    """Read the events, or the "trail", behind a position; or the newest ones; the oldest first."""
    most = whole_number("limit", limit, 1, MAX_EVENTS)
    behind = after.split(",") if after else [""] * len(parts)
    if len(behind) != len(parts) or (after and not all(map(_POSITION.fullmatch, behind))):
        raise ConfigurationError(f"after is {after!r}: it must be the id of an event of this queue")
    found = yield from all_of(
        [part.events(position, most, stream) for part, position in zip(parts, behind, strict=True)]
    )
    ordered = sorted(
        (
            _Found(event, part)
            for part, each in enumerate(found)
            for event in each
            if not part or not _is_everywhere(event)
        ),
        key=lambda one: (one.event.at, one.event.id),
    )
    chosen = ordered[:most] if after else ordered[-most:]
    if len(parts) == 1:
        return [event for event, _ in chosen]
    last = [position or "0-0" for position in behind]
    if not after:  # each partition goes on behind what was read of it and left out
        for event, part in reversed(chosen):
            last[part] = _before(event.id)
        for event, part in ordered[: len(ordered) - len(chosen)]:
            last[part] = max(last[part], event.id, key=_numbers)
    result = []
    for event, part in chosen:
        last[part] = event.id
        result.append(event.model_copy(update={"id": ",".join(last)}))
    return result


def _is_everywhere(event: Event) -> bool:
    """Say if each partition tells the same: a pause, or a limit that holds for all."""
    return event.kind in ("paused", "resumed") or (
        event.kind == "limit_set" and event.group in ("", "*")
    )


def _numbers(position: str) -> tuple[int, int]:
    ms, _, sequence = position.partition("-")
    return int(ms), int(sequence)


def _before(position: str) -> str:
    ms, sequence = _numbers(position)
    return f"{ms}-{sequence - 1}" if sequence else f"{ms - 1}-{2**64 - 1}"
