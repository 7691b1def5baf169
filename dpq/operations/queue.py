"""Every operation on a queue, which is a list of partitions: usually one.

This module decides which partitions an operation asks, and how it joins their answers. partition.py
says what to ask each of them. The queue objects know this class only. So an operation that is not
written here cannot be called, and none forgets the other partitions. No I/O.
"""

from __future__ import annotations  # the import makes no model for each `Task[P]`

import heapq
import itertools
import random
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any, Generic, TypeVar

from dpq.model.batch_state import BatchState
from dpq.model.budget import Budget
from dpq.model.drain import Drain, DrainLook, Paper
from dpq.model.errors import ConfigurationError, LeaseLostError, QueueFullError, TaskNotFoundError
from dpq.model.forecast import Forecast
from dpq.model.history import Event, Slot, joined
from dpq.model.limit_rules import LimitRules
from dpq.model.limit_states import LimitState
from dpq.model.limits import EVERY_GROUP
from dpq.model.pace import Point, pace_of
from dpq.model.permit import Caller, HeldPermit, PermitAnswer
from dpq.model.producer import Producer
from dpq.model.queue_settings import Bounds, WhenFull
from dpq.model.reports import LeaseInfo, Problem, QueueStats, WorkerInfo
from dpq.model.result_data import Result
from dpq.model.signals import RateLimited, Reject, Release, Retry, Scope
from dpq.model.survey import Overview, Survey
from dpq.model.task import Cost, DeadTask, P, Push, Task, TaskState
from dpq.model.validation import MAX_SECONDS, error_line, label, number, whole_number
from dpq.model.verdict import Verdict, VerdictState, verdict_of
from dpq.model.verdict_facts import UNATTENDED
from dpq.operations import foresight, history
from dpq.operations.base import PAGE
from dpq.operations.description import Description
from dpq.operations.limit_replies import changes_at, explain
from dpq.operations.partition import PUSH_BATCH, Partition
from dpq.operations.pop import PartitionPop
from dpq.operations.pushing import Checked, PushChecker
from dpq.operations.results import Outcome, joined_results
from dpq.operations.room import bounds_of, named_bounds
from dpq.operations.settings import partition_count
from dpq.operations.stored import spacing_of
from dpq.operations.survey import Explained, read_survey
from dpq.operations.survey import joined as joined_surveys
from dpq.operations.workers import NOTHING, Doing, Heard, lease_info
from dpq.protocol.command import Steps, all_of, leased, task_id, task_name, together
from dpq.protocol.kept_errors import source_of
from dpq.protocol.placement import MAX_PARTITIONS, home_of, partition_of
from dpq.protocol.replies import Batch, Kept, Promoted

T = TypeVar("T")

PUSHED_AT_ONCE = 25 * PUSH_BATCH
"""Tasks in one round trip of push_many over all partitions: the client holds them in memory."""

SHARED_SETTINGS = (
    *("order", "aging", "aging_since", "fairness", "payloads"),
    *("dead_max_tasks", "dead_max_age", "partition_count", "trail_max_events"),
    "seen_max_keys",
    *("max_tasks", "max_waiting", "when_full"),
)
"""The settings of the queue that the first partition shares with all others."""


