"""Bounds of a queue: their settings, and the producers that wait for room. No I/O."""

from typing import Any

from dpq.model.errors import ConfigurationError
from dpq.model.producer import Producer
from dpq.model.queue_settings import Bounds, WhenFull
from dpq.model.task import P
from dpq.model.validation import whole_number
from dpq.script.command import Steps
from dpq.verbs.base import OperationsBase

MAX_BOUND = 10**9


class RoomOperations(OperationsBase[P]):
    """The operations of producers that wait for room."""

    def await_room(self, producer: Producer, *, leave: bool = False) -> Steps[bool]:
        """Let a producer stand in the line, or leave it; True if it is to wait until it is
        called."""
        place, ms = producer.place or producer.id, 0 if leave else producer.wait_ms
        args = [self._now(), producer.group, place, ms, producer.channel]
        stands, text = yield self._command("await_room", args, tuple[Any, ...])
        producer.place = "" if leave else text.decode()
        return bool(stands)


def named_bounds(
    max_tasks: int | None, max_waiting: int | None, when_full: WhenFull | None
) -> dict[str, str]:
    """Check bounds, and convert them to the texts to store; None for one that stays as it is."""
    named: dict[str, str] = {}
    if max_tasks is not None:
        named["max_tasks"] = str(whole_number("max_tasks", max_tasks, 0, MAX_BOUND))
    if max_waiting is not None:
        named["max_waiting"] = str(whole_number("max_waiting", max_waiting, 0, MAX_BOUND))
    if when_full is not None:
        if when_full not in ("refuse", "drop_worst"):
            raise ConfigurationError(
                f"when_full is {when_full!r}: it must be 'refuse' or 'drop_worst'"
            )
        named["when_full"] = when_full
    if not named:
        raise ConfigurationError(
            "set_bounds changes nothing: give max_tasks, max_waiting or when_full"
        )
    return named


def bounds_of(settings: dict[str, str]) -> Bounds:
    """Read the bounds from the settings of a queue."""

    def bound(name: str) -> int | None:
        text = settings.get(name, "0")
        return (int(text) or None) if text.isdecimal() else None

    how: WhenFull = "drop_worst" if settings.get("when_full") == "drop_worst" else "refuse"
    return Bounds(bound("max_tasks"), bound("max_waiting"), how)
