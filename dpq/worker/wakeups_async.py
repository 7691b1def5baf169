"""The wake-ups of an asyncio worker: the twin of wakeups.py. `AsyncFetcher` calls it."""

import asyncio
import time
from collections.abc import Iterable, Sequence

from dpq.link.connections_async import AsyncConnections
from dpq.link.waiter_async import AsyncWaiter, sleep
from dpq.link.watches import RECHECK_SECONDS, Marker, Watch, owned_markers


class AsyncWakeUps:
    """Async `WakeUps`."""

    def __init__(self, connections: AsyncConnections, markers: Sequence[str]) -> None:
        self.watches: list[Watch] = []
        self._connections = connections
        self._waiter = AsyncWaiter(connections, markers)

    async def wait(self, change: "asyncio.Future[None]") -> bool:
        """Wait for a wake-up or for `change`; return True if it is time to ask the server."""
        return await sleep(self._waiter, self.watches, time.monotonic() + RECHECK_SECONDS, change)

    async def stop(self, owed: Iterable[Marker] | None = None) -> None:
        """Async `WakeUps.stop`."""
        await self._waiter.withdraw(owned_markers(self.watches) if owed is None else owed)
        self.watches = []

    async def follow(self, markers: Sequence[str]) -> None:
        """Async `WakeUps.follow`."""
        if tuple(markers) != self._waiter.markers:
            await self.close()
            self._waiter = AsyncWaiter(self._connections, markers)

    async def close(self) -> None:
        """Async `WakeUps.close`."""
        await self.stop()
        await self._waiter.aclose()
