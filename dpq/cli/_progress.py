"""The showing of a progress on stderr: a bar at a terminal, else a line every 5 s."""

import asyncio
import sys
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import AbstractContextManager, asynccontextmanager, contextmanager, suppress
from typing import Any

from redis.exceptions import RedisError
from rich.progress import BarColumn, Progress, ProgressColumn, TextColumn, TimeRemainingColumn

from dpq import DPQ, AsyncDPQ
from dpq.cli import _terminal
from dpq.cli._terminal import errors, talk
from dpq.model.rates import many
from dpq.types import QueueStats

BAR_SECONDS, LINE_SECONDS = 0.25, 5.0  # between two looks: for a bar, and for lines


class Bar(AbstractContextManager["Bar"]):
    """A bar with a text, for a `with`; a line every `seconds` where no bar can be (not `live`)."""

    def __init__(
        self, *columns: ProgressColumn, lines: bool = False, at_once: bool = False
    ) -> None:
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

    def __exit__(self, *_: object) -> None:
        """Remove the bar."""
        if self.live:  # elsewhere rich would print a blank line
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


class Meter:
    """Shows the tasks that were finished since the first look, and those that are left."""

    def __init__(self) -> None:
        self._before: tuple[int, int] | None = None
        in_log = _terminal.on_talk is not None
        self.bar = Bar(BarColumn(), TimeRemainingColumn(), lines=in_log, at_once=True)

    def show(self, stats: Sequence[QueueStats], *, end: bool = False) -> None:
        """Show the progress, or the result at the end."""
        acked, dead = sum(each.acked for each in stats), sum(each.buried for each in stats)
        left = sum(each.live for each in stats)
        if self._before is None:
            self._before = acked, dead
        acked, dead = acked - self._before[0], dead - self._before[1]
        if end:
            ends = f"{many(acked, 'task')} finished, {many(dead, 'dead letter')}"
            talk(f"drained: {ends}, {left} left")
        else:
            done, total = acked + dead, acked + dead + left
            delayed = sum(each.delayed for each in stats)
            more = f", {delayed} delayed" * bool(delayed)
            self.bar.show(f"draining: {done} of {many(total, 'task')}{more}", done, total)


@contextmanager
def metered(queues: Sequence[DPQ[Any]]) -> Iterator[None]:
    """Show the progress of the drain in the body."""
    meter, over = Meter(), threading.Event()
    meter.show([queue.stats() for queue in queues])

    def look() -> None:
        while not over.wait(meter.bar.seconds):
            with suppress(RedisError):  # the worker logs this error
                meter.show([queue.stats() for queue in queues])

    looking = threading.Thread(target=look, name="dpq-meter", daemon=True)
    looking.start()
    with meter.bar:
        try:
            yield
        finally:
            over.set()
            looking.join()
    meter.show([queue.stats() for queue in queues], end=True)


@asynccontextmanager
async def metered_async(queues: Sequence[AsyncDPQ[Any]]) -> AsyncIterator[None]:
    meter = Meter()
    meter.show([await queue.stats() for queue in queues])

    async def look() -> None:
        meter.show([await queue.stats() for queue in queues])

    with meter.bar:
        async with repeated(meter.bar.seconds, look):
            yield
    meter.show([await queue.stats() for queue in queues], end=True)
