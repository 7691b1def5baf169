# Made from queue_async.py by `make twins`: change that file, not this one.
"""`DPQ`, the blocking queue: hands operations to its session, and waits for tasks.

Callers, workers, the scheduler and the command line use it. Data flows one way: caller -> queue ->
command -> script -> reply. Nothing here decides about tasks. Code that waits, is cancelled or
starts in another way in threads than in an event loop stands in the modules `life`.
"""

from __future__ import annotations  # the import makes no model for each `Task[P]`

import math
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import (
    AbstractContextManager,
    _GeneratorContextManager,
    contextmanager,
)
from datetime import UTC, datetime, timedelta
from functools import cached_property, partial, wraps
from itertools import chain
from typing import (
    TYPE_CHECKING,
    Any,
    Concatenate,
    Never,
    ParamSpec,
    Self,
    TypeVar,
    Unpack,
    overload,
)

from dpq.limits.permit import DEFAULT_LEASE, PermitRequest
from dpq.limits.signals import Scope, Signal, signal_of
from dpq.link.shared import THROWN_AWAY
from dpq.model.errors import ConfigurationError, LeaseLostError, NotConfirmedError
from dpq.model.results import DEFAULT_KEEP, NO_RESULT, progress_text, result_line
from dpq.model.task import Cost, KeyOptions, P, Popped, Push, TaskState, task_state
from dpq.model.validation import milliseconds
from dpq.queue.base import QueueSettings, check_one_client, wanted_task
from dpq.queue.end_log import log_failed
from dpq.queue.inside import process_name
from dpq.queue.life import Keeper, QueueLife

if TYPE_CHECKING:
    from dpq.explain.verdict import Verdict
    from dpq.limits.answers import Headers
    from dpq.limits.budget import Budget
    from dpq.limits.limits import Adaptive, Quota, RateLimit, Reserve
    from dpq.model.reports import BatchState, Problem, QueueStats
    from dpq.model.task import Task
    from dpq.model.task_data import Result
    from dpq.queue.admin import Admin, DeadLetters
    from dpq.queue.lease_loops import LeaseLoop
    from dpq.queue.life import Sleep
    from dpq.queue.permits import Permit
    from dpq.script.command import Steps
    from dpq.script.replies import Batch, Kept


T = TypeVar("T")
A = ParamSpec("A")


class OneLease(_GeneratorContextManager[Any]):
    """The result of `lease`: for a `with`. A `for` gets an error that names `leases`."""

    def __iter__(self) -> Never:
        raise TypeError(
            "lease() takes one task, so write `with q.lease() as task:`; a loop over tasks "
            "is `for task in q.leases():`"
        )


def one_lease(make: Callable[A, Any]) -> Callable[A, AbstractContextManager[Any]]:
    """Do what `contextmanager` does."""
    return wraps(make)(lambda *args, **named: OneLease(make, args, named))


