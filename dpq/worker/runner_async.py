"""The runner of an `AsyncWorker`: calls handlers as asyncio tasks, and hands over their ends.

A runner sends nothing itself: the fetcher does.
"""

import asyncio
import inspect
import logging
import time
from collections.abc import Callable, Collection
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from contextvars import copy_context
from functools import partial
from typing import Any, cast

from dpq.limits.budget import budgets_in
from dpq.model.log_fields import fields
from dpq.queue.lease_renewal import Lease
from dpq.script.durability import CONFIRM_SECONDS
from dpq.worker.deliveries import Deliveries, Taken
from dpq.worker.fetcher_async import AsyncFetcher
from dpq.worker.handler_calls import HandlerCalls, tell_lost
from dpq.worker.handlers import TIME_LIMIT, Context, check_result, is_async
from dpq.worker.heartbeats import Holding
from dpq.worker.outcomes import Done
from dpq.worker.run_state import LEAVE_SECONDS, RunState

log = logging.getLogger(__name__)

_UNLIMITED = nullcontext()


class AsyncRunner:
    """Calls the handlers of one run of a worker, at most `concurrency` at once.

    Args:
        calls: The handlers and hooks of the worker.
        deliveries: The leases of the worker.
        fetcher: The fetcher that has the next task.
        state: The state of the run.
        concurrency: The number of handlers that run at once.
    """

    def __init__(
        self,
        calls: HandlerCalls[Any],
        deliveries: Deliveries,
        fetcher: AsyncFetcher,
        state: RunState,
        *,
        concurrency: int,
    ) -> None:
        self._calls = calls
        self._deliveries = deliveries
        self._fetcher = fetcher
        self._state = state
        self._concurrency = concurrency
        self._running: dict[asyncio.Task[Any], Taken] = {}
        self._began: dict[asyncio.Task[Any], float] = {}
        # The running tasks whose handler has ended.
        self._confirming: set[asyncio.Task[Any]] = set()
        self._logs_ends = calls.logs_ends
        self._threads = ThreadPoolExecutor(concurrency, "dpq-handler")  # begins none before a call

    @property
    def running(self) -> list[Holding]:
        """The tasks of the running handlers."""
        now = time.monotonic()  # the start of handlers that begin at the next turn of the loop
        return [
            Holding(taken.queue_index, taken.lease.task, self._began.get(handling, now))
            for handling, taken in self._running.items()
        ]

    @property
    def free(self) -> int:
        """The number of handlers that may begin now."""
        return self._concurrency - len(self._running)

    def fill(self) -> None:
        """Begin handlers while there are tasks and room."""
        while len(self._running) < self._concurrency and not self._state.stopping:
            taken = self._fetcher.take()
            if taken is None:
                return
            if taken.lease.alive:  # the lease may be lost before the handler begins
                handling = asyncio.create_task(self._handle(taken))
                self._running[handling] = taken

    def _leave(self, handling: "asyncio.Task[Any]") -> None:
        """Make room for another handler."""
        self._running.pop(handling, None)  # the run may have ended before the handler
        self._began.pop(handling, None)
        self._confirming.discard(handling)
        self.fill()
        self._fetcher.change.note()

    async def _handle(self, taken: Taken) -> None:
        """Call the handler of a task, and its hooks; hand the end over to the fetcher."""
        queue_index, lease, _ = taken
        context = self._calls.context(queue_index, lease, self._state)
        handling = cast("asyncio.Task[Any]", asyncio.current_task())
        lease.lost = partial(_cancel_lost, context, lease, handling)
        if not lease.alive:  # the lease was lost before the handler began
            self._leave(handling)
            return
        began = self._began[handling] = time.monotonic()
        tracing = self._calls.traced and self._calls.trace(queue_index, lease.task)
        error, kept = await self._call(queue_index, context)
        try:
            if self._calls.hooked:
                for hook, args in self._calls.hooks_at_end(context, error):
                    await self._call_hook(hook, *args)
        finally:
            if tracing:
                tracing.end(error)
            try:
                budgets = tuple(context.budgets.values())
                delay = self._calls.delay_after(queue_index, lease.task, error)
                done = Done(queue_index, lease.task, error, budgets=budgets, cost=context.told)
                done = done._replace(kept=kept, delay=delay)
                await self._finish(handling, lease, done, began)
            finally:
                self._leave(handling)  # a done callback would run after all others that are due

    async def _call(
        self, queue_index: int, context: Context[Any]
    ) -> tuple[BaseException | None, str]:
        """Call the handler within its time limit; return its error, and the line of its result."""
        task = context.task
        limit: asyncio.Timeout | None = None
        seconds = task.time_limit or self._calls.time_limit
        try:
            if self._calls.hooked:
                await self._call_hook(self._calls.before, context)
            handler = self._calls.find(task)
            limit = asyncio.timeout(seconds) if seconds else None
            async with limit or _UNLIMITED:
                args = (task, context) if handler.takes_context else (task,)
                if is_async(handler):
                    result = handler.call(*args)
                else:
                    result = await self._in_a_thread(partial(handler.call, *args))
                if inspect.isawaitable(result):
                    result = await result
                if result is not None:
                    check_result(handler, result)
                    context.hear(budgets_in(result))
            return None, self._calls.kept(queue_index, handler, task, result)
        except BaseException as raised:  # the error decides how the task goes on
            if isinstance(raised, TimeoutError) and limit and limit.expired():
                context._lose(TIME_LIMIT)
                return TimeoutError(f"ran longer than {seconds:g} s"), ""
            return self._calls.signal_of(raised), ""

    async def _in_a_thread(self, call: Callable[[], Any]) -> Any:
        """Call a plain function, which may block, in a thread with the context of this task."""

        def called() -> tuple[Any, BaseException | None]:
            try:
                return call(), None
            except BaseException as error:  # a future takes no StopIteration
                return None, error

        in_context = partial(copy_context().run, called)
        result, error = await asyncio.get_running_loop().run_in_executor(self._threads, in_context)
        if error is not None:
            raise error
        return result

    async def _finish(
        self, handling: "asyncio.Task[Any]", lease: Lease, done: Done, began: float
    ) -> None:
        """Count and log the end of a handler; hand it over, and wait for its confirmation."""
        calls, (queue_index, task, error) = self._calls, done[:3]
        calls.count(error, lease)
        self._fetcher.took(time.monotonic() - began)
        if self._logs_ends:
            calls.log_end(queue_index, task, error, began)
        held = self._deliveries.claim(done)
        if error is not None and (held or isinstance(error, Exception)):
            calls.log_failure(queue_index, task, error)
        if held:  # else the handler itself has ended the delivery, or the lease is lost
            self._fetcher.add(done)
            self._confirming.add(handling)
            await self._fetcher.confirm()

    async def _call_hook(self, hook: Callable[..., Any] | None, *args: Any) -> None:
        answer = self._calls.call_hook(hook, *args)
        if inspect.isawaitable(answer):
            try:
                await answer
            except asyncio.CancelledError:
                raise
            except BaseException:
                self._calls.log_hook()

    # The end of a run

    async def wait_for_handlers(self, seconds: Callable[[], float]) -> None:
        """Wait until no handler runs, at most `seconds()`, which is asked after each change."""
        began, change = time.monotonic(), self._fetcher.change
        while self._running and (left := began + seconds() - time.monotonic()) > 0:
            change.forget()
            await change.wait(left)
            await self._fetcher.send_ends()

    def unfinished(self) -> dict["asyncio.Task[Any]", Taken]:
        """List the handlers that still run; those that wait for a confirmation have ended."""
        return {
            handling: taken
            for handling, taken in self._running.items()
            if handling not in self._confirming
        }

    async def wait_for_confirmations(self) -> None:
        """Wait until ended handlers have the confirmation of their acks. If a call was
        interrupted and the server did not know its script, the task is not acked yet."""
        if self._confirming:
            await asyncio.wait(self._confirming, timeout=CONFIRM_SECONDS + LEAVE_SECONDS)
            # Sends the acks that failed; those interrupted now are left out.
            await self._fetcher.send_ends()
        if self._confirming:
            log.warning(
                "%s: ends before the server has confirmed the end of %d deliveries",
                *(self._calls.name, len(self._confirming)),
                extra=fields("not_confirmed", worker=self._calls.name, count=len(self._confirming)),
            )
            await cancel_all(self._confirming)


def _cancel_lost(context: Context[Any], lease: Lease, handling: "asyncio.Task[Any]") -> None:
    tell_lost(context, lease)
    task = lease.task.id
    handling.cancel(f"task {task} was cancelled" if lease.cancelled else f"lease of {task} lost")


async def cancel_all(handling: Collection["asyncio.Task[Any]"]) -> None:
    """Cancel handlers; if one does not end, wait no longer than `LEAVE_SECONDS`."""
    for each in handling:
        each.cancel()
    if handling:
        await asyncio.wait(handling, timeout=LEAVE_SECONDS)
