"""The read-only operations of the dashboard: bounded pages over tasks, groups and dead letters.

`dpq.web` runs them through a queue's session. They change nothing, and each call of a script looks
at no more than `LOOK` tasks, so that none holds the server up. No I/O.
"""

from __future__ import annotations  # the import makes no model for each `Task[P]`

from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

from dpq.model.filter import Filter
from dpq.model.history import Granted
from dpq.model.limit_states import LimitState
from dpq.model.limits import EVERY_GROUP
from dpq.model.payload import Codec
from dpq.model.task import Task, TaskState
from dpq.model.validation import milliseconds
from dpq.operations.history import granted
from dpq.operations.limit_replies import read_limits
from dpq.operations.limits import LimitOperations
from dpq.operations.queue import QueueOperations, one_queue
from dpq.operations.survey import Explained
from dpq.protocol.command import CommandMaker, Steps, all_of
from dpq.protocol.keys import key_of
from dpq.protocol.placement import tags_of
from dpq.protocol.records import stored_task
from dpq.protocol.values import read_texts

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
"""Score and member of the last task that was looked at, in one partition; None for the start."""


class Found(NamedTuple):
    """A page of tasks that pass a filter.

    Attributes:
        tasks: The tasks.
        looked: The number of tasks that were looked at for this page, without those that the
            next page looks at again.
        left: The number of tasks behind the last task that was looked at.
        positions: The start of the next page, for each partition.
        passed: The number of tasks that passed the filter.
    """

    tasks: list[Task[Any]]
    looked: int
    left: int
    positions: list[Position]
    passed: int


class Kind(NamedTuple):
    """Dead letters of one reason and error, with "#" for each number."""

    reason: str
    fault: str
    number: int
    newest: str
    died_ms: float


class Kinds(NamedTuple):
    """Dead letters by kind, the most frequent first, among the `looked` oldest ones."""

    kinds: list[Kind]
    looked: int
    left: int


class States(NamedTuple):
    """Scopes with their limits.

    Attributes:
        states: Their states.
        counted: All leases were counted; else `in_flight` is a lower bound.
        now_ms: The server's clock.
    """

    states: list[LimitState]
    counted: bool
    now_ms: int


class _Row(NamedTuple):
    """A task of a page, with the values that sort it, and its position."""

    sort: Any
    position: Position
    task: Task[Any]


class _Page(NamedTuple):
    """The part of a page that one partition gives."""

    rows: list[_Row]
    passed: int
    looked: int
    left: int
    last: Position