class DPQ(QueueLife[P]):
    """A delayed priority queue with visibility timeouts.

    One object serves any number of threads. If a reply is lost, the client library
    may send the call again. Every script is safe to send again; each method says what a second
    call does. A call that is cancelled may have run all the same. An argument that is out of its
    bounds, or a queue of another storage format, is a `ConfigurationError`, and changes nothing.
    A `task` is what a pop has returned.

    Where calls are awaited, neither the constructor nor `from_url` sends anything: a named setting
    (`order`, ...) is written, or refused, at the first call. And `size()` stands there for `len`.
    """

    def _start(self) -> None:
        from dpq.link.connections import Connections
        from dpq.link.listener import Listener
        from dpq.link.session import QueueSession
        from dpq.link.waiter import Waiters, sleep

        connections = Connections(self._redis, self._durability)
        session = QueueSession(connections, self._operations)
        self._leases = Keeper(self._extend_many, self.queue_name)
        self._waiters = Waiters(connections)
        calls = partial(Listener, connections.nodes, self._operations.marker)
        self._listener, self._ends = calls(), calls(f"{{{self.queue_name}}}")
        self._sleep = sleep
        self._started(session)

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
        from dpq.link.connect import open_url

        opened = open_url(url)
        try:
            queue = cls(opened.client, queue_name, **settings)
        except BaseException:
            opened.abandon()
            raise
        queue._opened = opened
        queue._session.opened_label = opened.label
        return queue

    def close(self) -> None:
        """Close the connections that this object opened; a caller's client stays open."""
        session = self._session
        self._leases.close()
        self._finish_all()
        session.refusal = self._refusal()
        self._waiters.close()
        self._listener.close()
        self._ends.close()
        session.close()
        if self._opened:
            self._opened.close()

    def __enter__(self) -> Self:
        self._session.refusal = ""
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # Adding

    def push(
        self,
        payload: P,
        priority: float = 0,
        delay: float | timedelta = 0,
        *,
        timeout: float | None = 0,
        **options: Unpack[KeyOptions],
    ) -> str:
        """Add a task, ready now or after `delay`: `q.push({"url": url}, 5, group=host, key=url)`.

        Args:
            payload: What JSON can say, or what the queue's `payload_type` takes.
            priority: Any int from -2^63 to 2^63-1 or finite float; bigger runs first, unless the
                queue's order is "min".
            delay: Seconds, or a timedelta, until the task is ready: 0 to 315 360 000 (10 years).
            group: The name under which tasks share a limit: 1 to 200 bytes.
            key: A name that makes the task unique while it is stored, dead included: 1 to 200
                bytes.
            on_duplicate: What to do if another task has the key. `keep` leaves that task as it is.
                `update` changes its payload, priority and delay (of a running task, not the delay).
                `raise_priority` gives it the better of both priorities. `rerun` runs it once more
                after its ack if it is running; else it updates. `error` raises. `update` and
                `rerun` make a dead task live again.
            max_attempts: Failed attempts until it is dead, from 1 to 1 000 000; `math.inf` for no
                limit; None takes the queue's default.
            expires_in: Seconds within which the task must start. After that it is dead, with the
                reason `expired`. Of a recurring task they count from each time it is due.
            cost: Requests that the task takes of every limit, from 1 to 10^9; or its units by name,
                as in `{"tokens": 1800}`: up to 4 units beside requests (`""`, 1 unless named). If a
                task costs more than a window ever grants, it takes the whole window.
            every: Seconds (0.001 to 10 years) between the runs of a recurring task, counted from
                the time when it is first due: docs/recurring.md.
            cron: A cron expression of five fields (six: seconds first), instead of `every` and
                `delay`.
            timezone: The time zone of `cron`: an IANA name, as in `Europe/Berlin`.
            at: The time when the task is ready, instead of `delay`: a datetime with a time zone, at
                most 10 years ahead. It costs a round trip more, to ask for the server's clock.
            visibility: Seconds of each lease of this task, 0.001 to 10 years, instead of what its
                consumers say.
            time_limit: Seconds that a worker lets its handler run, 0.001 to 10 years, instead of
                the worker's own limit.
            member: The only member of its group's pool that the task may run as: 1 to 100 bytes.
                While it is closed, or not in the pool, the tasks behind this one wait, too.
            batch: The name of its batch, 1 to 200 bytes: `batch` counts what becomes of its tasks.
                A task whose key is taken is in no new batch, unless `update` or `rerun` names one.
            unique_for: Seconds (0.001 to 10 years, or `math.inf`: for ever) for which `key` stays
                taken after the ack of the task. A push that meets such a seen key adds nothing and
                returns the id of the acked task, or raises (`error`); `update` and `rerun` add a
                new task. `q.admin.forget(key)` frees it.
            after: The ids of up to 16 tasks. This task cannot run until all of them have ended; its
                `delay` counts from then. A task that is not stored has ended.
            on_dead: What to do if one of these tasks dies or is cancelled: `bury` this task, too,
                with a reason that names the other one; or `run` it once all of them have ended.
            backoff: The delays after its failed attempts, as in `[1, 5, 30, 300]`, instead of the
                queue's backoff: 1 to 16 numbers of seconds, or timedeltas, from 0 to 10 years,
                without jitter. The last one repeats.
            max_lapses: Leases that may run out (the consumer died or hung) until it is dead, with
                the reason `lapses spent`: 1 to 1 000 000. Then only `fail` counts towards
                `max_attempts`. None counts both as failed attempts.
            debounce: Seconds (0.001 to 10 years) until the task is ready, counted from the newest
                push of its `key`, which updates it. If it is running, it runs once more; if it is
                ready, or waits for its retry, it keeps its time. Give no `delay`, `at`, `every`,
                `cron`, `after`, `unique_for` and `on_duplicate` with it.
            debounce_max: Seconds, at least `debounce`, from the push that stored the task: no
                further push delays it beyond. None is no bound. The newest push counts.
            timeout: Seconds to wait for room if a bound of the queue (`q.admin.set_bounds`) refuses
                the task, on the server and without polling; 0 does not wait, None waits for ever.

        Returns:
            The task's id, or the id of the task that has the key, or had it (`unique_for`). A retry
            by the client library is harmless. If the caller itself repeats a push, it needs a
            `key`.

        Raises:
            ConfigurationError: The task that has the key is in another group.
            PayloadError: The payload has no JSON form, is too long or does not fit the type.
            DuplicateTaskError: Another task has the key and `on_duplicate="error"`. Nothing
                changed.
            QueueFullError: A bound leaves no room, and none came within `timeout`. Nothing was
                stored. A push that meets the task of its key needs no room.
            BatchFinishedError: The batch is finished. Nothing changed.

        Source: docs/design.md, "Order" and "Keys".
        """
        given = Push(payload, priority, delay, **options)
        if timeout == 0:
            return self._session.run(self._operations.push, given)
        from dpq.queue.waits import push_in_time

        if timeout is not None:
            milliseconds("timeout", timeout)
        return push_in_time(self, given, timeout)

    def push_many(self, pushes: Iterable[Push[P]]) -> list[str]:
        """Add any number of tasks, 125 in a round trip: `q.push_many([Push(1), Push(2)])`.

        The server adds all tasks of a batch, or none. The errors are those of `push`.

        Returns:
            The ids, in the order given.

        Raises:
            QueueFullError: A bound is met. The batches before the refused one stay; `stored` names
                their tasks.
        """
        if isinstance(pushes, Iterator):  # an iterator can be read only once
            self._session.require_open()
            self._session.ready(create=True)
        return self._session.run(self._operations.push_many, pushes)

    # Taking

    @overload
    def pop(self, timeout: None, visibility: float | None = None) -> Popped[P, Never]: ...
    @overload
    def pop(
        self,
        timeout: float = 0,
        visibility: float | None = None,
        *,
        id: str | None = None,
        force: bool = False,
    ) -> Popped[P]: ...
    def pop(
        self,
        timeout: float | None = 0,
        visibility: float | None = None,
        *,
        id: str | None = None,
        force: bool = False,
    ) -> Popped[P, Any]:
        """Take the best ready task, and lease it: `task, on_success, set_visibility = q.pop()`.

        Args:
            timeout: Seconds to wait for a task, on the server and without polling; 0 does not wait,
                None waits for ever.
            visibility: Seconds of the lease, from 0.001; None takes the queue's default.
            id: The id of the only task to take. It comes whatever stands before it, also in its
                group, if it is ready or waiting; but never against a limit, a closing or a pause,
                and its limits are charged. If it may not run now, nothing changes, and `why(id)`
                says why. Give no `timeout` with it.
            force: Take the task of `id` also if it is delayed.

        Returns:
            The three, or three times None. If the reply of a pop is lost, it costs a lease and an
            attempt: the task comes back when the lease ends.

        Raises:
            ConfigurationError: An argument does not go with `id`.
            Exception: A validator of `payload_type` raised something else than ValueError or
                AssertionError. The delivery is a failed attempt.

        Source: docs/design.md, "Waiting".
        """
        wanted = wanted_task(id, timeout, force=force) if id is not None or force else ()
        return self._popped(self._take(1, timeout, visibility, wanted))

    def pop_many(
        self, max_tasks: int, timeout: float | None = 0, visibility: float | None = None
    ) -> list[Task[P]]:
        """Take up to `max_tasks` (1 to 1000) of the best ready tasks, and lease them.

        A call takes up to 4 MiB of payloads, but at least one task. A round trip brings up to 125
        tasks; other consumers may pop in between. `timeout` and `visibility` are those of `pop`;
        the call waits for the first task only.
        """
        return self._take(max_tasks, timeout, visibility)

    def _take(
        self,
        most: int,
        timeout: float | None,
        visibility: float | None,
        wanted: tuple[str, str] | tuple[()] = (),
    ) -> list[Task[P]]:
        """Take tasks, or the wanted task alone, and wait for them."""
        return (take([self], most, timeout, visibility, wanted))[1]

    @overload
    def lease(
        self, timeout: None, visibility: float | None = None, *, from_errors: bool = True
    ) -> AbstractContextManager[Task[P]]: ...
    @overload
    def lease(
        self,
        timeout: float = 0,
        visibility: float | None = None,
        *,
        id: str | None = None,
        force: bool = False,
        from_errors: bool = True,
    ) -> AbstractContextManager[Task[P] | None]: ...
    @one_lease
    def lease(
        self,
        timeout: float | None = 0,
        visibility: float | None = None,
        *,
        id: str | None = None,
        force: bool = False,
        from_errors: bool = True,
    ) -> Iterator[Any]:
        """Pop a task, and end its delivery after the body: `with q.lease() as task:`.

        If the body ends without an error, the task is acked. A signal (`RateLimited`, `Release`,
        `Retry`, `Reject`) does what it says, and is not raised further; so does the error of an
        HTTP client whose answer says so, as a 429 (`from_errors`). Any other error fails the task,
        and is raised. KeyboardInterrupt, SystemExit and a cancellation release it. While the
        body runs, the lease is extended at a third of its time. If the body ends the delivery
        itself (`ack`, `fail`, `rate_limited`, ...), nothing more happens to it. All other
        arguments are those of `pop`.

        Yields:
            The task, or None when there is nothing to do.

        Raises:
            LeaseLostError: The body ended without an error, but another consumer has the task now.
        """
        wanted = wanted_task(id, timeout, force=force)
        tasks = self._take(1, timeout, visibility, wanted)
        if not tasks:
            yield None
            return
        task = tasks[0]
        try:
            self._leases.hold((task,), visibility or self._described.default_visibility)
            try:
                with self._around(task):
                    yield task
            except THROWN_AWAY:
                raise
            except BaseException as raised:
                error = signal_of(raised, from_errors=from_errors)
                self._end_lease(task, error)
                if not isinstance(error, Signal):
                    raise
            else:
                if self._leases.let_go(task):
                    self._finish(self.ack, task)
        finally:  # also after an interrupt: no other code would let the lease run out
            self._leases.let_go(task)

    def _end_lease(self, task: Task[P], error: BaseException) -> None:
        """End the delivery of a task whose body has raised an error."""
        if self._leases.let_go(task):
            # An interrupt is no failure: the task is given back.
            failed = isinstance(error, Exception)
            if failed:  # without the traceback, since the caller gets the error itself
                log_failed(None, self.queue_name, task, error, traceback=False)
            try:
                reply = self._finish(self._end, self._operations.finish, task, error)
                if failed:
                    self._end_log.ended(self.queue_name, task, error, reply)
            except (LeaseLostError, NotConfirmedError) as doubt:  # the body's error is more useful
                self._end_log.doubtful(self.queue_name, task, doubt)

    def leases(self, visibility: float | None = None, *, until_empty: bool = False) -> LeaseLoop[P]:
        """Loop over tasks, best first: `for task in q.leases(until_empty=True)`.

        Each lease is extended while the body runs. The next step of the loop acks the task before
        it; so does `continue`. If the body ends the delivery itself (`rate_limited`, `release`,
        `fail`, ...), the loop does not. If a lease is lost, the loop logs that and goes on.

        If the loop is left early (`break`, `return`, an exception), its last task comes back when
        its lease ends, and an attempt is counted. A `with` ends the delivery at once, as `lease()`
        does: at `break`, `return` and Ctrl-C it gives the task back, uncounted; at an error it
        fails the task; at a signal it does what the signal says. Errors and signals are raised
        further, since the loop has ended:

            with q.leases() as tasks:
                for task in tasks: ...

        Args:
            visibility: Seconds of each lease, from 0.001; None takes the queue's default.
            until_empty: End when no live task is left. The loop waits for delayed tasks, and for
                tasks that run elsewhere (it looks each second). Without it, the loop waits for
                ever.
        """
        from dpq.queue.lease_loops import LeaseLoop

        return LeaseLoop(self, visibility, until_empty)

    def _extend_many(self, leases: Sequence[tuple[Task[Any], float]]) -> list[Kept]:
        return self._session.send(self._operations.extend_many(leases))

    def _end(
        self,
        verb: Callable[Concatenate[Task[P], A], Steps[T]],
        task: Task[P],
        *args: A.args,
        **named: A.kwargs,
    ) -> T:
        """Run an operation that ends a delivery."""
        return self._session.run_after(partial(self._leases.end, task), verb, task, *args, **named)

    # Ending or going on with a delivery

    def ack(
        self,
        task: Task[P],
        cost: Cost | None = None,
        *,
        result: Any = NO_RESULT,
        keep: float = DEFAULT_KEEP,
    ) -> bool:
        """Finish a task: it is removed, whatever its state, while its token is the live one.

        A recurring task comes back at its next time, as a new task with the same id.

        Args:
            cost: The units that the task has spent, as in `spent`; None for the reserved units.
            result: What the task has returned, for `result` and `results`: JSON of at most 1 MiB.
                None is kept, too. Without it, nothing is kept.
            keep: Seconds that the result is kept, from 0.001 to 2 592 000 (30 days).

        Returns:
            False if the task was gone already (a retried ack, whose result is kept).

        Raises:
            LeaseLostError: Another delivery has the task. Nothing changed.
            PayloadError: The result has no JSON form, or is too long. Nothing changed: the lease
                goes on.
        """
        line = result_line(result, keep, task)
        return self._end(self._operations.ack, task, cost, line)

    def ack_many(
        self,
        tasks: Iterable[Task[P]],
        costs: Iterable[Cost | None] | None = None,
        *,
        results: Iterable[Any] | None = None,
        keep: float = DEFAULT_KEEP,
    ) -> list[bool]:
        """Finish tasks, up to 250 in a round trip.

        Args:
            costs: For each task the `cost` of `ack`; or None for all.
            results: For each task the `result` of `ack`, or `NO_RESULT`; or None for all. If one of
                them cannot be kept, nothing changes.
            keep: Seconds that the results are kept.

        Returns:
            For each task what `ack` returns.

        Raises:
            LeaseLostError: Other deliveries have some of the tasks; all others are finished.
        """
        given, told = list(tasks), None if costs is None else list(costs)
        lines = None
        if results is not None:
            lines = [
                result_line(result, keep, given[n] if n < len(given) else None)
                for n, result in enumerate(results)
            ]
        return self._session.run(self._operations.ack_many, given, told, lines)

    def extend(self, task: Task[P], seconds: float) -> datetime:
        """Extend a lease: it now ends `seconds` (0.001 to 10 years) from now.

        A crash after this call still counts as an attempt. A retry sets the same time once more.

        Returns:
            The new end of the lease, UTC.

        Raises:
            LeaseLostError: The lease is lost, or the delivery has ended. Nothing changed.
        """
        return datetime.fromtimestamp(
            self._session.run(self._operations.extend, task, seconds) / 1000, UTC
        )

    def spent(self, task: Task[P], cost: Cost | None = None, **units: int) -> bool:
        """Report what a running task has spent: `q.spent(task, tokens=812)`.

        It replaces what the task was charged when it was popped, in all windows of these units, of
        its group and of the queue. What it spent beyond that is paid before the next grant. What it
        did not spend is given back, as far as no window then exceeds its bound. The first value of
        each unit counts. `ack`, `fail`, `bury`, `release` and `rate_limited` can report it as well.

        Args:
            cost: A number of requests, or units by name (`""` is requests): 0 to 10^9 of each.
            units: Units by name.

        Returns:
            False if this delivery has reported all these units before (nothing changed).

        Raises:
            ConfigurationError: No units are given.
            LeaseLostError: The lease is lost, or the delivery has ended. Nothing changed.

        Source: docs/design.md, "True-up".
        """
        return self._session.run(self._operations.spent, task, cost, units)

    def set_visibility(self, task: Task[P], seconds: float) -> None:
        """Hide a task for `seconds` (0 to 10 years) from now; this delivery is no failed attempt.

        Meanwhile the task is DELAYED. Its holder may still ack or extend it, until another consumer
        pops it. Each delivery counts at most one deferral, however often it calls this.

        Raises:
            LeaseLostError: The lease is lost, or the delivery has ended. Nothing changed.
        """
        self._end(self._operations.set_visibility, task, seconds)

    def release(
        self,
        task: Task[P],
        delay: float | timedelta = 0,
        *,
        priority: float | None = None,
        cost: Cost | None = None,
    ) -> None:
        """Give a task back, uncounted; it keeps its position among equal priorities.

        Args:
            delay: Seconds, or a timedelta, until the task is ready: 0 to 10 years.
            priority: A new priority, or None to keep it.
            cost: The units that the delivery has spent, as in `spent`.

        Raises:
            LeaseLostError: The lease is lost, or `fail` or `bury` came first. Nothing changed.
        """
        self._end(self._operations.release, task, delay, priority, cost)

    def fail(
        self,
        task: Task[P],
        error: object = None,
        delay: float | timedelta | None = None,
        cost: Cost | None = None,
        *,
        priority: float | None = None,
    ) -> None:
        """Count a failed attempt: the task comes back, or dies if its attempts are spent.

        A recurring task does not die: it waits for its next time, and has all its attempts again.

        Args:
            error: The text to keep as `last_error`, up to 1000 characters; or an exception: then
                `get` shows its last frames as well.
            delay: Seconds, or a timedelta, until the next attempt; None takes the queue's backoff.
            cost: The units that the delivery has spent, as in `spent`.
            priority: A new priority, so that retries come first, or last; None keeps it.

        Raises:
            LeaseLostError: The lease is lost, or `release` or `bury` came first. Nothing changed.
        """
        self._end(self._operations.fail, task, error, delay, cost, priority)

    def bury(
        self,
        task: Task[P],
        reason: object,
        cost: Cost | None = None,
        *,
        priority: float | None = None,
    ) -> None:
        """Give a task up: it becomes a dead letter with `reason` (up to 1000 characters).

        `cost` is what the delivery has spent, as in `spent`. With `priority` the task has a new
        priority, which counts if it is replayed.

        Raises:
            LeaseLostError: The lease is lost, or `fail` or `release` came first. Nothing changed.
        """
        self._end(self._operations.bury, task, reason, cost, priority)

    # Results and progress

    def result(self, task_id: str, *, timeout: float | None = 0) -> Any:
        """Return the `result` of a task's ack; wait on the server until the task has ended.

        Of a task that has come back (recurring, or pushed again with `rerun`), the newest result
        counts, unless it is dead now; `results` has all. An end that nobody tells (an ack without a
        result, a purge) is noticed up to 5 s late.

        Args:
            task_id: The id that `push` returned.
            timeout: Seconds to wait; 0 does not wait, None waits for ever.

        Raises:
            TaskDeadError: The task is a dead letter; the error has its reason.
            TaskNotFoundError: Nothing is known of the task: it was finished without a result, its
                result is no longer kept, it was cancelled, or it was never pushed here.
            ResultTimeoutError: The task has not ended within the timeout.
            RedisError: The server is away at the first question, or still so at the end of the
                timeout. A wait goes on over a restart or a failover.
        """
        from dpq.queue.waits import wait_for_outcome

        return wait_for_outcome(self, task_id, timeout)

    def results(
        self, after: str = "", limit: int = 100, *, timeout: float | None = 0
    ) -> list[Result]:
        """Return kept results in the order in which their tasks were finished, the oldest first.

        Each reader keeps the `id` of the last result that it has seen, and nothing is stored for
        it. A result whose time is over is left out. Deaths are among the events (`q.admin.events`).

        Args:
            after: The `id` of the last result that is known; "" begins with the oldest one.
            limit: Results at most (1 to 1000); a call returns up to 4 MiB of them.
            timeout: Seconds to wait for a first result; 0 does not wait, None waits for ever.

        Source: docs/results.md.
        """
        from dpq.queue.waits import wait_for_results

        return wait_for_results(self, after, limit, timeout)

    def progress(
        self, task: Task[P], done: float, total: float | None = None, text: str = ""
    ) -> None:
        """Tell how far the work on a task is: `q.progress(task, 3, 10)`.

        `get` and all screens show it. The newest call counts, while this delivery is the live one.
        In a worker, `Context.progress` costs no round trip.

        Args:
            done: The units of work that are done, from 0.
            total: All units of work; None if that is not known.
            text: What the work does now; up to 200 bytes of it are kept.

        Raises:
            LeaseLostError: The lease is lost, or the delivery has ended. Nothing changed.
        """
        told = [(task, progress_text(done, total, text))]
        if not (self._session.run(self._operations.tell_progress, told))[0]:
            raise LeaseLostError("tell the progress of", [task.id])

    # Looking and changing

    def get(self, task_id: str | None = None, *, key: str | None = None) -> Task[P]:
        """Look at one task. A dead task is a `DeadTask`; an unreadable payload is its stored text.

        `errors` has its last 8 errors. Name the task by its id or its key.

        Raises:
            TaskNotFoundError: Nothing is stored under this id or key.
        """
        return self._session.run(self._operations.get, task_id, key)

    def peek(
        self, n: int = 10, state: TaskState | str = TaskState.READY, *, after: str | None = None
    ) -> list[Task[P]]:
        """Look at the first `n` tasks of one state, best or soonest first.

        Args:
            after: The id of the last task of the page before: the call goes on behind it. All tasks
                before it are read again, 100 in a round trip.

        Raises:
            TaskNotFoundError: The task of `after` is not in this state any more: start again
                without `after`.
        """
        return self._session.run(self._operations.peek, n, task_state(state), after)

    def size(self) -> int:
        """Count the live tasks: ready, delayed, invisible and waiting."""
        return (self.stats()).live

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
        cost: Cost | None = None,
    ) -> None:
        """Change a live task: its priority, its cost, or the time when it is ready.

        Name the task by its id or its key. `cost` is that of `push`, and replaces all units.
        `delay` is in seconds from now, or a timedelta; of a recurring task it moves the next run,
        and the times of `every` then count from there. Of a running task priority and cost can
        change; they hold when it comes back.

        Raises:
            TaskNotFoundError: No live task has this id or key. Nothing changed.
            ConfigurationError: A delay was given for a running task.
        """
        self._session.run(self._operations.update, task_id, key, priority, delay, cost)

    def cancel(
        self, task_id: str | None = None, *, key: str | None = None, running: bool = True
    ) -> None:
        """Remove a live task. If it is running, its handler is told, and its holder finds it gone.

        Name the task by its id or its key. A worker hears of it within a third of the visibility,
        and after 10 s at most: the context of its handler says `cancelled`, and a coroutine is
        cancelled. The holder's next call raises `LeaseLostError`, whose `cancelled` is True; an ack
        returns False. A recurring task does not come back.

        Args:
            running: False leaves a running task alone, and raises.

        Raises:
            TaskNotFoundError: No live task has this id or key; so does a retry.
            ConfigurationError: The task is running, and `running` is False. Nothing changed.
        """
        self._session.run(self._operations.cancel, task_id, key, running=running)

    # Batches

    def batch(self, name: str) -> BatchState:
        """Count what has become of the tasks of a batch.

        Raises:
            BatchNotFoundError: The queue has no batch of this name. A batch without live tasks is
                kept for 90 days after its last change, and 10 000 of them at most.
        """
        return self._session.run(self._operations.batch, name)

    def seal_batch(self, name: str, *, on_finish: Push[P] | None = None) -> BatchState:
        """Declare that a batch is complete: once none of its tasks is left, it is finished.

        Call it behind the last push. Tasks of a sealed batch may still push others into it, before
        they are acked. A batch that has no task is finished at once. The call may be repeated.

        Args:
            name: The name that the pushes of the batch have.
            on_finish: The task to run then, once, also if tasks of the batch are dead; the first
                one that is given counts. It has no key, batch, schedule or `at`; its `delay` counts
                from the end of the batch.

        Raises:
            PayloadError: The payload of `on_finish` does not fit.
        """
        return self._session.run(self._operations.seal_batch, name, on_finish)

    # The whole queue

    def pause(self, seconds: float | None = None, *, by: str | None = None) -> None:
        """Stop handing out tasks to all consumers, for `seconds` or until `resume`.

        `by` names the person or program that does so: `why()` and the event say it.
        """
        self._session.run(self._operations.pause, seconds, by)

    def resume(self, *, by: str | None = None) -> None:
        """Hand out tasks again; this also opens a queue that a 429 has closed."""
        self._session.run(self._operations.resume, by)

    def purge(self, state: TaskState | str | None = None) -> int:
        """Remove the tasks of one state, or of all states with the dead ones, in bounded steps.

        With all states, kept results and seen keys (`unique_for`) go as well.

        Returns:
            The number of removed tasks. Tasks that are pushed meanwhile may stay.
        """
        return self._session.run(
            self._operations.purge, None if state is None else task_state(state)
        )

    # Limits and groups

    def set_limit(
        self,
        rate: float | str | Quota | Sequence[RateLimit | Quota] | None = None,
        per: float | None = None,
        burst: int = 1,
        *,
        group: str | None = None,
        concurrency: int | None = None,
        adaptive: Adaptive | None = None,
        reserve: Reserve | None = None,
        slack: float | None = None,
        members: Sequence[str] | None = None,
        weight: float | None = None,
        reset: bool = False,
        in_order: bool = False,
    ) -> None:
        """Limit what all consumers pop together: `q.set_limit("10/s", group="api.example")`.

        The call replaces the limit of the same queue or group, also for consumers that run already.
        Units that were granted before still count in a window of the same length, and a learned
        rate stays. So every process may set the same limit at its start.

        Args:
            rate: Units in a window, 0.001 to 10^9; or a text with the window, as on the command
                line: `"10/s,burst=5"`, `"300/15m,moving"`, `"10000/day@UTC"`; or several
                `RateLimit`s and `Quota`s, all of which hold. Never more than rate + burst - 1 units
                are granted in any window of `per` seconds, of a moving one never more than rate,
                and of a quota never more than its amount in a period.
            per: Seconds of the window, 0.001 to 10 years.
            burst: Units that may be taken at once after a rest.
            group: A group; `"*"` for every group that has no limit of its own; None for the queue.
            concurrency: Leases that exist at once, 1 to 1 000 000; alone or with a rate.
            adaptive: Two bounds between which DPQ learns the rate.
            reserve: Units of the window that are kept for better priorities.
            slack: Seconds by which `per` is widened, 0 to 3600, since requests reach the host
                unevenly. None: learned from 429s, up to the length of the shortest window.
            members: The names of keys, proxies or accounts, 1 to 64 of 1 to 100 bytes, of a named
                group: the limit then holds for each of them. A task runs as the one that was
                granted least recently (`task.member`). Give names, never secrets.
            weight: Turns that the group gets where others get one, 0.01 to 100, in a queue with
                `fairness="round_robin"`, or the units that it spends where others spend one, with
                `"units"`; alone or with a rate. None is 1. Not for the queue.
            reset: Forget what was granted, counted and learned, and what the host has said is
                left; a closing stays. Not for a program's start: each would reset it.
            in_order: Run the tasks of the group one at a time, each once the one before is finished
                or dead, also while that one waits for its retry. A replayed task, or one that
                `update` has delayed, holds none. It implies `concurrency=1`. For a group without
                members, or `"*"`.

        Source: docs/design.md, "Limits".
        """
        from dpq.limits.rules import LimitRules

        rules = LimitRules.checked(
            rate,
            per,
            burst,
            group=group,
            concurrency=concurrency,
            adaptive=adaptive,
            reserve=reserve,
            slack=slack,
            members=members,
            weight=weight,
            reset=reset,
            in_order=in_order,
        )
        self._session.run(self._operations.set_limit, rules, process_name())

    def clear_limit(self, group: str | None = None) -> None:
        """Remove the limit of a group, of every group without its own (`"*"`), or of the queue.

        A group or queue that a 429 or `delay_group` has closed stays closed: `resume` opens the
        queue.
        """
        self._session.run(self._operations.clear_limit, group, process_name())

    def rate_limited(
        self,
        task: Task[P],
        retry_after: float,
        scope: Scope = "member",
        cost: Cost | None = None,
        status: int | None = None,
        reason: object = "",
    ) -> None:
        """Give a task back that met a limit, uncounted, with its priority and position.

        Its member, if it runs as one, else its group (or the queue, if it has no group) closes for
        all consumers; a longer closing is never shortened. Then one task goes first, as a probe. An
        adaptive limit is halved. A task whose own request is always refused becomes a dead letter
        (docs/rate_limits.md).

        Args:
            retry_after: Seconds from now, from 0 to 10 years.
            scope: What closes: `"member"`, `"group"`, `"queue"`, or `"task"` for this task alone.
                For a task without a member, `"member"` is `"group"`; without a group that is
                `"queue"`.
            cost: The units that the delivery has spent, as in `spent`. Without it, the request
                stays spent, and all other units count as not spent.
            status: The HTTP status of the answer, for events and counts; None counts as a 429.
            reason: The text of the answer, for the last error of a task that is always refused.

        Raises:
            LeaseLostError: The lease is lost, or the delivery has ended. Nothing changed.
        """
        self._end(
            self._operations.rate_limited, task, retry_after, scope, cost, status, str(reason)
        )

    def observe(
        self,
        task_or_group: Task[P] | str | None,
        response: Any = None,
        *,
        status: int | None = None,
        headers: Headers | None = None,
    ) -> list[Budget]:
        """Take in what a host says is left of its limit: `q.observe(task, response)`.

        So a limit is obeyed before the first 429, by all consumers, beside own limits. Tasks and
        permits that are still under way count as if the host did not know them yet. A reset more
        than 60 s away, or than the longest window of the own limit, counts if two answers name it;
        until then one task asks again, alone. Call it before the delivery is ended.

        Args:
            task_or_group: The task that has the answer, for its group (the queue, if it has none);
                a group; or None for the whole queue.
            response: The answer of any HTTP client, as `RateLimited.from_response` takes it.
            status: Instead of a response, its status; may be left out.
            headers: Instead of a response, its headers.

        Returns:
            What was read; [] if the answer does not say it, and then nothing was sent.

        Source: dpq/limits/answers.py has the headers; docs/design.md, "Budgets".
        """
        from dpq.limits.budget import read_answer

        budgets = read_answer(response, status, headers)
        return self._session.run(self._operations.observe, task_or_group, budgets)

    def delay_group(self, group: str, seconds: float | None, *, member: str | None = None) -> None:
        """Close a group for all consumers, for `seconds` (0 to 10 years) from now; 0 opens it.

        Only one entry moves, however many tasks wait in the group. Units that its limit has granted
        stay granted. What a host has said is left (`observe`) is forgotten when a group is opened.

        Args:
            seconds: Seconds from now; 0 opens; None closes until it is opened.
            member: A member of the group's pool, to close or open that one alone: with None as
                `seconds`, for a key that was revoked (401, 402).
        """
        self._session.run(self._operations.delay_group, group, seconds, member)

    @contextmanager
    def acquire(
        self,
        group: str | None = None,
        *,
        cost: Cost = 1,
        timeout: float | None = None,
        priority: float = 0,
        lease: float = DEFAULT_LEASE,
        member: str | None = None,
    ) -> Iterator[Permit]:
        """Take units of a limit: `with q.acquire("api.example") as permit:`.

        Tasks and permits share the limit of the group and of the queue, and no task is needed. If
        units are missing, they are booked up to 5 s ahead, and the caller sleeps until then without
        asking again. Callers and tasks that wait for the same units stand in one line: the better
        priority first, then the earlier one. `permit.report(response)` makes all callers obey
        a 429; so does a `RateLimited` that the body raises.

        A caller that is interrupted before its moment leaves it to the next one that asks for the
        same group and cost. A paused queue grants permits. With a `concurrency` of the group or the
        queue, and after a 429, a permit is a lease until the end of the body.

        Args:
            group: The group; None takes the limit of the queue alone.
            cost: Units, as for `push`.
            timeout: Seconds to wait at most; 0 does not wait, None waits for ever.
            priority: The priority, which reserves and waiting tasks are compared with.
            lease: Seconds after which a permit that is a lease comes back if this process dies; it
                is extended while the body runs.
            member: The member of the group's pool that it must be; None takes any
                (`permit.member`).

        Raises:
            LimitTimeoutError: The units are not there within `timeout`. It is raised at once, if
                that is known. Nothing was taken.
            ConfigurationError: The pool does not have the member. Nothing was taken.

        Source: docs/design.md, "Permits".
        """
        from dpq.queue.permits import take_permit

        request = PermitRequest(group, cost, timeout, priority, lease, member)
        permit = take_permit(self, request)
        try:
            yield permit
        except THROWN_AWAY:
            raise
        except BaseException as error:
            permit.end(error)
            raise
        permit.end(None)

    @overload
    def why(self, task_id: None = None) -> Verdict: ...
    @overload
    def why(self, task_id: str) -> str: ...
    def why(self, task_id: str | None = None) -> str | Verdict:
        """Say why a task is not running; without an id, why the queue stands still: `q.why()`.

        A `Verdict` says in one sentence what holds the queue, who is at fault, until when, and what
        to do.

        Raises:
            TaskNotFoundError: Nothing is stored under this id.

        Source: docs/operations.md, "Why does it not move?".
        """
        return self._session.run(self._operations.why, task_id)

    @cached_property
    def admin(self) -> Admin[P]:
        """The calls of operators: workers, limits, events, many tasks at once, export."""
        from dpq.queue.admin import Admin

        return Admin(self)

    @property
    def dead(self) -> DeadLetters[P]:
        """The dead letters."""
        from dpq.queue.admin import DeadLetters

        return DeadLetters(self._session)

    def promote(self) -> int:
        """Do one bounded step of upkeep; a pop does the same before it takes anything.

        Returns:
            The number of tasks and groups that moved.
        """
        done = self._session.run(self._operations.promote)
        return done.moved

    def next_event(self) -> float | None:
        """Return the seconds until time alone makes a task ready, or None if nothing is to come.

        Neither a pause nor a spent limit of the queue keeps a task from being ready.
        """
        wait = self._session.run(self._operations.next_event)
        return None if wait is None else wait / 1000

    def check(self) -> list[Problem]:
        """Look for broken invariants in all that is stored, in bounded steps.

        Each step sees one moment, so a busy queue gives no false alarms. If a key has another type,
        only that key is named: while it is there, the rest cannot be checked.
        """
        return self._session.run(self._operations.check)


