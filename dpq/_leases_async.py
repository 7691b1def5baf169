"""Leases that are kept alive by a task of the event loop: the twin of `_leases.Keeper`."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Any

from redis.exceptions import RedisError

from dpq._leases import Leases
from dpq.models import Task

Extend = Callable[[Sequence[tuple[Task[Any], float]]], Awaitable[list[bool]]]
"""Extends leases by their seconds; False for each that is lost."""


class AsyncKeeper(Leases):
    """Extends held leases from a task of its own, which lives while there are some."""

    def __init__(self, extend: Extend) -> None:
        super().__init__()
        self._extend = extend
        self._keeping: asyncio.Task[None] | None = None
        self._news: asyncio.Event | None = None

    async def aclose(self) -> None:
        """Extend nothing more."""
        self._held.clear()
        if self._keeping is not None and not self._keeping.done():
            self._keeping.cancel()
            with suppress(asyncio.CancelledError):
                await self._keeping

    def _wake(self) -> None:
        loop = asyncio.get_running_loop()
        keeping = self._keeping
        if keeping is None or keeping.done() or keeping.get_loop() is not loop:
            self._news = asyncio.Event()
            self._keeping = loop.create_task(self._run(self._news), name="dpq-leases")
        elif self._news:
            self._news.set()

    async def _run(self, news: asyncio.Event) -> None:
        while self._held:
            news.clear()
            wake_at = self._plan()
            with suppress(TimeoutError):
                await asyncio.wait_for(news.wait(), max(0.0, wake_at - time.monotonic()))
            if leases := self._due():
                try:
                    due = [(lease.task, lease.seconds) for lease in leases.values()]
                    self._extended(leases, await self._extend(due))
                except RedisError:
                    self._put_off(leases)
        self.wake_at = float("inf")
