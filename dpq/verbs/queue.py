"""Every operation on a queue as data: which script, which keys, which arguments.

`QueueOperations` checks arguments, converts seconds to milliseconds, encodes payloads, and chooses
the reader of each reply. An operation is a generator that yields commands and is sent their
results. The queue objects know this class only. No I/O.
"""

from __future__ import annotations  # the import makes no model for each `Task[P]`

import random
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import timedelta
from functools import partial
from operator import itemgetter, not_
from typing import Any, TypeVar, cast

from pydantic_core import to_json

from dpq.limits.cost import write_spent
from dpq.limits.permit import HeldPermit
from dpq.limits.signals import (
    RateLimited,
    Reject,
    Release,
    Retry,
    Scope,
    require_scope,
    status_text,
)
from dpq.model.backoff import delay_after
from dpq.model.errors import ConfigurationError, LeaseLostError, QueueFullError
from dpq.model.priority import priority_or_none
from dpq.model.reports import BatchState
from dpq.model.schedule import Later, claim
from dpq.model.task import Cost, P, Push, Task
from dpq.model.validation import (
    MAX_BATCH,
    delay_milliseconds,
    error_line,
    label,
    milliseconds,
    one_line,
    whole_number,
)
from dpq.script import replies
from dpq.script.command import Command, Steps, all_of, leased, same
from dpq.script.error_source import source_of
from dpq.script.records import SPENT
from dpq.script.refusals import Code
from dpq.script.replies import Batch, Kept, Promoted
from dpq.script.task_ids import new_ids
from dpq.verbs.base import BATCH_BYTES, Description, in_batches
from dpq.verbs.batches import BatchOperations
from dpq.verbs.pushing import Checked, PushChecker, with_ids, with_times
from dpq.verbs.stored import StoredOperations
from dpq.verbs.workers import WorkerOperations

T = TypeVar("T")

UPKEEP_BATCH = 100
"""Tasks moved by one step of upkeep: 0.5 to 1 ms of server time. It is under 5 ms even if other
processes use the server's core. Source: benchmarks/README.md, "A million tasks"."""

_FIRST = itemgetter(0)
"""The reader of push_plain: 0 if the tasks are stored, else the caller must use push."""

PUSH_BATCH = 125
"""Tasks in one round trip of push_many: under 5 ms of server time, also into a closed group of a
million. Source: benchmarks/README.md."""

POP_BATCH = 125
"""Tasks in one round trip of pop_many: under 5 ms of server time in groups, 5 to 7 ms if all groups
have limits. Source: benchmarks/README.md."""

ACK_BATCH = 250
"""Tasks in one round trip of ack_many: each may open its group, if it had the last lease."""

LEAST_PLAIN_MS = 10_000
"""Milliseconds of the shortest lease that the short way of pop can give: it watches no leases."""

EXTEND_BATCH = 250
"""Leases extended in one round trip. Source: benchmarks/README.md."""

LONGEST_PAUSE = 63
"""Calls for which the short way is not tried, after several refusals."""

FORGIVEN_AFTER = 64
"""Calls that go the short way in a row, after which earlier refusals count no more."""


class Shortcut:
    """The decision whether the next call tries the short way: a script for what most queues need.

    If there is more to do, such a script changes nothing, and the whole script must be asked: one
    more round trip. So a call goes the short way only if it could have answered the call before,
    or is the first. After a refusal, the next calls do not try it. Threads may share it.
    """

    def __init__(self) -> None:
        self.expected = True  # a call has gone, or could have gone, the short way
        self.pause = 0  # calls that did not try it after the last refusal; 0 if that is forgiven
        self.left = 0  # calls that do not try it from now on
        self._in_a_row = 0

    def is_open(self) -> bool:
        """Return True if the next call is to try the short way."""
        if self.left:
            self.left -= 1
            return False
        return self.expected

    def expect(self, plain: bool) -> None:
        """Note whether a call has gone, or could have gone, the short way."""
        self.expected = plain
        if self.pause and plain:
            self._in_a_row += 1
            if self._in_a_row > FORGIVEN_AFTER:
                self.pause = 0

    def refuse(self, *, again: bool = False) -> None:
        """Note that the short way was tried in vain; with `again`, later calls still try it."""
        self.expected = again
        self._in_a_row = 0
        self.pause = self.left = min(2 * self.pause + 1, LONGEST_PAUSE)


