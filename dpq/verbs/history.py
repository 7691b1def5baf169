"""The operations on the history and the events of a queue. No I/O."""

import re
from collections.abc import Collection
from functools import partial

from dpq.model.errors import ConfigurationError
from dpq.model.history import CHANGES, Event, Granted, Slot
from dpq.model.validation import number, whole_number
from dpq.script.command import CommandMaker, Steps, task_id
from dpq.script.remembered import read_events, read_granted, read_slots

MINUTE, QUARTER = 60, 900
"""Seconds of the two kinds of slots."""

MINUTES, QUARTERS = 1440, 1344
"""Slots of each kind that are kept: a day, and 14 days. Source: lua/lib/remember.lua."""

GRANTED_MINUTES = 60
"""Slots of what limits have granted. Source: lua/lib/remember.lua."""

MAX_EVENTS = 1000
"""Events in one answer, and events that one step looks at."""

_POSITION = re.compile(r"\d{1,20}-\d{1,20}", re.ASCII)


class HistoryOperations(CommandMaker):
    def remember(self) -> Steps[int]:
        """Store a slot, unless this minute has one."""
        return self._ask("remember", [self._now()], int)

    def history(self, seconds: float) -> Steps[list[Slot]]:
        number("seconds", seconds, "seconds", 1, QUARTERS * QUARTER)
        is_day = seconds <= MINUTES * MINUTE
        ring, length, kept = ("m", MINUTE, MINUTES) if is_day else ("q", QUARTER, QUARTERS)
        most = min(kept, int(seconds // length) + 1)
        return self._ask("history", [self._now(), ring, most], partial(read_slots, length))

    def granted(self) -> Steps[list[Granted]]:
        """Read what limits had granted at each minute of the last hour."""
        return self._ask("history", [self._now(), "u", GRANTED_MINUTES], read_granted)

    def events(
        self, after: str, limit: int, id_: str | None = None, kinds: str | Collection[str] = ()
    ) -> Steps[list[Event]]:
        """Read events behind a position, or the newest ones; the oldest first."""
        most = whole_number("limit", limit, 1, MAX_EVENTS)
        if after and not (isinstance(after, str) and _POSITION.fullmatch(after)):
            raise ConfigurationError(
                f"after is {after!r}: it must be the id of an event of this queue"
            )
        wanted = [kinds] if isinstance(kinds, str) else list(kinds)
        by_hand = "1" if wanted and set(wanted) <= set(CHANGES) else ""
        chosen = ["" if id_ is None else task_id(id_), by_hand, *wanted]
        look = MAX_EVENTS if any(chosen) else most
        place, found = after, list[Event]()
        while True:
            args = ["newer" if after else "older", place, look, *chosen]
            place, events = yield self._command("events", args, read_events)
            found += events
            if not place or len(found) >= most:
                return found[:most] if after else found[:most][::-1]
