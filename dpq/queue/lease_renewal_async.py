"""Renewal of leases by a task of the event loop: the twin of `lease_renewal.Keeper`."""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Any

from dpq.model.task import Task
from dpq.queue.lease_renewal import Key, Lease, Leases, wanted

Extend = Callable[[Sequence[tuple[Task[Any], float]]], Awaitable[list[bool | None]]]
"""A coroutine function that extends leases by their seconds. It returns
False for each that is lost, None if its task was cancelled."""


log = logging.getLogger(__name__)


class AsyncKeeper(Leases):
    """Extends held leases from an asyncio task of its own, which ends after the last lease."""

    def __init__(self, extend: Extend, queue_name: str = "") -> None:
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