class QueueOperations(Generic[P]):
    """Every operation on a queue of one or more partitions.

    A client that does not name the number of partitions follows the queue. Until `agree` has set
    that number, operations go to the first partition.

    Attributes:
        partitions: The partitions that this client knows; replaced as a whole once their number is
            known.
        settings: The stored settings; None before they are read, and while the queue does not
        exist.
        client: The client of the queue object that owns these operations; None without an owner.
            Only its address is read, by `dpq.otel`.
    """

    partitions: tuple[Partition[P], ...]
    settings: dict[str, str] | None
    client: Any = None

    def __init__(self, description: Description[P], ask: int) -> None:
        """Build the operations of a queue; a pop compares `ask` of its partitions."""
        self.description = description
        self._pushes = PushChecker(description)
        self.ask = whole_number("ask", ask, 1, MAX_PARTITIONS)
        self.forget()

    def forget(self) -> None:
        """Forget the settings: the queue is gone, and a new queue of its name may have others."""
        self._divide(int(self.description.named.get("partition_count", 0)))
        self.settings = None

    def agree(self, settings: dict[str, str]) -> None:
        """Take over the stored settings; once the queue exists, its number of partitions stays.

        Raises:
            ConfigurationError: The stored number of partitions cannot be read.
        """
        if self._count == 0 and "format" in settings:
            self._divide(partition_count(settings))
        self.settings = settings if "format" in settings else None
        self.partitions[0].belong(settings.get("family", ""))

    def _divide(self, count: int) -> None:
        parts = tuple(Partition(self.description, i, count, self._make) for i in range(count or 1))
        self._count = count  # 0 while the number is not known
        self._turns = itertools.count(random.randrange(len(parts)))  # noqa: S311 - spreads load
        self._several = PartitionPop(parts, min(self.ask, count)) if count > 1 else None
        self.partitions = parts  # set last: from here on other threads see the whole change

    @property
    def markers(self) -> list[str]:
        """The keys that waiting consumers block on."""
        return [part.marker for part in self.partitions]

    @property
    def ticks(self) -> list[str]:
        """The keys that daemons block on."""
        return [part.tick for part in self.partitions]

    @property
    def confs(self) -> list[str]:
        """The keys that daemons glance at."""
        return [part.conf for part in self.partitions]

    def _of(self, id_: str) -> Partition[P]:
        """Find the partition that holds the task of an id."""
        parts = self.partitions
        return parts[partition_of(id_, len(parts)) if len(parts) > 1 else 0]

    def in_first(self, id_: str) -> bool:
        """Return True if the first partition holds the task of an id."""
        return self._of(id_) is self.partitions[0]

    def _home(self, group: str | None, key: str | None) -> Partition[P]:
        """Find the partition of a group, or of a key without a group; else take the next one."""
        parts = self.partitions
        if len(parts) == 1:
            return parts[0]
        home = home_of(group, key, len(parts))
        return parts[next(self._turns) % len(parts) if home is None else home]

    def _group(self, name: str) -> Partition[P]:
        return self._home(label("group", name), None)

    def _scope(self, group: str | None) -> Partition[P]:
        """Find the partition of a group; the first one keeps the permits of the whole queue."""
        return self.partitions[0] if group is None else self._group(group)

    def _by_partition(
        self, ids: Iterable[str], items: Iterable[T]
    ) -> dict[Partition[P], dict[int, T]]:
        """Sort items by the partition of their ids; within each, by their index."""
        batches: dict[Partition[P], dict[int, T]] = defaultdict(dict)
        for index, (id_, item) in enumerate(zip(ids, items, strict=True)):
            batches[self._of(id_)][index] = item
        return batches

    # Settings of the queue

    def open(self, *, create: bool = False) -> Steps[dict[str, str]]:
        """Read the settings of the queue, write the named ones, and register a queue that exists.

        The settings of the first partition hold for all partitions.
        """
        first, *others = self.partitions
        settings = yield from first.configure(create=create)
        if "format" in settings:
            if others and (create or first.named):
                shared = {name: settings[name] for name in SHARED_SETTINGS if name in settings}
                yield from all_of([part.configure(create=True, named=shared) for part in others])
            yield from first.enter()
        return settings

    def set_bounds(
        self, max_tasks: int | None, max_waiting: int | None, when_full: WhenFull | None
    ) -> Steps[None]:
        """Replace the named bounds; then call the producers that wait for room in the queue."""
        named = named_bounds(max_tasks, max_waiting, when_full)
        yield from self.open(create=True)
        yield from all_of(
            [part.configure(create=True, named=named, replace=True) for part in self.partitions]
        )
        caller = Producer(0, 0)
        yield from all_of([part.await_room(caller, leave=True) for part in self.partitions])

    def bounds(self) -> Steps[Bounds]:
        """Read the bounds."""
        return bounds_of((yield from self.partitions[0].stored_settings()))

    def family(self) -> Steps[list[str]]:
        """Name all queues that follow the same limits, the head of the family first; [] if none."""
        yield from self.partitions[0].learn_kin()
        return self.partitions[0].family()

    def _make(self) -> Steps[dict[str, str]]:
        """Create the queue, with the number of partitions that this client knows."""
        return self.open(create=True)

    def register(self) -> Steps[Any]:
        """Add the queue to the registry that daemons and the CLI read."""
        return self.partitions[0].register()

    def drop(self) -> Steps[None]:
        """Remove the whole queue, the first partition last, and its name in the registry."""
        first, known = self.partitions[0], self._count
        stored = yield from first.stored_settings()
        counts = {known}
        try:
            counts.add(partition_count(stored))
        except ConfigurationError:
            if not known:
                raise
        for count in counts:  # two numbers, if settings are lost, or a new queue has another one
            parts = (Partition(self.description, i, count, self._make) for i in range(1, count))
            yield from all_of([part.drop() for part in parts])
        yield from first.drop()
        yield from first.unregister()
        if "format" in (yield from first.stored_settings()):  # another client has created it again
            yield from first.enter()

    def _noted(self, part: Partition[P], operation: Steps[Any]) -> Steps[Any]:
        """Run an operation that writes settings; in partition 1 store the partition count first."""
        if part is self.partitions[0] and len(self.partitions) > 1:
            # settings without that count would describe a queue of one partition
            yield from part.configure(create=True)
            yield from part.enter()
        return (yield from operation)

    # Adding

    def push(self, push: Push[P], trace: str = "", home: int | None = None) -> Steps[str]:
        """Add one task to the partition of its group, of its key, or to the next in turn.

        `home` is the partition in which its producer has waited for room.
        """
        checked = self._pushes.check(push, trace)
        self._require_one_place(push)
        if home is not None and home < len(self.partitions):
            return self.partitions[home].push_one(checked)
        return self._home(push.group, push.key).push_one(checked)

    def push_many(self, pushes: Iterable[Push[P]], trace: str = "") -> Steps[list[str]]:
        """Add any number of tasks, to many partitions in each round trip.

        `trace` is the traceparent that they carry, or "".
        """
        parts = self.partitions
        if len(parts) == 1:
            return parts[0].push_all(map(self._pushes.check, pushes, itertools.repeat(trace)))
        return self._push_spread(parts, pushes, trace)

    def _push_spread(
        self, parts: Sequence[Partition[P]], pushes: Iterable[Push[P]], trace: str
    ) -> Steps[list[str]]:
        ids: list[str] = []
        coming = iter(pushes)
        most = min(PUSHED_AT_ONCE, PUSH_BATCH * len(parts))
        while window := list(itertools.islice(coming, most)):
            batches: dict[Partition[P], dict[int, Checked]] = defaultdict(dict)
            for index, push in enumerate(window):
                checked = self._pushes.check(push, trace)
                self._require_one_place(push)
                batches[self._home(push.group, push.key)][index] = checked
            found = yield from together(
                [part.push_all(few.values()) for part, few in batches.items()]
            )
            failed = next((each for each in found if isinstance(each, Exception)), None)
            if isinstance(failed, QueueFullError):
                failed.stored = dict(enumerate(ids)) | _stored(len(ids), batches.values(), found)
            if failed:
                raise failed
            ids += _in_order(len(window), zip(batches.values(), found, strict=True))
        return ids

    def await_room(self, producer: Producer) -> Steps[bool]:
        """Let a producer whose push was refused stand in the line; True if it is to wait."""
        return self.partitions[producer.partition or 0].await_room(producer)

    def leave_line(self, producer: Producer) -> Steps[bool]:
        """Let a producer wait no more; the next one is called."""
        return self.partitions[producer.partition or 0].await_room(producer, leave=True)

    # Batches

    def _require_one_partition(self, option: str, value: object) -> None:
        if len(self.partitions) > 1:
            raise ConfigurationError(
                f"{option} is {value!r}, but queue {self.description.name!r} has "
                f"{len(self.partitions)} partitions: the end of tasks is known at once only in one "
                "of them. Use a queue of one partition for it"
            )

    def _require_one_place(self, push: Push[P]) -> None:
        """Refuse what only a queue of one partition can do."""
        for option in ("batch", "after"):
            if getattr(push, option):
                self._require_one_partition(option, getattr(push, option))

    def batch(self, name: str) -> Steps[BatchState]:
        """Read one batch."""
        return self.partitions[0].batch(name)

    def batches(self, count: int) -> Steps[list[BatchState]]:
        """List batches, the one that changed last first."""
        return self.partitions[0].batches(count)

    def seal_batch(
        self, name: str, on_finish: Push[P] | None, trace: str = ""
    ) -> Steps[BatchState]:
        """Seal a batch; `on_finish` is the push of the task that waits for its end."""
        self._require_one_partition("batch", name)
        first = self.partitions[0]
        if on_finish is None:
            return (yield from first.seal(name))
        yield from first.push_one(self._pushes.check_callback(name, on_finish, trace))
        return (yield from first.batch(name))

    # Taking

    def pop(self, most: int, visibility: float | None, waiter: str = "") -> Steps[Batch[P]]:
        """Lease the best tasks, by `Partition.pop` or `PartitionPop.pop`."""
        if len(self.partitions) > 1 and self._several:
            return self._several.pop(most, visibility, waiter)
        return self.partitions[0].pop(most, visibility, waiter)

    def pop_task(self, id_: str, visibility: float | None, *, force: bool) -> Steps[Batch[P]]:
        """Lease the task of an id, whatever stands before it; `force` takes a delayed one, too."""
        wanted = (task_id(id_), "1" if force else "")
        return self._of(id_).pop(1, visibility, wanted=wanted)

    # Ending or going on with a delivery

    def ack(self, task: Task[P], cost: Cost | None = None, result: str = "") -> Steps[bool]:
        """Finish a task; `cost` is what it has spent, `result` the line of its result, or ""."""
        return self._of(leased(task).id).ack(task, cost, result)

    def ack_many(
        self,
        tasks: Iterable[Task[P]],
        costs: Iterable[Cost | None] | None = None,
        results: Iterable[str] | None = None,
    ) -> Steps[list[bool]]:
        """Finish tasks; `costs` are the units that they have spent, `results` their lines."""
        parts, given = self.partitions, list(tasks)
        told = None if costs is None else list(costs)
        lines = None if results is None else list(results)
        for name, entries in (("costs", told), ("results", lines)):
            if entries is not None and len(entries) != len(given):
                raise ConfigurationError(
                    f"{name} has {len(entries)} entries for {len(given)} tasks: give one for each, "
                    "or None"
                )
        if len(parts) == 1:
            return parts[0].ack_many(given, told, lines)
        return self._ack_spread(given, told, lines)

    def _ack_spread(
        self,
        given: Sequence[Task[P]],
        costs: Sequence[Cost | None] | None,
        lines: Sequence[str] | None,
    ) -> Steps[list[bool]]:
        batches = self._by_partition([leased(task).id for task in given], given)
        answers = yield from together(
            [
                part.ack_many(
                    batch.values(),
                    costs and [costs[index] for index in batch],
                    lines and [lines[index] for index in batch],
                )
                for part, batch in batches.items()
            ]
        )
        lost = [
            id_ for error in answers if isinstance(error, LeaseLostError) for id_ in error.task_ids
        ]
        for answer in answers:
            if isinstance(answer, Exception) and not isinstance(answer, LeaseLostError):
                raise answer
        if lost:
            raise LeaseLostError("ack", lost)
        return _in_order(len(given), zip(batches.values(), answers, strict=True))

    def extend(self, task: Task[P], seconds: float) -> Steps[int]:
        """Keep a lease alive."""
        return self._of(leased(task).id).extend(task, seconds)

    def extend_many(self, leases: Sequence[tuple[Any, float]]) -> Steps[list[Kept]]:
        """Keep leases alive, each for its seconds from now."""
        if any(isinstance(task, HeldPermit) for task, _ in leases):
            return (yield from self._extend_permits(leases))
        batches = self._by_partition([task.id for task, _ in leases], leases)
        kept = yield from all_of(
            [part.extend_many(list(batch.values())) for part, batch in batches.items()]
        )
        return _in_order(len(leases), zip(batches.values(), kept, strict=True))

    def _extend_permits(
        self, leases: Sequence[tuple[Task[Any] | HeldPermit, float]]
    ) -> Steps[list[Kept]]:
        """Keep leases alive, also those of permits."""
        tasks = [(task, seconds) for task, seconds in leases if isinstance(task, Task)]
        permits = [(held, seconds) for held, seconds in leases if isinstance(held, HeldPermit)]
        kept = iter((yield from self.extend_many(tasks)) if tasks else [])
        extensions = [
            self._scope(held.group).extend_permit(held, seconds) for held, seconds in permits
        ]
        going = iter((yield from all_of(extensions)))
        return [next(kept if isinstance(task, Task) else going) for task, _ in leases]

    def set_visibility(self, task: Task[P], seconds: float) -> Steps[int]:
        """Hide a task; this counts as no attempt."""
        return self._of(leased(task).id).set_visibility(task, seconds)

    def spent(self, task: Task[P], cost: Cost | None, units: Mapping[str, int]) -> Steps[bool]:
        """Replace what a delivery was charged by what it has spent."""
        return self._of(leased(task).id).spent(task, cost, units)

    def release(
        self,
        task: Task[P],
        delay: float | timedelta,
        priority: float | None,
        cost: Cost | None = None,
    ) -> Steps[int]:
        """Give a task back; this counts as no attempt."""
        return self._of(leased(task).id).release(task, delay, priority, cost)

    def fail(
        self,
        task: Task[P],
        error: object,
        delay: float | timedelta | None,
        cost: Cost | None = None,
        priority: float | None = None,
        source: str = "",
    ) -> Steps[int]:
        """Count a failed attempt."""
        return self._of(leased(task).id).fail(task, error, delay, cost, priority, source)

    def bury(
        self,
        task: Task[P],
        reason: object,
        cost: Cost | None = None,
        priority: float | None = None,
        source: str = "",
    ) -> Steps[int]:
        """Give a task up."""
        return self._of(leased(task).id).bury(task, reason, cost, priority, source)

    def bury_silently(self, task: Task[P], reason: str) -> Steps[int]:
        """Give one task of many up, without an event."""
        return self._of(leased(task).id).bury_silently(task, reason)

    def tell_by_hand(self, detail: str, by: str) -> Steps[int]:
        """Add the one event of an action on many tasks."""
        return self.partitions[0].tell_by_hand(detail, by)

    def finish(
        self,
        task: Task[P],
        error: BaseException | None,
        cost: Cost | None = None,
        result: str = "",
        delay: float | timedelta | None = None,
        worker: str = "",
    ) -> Steps[Any]:
        """End a delivery by the error that its work raised; None for no error.

        `cost` is what the delivery has spent, `result` the line of its result, or "", `delay` the
        time that a failed task waits, unless a `Retry` says so, and `worker` the name of the
        worker, or "". A signal says how the task goes on. Other errors fail the task.
        KeyboardInterrupt, SystemExit and a cancelled asyncio task give the task back, uncounted.
        """
        if error is None:
            return self.ack(task, cost, result)
        if isinstance(error, RateLimited):
            wait, scope, status = error.retry_after, error.scope, error.status
            return self.rate_limited(task, wait, scope, cost, status, source_of(None, worker))
        if isinstance(error, Reject):
            return self.bury(task, error.reason, cost, None, source_of(error, worker))
        if isinstance(error, Release):
            return self.release(task, error.delay, None, cost)
        if isinstance(error, Retry):
            delay = delay if error.delay is None else error.delay
            return self.fail(task, error, delay, cost, None, source_of(error, worker))
        if isinstance(error, Exception):
            source = source_of(error, worker)
            return self.fail(task, error_line(error), delay, cost, None, source)
        return self.release(task, 0, None, cost)

    # Results and progress

    def outcome(self, id_: str) -> Steps[Outcome]:
        """Read what has become of a task."""
        return self._of(task_id(id_)).outcome(id_)

    def results(self, after: str, limit: int) -> Steps[list[Result]]:
        """Read the results behind a position, or from the oldest on."""
        return joined_results(self.partitions, after, limit)

    def tell_progress(self, told: Sequence[tuple[Task[Any], str]]) -> Steps[list[bool]]:
        """Store how far the work on tasks is; False if a delivery is not the live one."""
        batches = self._by_partition([leased(task).id for task, _ in told], told)
        kept = yield from all_of(
            [part.tell_progress(list(batch.values())) for part, batch in batches.items()]
        )
        return _in_order(len(told), zip(batches.values(), kept, strict=True))

    # Looking and changing

    def get(self, id_: str | None, key: str | None) -> Steps[Task[P]]:
        """Look at the task of an id, or at one task of a key."""
        name, parts = task_name(id_, key), self.partitions
        if len(parts) == 1 or not name.key:
            return self._of(name.id).get(id_, key)
        return self._first_of_key([part.get(id_, key) for part in parts])

    def examine(self, id_: str) -> Steps[tuple[Outcome, Task[P] | None]]:
        """Read what has become of a task, and the task if it has not ended."""
        return self._of(task_id(id_)).examine(id_)

    def _first_of_key(self, operations: list[Steps[Task[P]]]) -> Steps[Task[P]]:
        results = yield from together(operations)
        missing = [error for error in results if isinstance(error, TaskNotFoundError)]
        for result in results:
            if result not in missing and isinstance(result, Exception):
                raise result
        if len(missing) == len(results):
            raise missing[0]
        return next(result for result in results if result not in missing)

    def peek(self, count: int, state: TaskState, after: str | None = None) -> Steps[list[Task[P]]]:
        """Look at the first tasks of one state in all partitions, or at those behind `after`."""
        parts = self.partitions
        if len(parts) == 1:
            return parts[0].peek(count, state, after)
        count = whole_number("n", count, 0, 10**9)
        return self._first(parts, count, state, lambda _: True, after)

    def _first(
        self,
        parts: Sequence[Partition[P]],
        count: int,
        state: TaskState,
        chosen: Callable[[Any], bool],
        after: str | None = None,
    ) -> Steps[list[Any]]:
        passed = after is None or not task_id(after)
        page = min(PAGE, count // len(parts) + 10)
        read, ended = [0] * len(parts), [False] * len(parts)
        seen: list[deque[tuple[Any, Any]]] = [deque() for _ in parts]
        found: list[Any] = []
        while len(found) < count:
            short = [p for p, tasks in enumerate(seen) if not tasks and not ended[p]]
            if short:
                pages = yield from all_of([parts[p].ranked(state, read[p], page) for p in short])
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
            name = self.description.name
            raise TaskNotFoundError(str(after), name, "peek after", state=state)
        return found

    def stats(self) -> Steps[QueueStats]:
        """Count the tasks of all partitions."""
        parts = self.partitions
        return parts[0].stats() if len(parts) == 1 else self._summed(parts)

    def _summed(self, parts: Sequence[Partition[P]]) -> Steps[QueueStats]:
        found = yield from all_of([part.stats() for part in parts])
        names = QueueStats.model_fields.keys() - {"oldest_ready_seconds", "wait", "run"}
        ages = [s.oldest_ready_seconds for s in found if s.oldest_ready_seconds is not None]
        sums = {name: sum(getattr(stats, name) for stats in found) for name in names}
        wait, run = joined([s.wait for s in found]), joined([s.run for s in found])
        return QueueStats(**sums, oldest_ready_seconds=max(ages, default=None), wait=wait, run=run)

    def update(
        self,
        id_: str | None,
        key: str | None,
        priority: float | None,
        delay: float | timedelta | None,
        cost: Cost | None,
    ) -> Steps[None]:
        """Change the live task of an id, or all tasks of a key."""
        name, parts = task_name(id_, key), self.partitions
        if len(parts) == 1 or not name.key:
            return self._of(name.id).update(id_, key, priority, delay, cost)
        return self._each_of_key([part.update(id_, key, priority, delay, cost) for part in parts])

    def cancel(self, id_: str | None, key: str | None, *, running: bool = True) -> Steps[None]:
        """Remove the live task of an id, or all tasks of a key; running ones if `running`."""
        name, parts = task_name(id_, key), self.partitions
        if len(parts) == 1 or not name.key:
            return self._of(name.id).cancel(id_, key, running=running)
        return self._each_of_key([part.cancel(id_, key, running=running) for part in parts])

    def _each_of_key(self, operations: list[Steps[None]]) -> Steps[None]:
        results = yield from together(operations)
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

    def forget_key(self, key: str) -> Steps[bool]:
        """Free a seen key in all partitions; True if it was one."""
        name = label("key", key)
        return (yield from _total([part.forget_key(name) for part in self.partitions])) > 0

    # The whole queue

    def pause(self, seconds: float | None, by: str | None = None) -> Steps[None]:
        """Stop handing out tasks."""
        return _done([self._noted(part, part.pause(seconds, by)) for part in self.partitions])

    def resume(self, by: str | None = None) -> Steps[None]:
        """Hand out tasks again."""
        return _done([part.resume(by) for part in self.partitions])

    def promote(self) -> Steps[Promoted]:
        """Do one bounded step of upkeep in each partition."""
        found = yield from all_of([part.promote() for part in self.partitions])
        wait_ms = _soonest([each.wait_ms for each in found])
        gone = all(each.gone for each in found)
        pruned = sum(each.pruned for each in found)
        return Promoted(sum(each.moved for each in found), wait_ms, gone, pruned)

    def next_event(self) -> Steps[int | None]:
        """Return the ms until the next event."""
        return _soonest((yield from all_of([part.next_event() for part in self.partitions])))

    def purge(self, state: TaskState | None) -> Steps[int]:
        """Remove the tasks of one state, or of all."""
        return _total([part.purge(state) for part in self.partitions])

    def check(self) -> Steps[list[Problem]]:
        """Look at everything that is stored."""
        return _joined([part.check() for part in self.partitions])

    def repair(self) -> Steps[list[Problem]]:
        """Repair everything that is stored."""
        return _joined([part.repair() for part in self.partitions])

    # Dead letters

    def dead_list(
        self, count: int, chosen: Callable[[DeadTask[P]], bool]
    ) -> Steps[list[DeadTask[P]]]:
        """List dead letters, the longest dead first."""
        parts = self.partitions
        if len(parts) == 1:
            return parts[0].dead_list(count, chosen)
        count = whole_number("n", count, 0, 10**9)
        return self._first(parts, count, TaskState.DEAD, chosen)

    def dead_replay(
        self,
        ids: Sequence[str] | None,
        chosen: Callable[[DeadTask[P]], bool],
        rate: float | None,
        *,
        tells: bool = True,
    ) -> Steps[int]:
        """Make dead tasks live, at most `rate` per second in total, one partition after another."""
        spacing, named = spacing_of(rate), self._named(ids)
        if not spacing:
            return _total([part.dead_replay(few, chosen, None, tells=tells) for part, few in named])
        return self._replay_spaced(named, chosen, spacing)

    def _replay_spaced(
        self,
        named: list[tuple[Partition[P], list[str] | None]],
        chosen: Callable[[DeadTask[P]], bool],
        spacing: float,
    ) -> Steps[int]:
        done = 0
        for part, few in named:
            done += yield from part.dead_replay_spaced(few, chosen, spacing, done * spacing)
        return done

    def dead_purge(
        self,
        ids: Sequence[str] | None,
        chosen: Callable[[DeadTask[P]], bool],
        *,
        tells: bool = True,
    ) -> Steps[int]:
        """Remove dead tasks."""
        return _total([part.dead_purge(few, chosen, tells=tells) for part, few in self._named(ids)])

    def _named(self, ids: Sequence[str] | None) -> list[tuple[Partition[P], list[str] | None]]:
        """Pair each partition with its ids; for None, every partition with None."""
        if not ids:
            return [(part, None if ids is None else []) for part in self.partitions]
        batches = self._by_partition([task_id(id_) for id_ in ids], ids)
        return [(part, list(batch.values())) for part, batch in batches.items()]

    # Limits and groups

    def set_limit(
        self, rules: LimitRules, by: str = "", expected: str | None = None
    ) -> Steps[None]:
        """Limit a group, or every group without a limit of its own.

        Args:
            rules: The limit.
            by: The name of who sets it.
            expected: The rules that must stand, as `plain_rules` writes them; None: any.

        Raises:
            LimitChangedError: Other rules stand.
        """
        group, count = rules.group, len(self.partitions)
        if group is None and count > 1:
            raise ConfigurationError(
                f"queue {self.description.name!r} has {count} partitions, which cannot share a "
                "limit of the whole queue. Either limit one group and push into it (group='all'), "
                "limit every group ('*'), or use a queue of one partition"
            )
        if rules.weight is not None and rules.weight < 1 and count > 1:
            raise ConfigurationError(
                f"weight is {rules.weight!r}, and queue {self.description.name!r} has {count} "
                "partitions: there it must be 1 or more; multiply the weights of all groups"
            )
        return self._change_limit(
            group, lambda part, seen: part.set_limit(rules, by, seen), expected
        )

    def clear_limit(
        self, group: str | None, by: str = "", expected: str | None = None
    ) -> Steps[None]:
        """Remove a limit."""
        return self._change_limit(
            group, lambda part, seen: part.clear_limit(group, by, seen), expected
        )

    def _change_limit(
        self,
        group: str | None,
        change: Callable[[Partition[P], str | None], Steps[None]],
        expected: str | None,
    ) -> Steps[None]:
        """Change a limit in all partitions that store it; the first one compares what stands."""
        first, *others = self._limited_by(group)
        if expected is None:
            yield from all_of([self._noted(part, change(part, None)) for part in (first, *others)])
        else:
            yield from self._noted(first, change(first, expected))
            yield from all_of([self._noted(part, change(part, None)) for part in others])

    def _limited_by(self, group: str | None) -> Sequence[Partition[P]]:
        """Find the partitions that store the limit of a group, of every group, or of the queue."""
        return self.partitions if group in (None, EVERY_GROUP) else [self._group(group)]

    def delay_group(
        self, group: str, seconds: float | None, member: str | None = None
    ) -> Steps[Any]:
        """Close a group or a member of its pool, or open it."""
        part = self._group(group)
        return self._noted(part, part.delay_group(group, seconds, member))

    def observe(
        self, target: Task[Any] | Caller | str | None, budgets: Sequence[Budget]
    ) -> Steps[list[Budget]]:
        """Store the budgets that a host has named; those of the queue are shared by partitions."""
        whose, group = target, None
        if isinstance(target, Task):
            group, parts = target.group, [self._of(target.id)]
        else:
            group = target.request.group if isinstance(target, Caller) else target
            parts = [] if group is None else [self._group(group)]
        if group is None:
            parts = list(self.partitions)
        few = [_share(budget, len(parts)) for budget in budgets]

        def steps() -> Steps[list[Budget]]:
            if few:
                each = [self._noted(part, part.observe(whose, few)) for part in parts]
                yield from all_of(each)
            return list(budgets)

        return steps()

    def rate_limited(
        self,
        task: Task[Any],
        retry_after: float,
        scope: Scope,
        cost: Cost | None = None,
        status: int | None = None,
        source: str = "",
    ) -> Steps[int]:
        """Give a task back that met a limit, and close its member, its group or all partitions."""
        own = self._of(leased(task).id)
        others = [part for part in self.partitions if part is not own]
        whole = scope == "queue" or (scope != "task" and task.group is None)
        first = own.rate_limited(task, retry_after, scope, cost, status, source)

        def steps() -> Steps[int]:
            given_back = yield from first
            if whole:
                yield from all_of([self._noted(part, part.close(retry_after)) for part in others])
            return given_back

        return steps()

    def acquire(self, caller: Caller, now: float) -> Steps[PermitAnswer]:
        """Take units of a limit without a task."""
        return self._scope(caller.request.group).acquire(caller, now)

    def end_permit(self, caller: Caller, member: str, told: str) -> Steps[None]:
        """End the lease of a permit, and report what it has spent."""
        return self._scope(caller.request.group).end_permit(caller, member, told)

    def met_limit(
        self, caller: Caller, limited: RateLimited, member: str, told: str
    ) -> Steps[None]:
        """Close a member, a group, or all partitions, after a 429 that no task has met."""
        group = caller.request.group
        own = self._scope(group)
        whole = limited.scope == "queue" or group is None
        others = [part for part in self.partitions if part is not own] if whole else []
        yield from own.met_limit(caller, limited, member, told)
        yield from all_of([self._noted(part, part.close(limited.retry_after)) for part in others])

    def limits(self) -> Steps[list[LimitState]]:
        """Read the limits of the queue, of every group and of single groups.

        The queue is open if one of its partitions is.
        """
        found = yield from all_of([part.limits() for part in self.partitions])
        queue = one_queue([states[0] for states in found])
        default = [state for state in found[0] if state.group == EVERY_GROUP]
        groups = (s for states in found for s in states if s.group not in (None, EVERY_GROUP))
        return [queue, *default, *sorted(groups, key=lambda state: str(state.group))]

    def groups(self) -> Steps[list[LimitState]]:
        """Read the state of each group that is closed, or has a limit of its own."""
        found = yield from _joined([part.groups() for part in self.partitions])
        return sorted(found, key=lambda state: str(state.group))

    def group(self, name: str) -> Steps[LimitState]:
        """Read the limit and the state of one group."""
        return self._group(name).group(name)

    def explained(self, id_: str) -> Steps[Explained]:
        """Say why a task is not running, and until when."""
        parts, part = self.partitions, self._of(task_id(id_))
        found, limits, now_ms = yield from part.waiting(id_)
        unattended = ""
        if found.state in (TaskState.READY, TaskState.WAITING):
            verdict = yield from self.verdict()
            unattended = verdict.because * (verdict.state in UNATTENDED)
        sentence = explain(found, limits, now_ms, unattended)
        if len(parts) > 1:
            sentence += f" (in partition {parts.index(part) + 1} of {len(parts)})"
        until = changes_at(found, limits)
        return Explained(sentence, until, found.ahead, found.in_group, now_ms, limits)

    def why(self, id_: str | None) -> Steps[str | Verdict]:
        """Say why a task is not running; without an id, make the verdict on the queue."""
        if id_ is None:
            return (yield from self.verdict())
        return (yield from self.explained(id_)).sentence

    def survey(self) -> Steps[Survey]:
        """Read what keeps the tasks of all partitions from running."""
        looks = [part.report("survey", [], read_survey) for part in self.partitions]
        return joined_surveys((yield from all_of(looks)))

    def overview(self) -> Steps[Overview]:
        """Read all that pages show of a queue, in one round trip for each of its pages."""
        results = yield from together([self.stats(), self.survey(), self.workers()])
        for result in results:
            if isinstance(result, Exception):
                raise result
        return Overview(*results)

    def verdict(self) -> Steps[Verdict]:
        """Say why the queue does not move, who holds it, and what to do."""
        return (yield from self.judged())[1]

    def judged(self) -> Steps[tuple[Overview, Verdict]]:
        """Read what pages show of the queue, and make the verdict on it."""
        found, points = yield from together([self.overview(), self.recent()])
        for result in (found, points):
            if isinstance(result, Exception):
                raise result
        name, now = self.description.name, found.survey.now_ms / 1000
        pace = pace_of([*points, Point.of(now, found.stats)])
        verdict = verdict_of(name, found, pace)
        if verdict.state is VerdictState.UNKNOWN_QUEUE:
            names = yield from self.partitions[0].names()
            verdict = verdict_of(name, found, pace, names)
        return found, verdict

    # Looking ahead

    def forecast(self, n: int, run: float | None) -> Steps[list[Forecast]]:
        """Foresee the next starts of all partitions."""
        return foresight.forecast(self.description, self.partitions, n, run)

    def drain(self) -> Steps[Drain]:
        """Compute the drain time by the limits, and by the last minutes of the history."""
        from dpq.model.draining import drain_of, point_of

        read: list[Steps[Any]] = [self.drain_look(), self.recent()]
        looks, points = yield from all_of(read)
        return drain_of(looks, pace_of([*points, point_of(looks)]))

    def drain_look(self) -> Steps[list[DrainLook]]:
        """Read what the drain time of each partition depends on."""
        return foresight.drain_look(self.partitions)

    def limit_on_paper(self, group: str | None, rules: LimitRules | None) -> Steps[Paper]:
        """Read what stands of a limit; look at the drain with it and with other rules, or none."""
        return foresight.limit_on_paper(self._limited_by(group), group, rules)

    def remember(self) -> Steps[list[int]]:
        """Store a slot of the history, unless this minute has one."""
        return history.remember(self.partitions)

    def recent(self) -> Steps[list[Point]]:
        """Read the points of the last minutes that the history has; `at` is the server's time."""
        return history.recent(self.partitions)

    def history(self, seconds: float) -> Steps[list[Slot]]:
        """Read the slots of the last seconds."""
        return history.history(self.partitions, seconds)

    def events(self, after: str, limit: int) -> Steps[list[Event]]:
        """Read the events behind a position, or the newest ones."""
        return history.events(self.partitions, after, limit)

    def trail(self, after: str, limit: int) -> Steps[list[Event]]:
        """Read the trail behind a position, or its newest events."""
        return history.events(self.partitions, after, limit, "trail")

    # Workers: the first partition stores them

    def beat(
        self,
        worker: str,
        name: str,
        host: str,
        pid: int,
        running: int,
        concurrency: int,
        age: float,
        doing: Doing = NOTHING,
        quiet: bool = False,
    ) -> Steps[Heard]:
        """Report that a worker lives, and what it does; return what the queue says to it."""
        doing = doing._replace(partitions=len(self.partitions))
        return self.partitions[0].beat(
            worker, name, host, pid, running, concurrency, age, doing, quiet
        )

    def leave(self, worker: str) -> Steps[Heard]:
        """Report that a worker has ended."""
        return self.partitions[0].leave(worker)

    def workers(self) -> Steps[list[WorkerInfo]]:
        """List the workers of the queue, the longest running first."""
        return self.partitions[0].workers()

    def quiet(self, worker: str, by: str | None, quiet: bool = True) -> Steps[int]:
        """Tell a worker to take no new tasks, or to take tasks again."""
        return self.partitions[0].quiet(worker, by, quiet)

    def held(
        self, count: int, worker: str | None, older_than: float | None
    ) -> Steps[list[LeaseInfo]]:
        """List leases, the longest held first, with the workers that hold them."""
        count = whole_number("n", count, 0, 10**9)
        if older_than is not None:
            number("older_than", older_than, "seconds", 0, MAX_SECONDS)
        return self._held(count, worker, older_than or 0.0)

    def _held(self, count: int, worker: str | None, older_than: float) -> Steps[list[LeaseInfo]]:
        pages = yield from all_of([part.all_leases() for part in self.partitions])
        # Read after the leases: a heartbeat may have come meanwhile.
        told = yield from self.partitions[0].told()
        leases = (
            lease_info(self.description.name, task, now_ms, index, told)
            for index, page in enumerate(pages)
            for task, now_ms in page.values()
        )
        chosen = (
            lease
            for lease in leases
            if lease.held_seconds >= older_than
            and (worker is None or worker in (lease.worker, lease.worker_id))
        )
        return heapq.nsmallest(
            count, chosen, key=lambda lease: (lease.since, lease.token, lease.id)
        )

    def release_held(self, leases: Iterable[LeaseInfo]) -> Steps[int]:
        """Give leases back, uncounted; return their number."""
        given = list(leases)
        for lease in given:
            if not isinstance(lease, LeaseInfo):
                raise ConfigurationError(f"a lease is {lease!r}: it must be one that held returned")
        batches = self._by_partition([task_id(lease.id) for lease in given], given)
        return _total([part.release_held(list(batch.values())) for part, batch in batches.items()])


def _stored(
    first: int, batches: Iterable[Mapping[int, Any]], found: Sequence[Any]
) -> dict[int, str]:
    """List the tasks of one round trip that are stored, by their index, which counts from `first`.

    For each partition, `batches` has its tasks by their index in the round trip, and `found` its
    ids or its error.
    """
    stored: dict[int, str] = {}
    for batch, result in zip(batches, found, strict=True):
        indices = list(batch)
        if isinstance(result, QueueFullError):
            stored |= {first + indices[place]: id_ for place, id_ in result.stored.items()}
        elif not isinstance(result, Exception):
            stored |= {first + index: id_ for index, id_ in zip(indices, result, strict=True)}
    return stored


def _in_order(count: int, answers: Iterable[tuple[dict[int, Any], Sequence[T]]]) -> list[T]:
    """Put the answers of several partitions into the order of the questions."""
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


def _share(budget: Budget, parts: int) -> Budget:
    full = None if budget.full is None else budget.full // parts
    limit = None if budget.limit is None else max(1, budget.limit // parts)
    return replace(budget, left=budget.left // parts, full=full, limit=limit)


def _one_budget(budgets: Sequence[Budget]) -> tuple[Budget, ...]:
    """Join the budgets of all partitions, by unit: each partition has a share."""
    units = dict.fromkeys(budget.unit for budget in budgets)
    shares = ([b for b in budgets if b.unit == unit] for unit in units)
    return tuple(
        replace(
            few[0],
            left=sum(budget.left for budget in few),
            full=None if few[0].full is None else sum(budget.full or 0 for budget in few),
            limit=None if few[0].limit is None else sum(budget.limit or 0 for budget in few),
        )
        for few in shares
    )


def one_queue(states: Sequence[LimitState]) -> LimitState:
    """Join the states of all partitions into one state of the queue."""
    shut = [state for state in states if not state.open]
    said = shut[0] if len(shut) == len(states) else next(state for state in states if state.open)
    moments = [state.opens_at for state in shut if state.opens_at]
    return said.model_copy(
        update={
            "in_flight": sum(state.in_flight for state in states),
            "waiting": sum(state.waiting for state in states),
            "budgets": _one_budget([b for state in states for b in state.budgets]),
            "opens_at": min(moments, default=None) if not said.open else None,
            "granted": tuple(map(sum, zip(*(state.granted for state in states), strict=False))),
            "rate_limited": sum(state.rate_limited for state in states),
        }
    )
