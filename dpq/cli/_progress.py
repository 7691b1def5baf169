"""The showing of a progress on stderr: a bar at a terminal, else a line every 5 s."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any

from redis.exceptions import RedisError
from rich.progress import Progress, ProgressColumn

from dpq.cli._terminal import errors, talk

BAR_SECONDS = 0.25
LINE_SECONDS = 5.0
"""Seconds between two looks: for a bar, and for lines."""


class Bar:
    """A bar, or lines where there can be no bar; `seconds` lie between two looks."""

    def __init__(self, *columns: ProgressColumn, lines: bool, **fields: Any) -> None:
        """Make a bar that shows nothing yet; `lines` makes lines also at a terminal."""
        bar = errors.is_terminal and not lines
        self.live = bar
        self.seconds = BAR_SECONDS if bar else LINE_SECONDS
        self._progress = Progress(*columns, console=errors, transient=True) if bar else None
        self._row = self._progress.add_task("", **fields) if self._progress else None

    def show(self, line: str, **fields: Any) -> None:
        """Update the bar with the fields, or print the line."""
        if self._progress and self._row is not None:
            self._progress.start()
            self._progress.update(self._row, **fields)
        else:
            talk(line)

    def stop(self) -> None:
        """Remove the bar."""
        if self._progress:
            self._progress.stop()


@asynccontextmanager
async def repeated(seconds: float, look: Callable[[], Awaitable[None]]) -> AsyncIterator[None]:
    """Look again and again while the body runs; the worker logs errors of the server."""

    async def go_on() -> None:
        while True:
            await asyncio.sleep(seconds)
            with suppress(RedisError):
                await look()

    looking = asyncio.create_task(go_on())
    try:
        yield
    finally:
        looking.cancel()
        await asyncio.gather(looking, return_exceptions=True)
