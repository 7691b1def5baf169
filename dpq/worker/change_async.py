"""Asyncio's part of a fetcher: the sign that something has changed. change.py is for threads."""

import asyncio
from contextlib import AbstractContextManager, nullcontext


class AsyncChange:
    """The sign that a handler has ended, or that the run is to end."""

    def __init__(self) -> None:
        self._noted: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def note(self) -> None:
        """Note a change; whoever waits for it goes on."""
        if not self._noted.done():
            self._noted.set_result(None)

    def forget(self) -> bool:
        """Wait for the next change from now on; return True if there was one."""
        changed = self._noted.done()
        if changed:
            self._noted = asyncio.get_running_loop().create_future()
        return changed

    async def wait(self, seconds: float | None) -> None:
        """Wait for the change, at most so long; None waits for ever."""
        await asyncio.wait([self._noted], timeout=seconds)

    def heard(self) -> "AbstractContextManager[asyncio.Future[None]]":
        """Give what ends a wait at the server."""
        return nullcontext(self._noted)

    def others(self) -> AbstractContextManager[None]:
        """Let others go on during a round trip: an event loop does."""
        return nullcontext()
