"""The commands of a partitioned queue: the face of `Commands`, over one for each partition.

Each partition is a whole queue for the scripts. What is decided here is who is asked, and how the
answers make one. No I/O.
"""

from __future__ import annotations  # the import makes no model for each `Task[P]`

import itertools
import random
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Sequence
from datetime import timedelta
from typing import Any, Generic, TypeVar

from dpq.model.errors import (
    ConfigurationError,
    LeaseLostError,
    RateLimited,
    Scope,
    TaskNotFoundError,
)
from dpq.model.limits import EVERY_GROUP, Adaptive, LimitState, RateLimit, Reserve, limit_rules
from dpq.model.schedule import Later
from dpq.model.task import DeadTask, Problem, Push, QueueStats, Task, TaskState, WorkerInfo
from dpq.model.validation import label, whole_number
from dpq.operations.partition import PAGE, PUSH_BATCH, Checked, Commands, spacing_of
from dpq.operations.pop import PartitionPop
from dpq.protocol.command import (
    Command,
    Steps,
    all_of,
    leased,
    once,
    steps_of,
    task_id,
    task_name,
    together,
)
from dpq.protocol.placement import home_of, place_of

P = TypeVar("P")
T = TypeVar("T")

PUSHED_AT_ONCE = 16 * PUSH_BATCH
"""Tasks in one round trip of push_many over all partitions: what the client holds meanwhile."""

SHARED_SETTINGS = (
    *("order", "aging", "aging_since", "fairness"),
    *("dead_max_tasks", "dead_max_age", "partitions"),
)
"""What every partition has in its own settings, as the first one has it."""


