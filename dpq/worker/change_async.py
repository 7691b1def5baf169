"""The sign of asyncio that something has changed; change.py, for threads, says what it does."""

import asyncio
from contextlib import AbstractContextManager, nullcontext


class AsyncChange:
    """The sign that a handler has ended, or that the run is to end."""

    def __init__(self) -> None:
        self._noted: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def note(self) -> None:
        if not self._noted.done():
            self._noted.set_result(None)

    def forget(self) -> bool:
        changed = self._noted.done()
        if changed:
            self._noted = asyncio.get_running_loop().create_future()
        return changed

    async def wait(self, seconds: float | None) -> None:
        await asyncio.wait([self._noted], timeout=seconds)

    def heard(self) -> "AbstractContextManager[asyncio.Future[None]]":
        return nullcontext(self._noted)

    def others(self) -> AbstractContextManager[None]:
        return nullcontext()
