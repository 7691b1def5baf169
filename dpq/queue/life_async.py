"""The life of an asyncio queue object: its start, and how it waits. `AsyncDPQ` derives from it.

A call that is cancelled may have run all the same, as if its reply were lost. Of all calls, only a
pop takes tasks. The tasks of a cancelled pop are given back, uncounted, or their leases run out.
life.py is the counterpart for threads.
"""

from __future__ import annotations  # the import makes no model for each `Task[P]`

import asyncio
import os
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from dpq.model.errors import DPQError
from dpq.model.task import P
from dpq.queue.base import QueueBase
from dpq.queue.pauses_async import THROWN_AWAY

if TYPE_CHECKING:
    from dpq.explain.operations import Operations
    from dpq.link.connect_async import AsyncOpened
    from dpq.link.session_async import AsyncQueueSession
    from dpq.model.task import Task
    from dpq.queue.lease_renewal_async import AsyncKeeper
    from dpq.script.replies import Kept

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
    _look_or_wait: Callable[..., Coroutine[Any, Any, list[Task[P]]]]
    _extend_many: Callable[[Sequence[tuple[Task[Any], float]]], Awaitable[list[Kept]]]

    def _start(self) -> None:
        from dpq.link.connections_async import AsyncConnections
        from dpq.link.listener_async import AsyncListener
        from dpq.link.session_async import AsyncQueueSession
        from dpq.link.waiter_async import AsyncWaiters, sleep
        from dpq.queue.lease_renewal_async import AsyncKeeper
        from dpq.script.assembly import sources

        sources()  # a queue that is made before the loop reads no file in the loop
        self._pid = os.getpid()
        connections = AsyncConnections(self._redis, self._durability)
        self._own_session = AsyncQueueSession(connections, self._operations)
        self._leases = AsyncKeeper(self._extend_many, self.queue_name)
        self._waiters = AsyncWaiters(connections)
        self._sleep = sleep
        self._listener = AsyncListener(connections.nodes, self._operations.marker)
        self._ends = AsyncListener(
            connections.nodes, self._operations.marker, f"{{{self.queue_name}}}"
        )
        self._background: set[asyncio.Task[Any]] = set()

    @property
    def _session(self) -> AsyncQueueSession[Operations[P]]:
        """The session."""
        if self._pid != os.getpid():  # pragma: no cover - a test does it in a child
            session = self._own_session
            waiting = (self._waiters, self._listener)
            parents = (self._opened, session, waiting, self._leases, self._background)
            _OF_A_PARENT.append(parents)
            self._opened = None
            self._start()
            self._own_session.checked = session.checked
        return self._own_session

    async def _take(
        self,
        most: int,
        timeout: float | None,
        visibility: float | None,
        wanted: tuple[str, str] | tuple[()] = (),
    ) -> list[Task[P]]:
        """Take tasks, and wait for them; tasks that come after a cancellation are given back."""
        look = partial(self._look_or_wait, most, timeout, visibility, wanted=wanted)
        return await self._shielded(look, self._release_all)

    async def _shielded(
        self,
        look: Callable[[Sleep], Coroutine[Any, Any, T]],
        give_back: Callable[[T], Awaitable[object]],
    ) -> T:
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
                self._finish(self._give_back, taking, give_back)
            raise

    async def _give_back(
        self, taking: asyncio.Task[T], give_back: Callable[[T], Awaitable[object]]
    ) -> None:
        """Give back what a cancelled pop has taken; if that fails, its leases run out."""
        from redis.exceptions import RedisError

        with suppress(DPQError, RedisError):
            await give_back(await taking)

    async def _release_all(self, tasks: Sequence[Task[P]]) -> None:
        await self._session.run_all([self._operations.release(task, 0, None) for task in tasks])

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
