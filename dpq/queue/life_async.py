"""The life of an asyncio queue object: its start, waits and leases. `AsyncDPQ` derives from it.

A call that is cancelled may have run all the same, as if its reply were lost. Of all calls, only a
pop takes tasks. The tasks of a cancelled pop are given back, uncounted, or their leases run out.
life.py is the counterpart for threads.
"""

from __future__ import annotations  # the import makes no model for each `Task[P]`

import asyncio
import os
import time
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from dpq.link.shared_async import THROWN_AWAY
from dpq.model.errors import DPQError
from dpq.model.task import P
from dpq.queue.base import QueueBase
from dpq.queue.lease_renewal import Key, Lease, Leases, wanted

if TYPE_CHECKING:
    from dpq.explain.operations import Operations
    from dpq.link.connect_async import AsyncOpened
    from dpq.link.session_async import AsyncQueueSession
    from dpq.model.task import Task

T = TypeVar("T")
A = ParamSpec("A")

Sleep = Callable[[Any, Sequence[Any], float], Awaitable[bool]]
"""A coroutine function that sleeps as `waiter_async.sleep` does."""

GIVE_BACK_SECONDS = 5.0
"""Seconds that `close` waits for the releases of cancelled pops; then their leases run out."""

_OF_A_PARENT: list[object] = []
"""The objects of a parent process, which a forked child must keep."""


class AsyncQueueLife(QueueBase[P]):
    """The start of an asyncio queue object, and its waits."""

    _opened: AsyncOpened | None = None
    _leases: AsyncKeeper
    _sleep: Callable[..., Awaitable[bool]]

    def _started(self, session: AsyncQueueSession[Operations[P]]) -> None:
        from dpq.script.assembly import sources

        sources()  # a queue that is made before the loop reads no file in the loop
        self._pid, self._own_session = os.getpid(), session
        self._background: set[asyncio.Task[Any]] = set()

    @property
    def _session(self) -> AsyncQueueSession[Operations[P]]:
        """The session."""
        if self._pid != os.getpid():  # pragma: no cover - a test does it in a child
            _OF_A_PARENT.append(vars(self).copy())
            checked, self._opened = self._own_session.checked, None
            self._start()
            self._own_session.checked = checked
        return self._own_session

    async def _shielded(self, look: Callable[[Sleep], Coroutine[Any, Any, T]]) -> T:
        """Call `look`; if this call is cancelled, give back what `look` still takes."""
        stop = asyncio.get_running_loop().create_future()
        taking: asyncio.Task[T] | None = None
        try:
            taking = asyncio.create_task(look(partial(self._sleep, stop=stop)))
            return await asyncio.shield(taking)
        except THROWN_AWAY:
            raise
        except BaseException:  # the call is cancelled, or a signal handler has raised
            stop.set_result(None)
            if taking and not (taking.done() and (taking.cancelled() or taking.exception())):
                self._finish(self._give_back, taking)
            raise

    async def _give_back(self, taking: asyncio.Task[Any]) -> None:
        """Give back what a cancelled pop has taken; if that fails, its leases run out."""
        from redis.exceptions import RedisError

        with suppress(DPQError, RedisError):
            if found := await taking:
                queue, batch = found
                release = queue._operations.release
                await queue._session.run_all([release(task, 0, None) for task in batch.tasks])

    def _finish(
        self, call: Callable[A, Coroutine[Any, Any, T]], *args: A.args, **named: A.kwargs
    ) -> asyncio.Future[T]:
        """Make a call that goes on even if its caller is cancelled; `close` waits for it."""
        task = asyncio.create_task(call(*args, **named))
        task.add_done_callback(self._background.discard)
        self._background.add(task)
        return asyncio.shield(task)

    async def _finish_all(self) -> None:
        """Wait for the calls in the background, at most `GIVE_BACK_SECONDS`."""
        if self._background:
            await asyncio.wait(self._background, timeout=GIVE_BACK_SECONDS)


class AsyncKeeper(Leases):
    """Extends held leases from an asyncio task of its own, which ends after the last lease."""

    def __init__(
        self,
        extend: Callable[[Sequence[tuple[Task[Any], float]]], Awaitable[list[bool | None]]],
        queue_name: str = "",
    ) -> None:
        """Extend with `extend`: it returns False for each lease that is lost, None if cancelled."""
        super().__init__(queue_name)
        self._extend = extend
        self._keeping: asyncio.Task[None] | None = None
        self._news: asyncio.Event | None = None
        self._beat: asyncio.Future[None] | None = None  # done when no extension is under way

    async def end(self, task: Task[Any]) -> bool:
        """Stop to extend a lease; no extension is under way when this returns."""
        held = self.let_go(task)
        if self._beat and (task.id, task.token) in self._on_the_way:
            await asyncio.shield(self._beat)
        return held

    async def aclose(self) -> None:
        """Stop all extensions."""
        keeping = self._keeping
        if keeping is not None and keeping.get_loop() is asyncio.get_running_loop():
            keeping.cancel()
            await asyncio.wait((keeping,))

    def _wake(self) -> None:
        loop = asyncio.get_running_loop()
        keeping = self._keeping
        if keeping is None or keeping.done() or keeping.get_loop() is not loop:
            self._news = asyncio.Event()
            self._keeping = loop.create_task(self._run(self._news), name="dpq-leases")
        elif self._news:
            self._news.set()

    async def _run(self, news: asyncio.Event) -> None:
        try:
            while self._kept():
                await self._beat_once(news)
        finally:
            self.wake_at = float("inf")  # the next lease starts another task

    async def _beat_once(self, news: asyncio.Event) -> None:
        news.clear()
        wake_at = self._plan()
        with suppress(TimeoutError):
            await asyncio.wait_for(news.wait(), max(0.0, wake_at - time.monotonic()))
        if leases := self._due():
            await self._extend_all(leases)

    async def _extend_all(self, leases: dict[Key, Lease]) -> None:
        self._on_the_way = leases
        self._beat = beat = asyncio.get_running_loop().create_future()
        try:
            self._extended(leases, await self._extend(wanted(leases)))
        except Exception:  # on any error the task goes on, or no lease would be extended
            self._put_off(leases)
        finally:
            self._on_the_way = {}
            beat.set_result(None)
