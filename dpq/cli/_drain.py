"""The progress of a drain: a bar at a terminal, else a line every 5 s; always on stderr."""

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import Any

from redis.exceptions import RedisError
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from dpq import DPQ, AsyncDPQ, QueueStats
from dpq.cli import _terminal
from dpq.cli._terminal import errors, talk

BAR_SECONDS = 0.25
LINE_SECONDS = 5.0
"""Seconds between two counts of the queues: for a bar, and for lines."""


class Meter:
    """Shows the tasks that were finished since the first look, and those that are left."""

    def __init__(self) -> None:
        self._before: tuple[int, int] | None = None
        columns = (
            TextColumn("draining"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeRemainingColumn(),
        )
        bar = errors.is_terminal and _terminal.on_talk is None
        self.seconds = BAR_SECONDS if bar else LINE_SECONDS
        self._bar = Progress(*columns, console=errors, transient=True) if bar else None
        self._row = self._bar.add_task("") if self._bar else None

    def show(self, stats: Sequence[QueueStats], *, end: bool = False) -> None:
        """Show the progress, or the result at the end."""
        acked, dead = sum(each.acked for each in stats), sum(each.buried for each in stats)
        left = sum(each.ready + each.delayed + each.invisible + each.waiting for each in stats)
        if self._before is None:
            self._before = acked, dead
        acked, dead = acked - self._before[0], dead - self._before[1]
        if end:
            talk(f"drained: {acked} tasks finished, {dead} dead letters, {left} left")
        elif self._bar and self._row is not None:
            self._bar.start()
            self._bar.update(self._row, completed=acked + dead, total=acked + dead + left)
        else:
            talk(f"draining: {acked + dead} of {acked + dead + left} tasks")

    def stop(self) -> None:
        """Remove the bar."""
        if self._bar:
            self._bar.stop()


@contextmanager
def metered(queues: Sequence[DPQ[Any]]) -> Iterator[None]:
    """Show the progress of the drain in the body."""
    meter, over = Meter(), threading.Event()
    meter.show([queue.stats() for queue in queues])

    def look() -> None:
        while not over.wait(meter.seconds):
            with suppress(RedisError):  # the worker logs it
                meter.show([queue.stats() for queue in queues])

    looking = threading.Thread(target=look, name="dpq-meter", daemon=True)
    looking.start()
    try:
        yield
    finally:
        over.set()
        looking.join()
        meter.stop()
    meter.show([queue.stats() for queue in queues], end=True)


@asynccontextmanager
async def metered_async(queues: Sequence[AsyncDPQ[Any]]) -> AsyncIterator[None]:
    """Async `metered`."""
    meter = Meter()
    meter.show([await queue.stats() for queue in queues])

    async def look() -> None:
        while True:
            await asyncio.sleep(meter.seconds)
            with suppress(RedisError):
                meter.show([await queue.stats() for queue in queues])

    looking = asyncio.create_task(look())
    try:
        yield
    finally:
        looking.cancel()
        await asyncio.gather(looking, return_exceptions=True)
        meter.stop()
    meter.show([await queue.stats() for queue in queues], end=True)
