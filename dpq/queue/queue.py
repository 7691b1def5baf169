"""DPQ, the blocking queue: hands operations to its session, and waits.

Data flows one way: caller -> queue -> command -> script -> reply. Nothing here decides about tasks.
"""

from __future__ import annotations  # the import makes no model for each `Task[P]`

import logging
import math
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from datetime import UTC, datetime, timedelta
from functools import partial
from types import TracebackType
from typing import Any, Concatenate, Never, ParamSpec, Self, TypeVar, Unpack, overload

from redis.exceptions import ResponseError

from dpq.model.diagnosis import server_problems, wants_save
from dpq.model.errors import (
    ConfigurationError,
    LeaseLostError,
    NotConfirmedError,
    Scope,
    Signal,
    signal_of,
)
from dpq.model.limits import Adaptive, LimitState, RateLimit, Reserve
from dpq.model.task import (
    OnDuplicate,
    P,
    Popped,
    Problem,
    Push,
    QueueStats,
    Task,
    TaskState,
    WorkerInfo,
)
from dpq.model.validation import milliseconds, task_state
from dpq.operations.queue import QueueOperations
from dpq.protocol.command import Steps
from dpq.protocol.keys import REGISTRY, key_of
from dpq.queue.base import QueueFace, QueueSettings, operations_of
from dpq.queue.dead import DeadLetters
from dpq.queue.lease_loops import LeaseLoop
from dpq.queue.lease_renewal import Keeper
from dpq.transport.cluster import ask, reachable, unspoiled
from dpq.transport.confirmed import link_for
from dpq.transport.connect import Opened, open_url
from dpq.transport.connections import Link
from dpq.transport.server_check import keeps_nothing_on_purpose
from dpq.transport.session import QueueSession, Session, save_points
from dpq.transport.waiter import Waiters, asking, looked, sleep, watched

__all__ = ["DPQ", "known_queues"]

log = logging.getLogger(__name__)

T = TypeVar("T")
A = ParamSpec("A")