class QueueOperations(StoredOperations[P], WorkerOperations, BatchOperations[P]):
    """Every operation on a queue; those without a docstring are as in `DPQ` and `q.admin`.

    Of the `client`, only the address is read, by `dpq.otel`.
    """

    client: Any = None

    def __init__(self, description: Description[P]) -> None:
        super().__init__(description)
        self._pushes = PushChecker(description)
        self._read_batch = partial(replies.read_batch, description.codec)
        self._short_push, self._short_pop, self._short_ack = Shortcut(), Shortcut(), Shortcut()

    # Adding

    def push(self, push: Push[P], trace: str = "") -> Steps[str]:
        """Add one task; `trace` is the traceparent that it carries, or ""."""
        checked, short = self._pushes.check(push, trace), self._short_push
        ids = new_ids(1)  # of both ways: a push whose reply was lost finds its task stored
        if not short.left and type(checked[0]) is str and checked[1].find(b"\t\n", 0, 40) > 0:
            (id_,) = ids
            args: list[Any] = [self._clock() if self._clock else "", id_, *checked]
            if (yield self._command("push_plain", args, _FIRST)) == 0:
                if short.pause:
                    short.expect(True)
                return id_
            short.refuse(again=True)
        return (yield from self._push((checked,), ids=ids))[0]

    def check_push(self, push: Push[P]) -> None:
        """Raise the error with which `push` would refuse a push."""
        self._pushes.check(push)

    def push_many(self, pushes: Iterable[Push[P]], trace: str = "") -> Steps[list[str]]:
        ids: list[str] = []
        checked = (self._pushes.check(push, trace) for push in pushes)
        for batch in in_batches(checked, PUSH_BATCH, lambda each: len(each[1])):
            ids += yield from self._push(batch, ids)
        return ids

    def _push(
        self, batch: Sequence[Checked], stored: Sequence[str] = (), ids: list[str] | None = None
    ) -> Steps[list[str]]:
        """Add a batch; `stored` are the ids of the batches of this call before it."""
        ids = ids or new_ids(len(batch))
        args: list[Any] = [self._now()]
        keys: dict[int, str] = {}
        now_ms = None
        for id_, (spec, body) in zip(ids, batch, strict=True):
            if not isinstance(spec, str):
                if "after" in spec:
                    number = len(stored) + len(args) // 3
                    spec = with_ids(spec, number, [*stored, *ids])
                if "at" in spec or "cron" in spec:
                    if now_ms is None:  # this machine's clock may be wrong
                        now_ms = yield from self.server_time()
                    spec = with_times(spec, now_ms)
                if "key" in spec:
                    keys[len(args) // 3] = spec["key"]
            args += (id_, spec if isinstance(spec, str) else to_json(spec), body)
        plain = type(batch[0][0]) is str and type(batch[-1][0]) is str
        if plain and self._short_push.is_open():
            if (yield self._command("push_plain", args, _FIRST)) == 0:
                self._short_push.expect(True)
                return ids
            self._short_push.refuse(again=True)
        command = self._command("push", args, partial(replies.read_ids, self.queue_name, ids, keys))
        try:
            while (yield command):  # there is no queue yet, or it was dropped meanwhile
                yield from self.open(create=True)
        except QueueFullError as full:
            full.stored = dict(enumerate(stored))
            raise
        return ids

    def seal_batch(
        self, name: str, on_finish: Push[P] | None, trace: str = ""
    ) -> Steps[BatchState]:
        """Seal a batch; `on_finish` is the push of the task that waits for its end."""
        if on_finish is None:
            return (yield from self.seal(name))
        yield from self._push((self._pushes.check(on_finish, trace, name),))
        return (yield from self.batch(name))

    # Taking

    def pop(
        self,
        most: int,
        visibility: float | None,
        waiter: str = "",
        most_bytes: int = BATCH_BYTES,
        wanted: tuple[str, str] | tuple[()] = (),
        ahead_ms: int = 0,
        beyond: int = 0,
    ) -> Steps[Batch[P]]:
        """Lease the best tasks, after the upkeep that is due; bury tasks that cannot be read.

        `wanted` is the id of the only task to lease, and "1" to take it also if it is delayed.
        If `ahead_ms` is given, limits may also let tasks begin that much later (`Batch.waits_ms`),
        and there may be `beyond` more of them.
        """
        most, ms = whole_number("max_tasks", most, 1, MAX_BATCH), self.description.visibility_ms
        if visibility is not None:
            ms = milliseconds("visibility", visibility, least=0.001)
        read = partial(self._read_batch, lease_ms=ms)
        tasks: list[Task[P]] = []
        buried: list[tuple[str, str]] = []
        failed: Exception | None = None
        waits: list[float] = []
        size = 0
        # A waiter that has watched means a nearly empty queue.
        known = waiter in ("", "-") and ms >= LEAST_PLAIN_MS and not wanted
        short = known and self._short_pop.is_open()
        while True:
            count = min(most - len(tasks), POP_BATCH)
            # A caller that has tasks does not wait; but a worker may have threads that do.
            who = waiter if ahead_ms or not tasks else ""
            room = max(most_bytes - size, 0)  # with no room, pop still gives the first task
            args: list[Any] = [self._now(), count, ms, room]
            if not short:
                args += (UPKEEP_BATCH, who, *wanted)
                if ahead_ms:
                    args += ("", "", ahead_ms, beyond if len(tasks) + count == most else 0)
            elif room == BATCH_BYTES:
                args.pop()  # `room` has its usual value
            try:
                batch: Batch[P] = yield self._command("pop_plain" if short else "pop", args, read)
                if ahead_ms:
                    waits += batch.waits_ms or [0] * len(batch.tasks)
                tasks += batch.tasks
                if known and len(batch.tasks) == count and not batch.waits_ms:
                    self._short_pop.expect(short or _is_plain(batch.tasks[-1]))
                elif short:
                    self._short_pop.refuse()
                else:
                    self._short_pop.expect(False)
                for task, reason in batch.unreadable:
                    with suppress(LeaseLostError):
                        yield from _loosely(self.bury(task, reason))
                        buried.append((task.id, reason))
                for task, failed in batch.refused:
                    fail = self.fail(task, error_line(failed), None, source=source_of(failed))
                    with suppress(LeaseLostError):
                        yield from _loosely(fail)
            except Exception:
                if not tasks:
                    raise
                batch = Batch([], [])  # the tasks that are leased must reach the caller
                break
            if failed and not tasks:
                break
            size += batch.size
            if short and len(batch.tasks) < count and (not tasks or size < most_bytes):
                short = False  # pop may find more tasks, which pop_plain refuses
                continue
            if batch.again or (batch.unreadable and not tasks):
                continue
            if len(batch.tasks) < count or len(tasks) >= most or size >= most_bytes:
                break
        return batch._replace(
            tasks=tasks, unreadable=[], refused=(), failed=failed, buried=buried, waits_ms=waits
        )

    # Ending or going on with a delivery

    def ack(self, task: Task[P], cost: Cost | None = None, result: str = "") -> Steps[bool]:
        """Finish a task; `cost` is what it has spent, `result` the line of its result, or ""."""
        return self._ack(task, cost, result)

    def _ack(self, task: Task[P], cost: Cost | None, result: str) -> Steps[bool]:
        """Finish a task; `ack_many` calls it too, whose span is that of all its tasks."""
        told = write_spent(cost)
        short = self._short_ack
        goes = short.expected and not told and not result and _is_plain(leased(task))
        if goes and (not short.left or short.is_open()):
            args = [self._now(), task.id, task.token]
            command = self._command("ack_plain", args, not_)
            if (yield command if task.group else command._replace(keys=command.keys[:4])):
                return True
            short.refuse()
        done: Any = None
        while done is None or isinstance(done, Later):  # repeat for a cron task's later time
            args = [self._now(), leased(task).id, _token(task, done, told)]
            if result:
                args.append(f"{result}\n")
            done = yield self._command("ack", args, partial(replies.read_ack, task.id))
        short.expect(bool(done) and _is_plain(task))
        return bool(done)

    def ack_many(
        self,
        tasks: Iterable[Task[P]],
        costs: Iterable[Cost | None] | None = None,
        results: Iterable[str] | None = None,
    ) -> Steps[list[bool]]:
        done: list[bool] = []
        lost: list[str] = []
        given = list(tasks)
        spent = [None] * len(given) if costs is None else list(costs)
        lines = [""] * len(given) if results is None else list(results)
        for name, entries in (("costs", spent), ("results", lines)):
            if len(entries) != len(given):
                raise ConfigurationError(
                    f"{name} has {len(entries)} entries for {len(given)} tasks: give one for each, "
                    "or None"
                )
        if len(given) == 1:
            return [(yield from self._ack(given[0], spent[0], lines[0]))]
        told = list(map(write_spent, spent))
        acks = zip(given, told, lines, strict=True)
        for some in in_batches(acks, ACK_BATCH, lambda ack: len(ack[2])):
            batch = [task for task, _, _ in some]
            codes: list[Any] = [None] * len(batch)
            first: dict[Any, int] = {}
            for i, task in enumerate(batch):
                first.setdefault((leased(task).id, task.token), i)
            todo = list(first.values())  # each task once, though it may be given twice
            while todo:  # repeat for the cron tasks that need a later time
                args: list[Any] = [self._now()]
                for i in todo:
                    task = batch[i]
                    args += (task.id, _token(task, codes[i], some[i][1]))
                read = partial(replies.read_codes, args[1::2])
                if any(some[i][2] for i in todo):
                    args.append("".join(f"{some[i][2]}\n" for i in todo))
                found = yield self._command("ack", args, read)
                for i, code in zip(todo, found, strict=True):
                    codes[i] = code
                todo = [i for i in todo if isinstance(codes[i], Later)]
            codes = [codes[first[task.id, task.token]] for task in batch]
            done += [code == replies.DONE for code in codes]
            lost += [t.id for t, code in zip(batch, codes, strict=True) if code == Code.LEASE_LOST]
        if lost:
            raise LeaseLostError("ack", lost)
        return done

    def extend(self, task: Task[P], seconds: float) -> Steps[int]:
        args = [self._now(), leased(task).id, task.token]
        args.append(milliseconds("seconds", seconds, least=0.001))
        read = partial(replies.read_lease, "extend", task.id)
        return self._ask("extend", args, lambda reply: read(reply[0]))

    def extend_many(self, leases: Sequence[tuple[Any, float]]) -> Steps[list[Kept]]:
        """Keep leases alive, each for its seconds from now; also those of permits."""
        if any(isinstance(held, HeldPermit) for held, _ in leases):
            return (yield from self._extend_permits(leases))
        kept: list[Kept] = []
        for batch in in_batches(leases, EXTEND_BATCH):
            args: list[Any] = [self._now()]
            for task, seconds in batch:
                args += (task.id, task.token, milliseconds("seconds", seconds, least=0.001))
            ends = yield self._command("extend", args, same)
            kept += (None if end == Code.CANCELLED else end >= 0 for end in ends)
        return kept

    def _extend_permits(
        self, leases: Sequence[tuple[Task[Any] | HeldPermit, float]]
    ) -> Steps[list[Kept]]:
        tasks = [(task, seconds) for task, seconds in leases if isinstance(task, Task)]
        permits = [(held, seconds) for held, seconds in leases if isinstance(held, HeldPermit)]
        kept = iter((yield from self.extend_many(tasks)) if tasks else [])
        extensions = [self.extend_permit(held, seconds) for held, seconds in permits]
        going = iter((yield from all_of(extensions)))
        return [next(kept if isinstance(task, Task) else going) for task, _ in leases]

    def set_visibility(self, task: Task[P], seconds: float) -> Steps[int]:
        ms = milliseconds("seconds", seconds)
        return self._of_holder("set_visibility", "set_visibility of", task, ms)

    def spent(self, task: Task[P], cost: Cost | None, units: Mapping[str, int]) -> Steps[bool]:
        """Replace a delivery's charge by what it has spent; False if that was reported before."""
        told = write_spent(cost, units)
        if not told:
            raise ConfigurationError("spent tells nothing: give a cost, or units as in tokens=812")
        return bool((yield from self._of_holder("spent", "spent of", task, told)))

    def release(
        self,
        task: Task[P],
        delay: float | timedelta,
        priority: float | None,
        cost: Cost | None = None,
    ) -> Steps[int]:
        place = delay_milliseconds(delay), *priority_or_none(priority)
        return self._of_holder("release", "release", task, *place, *_trimmed(write_spent(cost)))

    def fail(
        self,
        task: Task[P],
        error: object,
        delay: float | timedelta | None,
        cost: Cost | None = None,
        priority: float | None = None,
        source: str = "",
    ) -> Steps[int]:
        """Count a failed attempt; `source` says where the error comes from."""
        leased(task)
        if delay is None:
            chance = random.random()  # noqa: S311 - spreads load, guards nothing
            delay = delay_after(task.backoff or self.description.backoff, task.attempt, chance)
        ms, message = delay_milliseconds(delay), "" if error is None else one_line(error)
        source = source or source_of(error)
        more = _trimmed(write_spent(cost), *priority_or_none(priority), source)
        done: Any = None
        while done is None or isinstance(done, Later):  # repeat for a cron task's later time
            args = [self._now(), task.id, _token(task, done), ms, message, *more]
            done = yield self._command("fail", args, partial(replies.read_fail, task.id))
        return int(done)

    def bury(
        self,
        task: Task[P],
        reason: object,
        cost: Cost | None = None,
        priority: float | None = None,
        source: str = "",
    ) -> Steps[int]:
        source = source or source_of(reason)
        more = _trimmed(write_spent(cost), *priority_or_none(priority), source)
        return self._of_holder("bury", "bury", task, one_line(reason), *more)

    def bury_silently(self, task: Task[P], reason: str) -> Steps[int]:
        """Give one task of many up: `tell_by_hand` adds one event for all."""
        return self._of_holder("bury", "bury", task, one_line(reason), *("",) * 5)

    def tell_by_hand(self, detail: str, by: str) -> Steps[int]:
        """Add the one event of an action on many tasks; `by` names who has done it, or is ""."""
        return self._ask("bury", [self._now(), "", "", one_line(detail), "", "", "", "", by], same)

    def rate_limited(
        self,
        task: Task[Any],
        retry_after: float,
        scope: Scope,
        cost: Cost | None = None,
        status: int | None = None,
        reason: str = "",
        *,
        guessed: bool = False,
    ) -> Steps[int]:
        """Give a task back that met a limit, and close its member, its group or the queue."""
        require_scope(scope)
        ms = milliseconds("retry_after", retry_after) * (-1 if guessed else 1)
        more = _trimmed(write_spent(cost), status_text(status), one_line(reason[:200]))
        return self._of_holder("rate_limited", "rate_limited of", task, ms, scope, *more)

    def _of_holder(self, script: str, action: str, task: Task[Any], *more: Any) -> Steps[int]:
        read = partial(replies.read_lease, action, leased(task).id)
        return self._ask(script, [self._now(), task.id, task.token, *more], read)

    def finish(
        self,
        task: Task[P],
        error: BaseException | None,
        cost: Cost | None = None,
        result: str = "",
        delay: float | timedelta | None = None,
        worker: str = "",
    ) -> Steps[Any]:
        """End a delivery by the error that its work raised; None for no error."""
        match error:
            case None:
                return self.ack(task, cost, result)
            case RateLimited(retry_after=seconds, scope=scope, status=status, reason=reason):
                more = cost, status, reason
                return self.rate_limited(task, seconds, scope, *more, guessed=error.guessed)
            case Reject():
                return self.bury(task, error.reason, cost, None, source_of(error, worker))
            case Release():
                return self.release(task, error.delay, None, cost)
            case Retry():
                delay = delay if error.delay is None else error.delay
                return self.fail(task, error, delay, cost, None, source_of(error, worker))
            case Exception():
                source = source_of(error, worker)
                return self.fail(task, error_line(error), delay, cost, None, source)
        return self.release(task, 0, None, cost)

    # The whole queue

    def pause(self, seconds: float | None, by: str | None = None) -> Steps[Any]:
        ms = "inf" if seconds is None else milliseconds("seconds", seconds, least=0.001)
        return self._ask("pause", [self._now(), ms, _who(by)], same)

    def resume(self, by: str | None = None) -> Steps[Any]:
        return self._ask("pause", [self._now(), 0, _who(by)], same)

    def promote(self) -> Steps[Promoted]:
        return self._ask("promote", [self._now(), UPKEEP_BATCH], replies.read_promoted)

    def next_event(self) -> Steps[int | None]:
        """Return the ms until the next event."""
        return self._ask("next_event", [self._now()], replies.read_wait)


def _trimmed(*texts: str) -> tuple[str, ...]:
    """Leave out the last arguments of a script that are empty."""
    while texts and not texts[-1]:
        texts = texts[:-1]
    return texts


def _loosely(steps: Steps[Any]) -> Steps[None]:
    """Run an operation without waiting for a confirmation: there are tasks to hand out."""
    reply = None
    try:
        while True:
            command = cast("Command[Any]", steps.send(reply))
            reply = yield command._replace(needs_confirmation=False)
    except StopIteration:
        return


def _is_plain(task: Task[Any]) -> bool:
    """Return True if the short ways probably serve tasks like this one."""
    return task.deliveries == 1 and task.key is None and task.cron is None and task.every is None


def _token(task: Task[Any], later: Later | None, told: str = "") -> int | str:
    """Make the token for ack and fail, with a cron task's next times, and what it has spent."""
    token: int | str = task.token
    if later:
        token = claim(task.token, later, 4)  # for a cron line of seconds on a slow network
    elif task.cron is not None and task.scheduled_at is not None:
        due_ms = round(task.scheduled_at.timestamp() * 1000)
        token = claim(task.token, Later(due_ms, task.cron), 1)
    return f"{token}{SPENT}{told}" if told else token


def _who(by: str | None) -> str:
    return "" if by is None else label("by", by)