def take(
    queues: Sequence[DPQ[P]],
    most: int,
    timeout: float | None,
    visibility: float | None,
    wanted: tuple[str, str] | tuple[()] = (),
) -> tuple[DPQ[P], list[Task[P]]]:
    """Take tasks of the first queue that has any; a call that is cancelled gives them back."""
    if timeout is not None and (timeout != 0 or type(timeout) is bool):
        milliseconds("timeout", timeout)
    look = partial(look_or_wait, queues, most, timeout, visibility, wanted)
    found = queues[0]._shielded(look)
    return (found[0], found[0]._readable(found[1])) if found else (queues[0], [])


def look_or_wait(
    queues: Sequence[DPQ[P]],
    most: int,
    timeout: float | None,
    visibility: float | None,
    wanted: tuple[str, str] | tuple[()],
    sleep: Sleep,
) -> tuple[DPQ[P], Batch[P]] | None:
    """Ask queue after queue for tasks; if none has any, wait for a marker of any with `sleep`."""
    from dpq.link.watches import Watch, owned_of_queues, watches_after

    until = math.inf if timeout is None else time.monotonic() + timeout
    by_queue: list[list[Watch]] = [[] for _ in queues]

    def look(waiter: str = "") -> tuple[DPQ[P], Batch[P]] | None:
        for index, queue in enumerate(queues):
            before = by_queue[index]
            own = before[0].mine if before else waiter
            pop = queue._operations.pop
            batch = queue._session.run(pop, most, visibility, own, wanted=wanted)
            by_queue[index] = watches_after(batch, before)
            if batch.failed or batch.tasks:
                return queue, batch
        return None

    found = look("" if timeout == 0 else "-")
    if timeout != 0 and (found is None or owned_of_queues(by_queue)):
        markers = tuple(queue._operations.marker for queue in queues)
        with queues[0]._waiters.take(markers) as waiter:
            while found is None and sleep(waiter, list(chain(*by_queue)), until):
                found = look()
            waiter.withdraw(owned_of_queues(by_queue))
    return found


