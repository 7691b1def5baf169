"""The calls of handlers, for both runners: contexts, hooks, counts, log lines. It calls none."""

from __future__ import annotations

import logging
import sys
import time
from asyncio import CancelledError
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Generic

from dpq.limits.budget import budgets_in, is_answer
from dpq.limits.signals import RateLimited, Reject, Release, Retry, Signal
from dpq.model.display import attempt_of
from dpq.model.errors import PayloadError
from dpq.model.log_fields import fields
from dpq.model.results import result_line
from dpq.model.validation import delay_milliseconds
from dpq.queue.end_log import about, in_words, log_failed, name_of
from dpq.worker.deliveries import Deliveries, Done, Taken
from dpq.worker.handlers import CANCELLED, LEASE_LOST, Context, Handler, Q, check_result
from dpq.worker.run_state import ProgressNotes, RunState

if TYPE_CHECKING:
    from dpq.model.task import Task
    from dpq.queue.base import QueueBase
    from dpq.queue.lease_renewal import Lease

log = logging.getLogger(__name__)

WorkerBackoff = Callable[[int, Any], float | timedelta | None]
"""The function of a worker that is called with an attempt and its error, for the next delay."""

NO_FAILURE = (RateLimited, Release, CancelledError)
"""The errors of a handler that count as no failed attempt; `on_error` is not called for them."""


@dataclass(slots=True, eq=False)
class Call:
    """One call of a handler, until its end was handed over."""

    queue: QueueBase[Any]
    lease: Lease
    context: Context[Any]
    limit: float | None  # seconds that it may run
    tracing: Any = None  # it follows the call until its hooks have ended
    began: float = field(default_factory=time.monotonic)
    kept: str = ""  # the line of its result
    ended: bool = False  # its thread or asyncio task is about to hand the end over
    overdue: BaseException | None = None  # it ran too long in a thread: the attempt has failed

    @property
    def task(self) -> Task[Any]:
        return self.lease.task

    def arguments(self, handler: Handler) -> tuple[Any, ...]:
        return (self.task, self.context) if handler.takes_context else (self.task,)

    def lose(self) -> None:
        self.context._lose(CANCELLED if self.lease.cancelled else LEASE_LOST)


Held = Call | Taken | Done
"""A delivery that a worker holds: before, during or after the call of its handler."""