class DPQ(QueueFace[P]):
    """A delayed priority queue with visibility timeouts.

    One object serves any number of threads. A client library may send a call again when the reply
    is lost; every script is safe to send again, and each method says what it means.
    """

    _opened: Opened | None = None
    _session: QueueSession[QueueOperations[P]]
    _leases: Keeper
    _waiters: Waiters

    def _start(self) -> None:
        connections = link_for(self._redis, self.durability)
        self._session = QueueSession(
            self._redis,
            connections,
            self._operations,
            durability=self.durability,
            queue_name=self.queue_name,
            agreed=self._watch_all,
        )
        self._leases = Keeper(self._extend_many)
        self._waiters = Waiters(connections.nodes, self._operations.markers)
        if self._described.named:
            self._session.open()

    def _watch_all(self) -> None:
        """Block on the markers of all partitions, once their number is known."""
        markers = self._operations.markers
        if len(markers) != len(self._waiters.markers):
            self._waiters.close()
            self._waiters = Waiters(self._session.connections.nodes, markers)

    @overload
    @classmethod
    def from_url(
        cls, url: str, queue_name: str, *, payload_type: type[T], **settings: Unpack[QueueSettings]
    ) -> DPQ[T]: ...
    @overload
    @classmethod
    def from_url(
        cls,
        url: str,
        queue_name: str,
        *,
        payload_type: Any = ...,
        **settings: Unpack[QueueSettings],
    ) -> Self: ...
    @classmethod
    def from_url(cls, url: str, queue_name: str, **settings: Any) -> Any:
        """Open a queue by URL, with a client of its own that has safe timeouts and retries.

        Args:
            url: `redis://`, `rediss://`, `unix://`, `redis+cluster://host,host`,
                `redis+sentinel://host,host/service`, `embedded:` (a private, throw-away server) or
                `embedded:DIR` (a durable one, shared by all processes that open DIR).
            queue_name: As for `DPQ`.
            settings: The keyword arguments of `DPQ`.

        Raises:
            ConfigurationError: The URL or an argument is wrong.
        """
        opened = open_url(url)
        try:
            queue = cls(opened.client, queue_name, **settings)
        except BaseException:
            opened.close()
            raise
        queue._opened = opened
        queue._session.opened_label = opened.label
        return queue

    def close(self) -> None:
        """Close the connections that this object opened; a caller's client stays open."""
        self._session.refusal = self._refusal()
        self._leases.close()
        self._waiters.close()
        self._session.close()
        if self._opened:
            self._opened.close()

    def __enter__(self) -> Self:
        self._session.refusal = ""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    # Adding

    def push(
        self,
        payload: P,
        priority: float = 0,
        delay: float | timedelta = 0,
        *,
        group: str | None = None,
        key: str | None = None,
        on_duplicate: OnDuplicate = "keep",
        max_attempts: int | None = None,
        expires_in: float | None = None,
        cost: int = 1,
        every: float | None = None,
        cron: str | None = None,
        timezone: str = "UTC",
        at: datetime | None = None,
        visibility: float | None = None,
        time_limit: float | None = None,
    ) -> str:
        """Add a task, ready now or after `delay`.

        Args:
            payload: What JSON can say, or what the queue's `payload_type` takes.
            priority: Any int from -2^63 to 2^63-1 or finite float; bigger runs first.
            delay: Seconds, or a timedelta, until the task is ready: 0 to 315 360 000 (10 years).
            group: What it shares a limit with: 1 to 200 bytes.
            key: Makes the task unique while it is stored, dead included: 1 to 200 bytes. In a
                partitioned queue that holds within its group, or among tasks without one; whether
                two groups may use the same key depends on where they live (docs/scaling.md).
            on_duplicate: What to do when the key is taken. `keep` it as it is; `update` its
                payload, priority and delay in place (of a running task the delay is left out);
                `raise_priority` to the higher; `rerun` it once more after its ack when it is
                running, else update; or `error`. A dead holder is revived by `update` and `rerun`.
            max_attempts: Failed attempts until it is dead; None takes the queue's default.
            expires_in: Seconds within which it must start, else it is dead with the reason
                `expired`.
            cost: Units that it takes of every limit, from 1 to 1 000 000. One that costs more than
                a window ever grants takes all of it.
            every: Makes the task recurring: after each ack it comes back at the next of the times
                that are so many seconds (0.001 to 10 years) apart, counted from the first due.
            cron: Makes it recurring at the times of a cron expression of five fields (six: seconds
                first); it is first due at the next one, so there is no `delay`.
            timezone: In which zone `cron` is meant: an IANA name, as in `Europe/Berlin`.
            at: When the task is ready, instead of `delay`: a datetime with a time zone, at most 10
                years ahead; now, when it has passed. By the server's clock, which is asked first:
                one round trip more, and late by as much.
            visibility: Seconds of each lease of this task, 0.001 to 10 years, instead of what its
                consumers say.
            time_limit: Seconds that a worker lets its handler run, 0.001 to 10 years, instead of
                the worker's own limit.

        Of a recurring task `expires_in` counts from each time it is due. A run whose attempts are
        spent is given up, and the task waits for its next time. An `update` that names no `every`
        or `cron` makes it a task of one run; see docs/recurring.md.

        Returns:
            The task's id, or that of the key's holder. A retry by the client library is harmless; a
            push that the caller repeats needs a `key`.

        Raises:
            ConfigurationError: An argument is out of its bounds, or the key's holder is in another
                group.
            PayloadError: The payload has no JSON form, is too long or does not fit the type.
            DuplicateTaskError: The key is taken and `on_duplicate="error"`. Nothing changed.

        Source: docs/design.md, "Order" and "Keys".
        """
        return self._session.run(
            self._operations.push,
            payload,
            priority,
            delay,
            group,
            key,
            on_duplicate,
            max_attempts,
            expires_in,
            cost,
            every,
            cron,
            timezone,
            at,
            visibility,
            time_limit,
        )

    def push_many(self, pushes: Iterable[Push[P]]) -> list[str]:
        """Add any number of tasks, up to 200 in a round trip.

        Each batch is checked whole before anything of it is written: all of it or nothing is added.
        Of a partitioned queue that is so in each partition; several travel together.

        Returns:
            The ids, in the order given.

        Raises:
            As `push`. Batches before the refused one stay.
        """
        if isinstance(pushes, Iterator):  # it can be read only once
            self._session.require_open()
            self._session.ready(create=True)
        return self._session.run(self._operations.push_many, pushes)

    # Taking

    @overload
    def pop(self, timeout: None, visibility: float | None = None) -> Popped[P, Never]: ...
    @overload
    def pop(self, timeout: float = 0, visibility: float | None = None) -> Popped[P]: ...
    def pop(self, timeout: float | None = 0, visibility: float | None = None) -> Popped[P, Any]:
        """Take the best ready task under a lease.

        Args:
            timeout: Seconds to wait for a task, on the server and without polling; 0 does not wait,
                None waits for ever.
            visibility: Seconds of the lease, from 0.001; None takes the queue's default.

        Returns:
            `(task, on_success, set_visibility)`, or three times None. A pop whose reply is lost
            costs a lease and an attempt: the task comes back when the lease ends.

        Raises:
            Exception: What a validator of `payload_type` has raised beside ValueError and
                AssertionError: a fault of its own. The delivery is a failed attempt.

        Source: docs/design.md, "Waiting".
        """
        return self._popped(self._take(1, timeout, visibility))

    def pop_many(
        self, max_tasks: int, timeout: float | None = 0, visibility: float | None = None
    ) -> list[Task[P]]:
        """Take up to `max_tasks` of the best: 1 to 1000, and up to 4 MiB of payloads, but at least
        one (of each partition that it takes from).

        Up to 125 in a round trip; other consumers may pop in between. `timeout` and `visibility`
        are those of `pop`; it waits for the first task only.
        """
        return self._take(max_tasks, timeout, visibility)

    def _take(self, most: int, timeout: float | None, visibility: float | None) -> list[Task[P]]:
        if timeout is not None:
            milliseconds("timeout", timeout)
        who = "" if timeout == 0 else "-"
        batch = self._session.run(self._operations.pop, most, visibility, who)
        if timeout == 0 or batch.failed or (batch.tasks and not batch.looks):
            return self._readable(batch)
        until = math.inf if timeout is None else time.monotonic() + timeout
        while True:
            waiters = self._waiters
            with waiters.take() as waiter:
                watches = looked(batch)
                while not batch.tasks and sleep(waiter, watches, until):
                    batch = self._session.run(
                        self._operations.pop, most, visibility, asking(watches)
                    )
                    if self._waiters is not waiters:  # the queue has begun, with partitions
                        watches = []
                        break
                    if batch.failed:
                        break
                    watches = looked(batch, watches)
                waiter.withdraw(watched(watches))
            if self._waiters is waiters or batch.failed:
                return self._readable(batch)

    @overload
    def lease(
        self, timeout: None, visibility: float | None = None
    ) -> AbstractContextManager[Task[P]]: ...
    @overload
    def lease(
        self, timeout: float = 0, visibility: float | None = None
    ) -> AbstractContextManager[Task[P] | None]: ...
    @contextmanager
    def lease(self, timeout: float | None = 0, visibility: float | None = None) -> Iterator[Any]:
        """Pop a task for the body of a `with`, and settle it at the end.

        A clean end acks the task; a signal (`RateLimited`, `Release`, `Retry`, `Reject`) does what
        it says, and ends there; any other error fails it and propagates; KeyboardInterrupt and
        SystemExit release it. While the body runs, the lease is extended at a third of its time. A
        body that settles the task itself (`fail`, `bury`, `release`, `set_visibility`,
        `rate_limited`, `ack`) has the last word.

        Yields:
            The task, or None when there is nothing to do.

        Raises:
            LeaseLostError: At a clean end, when another consumer has got the task meanwhile.
        """
        tasks = self._take(1, timeout, visibility)
        if not tasks:
            yield None
            return
        task = tasks[0]
        try:
            self._leases.hold(task, visibility or self.default_visibility)
            try:
                yield task
            except BaseException as raised:
                error = signal_of(raised)
                self._end_lease(task, error)
                if not isinstance(error, Signal):
                    raise
            else:
                if self._leases.let_go(task):
                    self.ack(task)
        finally:  # also where this was interrupted: nobody else would let it run out
            self._leases.let_go(task)

    def _end_lease(self, task: Task[P], error: BaseException) -> None:
        """Settle a task whose body has raised."""
        if self._leases.let_go(task):
            try:
                self._session.run(self._operations.settle, task, error)
            except LeaseLostError:
                log.warning("%s: lease of %s lost before its end", self.queue_name, task.id)
            except NotConfirmedError as unsure:  # what the body has met tells more
                log.warning("%s: %s", self.queue_name, unsure)

    def leases(self, visibility: float | None = None, *, until_empty: bool = False) -> LeaseLoop[P]:
        """Loop over tasks, best first: `for task in q.leases(until_empty=True)`.

        Each lease is extended while the body runs. The next step of the loop acks the task before:
        so does `continue`, and `list(q.leases(...))` finishes tasks that nobody has worked on. A
        body that settles its task itself (`rate_limited`, `release`, `fail`, `bury`, `ack`, ...)
        has the last word.

        A loop that is left early (`break`, `return`, an exception) does not ack its last task, nor
        does another `for` over the same loop. That task comes back when its lease ends, and an
        attempt is counted. The lease is extended while the loop object lives, so keep it in no
        variable, but in a `with`. There the task is settled at once, as by `lease()`: given back,
        uncounted, at `break`, `return` and Ctrl-C; failed at an error; at a signal as that says.
        Errors and signals propagate, since the loop has ended:

            with q.leases() as tasks:
                for task in tasks: ...

        A lease that was lost is logged, and the loop goes on.

        Args:
            visibility: Seconds of each lease, from 0.001; None takes the queue's default.
            until_empty: End at once when no live task is left; delayed ones are waited for, and
                those that run elsewhere (looked at each second). Else it waits for ever.
        """
        return LeaseLoop(self, visibility, until_empty)

    def _extend_many(self, leases: Sequence[tuple[Task[Any], float]]) -> list[bool]:
        return self._session.send(self._operations.extend_many(leases))

    def _end(
        self,
        verb: Callable[Concatenate[Task[P], A], Steps[T]],
        task: Task[P],
        *args: A.args,
        **named: A.kwargs,
    ) -> T:
        """Run what ends a delivery: once its arguments are checked, its lease is not extended."""
        return self._session.run_after(
            partial(self._leases.let_go, task), verb, task, *args, **named
        )

    # Ending or going on with a delivery

    def ack(self, task: Task[P]) -> bool:
        """Finish a task: it is gone, from whatever state it is in while its token is live.

        A recurring task comes back at its next time, as a new one under the same id.

        Returns:
            False when it was gone already (a retried ack).

        Raises:
            LeaseLostError: Another delivery has it. Nothing changed.
        """
        return self._end(self._operations.ack, task)

    def ack_many(self, tasks: Iterable[Task[P]]) -> list[bool]:
        """Finish tasks, up to 250 in a round trip.

        Returns:
            For each task what `ack` returns.

        Raises:
            LeaseLostError: Other deliveries have some of them; all the others are finished.
        """
        return self._session.run(self._operations.ack_many, list(tasks))

    def extend(self, task: Task[P], seconds: float) -> datetime:
        """Go on working: the lease now ends `seconds` (0.001 to 10 years) from now.

        A crash after it still counts as an attempt. A retry sets the same time once more.

        Returns:
            The new end of the lease, UTC.

        Raises:
            LeaseLostError: The token is not the live one, or the delivery is settled. Nothing
                changed.
        """
        return datetime.fromtimestamp(
            self._session.run(self._operations.extend, task, seconds) / 1000, UTC
        )

    def set_visibility(self, task: Task[P], seconds: float) -> None:
        """Hide a task for `seconds` (0 to 10 years) from now; this delivery is no failed attempt.

        Meanwhile the task is DELAYED; the holder may still ack or extend it until somebody else has
        popped it. Counts one deferral, however often it is called in one delivery.

        Raises:
            LeaseLostError: The token is not the live one, or the delivery is settled. Nothing
                changed.
        """
        self._end(self._operations.set_visibility, task, seconds)

    def release(
        self, task: Task[P], delay: float | timedelta = 0, *, priority: float | None = None
    ) -> None:
        """Give a task back, not counted; it keeps its place among equal priorities.

        Args:
            task: What pop returned.
            delay: Seconds, or a timedelta, until it is ready: 0 to 10 years.
            priority: A new priority, or None to keep it.

        Raises:
            LeaseLostError: The token is not the live one, or `fail` or `bury` came first. Nothing
                changed.
        """
        self._end(self._operations.release, task, delay, priority)

    def fail(
        self, task: Task[P], error: object = None, delay: float | timedelta | None = None
    ) -> None:
        """Count a failed attempt: the task comes back, or is dead when its attempts are spent.

        A recurring task does not die then: it waits for its next time, with all attempts before it.

        Args:
            task: What pop returned.
            error: Kept as `last_error`, up to 1000 characters.
            delay: Seconds, or a timedelta, until the next attempt; None takes the queue's backoff.

        Raises:
            LeaseLostError: The token is not the live one, or `release` or `bury` came first.
                Nothing changed.
        """
        self._end(self._operations.fail, task, error, delay)

    def bury(self, task: Task[P], reason: object) -> None:
        """Give a task up: it goes to the dead letters with `reason` (up to 1000 characters).

        Raises:
            LeaseLostError: The token is not the live one, or `fail` or `release` came first.
                Nothing changed.
        """
        self._end(self._operations.bury, task, reason)

    # Looking and changing

    def get(self, task_id: str | None = None, *, key: str | None = None) -> Task[P]:
        """Look at a task; a dead one is a `DeadTask`; an unreadable payload comes as its text.

        The task is named by its id or its key (which in a partitioned queue may name one in each
        group: then one of them).

        Raises:
            TaskNotFoundError: Nothing is stored under this id or key.
        """
        return self._session.run(self._operations.get, task_id, key)

    def peek(
        self,
        n: int = 10,
        state: TaskState | str = TaskState.READY,
        *,
        after: str | None = None,
    ) -> list[Task[P]]:
        """Look at the first `n` tasks of one state, best or soonest first.

        Args:
            n: Tasks at most.
            state: Which ones.
            after: Go on behind the task of this id, the last of the page before. All before it are
                read again, 100 in a round trip.

        Raises:
            TaskNotFoundError: The task of `after` is not in this state any more: begin anew.
        """
        return self._session.run(self._operations.peek, n, task_state(state), after)

    def size(self) -> int:
        """Count the live tasks: ready, delayed, invisible and waiting."""
        stats = self.stats()
        return stats.ready + stats.delayed + stats.invisible + stats.waiting

    def __len__(self) -> int:
        return self.size()

    def stats(self) -> QueueStats:
        """Count the tasks of each state, and read the running totals, in one round trip."""
        return self._session.run(self._operations.stats)

    def update(
        self,
        task_id: str | None = None,
        *,
        key: str | None = None,
        priority: float | None = None,
        delay: float | timedelta | None = None,
        cost: int | None = None,
    ) -> None:
        """Change a live task in place: its priority, its cost (units of every limit, 1 to
        1 000 000), or when it is ready: `delay` seconds (or a timedelta) from now. Of a running
        task priority and cost can change, for its return.

        The task is named by its id or its key (which in a partitioned queue may name one in each
        group). Of a recurring one `delay` moves the next run; the times of `every` then count from
        there.

        Raises:
            TaskNotFoundError: No live task has this id or key. Nothing changed.
            ConfigurationError: An argument is out of its bounds, or a delay was given for a running
                task. (Where a key names several, the others are changed, and the error says so.)
        """
        self._session.run(self._operations.update, task_id, key, priority, delay, cost)

    def cancel(self, task_id: str | None = None, *, key: str | None = None) -> None:
        """Remove a live task; its holder, if it runs, finds it gone. A retry says it is not found.

        The task is named by its id or its key, as for `update`. A recurring one does not come back.

        Raises:
            TaskNotFoundError: No live task has this id or key.
        """
        self._session.run(self._operations.cancel, task_id, key)

    # The whole queue

    def pause(self, seconds: float | None = None) -> None:
        """Stop handing out tasks to anybody, for `seconds` or until `resume`."""
        self._session.run(self._operations.pause, seconds)

    def resume(self) -> None:
        """Hand out tasks again; a closing of the queue after a 429 ends, too."""
        self._session.run(self._operations.resume)

    def purge(self, state: TaskState | str | None = None) -> int:
        """Remove the tasks of one state, or of all, dead ones included, in bounded steps.

        Returns:
            How many went. What is pushed meanwhile may stay.
        """
        return self._session.run(
            self._operations.purge, None if state is None else task_state(state)
        )

    def register(self) -> None:
        """Make the queue be there, and put its name into the list that daemons and the CLI read.

        The first push does both, unless its user may not write that list; then an administrator
        does this once. Safe to call again.

        Raises:
            ConfigurationError: A setting that this client names contradicts the queue.
        """
        self._session.ready()
        self._session.open(create=True)
        self._session.run(self._operations.register)

    def drop(self) -> None:
        """Remove the queue whole: tasks, settings, totals and its name in the registry."""
        self._session.require_open()
        if not self._session.checked:
            self._session.check_server()
        self._session.send(self._operations.drop())  # whatever its format
        self._operations.forget()

    # Limits and groups

    def set_limit(
        self,
        rate: float | str | Sequence[RateLimit] | None = None,
        per: float | None = None,
        burst: int = 1,
        *,
        group: str | None = None,
        concurrency: int | None = None,
        adaptive: Adaptive | None = None,
        reserve: Reserve | None = None,
        slack: float | None = None,
    ) -> None:
        """Limit what is popped, for all consumers at once, those that run already included.

        Replaces what the same queue or group had as its limit. What was granted before still
        counts in a window of the same length, and a learned rate stays, so every process may say it
        at its start.

        Args:
            rate: Units in a window, 0.001 to 1 000 000; or with the window, as the command line
                reads it: `"10/s"`, `"300/15m"`; or several `RateLimit`s, all of which hold.
                Never more than rate + burst - 1 units are granted in any window of `per` seconds.
            per: Seconds of the window, 0.001 to 10 years.
            burst: Units at once after a rest.
            group: A group; `"*"` for every group that has no limit of its own; None for the queue.
            concurrency: Leases out at once, 1 to 1 000 000; alone or with a rate.
            adaptive: Learn the rate between two bounds.
            reserve: Keep some units of the window for higher priorities.
            slack: Seconds by which `per` is widened for the way to the host, 0 to 3600: requests
                that were granted evenly come unevenly. None: learned from 429s, up to a
                quarter of the shortest window and 1 s.

        Raises:
            ConfigurationError: An argument is out of its bounds, or it is a limit of a whole queue
                that has partitions. Nothing changed.

        Source: docs/design.md, "Limits".
        """
        self._session.run(
            self._operations.set_limit,
            rate,
            per,
            burst,
            group,
            concurrency,
            adaptive,
            reserve,
            slack,
        )

    def clear_limit(self, group: str | None = None) -> None:
        """Remove the limit of a group, of every group without its own (`"*"`), or of the queue.

        What a 429 or `delay_group` has closed stays closed: `resume` opens the queue.
        """
        self._session.run(self._operations.clear_limit, group)

    def rate_limited(self, task: Task[P], retry_after: float, scope: Scope = "group") -> None:
        """Give a task back that met a limit, uncounted, with its priority and place.

        Its group (or the queue, when it has none) closes for all consumers; a longer closing is
        never shortened. Then the first task is a probe: the others follow, at the limit's pace,
        when it is acked or given back without another 429. An adaptive limit is halved.

        Args:
            task: What pop returned.
            retry_after: Seconds from now, from 0 to 10 years.
            scope: What closes: `"group"`, `"queue"`, or `"task"` for this task alone.

        Raises:
            LeaseLostError: The token is not the live one, or the delivery is settled. Nothing
                changed.
        """
        self._end(self._operations.rate_limited, task, retry_after, scope)

    def delay_group(self, group: str, seconds: float) -> None:
        """Close a group for all consumers, for `seconds` (0 to 10 years) from now; 0 opens it.

        One entry moves, however many tasks wait in the group. What its limit has granted stands.
        """
        self._session.run(self._operations.delay_group, group, seconds)

    def limits(self) -> list[LimitState]:
        """Look at the queue, the default of all groups, and every group with its own limit."""
        return self._session.run(self._operations.limits)

    def groups(self) -> list[LimitState]:
        """Look at every group that is closed now, or has a limit of its own."""
        return self._session.run(self._operations.groups)

    def group(self, name: str) -> LimitState:
        """Look at one group: its limit, what is left of it, whether it is open, and why not."""
        return self._session.run(self._operations.group, name)

    def why(self, task_id: str) -> str:
        """Say in one sentence why a task is not running.

        Raises:
            TaskNotFoundError: Nothing is stored under this id.
        """
        return self._session.run(self._operations.why, task_id)

    def workers(self) -> list[WorkerInfo]:
        """List the workers of this queue, the longest running first.

        A worker tells of itself when it begins, every 10 s and when it ends. One that died is
        listed for up to 60 s more.
        """
        return self._session.run(self._operations.workers)

    @property
    def dead(self) -> DeadLetters[P]:
        """The dead letters."""
        return DeadLetters(self._session)

    def promote(self) -> int:
        """Do one bounded step of upkeep; a pop does the same before it takes anything.

        Returns:
            How many tasks and groups it moved.
        """
        return self._session.run(self._operations.promote)[0]

    def next_event(self) -> float | None:
        """Seconds until time alone makes a task ready, or None when nothing is to come.

        A pause, and a limit of the queue that is spent, keep nothing from being ready.
        """
        wait = self._session.run(self._operations.next_event)
        return None if wait is None else wait / 1000

    def check(self) -> list[Problem]:
        """Look for broken invariants in all that is stored, in bounded steps.

        Each step sees one moment, so a busy queue gives no false alarms. While a key is of another
        type, only that is named, since nothing can look at the rest.
        """
        return self._session.run(self._operations.check)

    def repair(self) -> list[Problem]:
        """Mend what `check` finds, in bounded steps, while the queue is in use.

        No task is lost: one without its record or its payload goes to the dead letters, with the
        reason `bad record` or `payload missing`; one that is in no set is due again. Keys of
        another type are removed; that of the settings only when this client knows the number of
        partitions, which was stored there: name it. Safe to call twice, and from several places at
        once. A repair whose reply is lost has mended all the same, and names less.

        Returns:
            What it has mended, as `check` names it; one cause may have several names.

        Source: docs/operations.md, "Repair".
        """
        return self._session.run(self._operations.repair)


