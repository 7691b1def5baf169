"""The decisions of both workers: the handler of a task, the next queue, the context of a handler.

`Worker` and `AsyncWorker` derive from it; they have the threads or the event loop. No waiting here.
"""

import functools
import inspect
import logging
import math
import os
import secrets
import socket
import time
from asyncio import CancelledError
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import islice
from types import CoroutineType
from typing import Any, Generic, Literal, NamedTuple, Protocol, get_args

from redis.exceptions import RedisError
from typing_extensions import TypeVar

from dpq.model.backoff import longer_pause
from dpq.model.errors import ConfigurationError, RateLimited, Reject, Release, Signal
from dpq.model.task import Task
from dpq.model.validation import MAX_SECONDS, error_line, number, whole_number
from dpq.operations.description import MAX_ATTEMPTS
from dpq.operations.queue import QueueOperations
from dpq.protocol.command import Steps
from dpq.queue.base import QueueBase
from dpq.queue.lease_renewal import Lease
from dpq.transport.cluster import forbidden
from dpq.transport.waiter import Marker, Watch, owned_markers
from dpq.worker.outcomes import Done, Settling, settling, unsettled

log = logging.getLogger(__name__)

Q = TypeVar("Q", bound=QueueBase[Any], default=Any)

QueueOrder = Literal["strict", "round_robin"]
"""The order of the queues: `"strict"` as they were named, `"round_robin"` each in turn."""

LATEST_ACK_SECONDS = 0.05
"""Seconds that a finished task may wait, to be acked together with others."""

MAX_CONCURRENCY = 10_000
MAX_PREFETCH = 1000
GENERATOR_HANDLER = "is a generator, and calling it runs nothing of it: let it return"
ASYNC_HANDLER = "is a coroutine function, and Worker has threads: give it to an AsyncWorker"

DEFAULT_GRACE = 25.0
"""Seconds that handlers have to finish after a stop.

Kubernetes kills 30 s after SIGTERM: 5 s are left to give back the tasks that still run. Docker
kills after 10 s by default: docs/workers.md.
"""

NO_FAILURE = (RateLimited, Release, CancelledError)
"""The errors of a handler that are no failed attempt: `on_error` is not called."""

COMPLAINT_SECONDS = 60.0
"""Seconds between log lines while the server keeps refusing permission."""

LEAVE_SECONDS = 2.0
"""Seconds in which an ending worker tries to sign off; without that it is listed for a minute."""


class Context(Generic[Q]):
    """The second argument of a handler: its task, its queue, and the state of the worker.

    Attributes:
        task: The task.
        queue: The queue of the task.
        lost: True once the lease is lost: another consumer may have the task. An async handler is
            cancelled instead.
        stopping: True once the worker is to stop: a long handler may `raise Release` then. If it
            returns, the task is finished.
    """

    __slots__ = ("_stopping", "lost", "queue", "task")

    def __init__(self, queue: Q, task: Task[Any], stopping: Callable[[], bool]) -> None:
        self.queue = queue
        self.task = task
        self.lost = False
        self._stopping = stopping

    @property
    def stopping(self) -> bool:
        """True once the worker is to stop."""
        return self._stopping()

    def _lose(self) -> None:
        self.lost = True


class Finder(Protocol):
    """An object that finds the handler of a task, such as a `Tasks`."""

    def find(self, task: Task[Any]) -> Callable[..., Any]:
        """Return the handler, which is called as `handler(task, context)`.

        Raises:
            Reject: There is no handler.
        """
        ...


Handlers = Callable[..., Any] | Mapping[str, Callable[..., Any]] | Finder
"""One handler; a mapping of handlers by the name in `payload["task"]`; or a `Finder`."""


class Handler(NamedTuple):
    """A function to call for a task; `takes_context`: it takes the context, too."""

    call: Callable[..., Any]
    takes_context: bool


def finder(handlers: Handlers, *, blocking: bool = False) -> Callable[[Task[Any]], Handler]:
    """Make a function that finds the handler of a task.

    Args:
        handlers: As for a worker.
        blocking: Refuse coroutine functions, as far as they are known now.

    Raises:
        ConfigurationError: `handlers` is none of the three kinds.
    """
    if blocking:
        for function in functions_of(handlers):
            if awaits(function):
                raise ConfigurationError(f"handler {function!r} {ASYNC_HANDLER}")
    if isinstance(handlers, Mapping):
        by_name = {name: _handler(handler) for name, handler in handlers.items()}

        def find_by_name(task: Task[Any]) -> Handler:
            payload = task.payload
            name = payload.get("task") if isinstance(payload, Mapping) else None
            if not isinstance(name, str) or name not in by_name:
                raise Reject(f"unknown task {name!r}")
            return by_name[name]

        return find_by_name
    if hasattr(handlers, "find") and not isinstance(handlers, str):
        find = handlers.find
        return lambda task: Handler(find(task), takes_context=True)
    only = _handler(handlers)
    return lambda task: only


