"""The calls of handlers: their contexts, hooks, counts and log lines.

The runners of both workers share it. It calls hooks, but no handler.
"""

from __future__ import annotations

import logging
import time
from asyncio import CancelledError
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Protocol

from dpq.limits.budget import budgets_in, is_answer
from dpq.limits.signals import RateLimited, Release, Retry, Signal, signal_of
from dpq.model.display import attempt_of
from dpq.model.log_fields import fields
from dpq.model.validation import delay_milliseconds
from dpq.queue.end_log import about, in_words, log_failed, name_of
from dpq.worker.deliveries import Taken
from dpq.worker.handlers import (
    CANCELLED,
    LEASE_LOST,
    Context,
    Handler,
    Q,
    check_result,
    keep_of,
    kept_line,
)
from dpq.worker.heartbeats import Holding
from dpq.worker.outcomes import Done
from dpq.worker.progress_notes import ProgressNotes
from dpq.worker.run_state import RunState

if TYPE_CHECKING:
    from dpq.model.task import Task
    from dpq.queue.lease_renewal import Lease

log = logging.getLogger(__name__)

WorkerBackoff = Callable[[int, Any], float | timedelta | None]
"""The function of a worker that is called with an attempt and its error, for the next delay."""

NO_FAILURE = (RateLimited, Release, CancelledError)
"""The errors of a handler that count as no failed attempt; `on_error` is not called for them."""


class Tracing(Protocol):
    """An object that follows one call of a handler, until its hooks have ended."""

    def end(self, error: BaseException | None) -> None:
        """Take note of the end of the call, in the thread or asyncio task in which it began."""


@dataclass(slots=True, eq=False)
class Call:
    """One call of a handler, from its begin until its end was handed over.

    Attributes:
        limit: Seconds that it may run, or None.
        tracing: An object that follows it, or None.
        kept: The line of its result, or "".
        ended: The handler has ended, and its thread or asyncio task is about to hand that over.
        overdue: The error, if a thread ran too long and its attempt has failed.
    """

    queue_index: int
    lease: Lease
    context: Context[Any]
    limit: float | None
    tracing: Tracing | None = None
    began: float = field(default_factory=time.monotonic)
    kept: str = ""
    ended: bool = False
    overdue: BaseException | None = None

    @property
    def task(self) -> Task[Any]:
        """The task."""
        return self.lease.task

    @property
    def holding(self) -> Holding:
        """The task as a heartbeat tells of it."""
        return Holding(self.queue_index, self.task, self.began)

    def lose(self) -> None:
        """Tell the handler that its lease is lost, and why."""
        self.context._lose(CANCELLED if self.lease.cancelled else LEASE_LOST)