class PartitionBrowser(LimitOperations):
    """The read-only operations on one partition."""

    def __init__(self, operations: QueueOperations[Any], tag: str) -> None:
        """Describe one partition of a queue by its hash tag."""
        description = operations.description
        super().__init__(description.name, tag, description.clock)
        self._codec = description.codec

    def search(self, chosen: Filter, position: Position, most: int, look: int) -> Steps[_Page]:
        """Find up to `most` tasks among the next `look`; with `most` 0 only count them."""
        rows: list[_Row] = []
        state = chosen.of_state
        passed, looked, left, size = 0, 0, 1, PAGE_BYTES
        while left and looked < look and size > 0 and (not most or passed < most):
            score, member = position or ("", b"")
            args: list[str | bytes | int | float] = [state.value, score, member]
            args.append(most and most - passed)
            args += [min(LOOK, look - looked), size, chosen.group]
            args += ["" if chosen.least is None else chosen.least, chosen.text, chosen.reason]
            args += ["-" if chosen.fault is None else chosen.fault, int(chosen.recurring)]
            args.append(int(not chosen.payloads))
            args += ["" if chosen.most is None else chosen.most, chosen.key_prefix]
            age = chosen.older_than
            args.append("" if age is None else milliseconds("older_than", age))
            args.append(self._now())
            reply = yield self._command("search", args, list)
            passed, looked, left = passed + reply[0], looked + reply[1], reply[2]
            if not reply[1]:
                break
            position = (reply[3].decode(), reply[4])
            for fields in zip(*(reply[5 + i :: 6] for i in range(6)), strict=True):
                rows.append(_row(self._codec, state, fields))
                size -= len(fields[3])
        return _Page(rows, passed, looked, left, position)

    def kinds(self, look: int) -> Steps[Kinds]:
        """Count the oldest dead letters by reason and error."""
        found: dict[tuple[str, str], Kind] = {}
        looked, left = 0, 1
        while left and looked < look:
            reply = yield self._command("dead_kinds", [looked, min(LOOK, look - looked)], list)
            for fields in zip(*(reply[2 + i :: 5] for i in range(5)), strict=True):
                reason, fault, newest = read_texts([fields[0], fields[1], fields[3]])
                before = found.get((reason, fault))
                count = fields[2] + (before.number if before else 0)
                found[reason, fault] = Kind(reason, fault, count, newest, float(fields[4]))
            looked, left = looked + reply[0], reply[1]
            if not reply[0]:
                break
        return Kinds(list(found.values()), looked, left)

    def find_groups(self, way: str, start: str, behind: str, most: int) -> Steps[dict[str, int]]:
        """List groups and how many of their tasks wait; see lua/find_groups.lua."""
        args: list[str | bytes | int | float] = [way, start, behind, most]
        texts: list[str] = yield self._command("find_groups", args, read_texts)
        return {name: int(count) for name, count in zip(texts[::2], texts[1::2], strict=True)}

    def own_limits(self, cursor: str) -> Steps[tuple[str, list[str]]]:
        """List groups with a limit of their own, one page of the server's choice."""
        cursor, *names = yield self._command("scopes", ["limits", cursor], read_texts)
        groups = [name.removeprefix("group:") for name in names if name.startswith("group:")]
        return cursor, groups

    def states(self, groups: Sequence[str | None]) -> Steps[States]:
        """Read the states of up to 100 scopes."""
        running: Counter[str] = Counter()
        makers: list[CommandMaker] = [self, *self._kin()]
        counted = True
        for maker in makers:
            cursor = "0"
            while counted:
                cursor, *page = yield maker._command("in_flight", [cursor], read_texts)
                running.update(page)
                if cursor == "0":
                    break
                counted = sum(running.values()) < LEASES_COUNTED
        names = ["" if group is None else group for group in groups]
        texts = yield self._command("view", [self._now(), *names], read_texts)
        return States(read_limits(groups, running, texts), counted, int(texts[6]))


