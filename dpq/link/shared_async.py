"""Asyncio's own: the event loop of a call, its pause, and a coroutine that several calls share."""

import asyncio
from asyncio import sleep as pause
from collections.abc import Awaitable, Callable, Iterable
from typing import Generic, TypeVar

__all__ = ["THROWN_AWAY", "Shared", "here", "pause", "together"]

T = TypeVar("T")

THROWN_AWAY: tuple[type[BaseException], ...] = (GeneratorExit,)
"""The errors after which nothing can be awaited any more: a coroutine that is thrown away, often
with its event loop, gets this one."""


def here() -> object:
    """Return what owns the connections of the caller: the event loop; None outside of one."""
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


async def together(calls: Iterable[Awaitable[T]]) -> list[T]:
    """Make calls at the same time."""
    return await asyncio.gather(*calls)


class Shared(Generic[T]):
    """A coroutine that runs once for callers of the same time; a cancelled caller ends nothing."""

    def __init__(self, start: Callable[[], Awaitable[T]]) -> None:
        self._start = start
        self._running: asyncio.Task[T] | None = None

    async def get(self) -> T:
        """Wait for the running coroutine, or start it."""
        loop = asyncio.get_running_loop()
        running = self._running
        if running is None or running.done() or running.get_loop() is not loop:
            self._running = running = loop.create_task(self._run())
        return await asyncio.shield(running)

    async def _run(self) -> T:
        return await self._start()

    async def ended(self) -> None:
        """Wait until the coroutine has ended."""
        running, self._running = self._running, None
        if running is not None and running.get_loop() is asyncio.get_running_loop():
            await asyncio.wait((running,))
