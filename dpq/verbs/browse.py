"""The operations of screens: pages over tasks, groups and dead letters, history, events. No I/O.

Each call of a script looks at no more than `LOOK` tasks, so that none holds the server up.
"""

from __future__ import annotations  # the import makes no model for each `Task[P]`

import re
from collections.abc import Collection, Sequence
from functools import partial
from typing import Any, NamedTuple

from dpq.limits.limits import EVERY_GROUP
from dpq.limits.states import LimitState
from dpq.model.errors import ConfigurationError
from dpq.model.filter import Filter
from dpq.model.history import CHANGES, Event, Granted, Slot
from dpq.model.task import P, Task
from dpq.model.validation import milliseconds, number, whole_number
from dpq.script.command import Steps, task_id
from dpq.script.records import stored_task
from dpq.script.remembered import read_events, read_granted, read_slots
from dpq.script.values import in_rows, read_texts
from dpq.verbs.base import OperationsBase
from dpq.verbs.limits import LimitOperations

LOOK = 1000
"""Tasks that one call of a script looks at: about 1 to 3 ms of server time."""

LOOK_A_PAGE = 2000
"""Tasks that a page looks at, before it says how many it has searched: 10 ms of server time."""

LOOK_MOST = 10_000
"""Tasks that one request may look at, if it asks for more."""

PAGE_BYTES = 1024 * 1024
"""Payload bytes of one page."""

LEASES_COUNTED = 500
"""Leases that are counted by group for one page; with more, the counts are lower bounds."""

MINUTE, QUARTER = 60, 900
"""Seconds of the two kinds of slots."""

MINUTES, QUARTERS = 1440, 1344
"""Slots of each kind that are kept: a day, and 14 days. Source: lua/lib/remember.lua."""

GRANTED_MINUTES = 60
"""Slots of what limits have granted. Source: lua/lib/remember.lua."""

MAX_EVENTS = 1000
"""Events in one answer, and events that one step looks at."""

_POSITION = re.compile(r"\d{1,20}-\d{1,20}", re.ASCII)

Position = tuple[str, bytes] | None
"""Score and member of the last task that was looked at; None for the start."""


class Found(NamedTuple):
    """A page of tasks that pass a filter.

    `looked` counts without those that the next page, from `position` on, looks at again; `left` are
    behind. `passed` are those that passed the filter.
    """

    tasks: list[Task[Any]]
    looked: int
    left: int
    position: Position
    passed: int


class Kind(NamedTuple):
    """Dead letters of one reason and error, with "#" for numbers but a status code."""

    reason: str
    fault: str
    number: int
    newest: str
    died_ms: float


class Kinds(NamedTuple):
    """Dead letters by kind, the most frequent first, among the `looked` newest ones."""

    kinds: list[Kind]
    looked: int
    left: int


class States(NamedTuple):
    """Scopes with their limits; unless all leases were `counted`, `in_flight` is a lower bound."""

    states: list[LimitState]
    counted: bool
    now_ms: int


class BrowseOperations(LimitOperations, OperationsBase[P]):
    """Every operation that screens read pages with."""

    def search(
        self,
        chosen: Filter,
        position: Position = None,
        most: int = 50,
        look: int = LOOK_A_PAGE,
        *,
        newest: bool = False,
    ) -> Steps[Found]:
        """Find up to `most` tasks among the next `look`, or the last; with `most` 0 count them."""
        tasks: list[Task[Any]] = []
        state = chosen.of_state
        passed, looked, left, size = 0, 0, 1, PAGE_BYTES
        age = chosen.older_than
        asked = [
            *(chosen.group, "" if chosen.least is None else chosen.least, chosen.text),
            *(chosen.reason, "-" if chosen.fault is None else chosen.fault),
            *(int(chosen.recurring), int(not chosen.payloads)),
            *("" if chosen.most is None else chosen.most, chosen.key_prefix),
            "" if age is None else milliseconds("older_than", age),
        ]
        while left and looked < look and size > 0 and (not most or passed < most):
            score, member = position or ("", b"")
            args: list[Any] = [
                state.value,
                score,
                member,
                most and most - passed,
                min(LOOK, look - looked),
            ]
            args += [size, *asked, self._now(), int(newest)]
            reply = yield self._command("search", args, list)
            passed, looked, left = passed + reply[0], looked + reply[1], reply[2]
            if not reply[1]:
                break
            position = (reply[3].decode(), reply[4])
            for id_, until, record, body in in_rows(reply[5:], 4):
                name = id_.decode("utf-8", "replace")
                tasks.append(stored_task(self._codec, name, state, until, record, body))
                size -= len(body)
        return Found(tasks, looked, left, position, passed)

    def kinds(self, look: int = LOOK_A_PAGE) -> Steps[Kinds]:
        """Count the newest dead letters by reason and error, the most frequent kind first."""
        found: dict[tuple[str, str], Kind] = {}
        looked, left = 0, 1
        while left and looked < look:
            reply = yield self._command("dead_kinds", [looked, min(LOOK, look - looked)], list)
            for fields in in_rows(reply[2:], 5):
                reason, fault, newest = read_texts([fields[0], fields[1], fields[3]])
                before = found.get((reason, fault))
                kind = before or Kind(reason, fault, 0, newest, float(fields[4]))
                found[reason, fault] = kind._replace(number=kind.number + fields[2])
            looked, left = looked + reply[0], reply[1]
            if not reply[0]:
                break
        ordered = sorted(found.values(), key=lambda kind: (-kind.number, kind.reason, kind.fault))
        return Kinds(ordered, looked, left)

    def groups_by(
        self, way: str, start: str = "", behind: str = "", most: int = 50
    ) -> Steps[list[str]]:
        """List up to `most` groups: the largest, by name, or those that open first."""
        start = start or ("0" if way == "closed" else "")
        args: list[str | bytes | int | float] = [way, start, behind, most]
        texts = yield self._command("find_groups", args, read_texts)
        counts = {name: int(count) for name, count in in_rows(texts, 2)}
        if way == "largest":
            return sorted(counts, key=lambda name: (-counts[name], name))[:most]
        return (sorted(counts, key=str.encode) if way == "name" else list(counts))[:most]

    def own_limits(self, cursor: str = "0") -> Steps[tuple[str, list[str]]]:
        """List groups with a limit of their own, one page of the server's choice."""
        cursor, *names = yield self._command("scopes", ["limits", cursor], read_texts)
        groups = [name.removeprefix("group:") for name in names if name.startswith("group:")]
        return cursor, groups

    def states(self, groups: Sequence[str]) -> Steps[States]:
        """Read the states of the queue, of the default of all groups, and of up to 98 groups."""
        scopes = [None, EVERY_GROUP, *groups]
        running, counted = yield from self._running(LEASES_COUNTED)
        now, states = yield from self.view(scopes, running)
        return States(states, counted, now)

    # History and events

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