def _handler(function: Any) -> Handler:
    if not callable(function):
        raise ConfigurationError(
            f"handler is {function!r}: it must be a function of a task, or of a task and a context"
        )
    if generates(function):
        raise ConfigurationError(f"handler {function!r} {GENERATOR_HANDLER}")
    try:
        signature = inspect.signature(function)
    except ValueError:  # a builtin
        return Handler(function, takes_context=False)
    for count in (1, 2):
        with suppress(TypeError):
            signature.bind(*range(count))
            return Handler(function, takes_context=count == 2)
    raise ConfigurationError(
        f"handler {function!r} has the arguments {signature}: it gets a task, or a task and a "
        "context; for arguments by name see Tasks"
    )


def functions_of(handlers: Handlers) -> list[Any]:
    """List the functions of handlers, as far as they are known."""
    if isinstance(handlers, Mapping):
        return list(handlers.values())
    if hasattr(handlers, "find") and not isinstance(handlers, str):
        names = getattr(handlers, "names", ())  # of a Tasks
        return [handlers[name].function for name in names]  # type: ignore[index]
    return [handlers]


def awaits(function: Any) -> bool:
    """Return True if a call of the function makes a coroutine, as far as DPQ can see."""
    return _is(inspect.iscoroutinefunction, function)


def _is(kind: Callable[[Any], bool], function: Any) -> bool:
    """Return True if a function, or the function that it wraps, is of a kind."""
    function = inspect.unwrap(function) if callable(function) else function
    while isinstance(function, functools.partial):
        function = function.func
    return kind(function) or kind(getattr(function, "__call__", None))  # noqa: B004 - a method


def generates(function: Any) -> bool:
    """Return True if a call of the function only makes a generator, and runs nothing."""
    return _is(inspect.isgeneratorfunction, function) or _is(inspect.isasyncgenfunction, function)


def check_result(handler: "Handler", result: Any) -> None:
    """Refuse a result that shows that the handler has not done its work.

    Raises:
        ConfigurationError: The result is a generator; or a coroutine, and this worker awaits none.
    """
    if isinstance(result, CoroutineType):
        result.close()
    if inspect.isawaitable(result):
        raise ConfigurationError(f"handler {handler.call!r} {ASYNC_HANDLER}")
    if inspect.isgenerator(result) or inspect.isasyncgen(result):
        raise ConfigurationError(f"handler {handler.call!r} {GENERATOR_HANDLER}")


class Turns:
    """The order in which a worker asks its queues.

    Each queue pays for its tasks: 1 / weight for each task that it gave, and once if it gave none.
    The queue that has paid least is asked first. So the others share what an empty queue leaves,
    by their weights.
    """

    def __init__(self, weights: Sequence[int], order: QueueOrder) -> None:
        self._weights = weights
        self._strict = len(weights) == 1 or (order == "strict" and len(set(weights)) == 1)
        self._paid = [0.5 / weight for weight in weights]  # half a task: heavy queues in between
        self._all = range(len(weights))

    def next(self) -> Sequence[int]:
        """Return the indexes of the queues, in the order to ask them."""
        return self._all if self._strict else sorted(self._all, key=self._paid.__getitem__)

    def pay(self, queue_index: int, tasks: int) -> None:
        """Let a queue pay that was asked, and gave so many tasks."""
        if not self._strict:
            self._paid[queue_index] += max(1, tasks) / self._weights[queue_index]


class Taken(NamedTuple):
    """A leased task: the index of its queue, and its lease."""

    queue_index: int
    lease: Lease


def none_live(stats: Sequence[Any]) -> bool:
    """Return True if the stats of all queues show no live task; an error counts as live tasks.

    Raises:
        RedisError: The user may not read the stats: the worker would wait for ever.
    """
    for count in stats:
        if forbidden(count):
            raise count
    return not any(
        isinstance(count, Exception)
        or count.ready + count.delayed + count.invisible + count.waiting
        for count in stats
    )