def inspect_server(queue: DPQ[Any]) -> tuple[list[Problem], list[str]]:
    """Look at how a queue's server is set up; what it does not say is taken for good.

    Returns:
        What endangers tasks; and the rights that are missing to see all of it.
    """
    redis, here = (
        queue.redis,
        queue._session.connections.nodes.aimed(key_of(queue.queue_name, "conf")),
    )
    try:
        with unspoiled(redis), reachable():
            info = redis.info(**here)
    except ResponseError:
        return [], ["+info", "+config|get"]
    if not wants_save(info) or keeps_nothing_on_purpose(redis):
        return server_problems(info, None), []
    save = save_points(redis, here)
    return server_problems(info, save), ["+config|get"] if save is None else []


NAMES_A_CALL = 500
"""Names of queues in one round trip: some 0.1 ms of server time."""


QUEUES_A_CALL = 100
"""Queues that are asked in one round trip: some 5 ms of server time."""


def some_names(redis: Any, cursor: int = 0) -> tuple[int, list[bytes]]:
    """Read a part of the list of names; 0 as the next cursor says that it was the last one."""
    at, names = ask(redis, "SSCAN", REGISTRY, cursor, "COUNT", NAMES_A_CALL)
    return int(at), names


def all_names(redis: Any) -> list[bytes]:
    """Read the list of names, in bounded steps."""
    cursor, names = some_names(redis)
    found = set(names)
    while cursor:
        cursor, names = some_names(redis, cursor)
        found.update(names)
    return sorted(found)