@dataclass(kw_only=True, eq=False)
class HandlerCalls(Generic[Q]):
    """The handlers, the hooks and the counts of a worker, for all its runs."""

    # Begins to follow the handler of a task of a queue. `dpq.otel` sets it, for all workers.
    traced: ClassVar[staticmethod[[Any, Task[Any]], Any] | None] = None

    name: str
    deliveries: Deliveries
    find: Callable[[Task[Any]], Handler]
    named: bool = False  # tasks have names
    time_limit: float | None = None
    before: Callable[[Context[Q]], Any] | None = None
    after: Callable[[Context[Q], BaseException | None], Any] | None = None
    on_error: Callable[[Context[Q], BaseException], Any] | None = None
    keep: float = 0.0  # seconds that results are kept
    backoff: WorkerBackoff | None = None
    from_errors: bool = True
    handled: Counter[str] = field(default_factory=Counter, init=False)
    progress: ProgressNotes = field(default_factory=ProgressNotes, init=False)
    _told: set[str] = field(default_factory=set, init=False)

    def make(self, taken: Taken, state: RunState) -> Call:
        """Make a call; its context says `lost` from the moment when the lease is lost."""
        queue, lease, task = taken.queue, taken.lease, taken.task
        tell = partial(self.progress.note, queue, task)
        context: Context[Any] = Context(queue, task, lambda: state.stopping, tell)
        call = Call(queue, lease, context, task.time_limit or self.time_limit)
        lease.lost = call.lose
        if not lease.alive:  # the lease was lost before `lease.lost` was set
            call.lose()
        return call

    def start(self, call: Call) -> None:
        call.began = time.monotonic()
        if self.traced:
            call.tracing = self.traced(call.queue, call.task)

    def take_result(self, call: Call, handler: Handler, result: Any) -> None:
        """Keep the line of a handler's result, if it is to be kept; read an answer of HTTP.

        Raise an error if it cannot be kept, or shows that the handler has not done its work.
        """
        if result is not None:
            check_result(handler, result)
            call.context.hear(budgets_in(result))
        keep = self.keep if handler.keep is None else handler.keep
        if keep:
            try:
                call.kept = result_line(result, keep, call.task)
            except PayloadError as wrong:
                raise Reject(f"its result cannot be kept: {wrong}") from wrong
        elif result is not None and not is_answer(result):
            text = (
                f"has returned a {type(result).__name__}, which is dropped, as later results are: "
                "keep_result of the worker or of a named task keeps them"
            )
            self._log_once(logging.INFO, "result_dropped", call, text)

    def finish(self, call: Call, error: BaseException | None) -> Done | None:
        """Count and log a handler that has ended, with its hooks; describe the end of its delivery.

        Return None if another caller ends it: the handler itself has, or the lease is lost.
        """
        if call.tracing:
            call.tracing.end(error)
        done = self.ending(call, error)
        call.ended = True
        held = self.deliveries.claim(done)
        how = "done" if error is None else type(error).__name__
        self.handled[CANCELLED if call.lease.cancelled else how] += 1
        self._log_end(call, error, held=held)
        return done if held else None

    def ending(self, call: Call, error: BaseException | None) -> Done:
        """Describe the end of the delivery of a call, whose handler may still run."""
        context = call.context
        return Done(
            *(call.queue, call.task, error),
            budgets=tuple(context.budgets.values()),
            cost=context.told,
            kept=call.kept,
            delay=self._delay_after(call, error),
        )

    def _delay_after(self, call: Call, error: BaseException | None) -> float | timedelta | None:
        """Ask the worker's backoff for the delay after a failed attempt; None for its own."""
        failed = isinstance(error, Exception) and not isinstance(error, Signal)
        asks = isinstance(error, Retry) and error.delay is None
        if self.backoff is None or call.overdue or not (failed or asks):
            return None
        try:
            delay = self.backoff(call.task.attempt, error)
            if delay is not None:
                delay_milliseconds(delay)  # raises if it is no delay
        except BaseException:
            text = (
                "takes its own backoff, since the worker's backoff has failed; later failures are "
                "not logged"
            )
            self._log_once(logging.ERROR, "backoff_failed", call, text)
            return None
        return delay

    def call_hook(self, hook: Callable[..., Any] | None, *args: Any) -> Any:
        """Call a hook, if there is one; return its result, which may have to be awaited."""
        try:
            return hook(*args) if hook else None
        except BaseException:
            self.log_hook()

    def log_hook(self) -> None:
        log.exception("%s: a hook failed", self.name, extra=fields("hook_failed", worker=self.name))

    def hooks_at_end(
        self, context: Context[Q], error: BaseException | None
    ) -> Iterator[tuple[Callable[..., Any] | None, tuple[Any, ...]]]:
        if error is not None and not isinstance(error, NO_FAILURE):
            yield self.on_error, (context, error)
        yield self.after, (context, error)

    def _about(self, call: Call) -> tuple[str, str | None]:
        return call.queue.queue_name, name_of(call.task) if self.named else None

    def _log_once(self, level: int, event: str, call: Call, text: str) -> None:
        """Log the first event of its kind, with the error that is handled now."""
        if event not in self._told:
            self._told.add(event)
            queue, name = self._about(call)
            more = about(event, self.name, queue, call.task, task=name)
            words = (queue, in_words(call.task, name), text)
            log.log(level, "%s: task %s %s", *words, exc_info=sys.exception(), extra=more)

    def _log_end(self, call: Call, error: BaseException | None, *, held: bool) -> None:
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
