"""The calls of handlers: their contexts, hooks, counts and log lines.

The runners of both workers share it. It calls hooks, but no handler.
"""

from __future__ import annotations

import logging
import time
from asyncio import CancelledError
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Protocol

from dpq.limits.budget import is_answer
from dpq.limits.signals import RateLimited, Release, Retry, Signal, signal_of
from dpq.model.display import attempt_of
from dpq.model.log_fields import fields
from dpq.model.validation import delay_milliseconds
from dpq.queue.end_log import about, in_words, log_failed, name_of
from dpq.worker.handlers import CANCELLED, LEASE_LOST, Context, Handler, Q, keep_of, kept_line
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


def tell_lost(context: Context[Any], lease: Lease) -> None:
    """Tell a handler that its lease is lost, and why."""
    context._lose(CANCELLED if lease.cancelled else LEASE_LOST)


class Tracing(Protocol):
    """An object that follows one call of a handler, until its hooks have ended."""

    def end(self, error: BaseException | None) -> None:
        """Take note of the end of the call, in the thread or asyncio task in which it began."""


class HandlerCalls(Generic[Q]):
    """The handlers, the hooks and the counts of a worker, for all its runs.

    Attributes:
        name: The name of the worker, for the log.
        find: Finds the handler of a task, by the task's name if `named`.
        time_limit: Seconds that a handler may run, or None.
        before: The hook that is called before each handler, or None.
        hooked: There is a hook.
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
        self.time_limit = time_limit
        self.before = before
        self.hooked = bool(before or after or on_error)
        self.handled: Counter[str] = Counter()
        self.name = name
        self._queues = queues
        self._after, self._on_error = after, on_error

    def context(self, queue_index: int, lease: Lease, state: RunState) -> Context[Q]:
        """Make the context of a handler; it says `lost` from the moment when the lease is lost."""
        task = lease.task
        context: Context[Q] = Context(
            self._queues[queue_index],
            task,
            lambda: state.stopping,
            lambda text: self.progress.note(queue_index, task, text),
        )
        lease.lost = partial(tell_lost, context, lease)
        if not lease.alive:  # the lease was lost before `lease.lost` was set
            lease.lost()
        return context

    def kept(self, queue_index: int, handler: Handler, task: Task[Any], result: Any) -> str:
        """Return the line of a handler's result, or "" if it is not to be kept.

        The first result that is dropped is logged. An answer of an HTTP client is read by the
        worker itself.

        Raises:
            Reject: The result cannot be kept.
        """
        named = keep_of(handler) if self._named else None
        keep = self._keep if named is None else named
        if keep:
            return kept_line(result, keep, task)
        if result is not None and not (self._told_of_results or is_answer(result)):
            self._told_of_results = True
            queue, name = self._queues[queue_index].queue_name, self._name_of(task)
            log.info(
                "%s: task %s has returned a %s, which is dropped, as later results are: "
                "keep_result of the worker or of a named task keeps them",
                *(queue, in_words(task, name), type(result).__name__),
                extra=about("result_dropped", self.name, queue, task, task=name),
            )
        return ""

    def delay_after(
        self, queue_index: int, task: Task[Any], error: BaseException | None
    ) -> float | timedelta | None:
        """Ask the worker's backoff for the delay after a failed attempt; None if it says none.

        If the backoff raises an error, or says what is no delay, the task takes its own backoff;
        the first such error is logged.
        """
        failed = isinstance(error, Exception) and not isinstance(error, Signal)
        asks = isinstance(error, Retry) and error.delay is None
        if self._backoff is None or not (failed or asks):
            return None
        try:
            delay = self._backoff(task.attempt, error)
            if delay is not None:
                delay_milliseconds(delay)  # raises if it is no delay
        except BaseException:
            if not self._told_of_backoff:
                self._told_of_backoff = True
                queue, name = self._queues[queue_index].queue_name, self._name_of(task)
                log.exception(
                    "%s: the worker's backoff has failed for task %s, which takes its own; later "
                    "failures of the backoff are not logged",
                    *(queue, in_words(task, name)),
                    extra=about("backoff_failed", self.name, queue, task, task=name),
                )
            return None
        return delay

    def trace(self, queue_index: int, task: Task[Any]) -> Tracing | None:
        """Begin to follow a handler, if anything does."""
        return self.traced(self._queues[queue_index], task) if self.traced else None

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

    def log_failure(self, queue_index: int, task: Task[Any], error: BaseException) -> None:
        """Log a failed attempt; with its traceback, unless the handler raised a signal."""
        queue = self._queues[queue_index].queue_name
        log_failed(self.name, queue, task, error, traceback=True, name=self._name_of(task))

    def _name_of(self, task: Task[Any]) -> str | None:
        return name_of(task) if self._named else None

    @property
    def logs_ends(self) -> bool:
        """True if the end of each handler is logged."""
        return log.isEnabledFor(logging.DEBUG)

    def log_end(
        self, queue_index: int, task: Task[Any], error: BaseException | None, began: float
    ) -> None:
        """Log the end of a handler, with its result and its time."""
        ms = round((time.monotonic() - began) * 1000, 3)
        how = type(error).__name__ if error else "done"
        queue, name = self._queues[queue_index].queue_name, self._name_of(task)
        log.debug(
            "%s: task %s, attempt %s: %s in %.1f ms",
            *(queue, in_words(task, name), attempt_of(task.attempt, task.max_attempts), how, ms),
            extra=about("ended", self.name, queue, task, task=name, ms=ms, reason=how),
        )