def known_queues(redis: Any) -> list[str]:
    """List the names of all queues on a server, or a cluster, in alphabetical order."""
    return sorted(name.decode("utf-8", "replace") for name in all_names(redis))


def forget_queues(redis: Any, names: Sequence[bytes]) -> int:
    """Take names out of the list; how many were there. What is stored of a queue stays."""
    return int(ask(redis, "SREM", REGISTRY, *names))


def ask_queues(
    redis: Any,
    names: Sequence[bytes],
    what: Callable[[QueueOperations[Any]], Steps[Any]],
) -> Iterator[tuple[str, Any]]:
    """Ask several queues the same, over one connection, some at once.

    Yields:
        A name, and its answer or the error in the place of that.
    """
    session: Session | None = None
    for start in range(0, len(names), QUEUES_A_CALL):
        answers: dict[str, Any] = {}
        queues: dict[str, QueueOperations[Any]] = {}
        for raw in names[start : start + QUEUES_A_CALL]:
            name = raw.decode("utf-8", "backslashreplace")
            answers[name] = ConfigurationError("it is no name of a queue: not UTF-8")
            try:
                queues[name] = operations_of(raw.decode())
            except ConfigurationError as error:
                answers[name] = error
            except UnicodeDecodeError:
                continue
        if session is None and queues:
            session = Session(redis, Link(redis), queue_name=next(iter(queues)))
            session.check_server()
        if session:
            steps = [seen(queue, what) for queue in queues.values()]
            answers |= zip(queues, session.send_all(steps), strict=True)
        yield from answers.items()
    if session:
        session.close()


def seen(
    queue: QueueOperations[Any], what: Callable[[QueueOperations[Any]], Steps[Any]]
) -> Steps[Any]:
    """Agree with a queue on what it is, then do with it what is wanted; its server is checked."""
    if queue.settings is None:
        queue.agree((yield from queue.open()))
    return (yield from what(queue))
