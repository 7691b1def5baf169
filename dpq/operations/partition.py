"""Every operation on one partition as data: which script, which keys, which arguments.

`Partition` checks arguments, converts seconds to milliseconds, encodes payloads, and chooses the
reader of each reply. An operation is a generator that yields commands and is sent their results.
`QueueOperations` in queue.py calls it, and decides what concerns several partitions. No I/O.
"""

from __future__ import annotations  # the import makes no model for each `Task[P]`

import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from functools import partial
from typing import Any, Generic, TypeVar, cast, get_args

from dpq.model.cost import write_cost, write_spent
from dpq.model.errors import ConfigurationError, LeaseLostError, TaskNotFoundError
from dpq.model.history import Event
from dpq.model.interrupts import expected
from dpq.model.pools import member_name
from dpq.model.priority import encode_priority
from dpq.model.reports import Problem, QueueStats
from dpq.model.schedule import Later, claim, computable, named_moment, named_schedule, with_first
from dpq.model.signals import Scope
from dpq.model.task import Cost, DeadTask, OnDuplicate, P, Push, Task, TaskState
from dpq.model.validation import (
    MAX_BATCH,
    delay_milliseconds,
    error_line,
    label,
    milliseconds,
    number,
    one_line,
    whole_number,
)
from dpq.operations.description import MAX_ATTEMPTS, Description
from dpq.operations.limits import LimitOperations
from dpq.operations.permits import PermitOperations
from dpq.operations.settings import agree
from dpq.operations.workers import WorkerOperations
from dpq.protocol import replies
from dpq.protocol.command import Command, Steps, leased, once, same, task_id, task_name
from dpq.protocol.keys import INLINE_BYTES, STORAGE_FORMAT, key_of
from dpq.protocol.placement import mark_of, tags_of
from dpq.protocol.records import PIN, SPENT
from dpq.protocol.refusals import Code, read_settings
from dpq.protocol.remembered import read_events, read_stats
from dpq.protocol.replies import Batch, Look, Promoted
from dpq.protocol.task_ids import new_ids

T = TypeVar("T")

UPKEEP_BATCH = 100
"""Tasks moved by one step of upkeep: 0.5 to 1 ms of server time, under 5 ms also if others use the
server's core. Source: benchmarks/README.md, "A million tasks"."""

PUSH_BATCH = 125
"""Tasks in one round trip of push_many: under 5 ms of server time, also into a closed group of a
million. Source: benchmarks/README.md."""

POP_BATCH = 125
"""Tasks in one round trip of pop_many: under 5 ms of server time in groups, 5 to 7 ms if all groups
have limits. Source: benchmarks/README.md."""

ACK_BATCH = 250
"""Tasks in one round trip of ack_many: each may open its group, if it held the last lease."""

EXTEND_BATCH = 250
"""Leases extended in one round trip. Source: benchmarks/README.md."""

BATCH_BYTES = 4 * 1024 * 1024
"""Payload bytes in one call or reply: a larger one would hold up other clients."""

PAGE = 100
"""Tasks in one round trip of reading, checking or purging."""

CHECKED_PARTS = (
    *(("check", part) for part in ("meta", "ready", "delayed", "invisible", "waiting", "dead")),
    *(("check", part) for part in ("closed", "payload", "keys", "groups")),
    *(("check_limits", part) for part in ("settings", "limits", "kept")),
    *(("check_limits", part) for part in ("tracked", "gates", "invisible")),
)

REPAIRED_PARTS = (
    *(("repair_limits", part) for part in ("settings", "limits", "kept")),  # what all others read
    ("repair", "waiting"),  # before the others: they take the next heads of groups from it
    ("repair_limits", "gates"),  # an unreadable gate would keep a group from being opened
    *(("repair", part) for part in ("ready", "groups", "closed", "meta", "payload")),
    *(("repair", part) for part in ("delayed", "invisible", "dead", "keys", "heads", "events")),
    ("repair_limits", "tracked"),
    ("repair_limits", "invisible"),
)
"""The parts that repair goes over, in this order; see lua/repair.lua."""

