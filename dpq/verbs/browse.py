"""The read-only operations of the dashboard: bounded pages over tasks, groups and dead letters.

`dpq.web` runs them through a queue's session. They change nothing, and each call of a script looks
at no more than `LOOK` tasks, so that none holds the server up. No I/O.
"""

from __future__ import annotations  # the import makes no model for each `Task[P]`

from collections.abc import Sequence
from typing import Any, NamedTuple

from dpq.limits.limits import EVERY_GROUP
from dpq.limits.states import LimitState
from dpq.model.filter import Filter
from dpq.model.task import Task
from dpq.model.validation import milliseconds
from dpq.script.command import Steps
from dpq.script.records import stored_task
from dpq.script.values import in_rows, read_texts
from dpq.verbs.limits import LimitOperations, read_limits

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


class Browser(LimitOperations):
    """The read-only operations on a queue."""

    def __init__(self, operations: Any) -> None:
        """Take the operations of a queue."""
        description = operations.description
        super().__init__(description.name, description.clock)
        self._codec = description.codec

    def search(
        self,
        chosen: Filter,
        position: Position = None,
        most: int = 50,
        look: int = LOOK_A_PAGE,
        *,
        newest: bool = False,
    ) -> Steps[Found]:
        """Find up to `most` tasks among the next `look`; with `most` 0 only count them. `newest`
        begins with the last task of the state."""
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
        names = ["" if group is None else group for group in scopes]
        now, *texts = yield self._command("view", [self._now(), *names], read_texts)
        return States(read_limits(scopes, running, texts), counted, int(now))
