"""`AsyncWorker`: the life of a worker of asyncio tasks; worker.py has that of threads."""

from __future__ import annotations

import asyncio
import logging
import signal
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, nullcontext, suppress
from typing import Any, Self

from dpq.model.log_fields import fields
from dpq.queue.inside import session_of
from dpq.queue.queue_async import AsyncDPQ
from dpq.worker.base import WorkerBase
from dpq.worker.run_state import LEAVE_SECONDS, stop_signals

__all__ = ["AsyncWorker"]

log = logging.getLogger(__name__)


class AsyncWorker(WorkerBase[AsyncDPQ[Any]]):
    """`Worker` for asyncio: handlers are coroutine functions, and run as tasks of one loop.

    If the lease of a handler is lost, or if it runs longer than `time_limit`, it is cancelled. A
    plain function may be a handler, too: it runs in a thread, which cannot be cancelled, and counts
    as running until it returns.
    """

    _kind = AsyncDPQ

    async def run(self, *, until_empty: bool = False, signals: bool | None = None) -> int:
        """Async `Worker.run`. If it is cancelled, it stops without grace."""
        with nullcontext() if signals is False else self._signals(all_of_them=bool(signals)):
            try:
                await self._begin(until_empty)
                return await self._go_on()
            finally:
                self._on = False

    @asynccontextmanager
    async def running(self) -> AsyncIterator[Self]:
        """Async `Worker.running`; an `async with`."""
        try:
            await self._begin(until_empty=False)
            async with asyncio.TaskGroup() as group:  # cancels the body if the run fails
                run = group.create_task(self._go_on())
                try:
                    yield self
                except asyncio.CancelledError:
                    self._cut_short()
                    raise
                finally:
                    self._end()
                    await asyncio.wait([run])
        except BaseExceptionGroup as errors:
            raise errors.exceptions[0] from None
        finally:
            self._on = False

    async def _go_on(self) -> int:
        """Run handlers until the end of a run that has begun, and leave it; see `run`."""
        self._beating = asyncio.create_task(self._telling.run(self._held, self._fetcher.heed))
        working = asyncio.create_task(self._work())
        try:
            await asyncio.shield(working)
        # The work goes on, so that no pop is interrupted before its handler begins.
        except asyncio.CancelledError:
            self._cut_short()
            await asyncio.shield(asyncio.wait([working]))
            if not working.cancelled() and (fault := working.exception()):
                log.exception("%s: failed as it ended", self.name, exc_info=fault)
            raise
        return self.handled.total()

    async def drain(self) -> int:
        """Async `Worker.drain`."""
        return await self.run(until_empty=True)

    def _end(self) -> None:
        self._state.stopping = True
        self._change.note()

    def _cut_short(self) -> None:
        self._grace_left = 0.0
        self._end()

    # Beginning and ending

    async def _begin(self, until_empty: bool) -> None:
        from dpq.worker.change_async import AsyncChange
        from dpq.worker.fetcher_async import AsyncFetcher, AsyncWakeUps
        from dpq.worker.runner_async import AsyncRunner
        from dpq.worker.telling_async import AsyncTelling

        for queue in self.queues:
            session_of(queue).require_open()
            await session_of(queue).ready()
        self._change, self._grace_left = AsyncChange(), self.grace
        parts = (self._change, AsyncFetcher, AsyncWakeUps, AsyncTelling)
        state = self._make_parts(until_empty, *parts)
        self._runner = AsyncRunner(self._calls, self._fetcher, state)
        self._begin_run(state)

    @contextmanager
    def _signals(self, *, all_of_them: bool) -> Iterator[None]:
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        loop = asyncio.get_running_loop()
        for number in stop_signals():
            before = signal.getsignal(number)
            if all_of_them or _is_free(before):
                with suppress(NotImplementedError):  # Windows
                    loop.add_signal_handler(number, _stop_all, number)
                    _before.setdefault(number, before)
        _listening.append(self)
        try:
            yield
        finally:
            _listening.remove(self)
            while _before and not _listening:
                number, handler = _before.popitem()
                loop.remove_signal_handler(number)
                signal.signal(number, handler)

    async def _work(self) -> None:
        try:
            while not self._state.stopping:
                self._runner.fill()
                await self._fetcher.step(self._runner.free)
        except BaseException as error:
            self._end()
            if not isinstance(error, Exception):  # after one, handlers may finish, as in threads
                self._cut_short()
            await asyncio.shield(asyncio.create_task(self._finish()))
            raise
        await self._finish()

    async def _finish(self) -> None:
        fetcher, runner = self._fetcher, self._runner
        await fetcher.give_back_unbegun()
        await runner.wait_for_handlers(lambda: self._grace_left)
        self._gave_back(await runner.give_back_running())
        await runner.wait_for_confirmations()
        await fetcher.aclose()
        self._telling.end()
        await asyncio.wait([self._beating], timeout=LEAVE_SECONDS)
        self._beating.cancel()
        self._log_totals()


_listening: list[AsyncWorker] = []  # the workers of this process that signals end
_before: dict[signal.Signals, Any] = {}  # the handlers that were there before


def _stop_all(number: signal.Signals) -> None:
    for worker in reversed(_listening):  # a loop that was closed may have left one behind
        about = fields("worker_stopping", worker=worker.name, reason=number.name)
        log.info("%s: %s, stopping", worker.name, number.name, extra=about)
        worker.stop()


def _is_free(handler: object) -> bool:
    """Return True if a signal has its first handler, or the one that `asyncio.run` sets."""
    if handler in (signal.SIG_DFL, signal.default_int_handler):
        return True
    owner = getattr(getattr(handler, "func", None), "__self__", None)  # a partial of a method
    return isinstance(owner, asyncio.Runner)