class HandlerCalls(Generic[Q]):
    """The handlers, the hooks and the counts of a worker, for all its runs.

    Attributes:
        find: Finds the handler of a task, by the task's name if `named`.
        handled: The number of handlers that have ended, by their end.
        signal_of: Finds the error that decides about a task, from what a handler has raised.
        progress: What handlers have told of their progress, until it is sent.
        traced: Begins to follow the handler of a task of a queue; None if nothing does. `dpq.otel`
            sets it, for all workers.
    """

    traced: ClassVar[staticmethod[[Any, Task[Any]], Tracing | None] | None] = None

    def __init__(
        self,
        name: str,
        queues: Sequence[Q],
        find: Callable[[Task[Any]], Handler],
        *,
        named: bool = False,
        time_limit: float | None = None,
        before: Callable[[Context[Q]], Any] | None = None,
        after: Callable[[Context[Q], BaseException | None], Any] | None = None,
        on_error: Callable[[Context[Q], BaseException], Any] | None = None,
        keep: float = 0.0,
        backoff: WorkerBackoff | None = None,
        from_errors: bool = True,
    ) -> None:
        self.find = find
        self.signal_of = partial(signal_of, from_errors=from_errors)
        self.progress = ProgressNotes()
        self._keep, self._told_of_results = keep, False
        self._backoff, self._told_of_backoff = backoff, False
        self._named = named
        self._time_limit = time_limit
        self.before = before
        self.handled: Counter[str] = Counter()
        self.name = name
        self._queues = queues
        self._after, self._on_error = after, on_error

    def make(self, taken: Taken, state: RunState) -> Call:
        """Make a call; its context says `lost` from the moment when the lease is lost."""
        queue_index, lease, _ = taken
        queue, task = self._queues[queue_index], lease.task
        context: Context[Q] = Context(
            *(queue, task, lambda: state.stopping),
            lambda text: self.progress.note(queue_index, task, text),
        )
        call = Call(queue_index, lease, context, task.time_limit or self._time_limit)
        lease.lost = call.lose
        if not lease.alive:  # the lease was lost before `lease.lost` was set
            call.lose()
        return call

    def start(self, call: Call) -> None:
        """Take note that a handler starts, in its thread or asyncio task."""
        call.began = time.monotonic()
        if self.traced:
            call.tracing = self.traced(self._queues[call.queue_index], call.task)

    def arguments(self, handler: Handler, call: Call) -> tuple[Any, ...]:
        """Return the arguments of a handler."""
        return (call.task, call.context) if handler.takes_context else (call.task,)

    def take_result(self, call: Call, handler: Handler, result: Any) -> None:
        """Keep the line of a handler's result, if it is to be kept; read an answer of HTTP.

        The first result that is dropped is logged.

        Raises:
            Reject: The result cannot be kept.
            ConfigurationError: The result shows that the handler has not done its work.
        """
        if result is not None:
            check_result(handler, result)
            call.context.hear(budgets_in(result))
        named = keep_of(handler) if self._named else None
        keep = self._keep if named is None else named
        if keep:
            call.kept = kept_line(result, keep, call.task)
        elif result is not None and not (self._told_of_results or is_answer(result)):
            self._told_of_results = True
            queue, name = self._about(call)
            log.info(
                "%s: task %s has returned a %s, which is dropped, as later results are: "
                "keep_result of the worker or of a named task keeps them",
                *(queue, in_words(call.task, name), type(result).__name__),
                extra=about("result_dropped", self.name, queue, call.task, task=name),
            )

    def done(self, call: Call, error: BaseException | None) -> Done:
        """Describe the end of a delivery, once the hooks have ended."""
        if call.tracing:
            call.tracing.end(error)
        context = call.context
        budgets = tuple(context.budgets.values())
        done = Done(call.queue_index, call.task, error, budgets=budgets, cost=context.told)
        return done._replace(kept=call.kept, delay=self._delay_after(call, error))

    def overdue(self, call: Call, error: TimeoutError) -> Done:
        """Describe the end of a delivery whose handler still runs."""
        delay = self._delay_after(call, error)
        return Done(call.queue_index, call.task, error, cost=call.context.told, delay=delay)

    def _delay_after(self, call: Call, error: BaseException | None) -> float | timedelta | None:
        """Ask the worker's backoff for the delay after a failed attempt; None if it says none.

        If the backoff raises an error, or says what is no delay, the task takes its own backoff;
        the first such error is logged.
        """
        failed = isinstance(error, Exception) and not isinstance(error, Signal)
        asks = isinstance(error, Retry) and error.delay is None
        if self._backoff is None or call.overdue or not (failed or asks):
            return None
        try:
            delay = self._backoff(call.task.attempt, error)
            if delay is not None:
                delay_milliseconds(delay)  # raises if it is no delay
        except BaseException:
            if not self._told_of_backoff:
                self._told_of_backoff = True
                queue, name = self._about(call)
                log.exception(
                    "%s: the worker's backoff has failed for task %s, which takes its own; later "
                    "failures of the backoff are not logged",
                    *(queue, in_words(call.task, name)),
                    extra=about("backoff_failed", self.name, queue, call.task, task=name),
                )
            return None
        return delay

    def call_hook(self, hook: Callable[..., Any] | None, *args: Any) -> Any:
        """Call a hook, if there is one; return its result, which may have to be awaited."""
        try:
            return hook(*args) if hook else None
        except BaseException:
            self.log_hook()

    def log_hook(self) -> None:
        """Log the error of a hook, which is handled now."""
        log.exception("%s: a hook failed", self.name, extra=fields("hook_failed", worker=self.name))

    def hooks_at_end(
        self, context: Context[Q], error: BaseException | None
    ) -> Iterator[tuple[Callable[..., Any] | None, tuple[Any, ...]]]:
        """List the hooks to call when a handler has ended, with their arguments."""
        if error is not None and not isinstance(error, NO_FAILURE):
            yield self._on_error, (context, error)
        yield self._after, (context, error)

    def count(self, error: BaseException | None, lease: Lease) -> None:
        """Count a handler that has ended."""
        how = "done" if error is None else type(error).__name__
        self.handled[CANCELLED if lease.cancelled else how] += 1

    def _about(self, call: Call) -> tuple[str, str | None]:
        """Return the names of the queue and, if tasks have names, of the task."""
        queue = self._queues[call.queue_index].queue_name
        return queue, name_of(call.task) if self._named else None

    def log_end(self, call: Call, error: BaseException | None, *, held: bool) -> None:
        """Log the end of a handler, with its time, and a failed attempt, with its traceback."""
        (queue, name), task = self._about(call), call.task
        if log.isEnabledFor(logging.DEBUG):
            ms = round((time.monotonic() - call.began) * 1000, 3)
            how = type(error).__name__ if error else "done"
            attempt = attempt_of(task.attempt, task.max_attempts)
            log.debug(
                "%s: task %s, attempt %s: %s in %.1f ms",
                *(queue, in_words(task, name), attempt, how, ms),
                extra=about("ended", self.name, queue, task, task=name, ms=ms, reason=how),
            )
        if error is not None and not call.overdue and (held or isinstance(error, Exception)):
            log_failed(self.name, queue, task, error, traceback=True, name=name)
