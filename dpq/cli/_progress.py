"""The showing of a progress on stderr: a bar at a terminal, else a line every 5 s."""

import asyncio
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import Self

from redis.exceptions import RedisError
from rich.progress import Progress, ProgressColumn, TextColumn

from dpq.cli._terminal import errors, talk

BAR_SECONDS = 0.25
LINE_SECONDS = 5.0
"""Seconds between two looks: for a bar, and for lines."""


class Bar:
    """A bar behind a text for a `with`, or lines where there can be no bar.

    Attributes:
        live: It is a bar.
        seconds: The time between two looks.
    """

    def __init__(
        self, *columns: ProgressColumn, lines: bool = False, at_once: bool = False
    ) -> None:
        """Make a bar that shows nothing yet.

        Args:
            columns: What stands before the text.
            lines: Write lines also at a terminal.
            at_once: The first line needs not wait until `seconds` have passed.
        """
        self.live = errors.is_terminal and not lines
        self.seconds = BAR_SECONDS if self.live else LINE_SECONDS
        self._due = 0.0 if at_once else time.monotonic() + self.seconds
        text = TextColumn("{task.description}", markup=False)
        # rich would redirect stdout to its own stream: right only if both are the terminal
        mixed = errors.is_terminal and sys.stdout.isatty()
        self._progress = Progress(
            *columns, text, console=errors, transient=True, redirect_stdout=mixed
        )
        self._row = self._progress.add_task("", total=None)

    def __enter__(self) -> Self:
        """Return the bar."""
        return self

    def __exit__(self, *_: object) -> None:
        """Remove the bar."""
        self._progress.stop()

    def show(self, text: str, done: float = 0, total: float | None = None) -> None:
        """Update the bar; or print the text, but not more often than each `seconds`."""
        if self.live:
            self._progress.start()
            self._progress.update(self._row, description=text, completed=done, total=total)
        elif time.monotonic() >= self._due:
            self._due = time.monotonic() + 0.9 * self.seconds
            talk(text)


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