def pop_first(
    queues: Iterable[DPQ[P]], timeout: float | None = 0, visibility: float | None = None
) -> tuple[DPQ[P], Task[P]] | tuple[None, None]:
    """Take the best ready task of the first queue that has one, and lease it.

    The queues are asked in the order given, so a task of the first queue always comes before one
    of the second. End the delivery at the queue that is returned: `queue.ack(task)`.

    Args:
        queues: Queues with one client. A call waits on one connection for all of them (in a
            cluster: one for each slot).
        timeout: Seconds to wait for a task of any of them, on the server and without polling; 0
            does not wait, None waits for ever.
        visibility: Seconds of the lease, from 0.001; None takes the default of the task's queue.

    Returns:
        The queue and its task, or twice None. A call never leases two tasks. If a waiting caller
        dies, that costs a wake-up at most, never a lease.

    Raises:
        ConfigurationError: An argument is wrong, or the queues have different clients.
        Exception: As `pop`.
    """
    named = list(queues) if isinstance(queues, Iterable) else []
    if not named or not all(isinstance(queue, DPQ) for queue in named):
        raise ConfigurationError(
            f"queues is {queues!r}: it must be a list of at least one {DPQ.__name__}"
        )
    check_one_client(named, DPQ)
    queue, tasks = take(named, 1, timeout, visibility)
    return (queue, tasks[0]) if tasks else (None, None)
