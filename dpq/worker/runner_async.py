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

from dpq.model.log_fields import fields
from dpq.script.durability import CONFIRM_SECONDS
from dpq.worker.deliveries import Deliveries, Taken
from dpq.worker.fetcher_async import AsyncFetcher
from dpq.worker.handler_calls import Call, HandlerCalls
from dpq.worker.handlers import TIME_LIMIT, is_async
from dpq.worker.heartbeats import Holding
from dpq.worker.run_state import LEAVE_SECONDS, RunState

log = logging.getLogger(__name__)

_UNLIMITED = nullcontext()


class AsyncRunner:
    """Calls the handlers of one run of a worker, at most `concurrency` at once."""

    def __init__(
        self,
        calls: HandlerCalls[Any],
        deliveries: Deliveries,
        fetcher: AsyncFetcher,
        state: RunState,
        concurrency: int,
    ) -> None:
        self._calls = calls
        self._deliveries = deliveries
        self._fetcher = fetcher
        self._state = state
        self._concurrency = concurrency
        self._running: dict[asyncio.Task[Any], Call] = {}
        self._threads = ThreadPoolExecutor(concurrency, "dpq-handler")  # begins none before a call

    @property
    def running(self) -> list[Holding]:
        """The tasks of the running handlers."""
        return [call.holding for call in self._running.values()]

    @property
    def free(self) -> int:
        """The number of handlers that may begin now."""
        return self._concurrency - len(self._running)

    def fill(self) -> None:
        """Begin handlers while there are tasks and room."""
        while self.free > 0 and not self._state.stopping:
            taken = self._fetcher.take()
            if taken is None:
                return
            if taken.lease.alive:  # the lease may be lost before the handler begins
                call = self._calls.make(taken, self._state)
                self._running[asyncio.create_task(self._handle(call))] = call

    async def _handle(self, call: Call) -> None:
        """Call the handler of a task, and its hooks; hand the end over to the fetcher."""
        calls = self._calls
        handling = cast("asyncio.Task[Any]", asyncio.current_task())
        try:
            call.lease.lost = partial(_cancel_lost, call, handling)
            if not call.lease.alive:  # the lease was lost before the handler began
                return
            calls.start(call)
            error = await self._call(call)
            try:
                for hook, args in calls.hooks_at_end(call.context, error):
                    await self._call_hook(hook, *args)
            finally:
                await self._finish(call, error)
        finally:  # a done callback would run after all others that are due
            self._running.pop(handling, None)  # the run may have ended before the handler
            self.fill()
            self._fetcher.change.note()

    async def _call(self, call: Call) -> BaseException | None:
        """Call the handler within its time limit; return its error."""
        calls = self._calls
        limit: asyncio.Timeout | None = None
        try:
            await self._call_hook(calls.before, call.context)
            handler = calls.find(call.task)
            limit = asyncio.timeout(call.limit) if call.limit else None
            async with limit or _UNLIMITED:
                arguments = calls.arguments(handler, call)
                if is_async(handler):
                    result = handler.call(*arguments)
                else:
                    result = await self._in_a_thread(partial(handler.call, *arguments))
                if inspect.isawaitable(result):
                    result = await result
            calls.take_result(call, handler, result)
        except BaseException as raised:  # the error decides how the task goes on
            if isinstance(raised, TimeoutError) and limit and limit.expired():
                call.context._lose(TIME_LIMIT)
                return TimeoutError(f"ran longer than {call.limit:g} s")
            return calls.signal_of(raised)
        return None

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

    async def _finish(self, call: Call, error: BaseException | None) -> None:
        """Count and log the end of a handler; hand it over, and wait for its confirmation."""
        calls = self._calls
        done = calls.done(call, error)
        calls.count(error, call.lease)
        self._fetcher.took(time.monotonic() - call.began)
        held = self._deliveries.claim(done)
        calls.log_end(call, error, held=held)
        if held:  # else the handler itself has ended the delivery, or the lease is lost
            self._fetcher.add(done)
            call.ended = True
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

    async def give_back_running(self) -> int:
        """Give back the tasks of handlers that still run, uncounted; return their number.

        Those that wait for a confirmation have ended.
        """
        unfinished = {h: call for h, call in self._running.items() if not call.ended}
        left = self._fetcher.give_back(
            Taken(call.queue_index, call.lease) for call in unfinished.values()
        )
        await cancel_all(unfinished)
        await self._fetcher.send_ends()
        return left

    @property
    def _confirming(self) -> "list[asyncio.Task[Any]]":
        return [handling for handling, call in self._running.items() if call.ended]

    async def wait_for_confirmations(self) -> None:
        """Wait until ended handlers have the confirmation of their acks. If a call was
        interrupted and the server did not know its script, the task is not acked yet."""
        if confirming := self._confirming:
            await asyncio.wait(confirming, timeout=CONFIRM_SECONDS + LEAVE_SECONDS)
            # Sends the acks that failed; those interrupted now are left out.
            await self._fetcher.send_ends()
        if confirming := self._confirming:
            log.warning(
                "%s: ends before the server has confirmed the end of %d deliveries",
                *(self._calls.name, len(confirming)),
                extra=fields("not_confirmed", worker=self._calls.name, count=len(confirming)),
            )
            await cancel_all(confirming)


def _cancel_lost(call: Call, handling: "asyncio.Task[Any]") -> None:
    call.lose()
    task = call.task.id
    cancelled = call.lease.cancelled
    handling.cancel(f"task {task} was cancelled" if cancelled else f"lease of {task} lost")


async def cancel_all(handling: Collection["asyncio.Task[Any]"]) -> None:
    """Cancel handlers; if one does not end, wait no longer than `LEAVE_SECONDS`."""
    for each in handling:
        each.cancel()
    if handling:
        await asyncio.wait(handling, timeout=LEAVE_SECONDS)