_MODES = {"keep": "k", "update": "u", "raise_priority": "r", "rerun": "a", "error": "e"}


class Partition(LimitOperations, PermitOperations, WorkerOperations, Generic[P]):
    """Every operation on one partition; for the scripts a partition is a whole queue."""

    def __init__(
        self, queue: Description[P], index: int, count: int, make: Callable[[], Steps[Any]]
    ) -> None:
        """Describe one partition.

        Args:
            queue: The description of its queue.
            index: The index of the partition, from 0.
            count: The number of partitions; 0 while it is not known.
            make: Creates the queue, with the number of partitions that this client knows.
        """
        tag = tags_of(queue.name, count)[index] if count > 1 else queue.name
        super().__init__(queue.name, tag, queue.clock)
        self.named = queue.named | {"partitions": str(count)} if count > 1 else queue.named
        self._mark = mark_of(index)  # the beginning of its ids
        self._count = count
        self._make = make
        self._codec = queue.codec
        self._backoff = queue.backoff
        self._max_attempts = queue.default_max_attempts
        self._visibility_ms = queue.visibility_ms
        self._read_batch = partial(replies.read_batch, queue.codec)

    @property
    def marker(self) -> str:
        """The key that waiting consumers block on."""
        return key_of(self._tag, "wake")

    @property
    def tick(self) -> str:
        """The key that daemons block on."""
        return key_of(self._tag, "tick")

    @property
    def conf(self) -> str:
        """The key that daemons glance at."""
        return key_of(self._tag, "conf")

    # Settings of the queue

    def configure(
        self,
        *,
        create: bool = False,
        limits: bool = False,
        named: dict[str, str] | None = None,
        storage_format: str = str(STORAGE_FORMAT),
    ) -> Steps[dict[str, str]]:
        """Write the settings that this client names and no client has named before; read all.

        With `limits`, restore lost limits as well. `storage_format` is that of a new queue.
        """
        named = self.named if named is None else named
        flat = [text for pair in named.items() for text in pair]
        read = partial(agree, self.queue_name, named)
        args = [self._now(), storage_format, 2 if limits else int(create), *flat]
        command = self._command("configure", args, read)
        return once(command._replace(needs_confirmation=False))  # see SettingsWatch

    def stored_settings(self) -> Steps[dict[str, str]]:
        """Read the settings, without checks."""
        command = self._command("configure", [self._now(), STORAGE_FORMAT, 0], read_settings)
        return once(command._replace(needs_confirmation=False))

    def register(self) -> Steps[Any]:
        """Add the queue to the registry that daemons and the CLI read."""
        return self._ask("register", [self.queue_name], same)

    def enter(self) -> Steps[None]:
        """Add the queue to the registry if possible; an error is ignored, and the queue works.

        Reasons for an error: the Redis user may not write the registry, its key has another type,
        or its master is away. All queues share the registry, and it must stop none of them.
        """
        yield [self._command("register", [self.queue_name], same)]  # the answer may be an error

    def unregister(self) -> Steps[Any]:
        """Remove the queue from the registry."""
        return self._ask("unregister", [self.queue_name], same)

    def drop(self) -> Steps[Any]:
        """Remove the whole partition."""
        return self._ask("drop", [], same)

    # Adding

    def push(self, payload: P, *arguments: Any) -> Steps[str]:
        """Add one task; the other arguments are those of a `Push`, in its order."""
        ids: list[str] = yield from self._push([self._prepare(payload, *arguments)])
        return ids[0]

    def checked(self, push: Push[P]) -> Checked:
        """Check one push."""
        if not isinstance(push, Push):
            raise ConfigurationError(f"a push is {push!r}: it must be a Push(payload, ...)")
        return self._prepare(*push)

    def push_checked(self, pushes: Iterable[Checked]) -> Steps[list[str]]:
        """Add any number of checked tasks."""
        ids: list[str] = []
        batch: list[Checked] = []
        size = 0
        for prepared in pushes:
            size += len(prepared[1])
            if len(batch) == PUSH_BATCH or (batch and size > BATCH_BYTES):
                ids += yield from self._push(batch)
                batch, size = [], len(prepared[1])
            batch.append(prepared)
        if batch:
            ids += yield from self._push(batch)
        return ids

    def _push(self, batch: list[Checked]) -> Steps[list[str]]:
        ids = new_ids(len(batch), self._mark if self._count > 1 else None)
        args: list[Any] = [self._now()]
        now_ms = None
        for id_, (spec, body, _, line) in zip(ids, batch, strict=True):
            if line:
                if now_ms is None:  # the server's clock, since this machine's may be wrong
                    ask = self._command("push", [self._now()], replies.read_time)
                    now_ms = yield ask._replace(needs_confirmation=False)
                spec = with_first(spec, line, now_ms)
            args += (id_, spec, body)
        if self._count > 1:
            args.append(self._count)
        keys = [prepared[2] for prepared in batch]
        command = self._command("push", args, lambda reply: replies.read_ids(ids, keys, reply))
        while (yield command):  # no queue yet, or it was dropped since this client opened it
            yield from self._make()
        return ids

    def _prepare(
        self,
        payload: P,
        priority: float,
        delay: float | timedelta,
        group: str | None,
        key: str | None,
        on_duplicate: OnDuplicate,
        max_attempts: int | None,
        expires_in: float | None,
        cost: Cost,
        every: float | None,
        cron: str | None,
        timezone: str,
        at: datetime | None,
        visibility: float | None,
        time_limit: float | None,
        member: str | None = None,
    ) -> Checked:
        text, residual = encode_priority(priority)
        delay_ms = delay_milliseconds(delay) if delay != 0 else 0
        due: int | str = delay_ms
        expires = 0 if expires_in is None else milliseconds("expires_in", expires_in, least=0.001)
        attempts = self._max_attempts
        if max_attempts is not None:
            attempts = whole_number("max_attempts", max_attempts, 1, MAX_ATTEMPTS)
        mode = _MODES.get(on_duplicate) if isinstance(on_duplicate, str) else None
        if mode is None:
            raise ConfigurationError(
                f"on_duplicate is {on_duplicate!r}: it must be one of {', '.join(_MODES)}"
            )
        group = "" if group is None else label("group", group)
        key = "" if key is None else label("key", key)
        units = 1 if cost == 1 and type(cost) is int else write_cost(cost)
        line = ""
        if every is not None or cron is not None or timezone != "UTC":
            schedule, line = named_schedule(every, cron, timezone, delay_ms, expires)
            mode += schedule
        if at is not None:
            if delay_ms or line:
                raise ConfigurationError(
                    f"at and {'cron' if line else 'delay'} are both given: give one of them"
                )
            due, line = named_moment(at)
        if visibility is not None or time_limit is not None:
            own = [
                0 if seconds is None else milliseconds(name, seconds, least=0.001)
                for name, seconds in (("visibility", visibility), ("time_limit", time_limit))
            ]
            mode += f"\x1f{own[0]} {own[1]}"
        if member is not None:
            if not group:
                raise ConfigurationError(
                    f"member is {member!r}, but the task has no group: a member belongs to the "
                    "pool of a group, so give its group"
                )
            mode += PIN + member_name(member)
        body = self._codec.encode(payload)
        ordinary = len(mode) == 1 and units == 1 and residual == "1" and not (key or due or expires)
        if ordinary and len(body) <= INLINE_BYTES and text.lstrip("-").isdecimal():
            head = f" {attempts} {text}\t{group}\n"  # as it stands in a plain record
            return str(-int(text)), head.encode() + body, "", ""
        spec = f"f{attempts} {units} {due} {text} {expires} {residual} {mode}\t{group}\t{key}"
        return spec, body, key, line

    # Taking

    def pop(
        self,
        most: int,
        visibility: float | None,
        waiter: str = "",
        most_bytes: int = BATCH_BYTES,
    ) -> Steps[Batch[P]]:
        """Lease the best tasks, after the upkeep that is due; bury tasks that cannot be read.

        Args:
            most: The most tasks to take.
            visibility: Seconds of the lease, or None.
            waiter: pop's `waiter` argument; see lua/pop.lua.
            most_bytes: The most bytes of payloads; the first task comes in any case.
        """
        ms = self.lease_ms(most, visibility)
        most = int(most)
        read = partial(self._read_batch, lease_ms=ms)
        tasks: list[Task[P]] = []
        buried: list[tuple[str, str]] = []
        failed: Exception | None = None
        size = 0
        restored = False
        while True:
            count = min(most - len(tasks), POP_BATCH)
            who = "" if tasks else waiter  # a caller that has tasks does not wait
            room = max(most_bytes - size, 0)  # the first comes in any case
            args = [self._now(), count, ms, room, UPKEEP_BATCH, who, self._count]
            try:
                batch: Batch[P] = yield self._command("pop", args, read)
                tasks += batch.tasks
                for task, reason in batch.unreadable:
                    bury = self._buried(task, reason)
                    with suppress(LeaseLostError):
                        yield bury._replace(needs_confirmation=False)  # there are tasks to hand out
                        buried.append((task.id, reason))
                for task, failed in batch.refused:
                    with suppress(LeaseLostError):
                        yield from self._fail_loosely(task, failed)
            except Exception as error:
                if not tasks or not expected(error):
                    raise
                return Batch(
                    tasks, [], failed=failed, buried=buried
                )  # what is leased must reach the caller
            if failed and not tasks:
                return Batch([], [], failed=failed, buried=buried)
            size += batch.size
            if batch.lost and not tasks:
                restored = yield from self._restore(restored)
            if batch.again or ((batch.lost or batch.unreadable) and not tasks):
                continue
            if len(batch.tasks) < count or len(tasks) == most or size >= most_bytes:
                return batch._replace(
                    tasks=tasks, unreadable=[], refused=(), failed=failed, buried=buried
                )

    def lease_ms(self, most: int, visibility: float | None) -> int:
        """Check the arguments of a pop; return the ms of its leases."""
        whole_number("max_tasks", most, 1, MAX_BATCH)
        if visibility is None:
            return self._visibility_ms
        return milliseconds("visibility", visibility, least=0.001)

    def look(self, count: int, waiter: str) -> Steps[Look]:
        """Look at the best ready tasks, after all upkeep that is due; `waiter` is as in `pop`."""
        args = [self._now(), -count, 0, 0, UPKEEP_BATCH, waiter, self._count]
        seen, restored = Look([], again=True), False
        while seen.again or seen.lost:
            if seen.lost:
                restored = yield from self._restore(restored)
            seen = yield self._command("pop", args, replies.read_look)
        return seen

    def _restore(self, restored: bool) -> Steps[bool]:
        """Restore lost settings and limits, before a task runs without them.

        Raises:
            ConfigurationError: They were restored before, and are lost again.
        """
        if restored:
            raise ConfigurationError(
                f"limits of queue {self.queue_name!r} and their copies are lost, and no task runs "
                "without them: set them again, then `dpq doctor --repair`"
            )
        yield from self._make()
        yield from self.configure(create=True, limits=True)
        return True

    # Ending or going on with a delivery

    def ack(self, task: Task[P], cost: Cost | None = None) -> Steps[bool]:
        """Finish a task; `cost` is what it has spent.

        If a cron task has run longer than its period, the script answers `Later`. Then a second
        call names the next time after that.
        """
        later, told = None, write_spent(cost)
        while True:
            args = [self._now(), leased(task).id, _claim(task, later, told)]
            done = yield self._command("ack", args, partial(replies.read_ack, task.id))
            if not isinstance(done, Later):
                return bool(done)
            later = done

    def ack_many(
        self, tasks: Iterable[Task[P]], costs: Iterable[Cost | None] | None = None
    ) -> Steps[list[bool]]:
        """Finish tasks; `costs` are what they have spent."""
        done: list[bool] = []
        lost: list[str] = []
        given = list(tasks)
        told = [""] * len(given) if costs is None else list(map(write_spent, costs))
        if len(told) != len(given):
            raise ConfigurationError(
                f"costs has {len(told)} entries for {len(given)} tasks: give one for each, or None"
            )
        pairs = list(zip(given, told, strict=True))
        for some in _batches(pairs, ACK_BATCH):
            batch = [task for task, _ in some]
            codes: list[Any] = [None] * len(batch)
            todo: Sequence[int] = range(len(batch))
            while todo:  # once more for the cron tasks that need a later time
                args: list[Any] = [self._now()]
                for i in todo:
                    args += (leased(batch[i]).id, _claim(batch[i], codes[i], some[i][1]))
                read = partial(replies.read_codes, args[1::2])
                found = yield self._command("ack", args, read)
                for i, code in zip(todo, found, strict=True):
                    codes[i] = code
                todo = [i for i in todo if isinstance(codes[i], Later)]
            done += (code == replies.DONE for code in codes)
            lost += (t.id for t, code in zip(batch, codes, strict=True) if code == Code.LEASE_LOST)
        if lost:
            raise LeaseLostError("ack", lost)
        return done

    def extend(self, task: Task[P], seconds: float) -> Steps[int]:
        """Keep a lease alive."""
        args = [self._now(), leased(task).id, task.token]
        args.append(milliseconds("seconds", seconds, least=0.001))
        read = replies.read_lease("extend", task.id)
        return self._ask("extend", args, lambda reply: read(reply[0]))

    def extend_many(self, leases: Sequence[tuple[Task[Any], float]]) -> Steps[list[bool]]:
        """Keep leases alive, each for its seconds from now; False for those that are lost."""
        kept: list[bool] = []
        for batch in _batches(leases, EXTEND_BATCH):
            args: list[Any] = [self._now()]
            for task, seconds in batch:
                args += (task.id, task.token, milliseconds("seconds", seconds, least=0.001))
            ends = yield self._command("extend", args, same)
            kept += (end >= 0 for end in ends)
        return kept

    def set_visibility(self, task: Task[P], seconds: float) -> Steps[int]:
        """Hide a task; this counts as no attempt."""
        ms = milliseconds("seconds", seconds)
        return once(self._of_holder("set_visibility", "set_visibility of", task, ms))

    def spent(self, task: Task[P], cost: Cost | None, units: Mapping[str, int]) -> Steps[bool]:
        """Replace what a delivery was charged by what it has spent; False if it said so before."""
        told = write_spent(cost, units)
        if not told:
            raise ConfigurationError("spent tells nothing: give a cost, or units as in tokens=812")
        read = replies.read_lease("spent of", leased(task).id)
        args = [self._now(), task.id, task.token, told]
        return self._ask("spent", args, lambda reply: bool(read(reply)))

    def release(
        self,
        task: Task[P],
        delay: float | timedelta,
        priority: float | None,
        cost: Cost | None = None,
    ) -> Steps[int]:
        """Give a task back; this counts as no attempt."""
        text, residual = ("", "") if priority is None else encode_priority(priority)
        ms = delay_milliseconds(delay)
        return once(self._of_holder("release", "release", task, ms, text, residual, cost=cost))

    def fail(
        self,
        task: Task[P],
        error: object,
        delay: float | timedelta | None,
        cost: Cost | None = None,
    ) -> Steps[int]:
        """Count a failed attempt."""
        leased(task)
        if delay is None:
            chance = random.random()  # noqa: S311 - spreads load, guards nothing
            delay = self._backoff.delay(leased(task).attempt, chance)
        message = "" if error is None else one_line(error)
        told = write_spent(cost)
        tail = (delay_milliseconds(delay), message, *((told,) if told else ()))
        return self._failed(task, tail)

    def _fail_loosely(self, task: Task[P], error: Exception) -> Steps[None]:
        """Fail a task that is not handed out, without waiting for a confirmation."""
        steps = self.fail(task, error_line(error), None)
        reply = None
        try:
            while True:
                command = cast("Command[Any]", steps.send(reply))
                reply = yield command._replace(needs_confirmation=False)
        except StopIteration:
            return

    def _failed(self, task: Task[P], tail: tuple[int | str, ...]) -> Steps[int]:
        later = None
        while True:
            args = [self._now(), task.id, _token(task, later), *tail]
            done = yield self._command("fail", args, replies.read_fail(task.id))
            if not isinstance(done, Later):
                return int(done)
            later = done

    def bury(self, task: Task[P], reason: object, cost: Cost | None = None) -> Steps[int]:
        """Give a task up."""
        return once(self._buried(task, reason, cost))

    def _buried(self, task: Task[P], reason: object, cost: Cost | None = None) -> Command[int]:
        return self._of_holder("bury", "bury", task, one_line(reason), cost=cost)

    def rate_limited(
        self, task: Task[Any], retry_after: float, scope: Scope, cost: Cost | None = None
    ) -> Steps[int]:
        """Give a task back that met a limit, and close its member, its group or the queue."""
        if scope not in get_args(Scope):
            raise ConfigurationError(f"scope is {scope!r}: it must be one of {get_args(Scope)}")
        ms = milliseconds("retry_after", retry_after)
        action = "rate_limited of"
        return once(self._of_holder("rate_limited", action, task, ms, scope, cost=cost))

    def _of_holder(
        self, script_name: str, action: str, task: Task[Any], *args: Any, cost: Cost | None = None
    ) -> Command[int]:
        read = replies.read_lease(action, leased(task).id)
        if told := write_spent(cost):
            args = (*args, told)
        return self._command(script_name, [self._now(), task.id, task.token, *args], read)

    # Looking and changing

    def get(self, id_: str | None, key: str | None) -> Steps[Task[P]]:
        """Look at one task."""
        name = task_name(id_, key)

        def read(reply: list[Any]) -> Task[P]:
            found = replies.read_stored(self._codec, [name.id], reply)[0]
            if found is None:
                raise TaskNotFoundError(name.id, self.queue_name, "get", key=name.key or None)
            return found

        return self._ask("get", [f"\t{name.key}" if name.key else name.id], read)

    def peek(self, count: int, state: TaskState, after: str | None = None) -> Steps[list[Task[P]]]:
        """Look at the first tasks of one state, or at those behind the task `after`."""
        count = whole_number("n", count, 0, 10**9)
        passed = after is None or not task_id(after)
        tasks: list[Task[P]] = []
        start = 0
        while len(tasks) < count:
            most = min(PAGE, count - len(tasks)) if passed else PAGE
            page: list[Task[P]] = yield self._page(state, start, most)
            if not page:
                break
            start += len(page)
            for task in page:
                if passed:
                    tasks.append(task)
                passed = passed or task.id == after
        if not passed and count:
            raise TaskNotFoundError(str(after), self.queue_name, "peek after", state=state)
        return tasks[:count]

    def _page(self, state: TaskState, start: int, count: int) -> Command[list[Task[P]]]:
        read = partial(replies.read_page, self._codec, state)
        return self._command("peek", [state.value, start, count, BATCH_BYTES], read)

    def ranked(self, state: TaskState, start: int, count: int) -> Steps[list[tuple[Any, Task[P]]]]:
        """Read a page of `peek`, each task with the value that sorts it among partitions."""
        read = partial(replies.read_ranked_page, self._codec, state)
        return self._ask("peek", [state.value, start, count, BATCH_BYTES], read)

    def stats(self) -> Steps[QueueStats]:
        """Count the tasks of each state."""
        return self.report("stats", [], read_stats)

    def report(self, name: str, args: Sequence[int], read: Callable[[Any], T]) -> Steps[T]:
        """Run a script that reports on the queue at one moment."""
        return self._ask(name, [self._now(), *args], read)

    def events(self, after: str, most: int) -> Steps[list[Event]]:
        """Read the events behind a position, or the newest ones."""
        return self._ask("events", [after, most], read_events)

    def update(
        self,
        id_: str | None,
        key: str | None,
        priority: float | None,
        delay: float | timedelta | None,
        cost: Cost | None,
    ) -> Steps[None]:
        """Change a live task in place."""
        if priority is None and delay is None and cost is None:
            raise ConfigurationError("update changes nothing: give priority, delay or cost")
        units = "" if cost is None else write_cost(cost)
        text, residual = ("", "") if priority is None else encode_priority(priority)
        wait = "" if delay is None else delay_milliseconds(delay)
        name = task_name(id_, key)
        read = replies.read_change("update", name, self.queue_name)
        args = [self._now(), name.id, text, residual, wait, name.key, units]
        return self._ask("update", args, read)

    def cancel(self, id_: str | None, key: str | None) -> Steps[None]:
        """Remove a live task."""
        name = task_name(id_, key)
        read = replies.read_change("cancel", name, self.queue_name)
        return self._ask("cancel", [self._now(), name.id, name.key], read)

    # The whole queue

    def pause(self, seconds: float | None) -> Steps[Any]:
        """Stop handing out tasks."""
        ms = "inf" if seconds is None else milliseconds("seconds", seconds, least=0.001)
        return self._ask("pause", [self._now(), ms], same)

    def resume(self) -> Steps[Any]:
        """Hand out tasks again."""
        return self._ask("pause", [self._now(), 0], same)

    def promote(self) -> Steps[Promoted]:
        """Do one bounded step of upkeep."""
        args = [self._now(), UPKEEP_BATCH, self._count]
        return self._ask("promote", args, replies.read_promoted)

    def next_event(self) -> Steps[int | None]:
        """Return the ms until the next event."""
        return self._ask("next_event", [self._now()], replies.read_wait)

    def purge(self, state: TaskState | None) -> Steps[int]:
        """Remove the tasks of one state, or of all; tasks that are pushed meanwhile may stay."""
        # waiting before ready: if a head goes, the next waiting task of its group becomes ready
        order = ("waiting", "ready", "delayed", "invisible", "dead")
        stats = yield from self.stats()
        removed = 0
        states = order if state is None else (state.value,)
        for name in states:
            left = getattr(stats, name)
            while left > 0:
                gone = yield self._command("purge", [self._now(), name, min(left, PAGE)], same)
                if gone == 0:
                    break
                removed += gone
                left -= gone
        if not removed:  # the removals of an earlier call may still need a confirmation
            yield self._command("purge", [self._now(), states[0], 0], same)
        return removed

    def check(self) -> Steps[list[Problem]]:
        """Look at everything that is stored; only at the types of keys while one is wrong."""
        return (yield from self._types()) or (yield from self._walk(CHECKED_PARTS))

    def repair(self) -> Steps[list[Problem]]:
        """Repair everything that is stored."""
        removed = yield from self._types(remove=True)
        if not self._count and (
            yield from self._types()
        ):  # the settings, which say how many partitions
            return removed
        if key_of(self._tag, "conf") in {problem.subject for problem in removed}:
            yield from self._make()  # so that clients which follow the queue find all partitions
        mended = yield from self._walk(REPAIRED_PARTS)
        if any(each.kind == "settings lost" and each.subject == "format" for each in mended):
            yield from self._make()
        return removed + mended

    def upgrade(self) -> Steps[int]:
        """Raise the storage format, and rewrite all records; return how many are left."""
        left = 0
        cursor = "0"
        while True:
            cursor, held = yield self._command("upgrade", [cursor, PAGE], replies.read_upgrade)
            left += int(held)
            if cursor == "0":
                return left

    def _types(self, *, remove: bool = False) -> Steps[list[Problem]]:
        """Find keys of another type, which no other script can read; `remove` removes them."""
        args = [self._now(), int(remove), self._count]
        return self._ask("types", args, lambda reply: replies.read_problems(reply)[1])

    def _walk(self, parts: Iterable[tuple[str, str]]) -> Steps[list[Problem]]:
        problems: list[Problem] = []
        for name, part in parts:
            cursor = "0"
            while True:
                args = [self._now(), part, cursor, PAGE]
                cursor, found = yield self._command(name, args, replies.read_problems)
                problems += (each for each in found if each.kind != "cron")
                recurring = [each for each in found if each.kind == "cron"]
                if name == "check":
                    problems += (
                        Problem(kind="bad schedule", subject=each.subject, detail=each.detail)
                        for each in recurring
                        if not computable(each.detail)
                    )
                elif lines := {c.detail for c in recurring if not computable(c.detail, "UTC")}:
                    again = self._command(name, [*args, *lines], replies.read_problems)
                    problems += (each for each in (yield again)[1] if each.kind != "cron")
                if cursor == "0":
                    break
        return problems

    # Dead letters

    def dead_list(
        self, count: int, chosen: Callable[[DeadTask[P]], bool]
    ) -> Steps[list[DeadTask[P]]]:
        """List dead letters, the longest dead first."""
        count = whole_number("n", count, 0, 10**9)
        found: list[DeadTask[P]] = []
        start = 0
        while len(found) < count:
            page = yield self._page(TaskState.DEAD, start, PAGE)
            if not page:
                break
            found += filter(chosen, page)
            start += len(page)
        return found[:count]

    def dead_replay(
        self, ids: Sequence[str] | None, chosen: Callable[[DeadTask[P]], bool], rate: float | None
    ) -> Steps[int]:
        """Make dead tasks live, at most `rate` per second."""
        return self.dead_replay_spaced(ids, chosen, spacing_of(rate))

    def dead_replay_spaced(
        self,
        ids: Sequence[str] | None,
        chosen: Callable[[DeadTask[P]], bool],
        spacing: float,
        first: float = 0.0,
    ) -> Steps[int]:
        """Make dead tasks live: the first in `first` ms, each next one `spacing` ms later."""

        def replay(batch: Sequence[str], done: int) -> Command[int]:
            args = [self._now(), first + done * spacing, spacing, *batch]
            return self._command("replay", args, same)

        return self._each_dead(ids, chosen, replay)

    def dead_purge(
        self, ids: Sequence[str] | None, chosen: Callable[[DeadTask[P]], bool]
    ) -> Steps[int]:
        """Remove dead tasks."""

        def purge(batch: Sequence[str], _: int) -> Command[int]:
            return self._command("purge", [self._now(), "dead", len(batch), *batch], same)

        return self._each_dead(ids, chosen, purge)

    def _each_dead(
        self,
        ids: Sequence[str] | None,
        chosen: Callable[[DeadTask[P]], bool],
        act: Callable[[Sequence[str], int], Command[int]],
    ) -> Steps[int]:
        done = 0
        if ids is not None:
            for batch in _batches([task_id(id_) for id_ in ids], PAGE):
                done += yield act(batch, done)
            if not ids:
                yield act([], done)
            return done
        stats = yield from self.stats()
        start, left = 0, stats.dead  # tasks that die meanwhile come behind them
        while left > 0:
            page = yield self._page(TaskState.DEAD, start, min(PAGE, left))
            if not page:
                break
            batch = [task.id for task in page if chosen(task)]
            gone = (yield act(batch, done)) if batch else 0
            done += gone
            start += len(page) - gone
            left -= len(page)
        if not done:  # the changes of an earlier call may still need a confirmation
            yield act([], done)
        return done


Checked = tuple[str, bytes, str, str]
"""A checked push: its spec (see push.lua), its payload, its key, its cron line."""


def spacing_of(rate: float | None) -> float:
    """Convert a rate to the ms from one replayed task to the next."""
    if rate is not None:
        number("rate", rate, "tasks per second", 0.001, 1_000_000)
    return 1000 / rate if rate else 0.0


def _token(task: Task[Any], later: Later | None = None) -> int | str:
    """Make the token for ack and fail; for a cron task it also names the next times."""
    if later:
        return claim(task.token, later, 4)  # a few, for a line of seconds on a slow network
    if task.cron is None or task.scheduled_at is None:
        return task.token
    due_ms = round(task.scheduled_at.timestamp() * 1000)
    return claim(task.token, Later(due_ms, task.cron), 1)


def _claim(task: Task[Any], later: Later | None, told: str) -> int | str:
    """Make the token for ack, with what the task has spent."""
    token = _token(task, later)
    return f"{token}{SPENT}{told}" if told else token


def _batches(items: Sequence[T], size: int) -> Iterator[Sequence[T]]:
    return (items[i : i + size] for i in range(0, len(items), size))
