"""The runner of an `AsyncWorker`: calls handlers as asyncio tasks, and hands over their ends.

A runner sends nothing itself: the fetcher does.
"""

import asyncio
import inspect
import logging
import time
from collections.abc import Callable, Collection
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from functools import partial
from typing import Any, cast

from dpq.limits.signals import signal_of
from dpq.model.log_fields import fields
from dpq.script.durability import CONFIRM_SECONDS
from dpq.worker.fetcher_async import AsyncFetcher
from dpq.worker.handler_calls import Call, HandlerCalls
from dpq.worker.handlers import TIME_LIMIT
from dpq.worker.run_state import LEAVE_SECONDS, RunState

log = logging.getLogger(__name__)


class AsyncRunner:
    """Calls the handlers of one run of a worker, at most `concurrency` at once."""

    def __init__(self, calls: HandlerCalls[Any], fetcher: AsyncFetcher, state: RunState) -> None:
        self._calls, self._fetcher, self._state = calls, fetcher, state
        self._running: dict[asyncio.Task[Any], Call] = {}
        self.hung: set[Call] = set()  # plain functions that run on, though their attempt has ended
        # It begins no thread before a call.
        self._threads = ThreadPoolExecutor(state.concurrency, "dpq-handler")

    @property
    def running(self) -> list[Call]:
        return list({*self._running.values(), *self.hung})

    @property
    def free(self) -> int:
        return self._state.concurrency - len(self.running if self.hung else self._running)

    def fill(self) -> None:
        while self.free > 0 and not self._state.stopping:
            taken = self._fetcher.take()
            if taken is None:
                return
            if taken.lease.alive:  # the lease may be lost before the handler begins
                call = self._calls.make(taken, self._state)
                self._running[asyncio.create_task(self._handle(call))] = call

    async def _handle(self, call: Call) -> None:
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
                done = calls.finish(call, error)
                await self._fetcher.handled(done, time.monotonic() - call.began)
        finally:  # a done callback would run after all others that are due
            self._running.pop(handling, None)  # the run may have ended before the handler
            self.fill()
            self._fetcher.change.note()

    async def _call(self, call: Call) -> BaseException | None:
        calls, limit = self._calls, asyncio.timeout(None)
        try:
            await self._call_hook(calls.before, call.context)
            handler = calls.find(call.task)
            limit = asyncio.timeout(call.limit)
            async with limit:
                run = partial(handler.call, *call.arguments(handler))
                result = run() if handler.is_async else await self._in_a_thread(call, run)
                if inspect.isawaitable(result):
                    result = await result
            calls.take_result(call, handler, result)
        except BaseException as raised:  # the error decides how the task goes on
            if isinstance(raised, TimeoutError) and limit.expired():
                call.context._lose(TIME_LIMIT)
                return TimeoutError(f"ran longer than {call.limit:g} s")
            return signal_of(raised, from_errors=calls.from_errors)
        return None

    async def _in_a_thread(self, call: Call, run: Callable[[], Any]) -> Any:
        """Call a plain function, which may block, in a thread with the context of this task."""

        def called() -> Any:
            try:
                return run()
            except StopIteration as error:  # a future takes none: its caller would wait for ever
                raise RuntimeError("the handler raised StopIteration") from error

        running = self._threads.submit(copy_context().run, called)
        try:
            return await asyncio.wrap_future(running)
        finally:
            if running.running():  # it cannot be cancelled: it counts until it returns
                self.hung.add(call)
                returned = partial(self._returned, call)
                asyncio.wrap_future(running).add_done_callback(returned)

    def _returned(self, call: Call, end: "asyncio.Future[Any]") -> None:
        end.exception()  # it has been told as a TimeoutError, or as lost
        self.hung.remove(call)
        self._fetcher.change.note()

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
        left = self._fetcher.give_back(unfinished.values())
        await _cancel_all(unfinished)
        await self._fetcher.send_ends()
        return left

    async def wait_for_confirmations(self) -> None:
        """Wait until ended handlers have the confirmation of their acks."""
        confirming = [handling for handling, call in self._running.items() if call.ended]
        if confirming:
            await asyncio.wait(confirming, timeout=CONFIRM_SECONDS + LEAVE_SECONDS)
            # Sends the acks that failed; those interrupted now are left out.
            await self._fetcher.send_ends()
        if confirming := [handling for handling in confirming if not handling.done()]:
            name, count = self._calls.name, len(confirming)
            about = fields("not_confirmed", worker=name, count=count)
            text = "%s: ends before the server has confirmed the end of %d deliveries"
            log.warning(text, name, count, extra=about)
            await _cancel_all(confirming)


def _cancel_lost(call: Call, handling: "asyncio.Task[Any]") -> None:
    call.lose()
    task, cancelled = call.task.id, call.lease.cancelled
    handling.cancel(f"task {task} was cancelled" if cancelled else f"lease of {task} lost")


async def _cancel_all(handling: Collection["asyncio.Task[Any]"]) -> None:
    """Cancel handlers; if one does not end, wait no longer than `LEAVE_SECONDS`."""
    for each in handling:
        each.cancel()
    if handling:
        await asyncio.wait(handling, timeout=LEAVE_SECONDS)
