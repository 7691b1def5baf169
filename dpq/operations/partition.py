"""Every operation as data: which script, which keys, which arguments, how to read the reply.

`Commands` checks arguments, converts seconds to milliseconds and encodes payloads. It does no I/O:
the shells (`DPQ`, `AsyncDPQ`) send what it builds. An operation of several round trips is a
generator that yields commands and is sent their results.
"""

from __future__ import annotations  # the import makes no model for each `Task[P]`

import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from copy import copy
from datetime import datetime, timedelta
from functools import partial
from typing import Any, Generic, Self, TypeVar, cast

from dpq.model.backoff import Backoff
from dpq.model.errors import (
    ConfigurationError,
    LeaseLostError,
    RateLimited,
    Reject,
    Release,
    Retry,
    TaskNotFoundError,
)
from dpq.model.interrupts import expected
from dpq.model.limits import MAX_COST
from dpq.model.payload import Codec
from dpq.model.priority import encode_priority
from dpq.model.schedule import Later, claim, computable, named_moment, named_schedule, with_first
from dpq.model.task import (
    DeadTask,
    Fairness,
    OnDuplicate,
    Order,
    Problem,
    Push,
    QueueStats,
    Task,
    TaskState,
)
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
from dpq.operations.limits import LimitCommands
from dpq.operations.settings import agree, named_settings, partition_count
from dpq.operations.workers import CrewCommands
from dpq.protocol import replies
from dpq.protocol.command import Command, Steps, all_of, leased, once, same, task_id, task_name
from dpq.protocol.keys import STORAGE_FORMAT, key_of
from dpq.protocol.placement import mark_of, tags_of
from dpq.protocol.replies import Batch, Code, Look, read_settings
from dpq.protocol.task_ids import new_ids

P = TypeVar("P")
T = TypeVar("T")

UPKEEP_BATCH = 200
"""Tasks moved by one step of upkeep: 1 to 2 ms of server time. Source: benchmarks/README.md."""

PUSH_BATCH = 200
"""Tasks in one round trip of push_many: under 5 ms of server time. Source: benchmarks/README.md."""

POP_BATCH = 125
"""Tasks in one round trip of pop_many: under 5 ms of server time in groups, 5 to 7 with limits on
all of them. Source: there."""

ACK_BATCH = 250
"""Tasks in one round trip of ack_many: each may be the last lease that its group waits for."""

EXTEND_BATCH = 250
"""Leases in one round trip of keeping them alive. Source: there."""

BATCH_BYTES = 4 * 1024 * 1024
"""Payload bytes in one round trip, either way: a larger reply would hold up other clients."""

PAGE = 100
"""Tasks in one round trip of reading, checking or purging."""

MAX_ATTEMPTS = 1_000_000

CHECKED_PARTS = (
    *(("check", part) for part in ("meta", "ready", "delayed", "invisible", "waiting", "dead")),
    *(("check", part) for part in ("closed", "payload", "keys", "groups")),
    *(("check_limits", part) for part in ("settings", "limits", "kept")),
    *(("check_limits", part) for part in ("tracked", "gates", "invisible")),
)

REPAIRED_PARTS = (
    *(("repair_limits", part) for part in ("settings", "limits", "kept")),  # what all others read
    ("repair", "waiting"),  # first what does not belong there: the heirs of groups are found there
    ("repair_limits", "gates"),  # and what could not be read when a group is opened
    *(("repair", part) for part in ("ready", "groups", "closed", "meta", "payload")),
    *(("repair", part) for part in ("delayed", "invisible", "dead", "keys", "heads", "events")),
    ("repair_limits", "tracked"),
    ("repair_limits", "invisible"),
)
"""What is mended in which order; see lua/repair.lua."""

_MODES = {"keep": "k", "update": "u", "raise_priority": "r", "rerun": "a", "error": "e"}