class Browser:
    """The read-only operations on a queue, which is a list of partitions."""

    def __init__(self, operations: QueueOperations[Any]) -> None:
        """Take the operations of a queue; the number of its partitions may be known later."""
        self._operations = operations
        self._made: list[PartitionBrowser] = []

    def _parts(self) -> list[PartitionBrowser]:
        count = len(self._operations.partitions)
        if len(self._made) != count:
            name = self._operations.description.name
            tags = tags_of(name, count) if count > 1 else (name,)
            self._made = [PartitionBrowser(self._operations, tag) for tag in tags]
        return self._made

    def family(self) -> Steps[list[str]]:
        """Name all queues that follow the same limits, the head of the family first; [] if none."""
        names = yield from self._operations.family()
        confs = "\n".join(key_of(name, "conf") for name in names)
        for part in self._parts():
            part.belong(confs)
        return names

    def search(
        self,
        chosen: Filter,
        positions: Sequence[Position] = (),
        most: int = 50,
        look: int = LOOK_A_PAGE,
    ) -> Steps[Found]:
        """Find tasks of all partitions, those that come first in the order of the state."""
        parts = self._parts()
        start = list(positions) if len(positions) == len(parts) else [None] * len(parts)
        share = max(1, look // len(parts))
        pages: list[_Page] = yield from all_of(
            [part.search(chosen, at, most, share) for part, at in zip(parts, start, strict=True)]
        )
        looked = sum(page.looked for page in pages)
        left = sum(page.left for page in pages)
        rows = sorted(
            ((row, i) for i, page in enumerate(pages) for row in page.rows),
            key=lambda pair: pair[0].sort,
        )
        shown = rows[:most]
        ends = [page.last for page in pages]
        for i, page in enumerate(pages):
            taken = [row for row, part in shown if part == i]
            if len(taken) < len(page.rows):
                ends[i] = taken[-1].position if taken else start[i]
                left += len(page.rows) - len(taken)
                looked -= len(page.rows) - len(taken)
        passed = sum(page.passed for page in pages)
        return Found([row.task for row, _ in shown], looked, left, ends, passed)

    def explained(self, id_: str) -> Steps[Explained]:
        """Say why a task is not running, and until when."""
        return self._operations.explained(id_)

    def kinds(self, look: int = LOOK_A_PAGE) -> Steps[Kinds]:
        """Count the oldest dead letters by reason and error, the most frequent kind first."""
        parts = self._parts()
        found: list[Kinds] = yield from all_of([part.kinds(look // len(parts)) for part in parts])
        joined: dict[tuple[str, str], Kind] = {}
        for kind in (kind for kinds in found for kind in kinds.kinds):
            before = joined.get((kind.reason, kind.fault))
            if before:
                newest = max(before, kind, key=lambda each: each.died_ms)
                kind = newest._replace(number=before.number + kind.number)
            joined[kind.reason, kind.fault] = kind
        ordered = sorted(joined.values(), key=lambda kind: (-kind.number, kind.reason, kind.fault))
        looked, left = (sum(getattr(kinds, name) for kinds in found) for name in ("looked", "left"))
        return Kinds(ordered, looked, left)

    def groups(
        self, way: str, start: str = "", behind: str = "", most: int = 50
    ) -> Steps[list[str]]:
        """List up to `most` groups: the largest, by name, or those that open first."""
        parts = self._parts()
        start = start or ("0" if way == "closed" else "")
        found: list[dict[str, int]] = yield from all_of(
            [part.find_groups(way, start, behind, most) for part in parts]
        )
        counts = {name: count for part in found for name, count in part.items()}
        if way == "largest":
            names = sorted(counts, key=lambda name: (-counts[name], name))
        else:
            names = sorted(counts, key=str.encode) if way == "name" else list(counts)
        return names[:most]

    def own_limits(self, cursor: str = "0") -> Steps[tuple[str, list[str]]]:
        """List groups with a limit of their own, page by page, partition after partition.

        The cursor is `partition.cursor`; "0" begins, and is returned at the end.
        """
        parts = self._parts()
        index, _, at = cursor.rpartition(".") if "." in cursor else ("0", ".", cursor)
        part = int(index) if index.isdecimal() and int(index) < len(parts) else 0
        at, names = yield from parts[part].own_limits(at if at.isdecimal() else "0")
        if at != "0":
            return f"{part}.{at}", names
        return (f"{part + 1}.0" if part + 1 < len(parts) else "0"), names

    def states(self, groups: Sequence[str]) -> Steps[States]:
        """Read the states of the queue, of the default of all groups, and of up to 98 groups.

        Returns:
            The states, those of the queue and of the default first.
        """
        if len(parts := self._parts()) == 1:
            yield from self.family()  # whose leases count, too
        homes: list[list[str]] = [[] for _ in parts]
        for name in groups:
            homes[self._operations.partitions.index(self._home(name))].append(name)
        found = yield from all_of(
            [
                part.states([None, EVERY_GROUP, *names])
                for part, names in zip(parts, homes, strict=True)
            ]
        )
        queue = one_queue([part.states[0] for part in found])
        by_name = {state.group: state for part in found for state in part.states[1:]}
        ordered = [by_name[name] for name in groups]
        counted = all(part.counted for part in found)
        return States([queue, by_name[EVERY_GROUP], *ordered], counted, found[0].now_ms)

    def granted(self) -> Steps[list[list[Granted]]]:
        """Read what limits had granted at each minute of the last hour, of each partition."""
        return granted(self._operations.partitions)

    def _home(self, group: str) -> Any:
        return self._operations._home(group, None)


def _row(codec: Codec[Any], state: TaskState, fields: Sequence[bytes]) -> _Row:
    id_, until, record, body, score, member = fields
    task = stored_task(codec, id_.decode("utf-8", "replace"), state, until, record, body)
    sort = member if state is TaskState.WAITING else (float(score), member)
    return _Row(sort, (score.decode(), member), task)