class PartitionedCommands(Generic[P]):
    """Builds the commands of one queue of so many partitions; a pop compares `ask` of them."""

    def __init__(self, whole: Commands[P], count: int, ask: int) -> None:
        self.parts = [whole.partition(place, count, self._make) for place in range(count)]
        self._whole = self.parts[0]  # has the queue's own keys, and what is told once
        self._turns = itertools.count(random.randrange(count))  # noqa: S311 - spreads load
        self.pop = PartitionPop(self.parts, min(ask, count)).pop

    def __getattr__(self, name: str) -> Any:
        """The settings and arguments of the queue."""
        return getattr(self.__dict__["_whole"], name)

    @property
    def markers(self) -> list[str]:
        """The keys that waiting consumers block on."""
        return [marker for part in self.parts for marker in part.markers]

    @property
    def ticks(self) -> list[str]:
        """The keys that daemons block on."""
        return [tick for part in self.parts for tick in part.ticks]

    def settled(self, _: dict[str, str]) -> PartitionedCommands[P]:
        """What the shell uses from now on."""
        return self

    def _of(self, id_: str) -> Commands[P]:
        return self.parts[place_of(id_, len(self.parts))]

    def _home(self, group: str | None, key: str | None) -> int:
        group = None if group is None else label("group", group)
        key = None if key is None else label("key", key)
        home = home_of(group, key, len(self.parts))
        return next(self._turns) % len(self.parts) if home is None else home

    def _group(self, name: str) -> Commands[P]:
        return self.parts[self._home(label("group", name), None)]

    # Settings of the queue

    def open(self, *, create: bool = False) -> Steps[dict[str, str]]:
        """As `Commands.open`; the first partition's word holds for all."""
        settings: dict[str, str] = yield self._whole.configure(create=create)
        if "format" in settings:
            if create or self._whole.named:
                shared = {name: settings[name] for name in SHARED_SETTINGS if name in settings}
                yield from all_of(
                    [part.configure(create=True, named=shared) for part in self.parts[1:]]
                )
            yield from self._whole.entered()
        return settings

    def _make(self) -> Steps[dict[str, str]]:
        return self.open(create=True)

    def _noted(self, part: Commands[P], operation: Command[Any] | Steps[Any]) -> Steps[Any]:
        """Do what writes settings of a partition: in the first one after the number of them."""
        if part is self._whole:  # a queue that has settings and no number is one of one partition
            yield from part.open(create=True)
        return (yield from steps_of(operation))

    def drop(self) -> Steps[None]:
        """As `Commands.drop`."""
        return self._whole.drop()

    # Adding

    def push(
        self,
        payload: P,
        priority: float,
        delay: float,
        group: str | None,
        key: str | None,
        *arguments: Any,
    ) -> Steps[str]:
        """Add one task: to the partition of its group, of its key, or to the next."""
        part = self.parts[self._home(group, key)]
        return part.push(payload, priority, delay, group, key, *arguments)

    def push_many(self, pushes: Iterable[Push[P]]) -> Steps[list[str]]:
        """Add any number of tasks, many partitions in each round trip."""
        ids: list[str] = []
        coming = iter(pushes)
        most = min(PUSHED_AT_ONCE, PUSH_BATCH * len(self.parts))
        while window := list(itertools.islice(coming, most)):
            batches: dict[int, dict[int, Checked]] = defaultdict(dict)
            for index, push in enumerate(window):
                checked = self._whole.checked(push)
                batches[self._home(push.group, push.key)][index] = checked
            found = yield from all_of(
                [self.parts[place].push_checked(batch.values()) for place, batch in batches.items()]
            )
            ids += _in_order(len(window), zip(batches.values(), found, strict=True))
        return ids

    # Ending or going on with a delivery

    def ack(self, task: Task[P], later: Later | None = None) -> Command[bool | Later]:
        """As `Commands.ack`."""
        return self._of(leased(task).id).ack(task, later)

    def acked(self, task: Task[P], later: Later | None = None) -> Steps[bool]:
        """As `Commands.acked`."""
        return self._of(leased(task).id).acked(task, later)

    def ack_many(self, tasks: Iterable[Task[P]]) -> Steps[list[bool]]:
        """Finish tasks."""
        given = list(tasks)
        batches = self._by_place([leased(task).id for task in given], given)
        results = yield from together(
            [self.parts[place].ack_many(batch.values()) for place, batch in batches.items()]
        )
        lost = [
            id_ for error in results if isinstance(error, LeaseLostError) for id_ in error.task_ids
        ]
        for result in results:
            if isinstance(result, Exception) and not isinstance(result, LeaseLostError):
                raise result
        if lost:
            raise LeaseLostError("ack", lost)
        return _in_order(len(given), zip(batches.values(), results, strict=True))

    def extend(self, task: Task[P], seconds: float) -> Command[int]:
        """As `Commands.extend`."""
        return self._of(leased(task).id).extend(task, seconds)

    def extend_many(self, leases: Sequence[tuple[Task[Any], float]]) -> Steps[list[bool]]:
        """As `Commands.extend_many`."""
        batches = self._by_place([task.id for task, _ in leases], leases)
        kept = yield from all_of(
            [
                self.parts[place].extend_many(list(batch.values()))
                for place, batch in batches.items()
            ]
        )
        return _in_order(len(leases), zip(batches.values(), kept, strict=True))

    def set_visibility(self, task: Task[P], seconds: float) -> Command[int]:
        """As `Commands.set_visibility`."""
        return self._of(leased(task).id).set_visibility(task, seconds)

    def release(self, task: Task[P], delay: float, priority: float | None) -> Command[int]:
        """As `Commands.release`."""
        return self._of(leased(task).id).release(task, delay, priority)

    def fail(self, task: Task[P], error: object, delay: float | None) -> Steps[int]:
        """As `Commands.fail`."""
        return self._of(leased(task).id).fail(task, error, delay)

    def bury(self, task: Task[P], reason: object) -> Command[int]:
        """As `Commands.bury`."""
        return self._of(leased(task).id).bury(task, reason)

    def settle(self, task: Task[P], error: BaseException | None) -> Steps[Any]:
        """As `Commands.settle`."""
        if isinstance(error, RateLimited):
            return steps_of(self.rate_limited(task, error.retry_after, error.scope))
        return self._of(leased(task).id).settle(task, error)

    # Looking and changing

    def get(self, id_: str | None, key: str | None) -> Command[Task[P]] | Steps[Task[P]]:
        """Look at the task of an id, or one of a key."""
        name = task_name(id_, key)
        if not name.key:
            return self._of(name.id).get(id_, key)
        return self._first_of_key([part.get(id_, key) for part in self.parts])

    def _first_of_key(self, commands: list[Command[Task[P]]]) -> Steps[Task[P]]:
        results = yield from together([once(command) for command in commands])
        missing = [error for error in results if isinstance(error, TaskNotFoundError)]
        for result in results:
            if result not in missing and isinstance(result, Exception):
                raise result
        if len(missing) == len(results):
            raise missing[0]
        return next(result for result in results if result not in missing)

    def peek(self, count: int, state: TaskState, after: str | None = None) -> Steps[list[Task[P]]]:
        """The first tasks of one state in all partitions, or those behind one, in their order."""
        count = whole_number("n", count, 0, 10**9)
        return self._first(count, state, lambda _: True, after)

    def _first(
        self,
        count: int,
        state: TaskState,
        chosen: Callable[[Any], bool],
        after: str | None = None,
    ) -> Steps[list[Any]]:
        passed = after is None or not task_id(after)
        page = min(PAGE, count // len(self.parts) + 10)
        read, ended = [0] * len(self.parts), [False] * len(self.parts)
        seen: list[deque[tuple[Any, Any]]] = [deque() for _ in self.parts]
        found: list[Any] = []
        while len(found) < count:
            short = [p for p, tasks in enumerate(seen) if not tasks and not ended[p]]
            if short:
                pages = yield from all_of(
                    [self.parts[p].ranked(state, read[p], page) for p in short]
                )
                for p, tasks in zip(short, pages, strict=True):
                    read[p] += len(tasks)
                    ended[p] = not tasks
                    seen[p].extend(pair for pair in tasks if chosen(pair[1]))
                continue
            best = min(((tasks[0][0], p) for p, tasks in enumerate(seen) if tasks), default=None)
            if best is None:
                break
            task = seen[best[1]].popleft()[1]
            if passed:
                found.append(task)
            passed = passed or task.id == after
        if not passed and count:
            name = self._whole.queue_name
            raise TaskNotFoundError(str(after), name, "peek after", state=state)
        return found

    def stats(self) -> Steps[QueueStats]:
        """Count, in all partitions."""
        found = yield from all_of([part.stats() for part in self.parts])
        names = QueueStats.model_fields.keys() - {"oldest_ready_seconds"}
        ages = [s.oldest_ready_seconds for s in found if s.oldest_ready_seconds is not None]
        sums = {name: sum(getattr(stats, name) for stats in found) for name in names}
        return QueueStats(**sums, oldest_ready_seconds=max(ages, default=None))

    def update(
        self,
        id_: str | None,
        key: str | None,
        priority: float | None,
        delay: float | timedelta | None,
        cost: int | None,
    ) -> Command[None] | Steps[None]:
        """Change the live task of an id, or all of a key."""
        name = task_name(id_, key)
        if not name.key:
            return self._of(name.id).update(id_, key, priority, delay, cost)
        return self._each_of_key(
            [part.update(id_, key, priority, delay, cost) for part in self.parts]
        )

    def cancel(self, id_: str | None, key: str | None) -> Command[None] | Steps[None]:
        """Remove the live task of an id, or all of a key."""
        name = task_name(id_, key)
        if not name.key:
            return self._of(name.id).cancel(id_, key)
        return self._each_of_key([part.cancel(id_, key) for part in self.parts])

    def _each_of_key(self, commands: list[Command[None]]) -> Steps[None]:
        results = yield from together([once(command) for command in commands])
        missing = [error for error in results if isinstance(error, TaskNotFoundError)]
        refused = [error for error in results if isinstance(error, ConfigurationError)]
        for result in results:
            if isinstance(result, Exception) and result not in (*missing, *refused):
                raise result
        done = len(results) - len(missing) - len(refused)
        if refused and done:
            raise ConfigurationError(f"{refused[0]}; {done} others of this key were changed")
        if refused or not done:
            raise (refused or missing)[0]

    # The whole queue

    def pause(self, seconds: float | None) -> Steps[None]:
        """As `Commands.pause`."""
        return _done([self._noted(part, part.pause(seconds)) for part in self.parts])

    def resume(self) -> Steps[None]:
        """As `Commands.resume`."""
        return _done([part.resume() for part in self.parts])

    def promote(self) -> Steps[tuple[int, int | None]]:
        """One bounded step of upkeep in each partition."""
        found = yield from all_of([part.promote() for part in self.parts])
        return sum(moved for moved, _ in found), _soonest([wait for _, wait in found])

    def next_event(self) -> Steps[int | None]:
        """The ms until the next event."""
        return _soonest((yield from all_of([part.next_event() for part in self.parts])))

    def purge(self, state: TaskState | None) -> Steps[int]:
        """As `Commands.purge`."""
        return _total([part.purge(state) for part in self.parts])

    def check(self) -> Steps[list[Problem]]:
        """Look at everything that is stored."""
        return _joined([part.check() for part in self.parts])

    def repair(self) -> Steps[list[Problem]]:
        """Mend everything that is stored."""
        return _joined([part.repair() for part in self.parts])

    # Dead letters

    def dead_list(
        self, count: int, chosen: Callable[[DeadTask[P]], bool]
    ) -> Steps[list[DeadTask[P]]]:
        """The longest dead first."""
        count = whole_number("n", count, 0, 10**9)
        return self._first(count, TaskState.DEAD, chosen)

    def dead_replay(
        self, ids: Sequence[str] | None, chosen: Callable[[DeadTask[P]], bool], rate: float | None
    ) -> Steps[int]:
        """Make dead tasks live, at most `rate` per second in all: one partition after the other."""
        spacing = spacing_of(rate)
        if not spacing:
            return _total([part.dead_replay(few, chosen, None) for part, few in self._named(ids)])
        return self._replay_spaced(self._named(ids), chosen, spacing)

    def _replay_spaced(
        self,
        named: list[tuple[Commands[P], list[str] | None]],
        chosen: Callable[[DeadTask[P]], bool],
        spacing: float,
    ) -> Steps[int]:
        done = 0
        for part, few in named:
            done += yield from part.dead_replay_spaced(few, chosen, spacing, done * spacing)
        return done

    def dead_purge(
        self, ids: Sequence[str] | None, chosen: Callable[[DeadTask[P]], bool]
    ) -> Steps[int]:
        """Remove dead tasks."""
        return _total([part.dead_purge(few, chosen) for part, few in self._named(ids)])

    def _named(self, ids: Sequence[str] | None) -> list[tuple[Commands[P], list[str] | None]]:
        """Who is asked for which ids: everybody for all."""
        if not ids:
            return [(part, None if ids is None else []) for part in self.parts]
        batches = self._by_place([task_id(id_) for id_ in ids], ids)
        return [(self.parts[place], list(batch.values())) for place, batch in batches.items()]

    # Limits and groups

    def set_limit(
        self,
        rate: float | str | Sequence[RateLimit] | None,
        per: float | None,
        burst: int,
        group: str | None,
        concurrency: int | None,
        adaptive: Adaptive | None,
        reserve: Reserve | None,
        slack: float | None = None,
    ) -> Steps[None]:
        """Limit a group, or every group without a limit of its own."""
        limit_rules(rate, per, burst, concurrency, adaptive, reserve, slack)
        if group is None:
            count = len(self.parts)
            raise ConfigurationError(
                f"queue {self._whole.queue_name!r} has {count} partitions, and no limit of the "
                "whole queue could be kept by all of them: limit a group and push into it "
                "(group='all'), or '*' for every group; or use a queue of one partition"
            )
        parts = self.parts if group == EVERY_GROUP else [self._group(group)]
        rules = (rate, per, burst, group, concurrency, adaptive, reserve, slack)
        return _done([self._noted(part, part.set_limit(*rules)) for part in parts])

    def clear_limit(self, group: str | None) -> Steps[None]:
        """As `Commands.clear_limit`."""
        every = group is None or group == EVERY_GROUP
        parts = self.parts if every else [self._group(str(group))]
        return _done([self._noted(part, part.clear_limit(group)) for part in parts])

    def delay_group(self, group: str, seconds: float) -> Steps[Any]:
        """As `Commands.delay_group`."""
        part = self._group(group)
        return self._noted(part, part.delay_group(group, seconds))

    def rate_limited(self, task: Task[Any], retry_after: float, scope: Scope) -> Steps[int]:
        """Give a task back at a limit, and close its group or all partitions."""
        own = self._of(leased(task).id)
        others = [part for part in self.parts if part is not own]
        whole = scope == "queue" or (scope == "group" and task.group is None)
        first = own.rate_limited(task, retry_after, scope)

        def steps() -> Steps[int]:
            given_back: int = yield first
            if whole:
                yield from all_of([self._noted(part, part.close(retry_after)) for part in others])
            return given_back

        return steps()

    def limits(self) -> Steps[list[LimitState]]:
        """As `Commands.limits`; the queue is open where one partition is."""
        found = yield from all_of([part.limits() for part in self.parts])
        queue = _one_queue([states[0] for states in found])
        default = [state for state in found[0] if state.group == EVERY_GROUP]
        groups = (s for states in found for s in states if s.group not in (None, EVERY_GROUP))
        return [queue, *default, *sorted(groups, key=lambda state: str(state.group))]

    def groups(self) -> Steps[list[LimitState]]:
        """As `Commands.groups`."""
        found = yield from _joined([part.groups() for part in self.parts])
        return sorted(found, key=lambda state: str(state.group))

    def group(self, name: str) -> Steps[LimitState]:
        """As `Commands.group`."""
        return self._group(name).group(name)

    def why(self, id_: str) -> Steps[str]:
        """As `Commands.why`, of its partition."""
        part = self._of(task_id(id_))
        told = yield from part.why(id_)
        return f"{told} (in partition {self.parts.index(part) + 1} of {len(self.parts)})"

    # Who works: told once, to the first partition

    def beat(self, *told: Any) -> Command[int]:
        """As `Commands.beat`."""
        return self._whole.beat(*told)

    def leave(self, worker: str) -> Command[int]:
        """As `Commands.leave`."""
        return self._whole.leave(worker)

    def workers(self) -> Steps[list[WorkerInfo]]:
        """As `Commands.workers`."""
        return self._whole.workers()

    def _by_place(self, ids: Sequence[str], items: Sequence[T]) -> dict[int, dict[int, T]]:
        """The items of each partition, by their index."""
        batches: dict[int, dict[int, T]] = defaultdict(dict)
        for index, (id_, item) in enumerate(zip(ids, items, strict=True)):
            batches[place_of(id_, len(self.parts))][index] = item
        return batches


def _in_order(count: int, answers: Iterable[tuple[dict[int, Any], Sequence[T]]]) -> list[T]:
    """The answers of several partitions in the order of the questions."""
    by_index = {i: each for batch, found in answers for i, each in zip(batch, found, strict=True)}
    return [by_index[index] for index in range(count)]


def _done(operations: Iterable[Any]) -> Steps[None]:
    yield from all_of(operations)


def _total(operations: Iterable[Steps[int]]) -> Steps[int]:
    return sum((yield from all_of(operations)))


def _joined(operations: Iterable[Steps[list[T]]]) -> Steps[list[T]]:
    return list(itertools.chain.from_iterable((yield from all_of(operations))))


def _soonest(waits: Iterable[int | None]) -> int | None:
    return min((wait for wait in waits if wait is not None), default=None)


def _one_queue(states: Sequence[LimitState]) -> LimitState:
    """What all partitions say of the queue."""
    shut = [state for state in states if not state.open]
    said = shut[0] if len(shut) == len(states) else next(state for state in states if state.open)
    moments = [state.opens_at for state in shut if state.opens_at]
    return said.model_copy(
        update={
            "in_flight": sum(state.in_flight for state in states),
            "waiting": sum(state.waiting for state in states),
            "opens_at": min(moments, default=None) if not said.open else None,
        }
    )