class Commands(LimitCommands, CrewCommands, Generic[P]):
    """Builds the commands of one queue. The arguments are those of `DPQ`."""

    seen: dict[str, str] | None = None  # see Following

    def __init__(
        self,
        queue_name: str,
        *,
        payload_type: Any,
        default_visibility: float,
        default_max_attempts: int,
        order: Order | None,
        aging: float | None,
        fairness: Fairness | None,
        backoff: Backoff,
        max_payload_bytes: int,
        dead_max_tasks: int | None,
        dead_max_age: float | None,
        partitions: int | None,
        clock: Callable[[], int] | None,
    ) -> None:
        super().__init__(queue_name, clock)
        self.payload_type = payload_type
        self.default_visibility = default_visibility
        self.default_max_attempts = whole_number(
            "default_max_attempts", default_max_attempts, 1, MAX_ATTEMPTS
        )
        self.backoff = backoff
        self.codec: Codec[P] = Codec(payload_type, max_payload_bytes)
        self.named = named_settings(
            order, aging, fairness, dead_max_tasks, dead_max_age, partitions
        )
        self._mark = ""  # what ids begin with; of a partition
        self._count = int(self.named.get("partitions", 0))  # of partitions; 0 before it is known
        self._make: Callable[[], Steps[Any]] = partial(self.open, create=True)
        self._visibility_ms = milliseconds("default_visibility", default_visibility, least=0.001)
        self._read_batch = partial(replies.read_batch, self.codec)
        if not isinstance(backoff, Backoff):
            raise ConfigurationError(f"backoff is {backoff!r}: it must be a Backoff")

    def partition(self, place: int, count: int, make: Callable[[], Steps[Any]]) -> Self:
        """The commands of one partition of so many; `make` is what makes the queue be there.

        Also for a client that only follows: what it makes again is divided as it was.
        """
        part = copy(self)
        part.named = self.named | {"partitions": str(count)}
        part._tag, part._mark = tags_of(self.queue_name, count)[place], mark_of(place)
        part._make, part._keys, part._count = make, {}, count
        return part

    def undivided(self) -> Self:
        """These commands, once it is known that the queue has one partition."""
        whole = copy(self)
        whole._count = 1
        return whole

    @property
    def markers(self) -> list[str]:
        """The keys that waiting consumers block on, one for each partition."""
        return [key_of(self._tag, "wake")]

    @property
    def ticks(self) -> list[str]:
        """The keys that daemons block on."""
        return [key_of(self._tag, "tick")]

    def settled(self, _: dict[str, str]) -> Self:
        """The commands to use from now on, by the queue's settings."""
        return self

    # Settings of the queue

    def open(self, *, create: bool = False) -> Steps[dict[str, str]]:
        """Agree with the server on what belongs to the queue; make a queue that is there known."""
        settings: dict[str, str] = yield self.configure(create=create)
        if "format" in settings:
            yield from self.entered()
        return settings

    def configure(
        self, *, create: bool = False, limits: bool = False, named: dict[str, str] | None = None
    ) -> Command[dict[str, str]]:
        """Write the settings that this client names and nobody has named before; read all.

        With `limits`, those that are lost are restored as well.
        """
        named = self.named if named is None else named
        flat = [text for pair in named.items() for text in pair]
        read = partial(agree, self.queue_name, named)
        args = [self._now(), STORAGE_FORMAT, 2 if limits else int(create), *flat]
        return self._command("configure", args, read)._replace(loose=True)  # see SettingsWatch

    def register(self) -> Command[Any]:
        """Put the queue into the registry that daemons and the CLI read."""
        return self._command("register", [self.queue_name], same)

    def entered(self) -> Steps[None]:
        """Put it there if that can be done; else it is left to others, and the queue works.

        The user may not do it, somebody has made something else of the list, or it lies on a master
        that is away: all queues share it, and it must stop none of them.
        """
        yield [self.register()]  # the answer may be an error

    def drop(self) -> Steps[None]:
        """Remove the queue whole, its own keys last, and from the registry."""
        ask = self._command("configure", [self._now(), STORAGE_FORMAT, 0], read_settings)
        stored = yield ask._replace(loose=True)
        counts = {self._count}
        try:
            counts.add(partition_count(stored))
        except ConfigurationError:
            if not self._count:
                raise
        for count in counts:  # both, if the settings are lost, or the queue has others now
            parts = (self.partition(place, count, self._make) for place in range(1, count))
            yield from all_of([part._command("drop", [], same) for part in parts])
        yield self._command("drop", [], same)
        yield self._command("unregister", [self.queue_name], same)
        if "format" in (yield ask._replace(loose=True)):  # begun anew, and found its name there
            yield from self.entered()

    # Adding

    def push(self, payload: P, *arguments: Any) -> Steps[str]:
        """Add one task; the other arguments are those of a `Push`, in its order."""
        ids: list[str] = yield from self._push([self._prepare(payload, *arguments)])
        return ids[0]

    def push_many(self, pushes: Iterable[Push[P]]) -> Steps[list[str]]:
        """Add any number of tasks, a bounded batch in each round trip."""
        return self.push_checked(map(self.checked, pushes))

    def checked(self, push: Push[P]) -> Checked:
        """Check one push."""
        if not isinstance(push, Push):
            raise ConfigurationError(f"a push is {push!r}: it must be a Push(payload, ...)")
        return self._prepare(*push)

    def push_checked(self, pushes: Iterable[Checked]) -> Steps[list[str]]:
        """Add any number of tasks that are checked."""
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
                    now_ms = yield ask._replace(loose=True)
                spec = with_first(spec, line, now_ms)
            args += (id_, spec, body)
        if self._count > 1:
            args.append(self._count)
        keys = [prepared[2] for prepared in batch]
        command = self._command("push", args, lambda reply: replies.read_ids(ids, keys, reply))
        while (yield command):  # the queue is new, or was dropped since this client opened it
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
        cost: int,
        every: float | None,
        cron: str | None,
        timezone: str,
        at: datetime | None,
        visibility: float | None,
        time_limit: float | None,
    ) -> Checked:
        text, residual = encode_priority(priority)
        delay_ms = delay_milliseconds(delay) if delay != 0 else 0
        due: int | str = delay_ms
        expires = 0 if expires_in is None else milliseconds("expires_in", expires_in, least=0.001)
        attempts = self.default_max_attempts
        if max_attempts is not None:
            attempts = whole_number("max_attempts", max_attempts, 1, MAX_ATTEMPTS)
        mode = _MODES.get(on_duplicate) if isinstance(on_duplicate, str) else None
        if mode is None:
            raise ConfigurationError(
                f"on_duplicate is {on_duplicate!r}: it must be one of {', '.join(_MODES)}"
            )
        group = "" if group is None else label("group", group)
        key = "" if key is None else label("key", key)
        if cost != 1 or type(cost) is not int:
            cost = whole_number("cost", cost, 1, MAX_COST)
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
        spec = f"{attempts} {cost} {due} {text} {expires} {residual} {mode}\t{group}\t{key}"
        return spec, self.codec.encode(payload), key, line

    # Taking

    def pop(
        self,
        most: int,
        visibility: float | None,
        waiter: str = "",
        most_bytes: int = BATCH_BYTES,
    ) -> Steps[Batch[P]]:
        """Lease the best tasks. Catches up with upkeep first, and buries what cannot be read.

        Args:
            most: Tasks at most.
            visibility: Seconds of the lease, or None.
            waiter: Who asks; see lua/pop.lua.
            most_bytes: Of payloads at most, but for the first.
        """
        ms = self.lease_ms(most, visibility)
        most = int(most)
        read = partial(self._read_batch, lease_ms=ms)
        tasks: list[Task[P]] = []
        failed: Exception | None = None
        size = 0
        restored = False
        while True:
            count = min(most - len(tasks), POP_BATCH)
            who = "" if tasks else waiter  # who has tasks will not wait
            room = max(most_bytes - size, 0)  # the first comes in any case
            args = [self._now(), count, ms, room, UPKEEP_BATCH, who, self._count]
            try:
                batch: Batch[P] = yield self._command("pop", args, read)
                tasks += batch.tasks
                for task, reason in batch.unreadable:
                    bury = self.bury(task, reason)
                    with suppress(LeaseLostError):
                        yield bury._replace(loose=True)  # there are tasks to hand out
                for task, failed in batch.refused:
                    with suppress(LeaseLostError):
                        yield from self._fail_loosely(task, failed)
            except Exception as error:
                if not tasks or not expected(error):
                    raise
                return Batch(tasks, [], failed=failed)  # what is leased must reach the caller
            if failed and not tasks:
                return Batch([], [], failed=failed)
            size += batch.size
            if batch.lost and not tasks:
                restored = yield from self._restore(restored)
            if batch.again or ((batch.lost or batch.unreadable) and not tasks):
                continue
            if len(batch.tasks) < count or len(tasks) == most or size >= most_bytes:
                return batch._replace(tasks=tasks, unreadable=[], refused=(), failed=failed)

    def lease_ms(self, most: int, visibility: float | None) -> int:
        """Check the arguments of a pop; how long its leases are."""
        whole_number("max_tasks", most, 1, MAX_BATCH)
        if visibility is None:
            return self._visibility_ms
        return milliseconds("visibility", visibility, least=0.001)

    def look(self, count: int, waiter: str) -> Steps[Look]:
        """Look at the best ready tasks, after all upkeep; `waiter` is as in `pop`."""
        args = [self._now(), -count, 0, 0, UPKEEP_BATCH, waiter, self._count]
        seen, restored = Look([], again=True), False
        while seen.again or seen.lost:
            if seen.lost:
                restored = yield from self._restore(restored)
            seen = yield self._command("pop", args, replies.read_look)
        return seen

    def _restore(self, restored: bool) -> Steps[bool]:
        """Bring back settings and limits that are lost, before anything runs without them.

        Raises:
            ConfigurationError: That did not help.
        """
        if restored:
            raise ConfigurationError(
                f"limits of queue {self.queue_name!r} are lost with their copies, and nothing runs "
                "without them: set them again, then `dpq doctor --repair`"
            )
        yield from self._make()
        yield self.configure(create=True, limits=True)
        return True

    # Ending or going on with a delivery

    def ack(self, task: Task[P], later: Later | None = None) -> Command[bool | Later]:
        """Finish a task; a cron task that runs longer than its period answers `Later`."""
        args = [self._now(), leased(task).id, _token(task, later)]
        return self._command("ack", args, partial(replies.read_ack, task.id))

    def acked(self, task: Task[P], later: Later | None = None) -> Steps[bool]:
        """Finish a task, and say when it comes back for as long as the answer is `Later`."""
        done = yield self.ack(task, later)
        while isinstance(done, Later):
            done = yield self.ack(task, done)
        return bool(done)

    def ack_many(self, tasks: Iterable[Task[P]]) -> Steps[list[bool]]:
        """Finish tasks."""
        done: list[bool] = []
        lost: list[str] = []
        for batch in _batches(list(tasks), ACK_BATCH):
            codes: list[Any] = [None] * len(batch)
            todo: Sequence[int] = range(len(batch))
            while todo:  # again for the cron tasks that want a later time
                args: list[Any] = [self._now()]
                for i in todo:
                    args += (leased(batch[i]).id, _token(batch[i], codes[i]))
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

    def extend(self, task: Task[P], seconds: float) -> Command[int]:
        """Keep a lease alive."""
        args = [self._now(), leased(task).id, task.token]
        args.append(milliseconds("seconds", seconds, least=0.001))
        read = replies.read_lease("extend", task.id)
        return self._command("extend", args, lambda reply: read(reply[0]))

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

    def set_visibility(self, task: Task[P], seconds: float) -> Command[int]:
        """Hide a task, uncounted."""
        return self._of_holder(
            "set_visibility", "set_visibility of", task, milliseconds("seconds", seconds)
        )

    def release(
        self, task: Task[P], delay: float | timedelta, priority: float | None
    ) -> Command[int]:
        """Give a task back, uncounted."""
        text, residual = ("", "") if priority is None else encode_priority(priority)
        return self._of_holder(
            "release", "release", task, delay_milliseconds(delay), text, residual
        )

    def fail(self, task: Task[P], error: object, delay: float | timedelta | None) -> Steps[int]:
        """Count a failed attempt."""
        leased(task)
        if delay is None:
            chance = random.random()  # noqa: S311 - spreads load, guards nothing
            delay = self.backoff.delay(leased(task).attempt, chance)
        message = "" if error is None else one_line(error)
        tail = (delay_milliseconds(delay), message)
        return self._failed(task, tail)

    def _fail_loosely(self, task: Task[P], error: Exception) -> Steps[None]:
        """Count a failed attempt of a task that reaches nobody, without waiting for replicas."""
        steps = self.fail(task, error_line(error), None)
        reply = None
        try:
            while True:
                command = cast("Command[Any]", steps.send(reply))
                reply = yield command._replace(loose=True)
        except StopIteration:
            return

    def _failed(self, task: Task[P], tail: tuple[int, str]) -> Steps[int]:
        later = None
        while True:
            args = [self._now(), task.id, _token(task, later), *tail]
            done = yield self._command("fail", args, replies.read_fail(task.id))
            if not isinstance(done, Later):
                return int(done)
            later = done

    def bury(self, task: Task[P], reason: object) -> Command[int]:
        """Give a task up."""
        return self._of_holder("bury", "bury", task, one_line(reason))

    def settle(self, task: Task[P], error: BaseException | None) -> Steps[Any]:
        """End a delivery as its work has ended: clean, with a signal, with an error, or broken off.

        A signal says how its task goes on. Other errors fail it. KeyboardInterrupt, SystemExit and
        a cancelled asyncio task say nothing about it: it is given back, uncounted.
        """
        if error is None:
            return self.acked(task)
        if isinstance(error, RateLimited):
            return once(self.rate_limited(task, error.retry_after, error.scope))
        if isinstance(error, Reject):
            return once(self.bury(task, error.reason))
        if isinstance(error, Release):
            return once(self.release(task, error.delay, None))
        if isinstance(error, Retry):
            return self.fail(task, error, error.delay)
        if isinstance(error, Exception):
            return self.fail(task, error_line(error), None)
        return once(self.release(task, 0, None))

    # Looking and changing

    def get(self, id_: str | None, key: str | None) -> Command[Task[P]]:
        """Look at one task."""
        name = task_name(id_, key)

        def read(reply: list[Any]) -> Task[P]:
            found = replies.read_stored(self.codec, [name.id], reply)[0]
            if found is None:
                raise TaskNotFoundError(name.id, self.queue_name, "get", key=name.key or None)
            return found

        return self._command("get", [f"\t{name.key}" if name.key else name.id], read)

    def peek(self, count: int, state: TaskState, after: str | None = None) -> Steps[list[Task[P]]]:
        """Look at the first tasks of one state, or at those behind the one of an id."""
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
        read = partial(replies.read_page, self.codec, state)
        return self._command("peek", [state.value, start, count, BATCH_BYTES], read)

    def ranked(
        self, state: TaskState, start: int, count: int
    ) -> Command[list[tuple[Any, Task[P]]]]:
        """A page of `peek`, with what the tasks of several partitions are sorted by."""
        read = partial(replies.read_ranked_page, self.codec, state)
        return self._command("peek", [state.value, start, count, BATCH_BYTES], read)

    def stats(self) -> Command[QueueStats]:
        """Count."""
        return self._command("stats", [self._now()], replies.read_stats)

    def update(
        self,
        id_: str | None,
        key: str | None,
        priority: float | None,
        delay: float | timedelta | None,
        cost: int | None,
    ) -> Command[None]:
        """Change a live task in place."""
        if priority is None and delay is None and cost is None:
            raise ConfigurationError("update changes nothing: give priority, delay or cost")
        units = "" if cost is None else whole_number("cost", cost, 1, MAX_COST)
        text, residual = ("", "") if priority is None else encode_priority(priority)
        wait = "" if delay is None else delay_milliseconds(delay)
        name = task_name(id_, key)
        read = replies.read_change("update", name, self.queue_name)
        args = [self._now(), name.id, text, residual, wait, name.key, units]
        return self._command("update", args, read)

    def cancel(self, id_: str | None, key: str | None) -> Command[None]:
        """Remove a live task."""
        name = task_name(id_, key)
        read = replies.read_change("cancel", name, self.queue_name)
        return self._command("cancel", [self._now(), name.id, name.key], read)

    # The whole queue

    def pause(self, seconds: float | None) -> Command[Any]:
        """Stop handing out tasks."""
        ms = "inf" if seconds is None else milliseconds("seconds", seconds, least=0.001)
        return self._command("pause", [self._now(), ms], same)

    def resume(self) -> Command[Any]:
        """Hand out tasks again."""
        return self._command("pause", [self._now(), 0], same)

    def promote(self) -> Command[tuple[int, int | None]]:
        """One bounded step of upkeep: how many it moved, and the ms until the next event."""
        args = [self._now(), UPKEEP_BATCH, self._count]
        return self._command("promote", args, replies.read_promoted)

    def next_event(self) -> Command[int | None]:
        """The ms until the next event."""
        return self._command("next_event", [self._now()], replies.read_wait)

    def purge(self, state: TaskState | None) -> Steps[int]:
        """Remove the tasks of one state, or all; what comes in meanwhile may stay."""
        # waiting before ready: a head that goes would make the next waiting task ready
        order = ("waiting", "ready", "delayed", "invisible", "dead")
        stats: QueueStats = yield self.stats()
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
        if not removed:  # what an earlier call has removed may still have to be confirmed
            yield self._command("purge", [self._now(), states[0], 0], same)
        return removed

    def check(self) -> Steps[list[Problem]]:
        """Look at everything that is stored; at nothing else while a key is of another type."""
        return (yield self._types()) or (yield from self._walk(CHECKED_PARTS))

    def repair(self) -> Steps[list[Problem]]:
        """Mend everything that is stored."""
        removed: list[Problem] = yield self._types(remove=True)
        if not self._count and (yield self._types()):  # the settings, which say how many partitions
            return removed
        if key_of(self._tag, "conf") in {problem.subject for problem in removed}:
            yield from self._make()  # so that clients that follow find all partitions
        mended = yield from self._walk(REPAIRED_PARTS)
        if any(each.kind == "settings lost" and each.subject == "format" for each in mended):
            yield from self._make()
        return removed + mended

    def _types(self, *, remove: bool = False) -> Command[list[Problem]]:
        """Keys of another type, which no other script can look at."""
        args = [self._now(), int(remove), self._count]
        return self._command("types", args, lambda reply: replies.read_problems(reply)[1])

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
        """The longest dead first."""
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
        """Make dead tasks live: the first in so many ms, each other so many after another."""

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
        stats: QueueStats = yield self.stats()
        start, left = 0, stats.dead  # what dies meanwhile stands behind them
        while left > 0:
            page = yield self._page(TaskState.DEAD, start, min(PAGE, left))
            if not page:
                break
            batch = [task.id for task in page if chosen(task)]
            gone = (yield act(batch, done)) if batch else 0
            done += gone
            start += len(page) - gone
            left -= len(page)
        if not done:  # what an earlier call has done may still have to be confirmed
            yield act([], done)
        return done


Checked = tuple[str, bytes, str, str]
"""A checked push: its spec (see push.lua), its payload, its key, its cron line."""


def spacing_of(rate: float | None) -> float:
    """The ms from one replayed task to the next."""
    if rate is not None:
        number("rate", rate, "tasks per second", 0.001, 1_000_000)
    return 1000 / rate if rate else 0.0


def _token(task: Task[Any], later: Later | None = None) -> int | str:
    """What proves a delivery to ack and fail: of a cron task, when it may come back as well."""
    if later:
        return claim(task.token, later, 4)  # a few, for a line of seconds on a slow network
    if task.cron is None or task.scheduled_at is None:
        return task.token
    due_ms = round(task.scheduled_at.timestamp() * 1000)
    return claim(task.token, Later(due_ms, task.cron), 1)


def _batches(items: Sequence[T], size: int) -> Iterator[Sequence[T]]:
    return (items[i : i + size] for i in range(0, len(items), size))