class WorkerBase(Generic[Q]):
    """The constructor and the decisions of both workers.

    Attributes:
        queues: The queues, in the order given.
        handled: The number of handlers that have ended since the worker was made, by their end:
            `"done"`, or the name of the error.
        given_back: The number of handlers of the last run that did not end in time: their tasks
            were given back, uncounted.
    """

    def __init__(
        self,
        queues: Q | Sequence[Q] | Mapping[Q, int],
        handlers: Handlers,
        *,
        concurrency: int = 1,
        prefetch: int = 0,
        order: QueueOrder = "strict",
        visibility: float | None = None,
        time_limit: float | None = None,
        grace: float = DEFAULT_GRACE,
        name: str | None = None,
        before: Callable[[Context[Q]], Any] | None = None,
        after: Callable[[Context[Q], BaseException | None], Any] | None = None,
        on_error: Callable[[Context[Q], BaseException], Any] | None = None,
    ) -> None:
        """Describe a worker; `run` begins.

        Args:
            queues: One queue; several queues; or a mapping of queues to weights from 1, which say
                how often each queue is asked first. All must share one client.
            handlers: A function of a task (or of a task and its `Context`); a mapping of names to
                such functions, where `payload["task"]` is the name; or a `Tasks`. When a handler
                returns, the task is finished. It may raise `RateLimited`, `Release`, `Retry` or
                `Reject`; any other error is a failed attempt. A task with an unknown name becomes
                a dead letter.
            concurrency: Handlers that run at once, from 1 to 10 000.
            prefetch: Tasks that are leased beyond those that run, from 0 to 1000: fewer round trips
                for quick handlers. At a stop they are given back, uncounted.
            order: `"strict"` asks queues in the order given, `"round_robin"` in turn. Weights mean
                round robin.
            visibility: Seconds of a lease, from 0.001; None takes each queue's default. Leases are
                extended at a third of their time while a handler runs. If a task has a visibility
                of its own, that holds.
            time_limit: Seconds that a handler may run, from 0.001; None for no limit. If a task has
                a limit of its own (`push(time_limit=)`), that holds. After the limit the attempt
                has failed. An async handler is cancelled. A thread cannot be cancelled: its
                context says `lost`, and it counts as running until it returns.
            grace: Seconds that running handlers have to finish after `stop`, from 0 to 10 years;
                then their tasks are given back, uncounted.
            name: The name that `dpq workers` shows; None makes one of host and process.
            before: A function that is called with the context before each handler.
            after: A function that is called with the context and the error, or None, when a
                handler has ended.
            on_error: A function that is called with the context and the error when an attempt has
                failed.

            Hooks run in the thread or asyncio task of the handler. If they raise, the error is
            logged, and nothing else changes.

        Raises:
            ConfigurationError: An argument is out of its bounds.
        """
        weighted = isinstance(queues, Mapping)
        several = queues if isinstance(queues, Iterable) else ()
        named = [queues] if isinstance(queues, QueueBase) else list(several)
        weights = list(queues.values()) if isinstance(queues, Mapping) else [1] * len(named)
        if not named or not all(isinstance(queue, self._kind()) for queue in named):
            raise ConfigurationError(
                f"queues is {queues!r}: it must be a {self._kind().__name__}, or some of them"
            )
        if any(queue.redis is not named[0].redis for queue in named):
            raise ConfigurationError(
                "the queues have different clients: give all of them one, as in "
                f"{self._kind().__name__}(first.redis, 'second')"
            )
        if len(waits := {queue.durability for queue in named}) > 1:
            raise ConfigurationError(
                f"the queues differ in durability ({', '.join(sorted(waits))}): a worker settles "
                "the tasks of all of them together, so give them the same"
            )
        for weight in weights:
            whole_number("weight", weight, 1, MAX_ATTEMPTS)
        if order not in get_args(QueueOrder):
            raise ConfigurationError(f"order is {order!r}: it must be 'strict' or 'round_robin'")
        self.queues: tuple[Q, ...] = tuple(named)
        self._confirms = self.queues[0].durability != "async"
        """Acks and the like wait for a confirmation. So they do not travel with a pop, whose
        leases would run out meanwhile: the slot of the ended handler sends them and waits."""
        hooks = {"before": before, "after": after, "on_error": on_error}
        for what, hook in hooks.items():
            if hook is not None and not callable(hook):
                raise ConfigurationError(f"{what} is {hook!r}: it must be a function")
            if self._blocking and awaits(hook):
                raise ConfigurationError(f"{what} {hook!r} {ASYNC_HANDLER}")
        self.concurrency = whole_number("concurrency", concurrency, 1, MAX_CONCURRENCY)
        self.prefetch = whole_number("prefetch", prefetch, 0, MAX_PREFETCH)
        number("grace", grace, "seconds", 0, MAX_SECONDS)
        self.grace = grace
        if visibility is not None:
            number("visibility", visibility, "seconds", 0.001, MAX_SECONDS)
        if time_limit is not None:
            number("time_limit", time_limit, "seconds", 0.001, MAX_SECONDS)
        self.visibility = visibility
        self.time_limit = time_limit
        self.name = name or f"{socket.gethostname()}:{os.getpid()}"
        self.handled: Counter[str] = Counter()
        self.given_back = 0
        self._find = finder(handlers, blocking=self._blocking)
        self._turns = Turns(weights, "round_robin" if weighted else order)
        self._before, self._after, self._on_error = before, after, on_error
        self._hooked = bool(before or after or on_error)
        self._stopping = False
        self._on = False  # True during a run
        self._on_beat: Callable[[], None] | None = None  # called after each heartbeat that was sent
        self._stop_early = False  # `stop` was called before the run began
        self._prepare()

    _blocking = False

    def _prepare(self) -> None:
        """Set up the rest of a worker, once its arguments are checked."""

    @classmethod
    def _kind(cls) -> type[QueueBase[Any]]:
        raise NotImplementedError

    @property
    def stopping(self) -> bool:
        """True once the worker was told to stop."""
        return self._stopping

    def _clock_on(self, until_empty: bool) -> None:
        """Set up the state of a run."""
        self._on = True
        self._until_empty = until_empty
        self._pause = 0.0
        self._served: set[int] = set()  # indexes of the queues that have allowed a pop
        self._complained = -math.inf  # the time of the last log line about a refused permission
        self._stopping, self._stop_early = self._stop_early, False
        self.given_back = 0
        self._run_id = secrets.token_urlsafe(9)
        self._began = time.monotonic()
        self._tells_each = log.isEnabledFor(logging.DEBUG)
        self._handled_before = Counter(self.handled)

    def _beats(self, running: Iterable[int]) -> list[Steps[Any]]:
        """Make the heartbeats for all queues; `running` has the queue index of each handler."""
        counts = Counter(running)
        host, pid, age = socket.gethostname(), os.getpid(), time.monotonic() - self._began
        return [
            operations.beat(
                self._run_id, self.name, host, pid, counts[queue_index], self.concurrency, age
            )
            for queue_index, operations in enumerate(self._operations)
        ]

    def _leaving(self) -> list[Steps[Any]]:
        """Make the operations that tell every queue that this worker has ended."""
        return [operations.leave(self._run_id) for operations in self._operations]

    @property
    def _operations(self) -> list[QueueOperations[Any]]:
        return [queue._session.operations for queue in self.queues]

    def _markers(self) -> list[str]:
        """List the markers to block on: of each queue those of all its partitions."""
        return [marker for operations in self._operations for marker in operations.markers]

    def _of_each(self, watches: Sequence[Watch]) -> list[list[Watch]]:
        """Divide the watches of all queues, or an empty list, into one list for each queue."""
        rest = iter(watches)
        if not watches:
            return [[] for _ in self.queues]
        return [list(islice(rest, len(operations.markers))) for operations in self._operations]

    def _owed(self, watches: Sequence[Sequence[Watch]]) -> list[Marker]:
        """List the wake-ups to pass on when this worker stops waiting."""
        owed: list[Marker] = []
        if any(watches):
            first = 0
            for each, operations in zip(watches, self._operations, strict=True):
                owed += (Marker(first + number, moment) for number, moment in owned_markers(each))
                first += len(operations.markers)
        return owed

    def _unseen(self) -> list[Q]:
        """List the queues that did not exist yet: they may have partitions once they do."""
        return [queue for queue in self.queues if queue._session.operations.settings is None]

    def _hold(self, queue_index: int, tasks: Sequence[Task[Any]]) -> list[Taken]:
        """Keep the leases of a pop alive, and note that the server has answered."""
        self._pause = 0.0
        self._served.add(queue_index)
        return [Taken(queue_index, self._lease(queue_index, task)) for task in tasks]

    def _lease(self, queue_index: int, task: Task[Any]) -> Lease:
        queue = self.queues[queue_index]
        return queue._leases.hold(task, self.visibility or queue.default_visibility)

    def _wait_longer(self, error: RedisError, queue_index: int | None = None) -> float:
        """Log an error of the server; return the seconds to wait before the next attempt.

        Args:
            error: The error.
            queue_index: The index of the queue, if the error is the answer to a pop.

        Raises:
            RedisError: The user may not do this, and either this queue has never allowed a pop, or
                the run is to end when the queues are empty, which it could not see.
        """
        self._pause = longer_pause(self._pause)
        if forbidden(error):
            if self._until_empty or (queue_index is not None and queue_index not in self._served):
                raise error
            if time.monotonic() < self._complained + COMPLAINT_SECONDS:
                return self._pause
            self._complained = time.monotonic()
        log.warning("%s: again in %.1f s: %s", self.name, self._pause, error)
        return self._pause

    def _context(self, queue_index: int, lease: Lease) -> Context[Q]:
        context: Context[Q] = Context(self.queues[queue_index], lease.task, lambda: self._stopping)
        lease.lost = context._lose
        if not lease.alive:  # lost before `lease.lost` was set
            context._lose()
        return context

    def _tell(self, hook: Callable[..., Any] | None, *what: Any) -> Any:
        """Call a hook, if there is one; return its result, which may have to be awaited."""
        try:
            return hook(*what) if hook else None
        except BaseException:
            log.exception("%s: a hook failed", self.name)

    def _hooks_at_end(
        self, context: Context[Q], error: BaseException | None
    ) -> Iterator[tuple[Callable[..., Any] | None, tuple[Any, ...]]]:
        """List the hooks to call when a handler has ended, with their arguments."""
        if error is not None and not isinstance(error, NO_FAILURE):
            yield self._on_error, (context, error)
        yield self._after, (context, error)

    def _report(self, queue_index: int, task: Task[Any], error: BaseException) -> None:
        """Log a failed attempt; with its traceback, unless the handler raised a signal."""
        if isinstance(error, RateLimited | Release):
            return  # not a failed attempt
        log.warning(
            "%s: task %s, attempt %d of %d: %s",
            *(self.queues[queue_index].queue_name, task.id, task.attempt, task.max_attempts),
            error_line(error),
            exc_info=None if isinstance(error, Signal) else error,
        )

    def _say_ended(
        self, queue_index: int, task: Task[Any], error: BaseException | None, began: float
    ) -> None:
        """Log the end of a handler, with its result and its time."""
        log.debug(
            "%s: task %s, attempt %d of %d: %s in %.3f s",
            *(self.queues[queue_index].queue_name, task.id, task.attempt, task.max_attempts),
            *(type(error).__name__ if error else "done", time.monotonic() - began),
        )

    def _sum_up(self) -> None:
        """Log the totals of the run."""
        ways = self.handled - self._handled_before
        log.info(
            "%s: handled %d in %.1f s%s; gave back %d",
            *(self.name, ways.total(), time.monotonic() - self._began),
            "".join(f", {count} {how}" for how, count in ways.most_common()).replace(",", ":", 1),
            self.given_back,
        )

    # Ending deliveries: their leases are extended until the server has answered

    def _claim(self, done: Done) -> bool:
        """Claim the end of a delivery, whose work has ended; False if another caller ends it."""
        leases = self.queues[done.queue_index]._leases
        if isinstance(done.error, RateLimited):  # an extension under way would undo it
            return leases.let_go(done.task)
        return leases.ending(done.task)

    def _settling(self, done: Sequence[Done]) -> list[Settling]:
        """Make the operations that end deliveries."""
        for each in done:
            if isinstance(each.error, RateLimited):
                self.queues[each.queue_index]._leases.let_go(each.task)
        return settling(done, self._operations)

    def _unsettled(self, asked: Sequence[Settling], results: Sequence[Any]) -> list[Done]:
        """Return the deliveries whose end must be sent once more, by the answers."""
        again = unsettled(self.name, asked, results)
        waiting = {id(each.task) for each in again}
        self._forget(each for some in asked for each in some.done if id(each.task) not in waiting)
        for each in again:
            if isinstance(each.error, RateLimited):
                self._lease(each.queue_index, each.task)
        return again

    def _forget(self, done: Iterable[Done]) -> None:
        """Stop to extend the leases of ended deliveries."""
        for each in done:
            self.queues[each.queue_index]._leases.ended(each.task)
