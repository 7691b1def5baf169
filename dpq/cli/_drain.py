"""The progress of a drain."""

import threading
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import Any

from redis.exceptions import RedisError
from rich.progress import BarColumn, TimeRemainingColumn

from dpq import DPQ, AsyncDPQ
from dpq.cli import _terminal
from dpq.cli._progress import Bar, repeated
from dpq.cli._terminal import talk
from dpq.types import QueueStats


class Meter:
    """Shows the tasks that were finished since the first look, and those that are left."""

    def __init__(self) -> None:
        self._before: tuple[int, int] | None = None
        in_log = _terminal.on_talk is not None
        self.bar = Bar(BarColumn(), TimeRemainingColumn(), lines=in_log, at_once=True)

    def show(self, stats: Sequence[QueueStats], *, end: bool = False) -> None:
        """Show the progress, or the result at the end."""
        acked, dead = sum(each.acked for each in stats), sum(each.buried for each in stats)
        left = sum(each.ready + each.delayed + each.invisible + each.waiting for each in stats)
        if self._before is None:
            self._before = acked, dead
        acked, dead = acked - self._before[0], dead - self._before[1]
        if end:
            talk(f"drained: {acked} tasks finished, {dead} dead letters, {left} left")
        else:
            done, total = acked + dead, acked + dead + left
            self.bar.show(f"draining: {done} of {total} tasks", done, total)


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
    """Async `metered`."""
    meter = Meter()
    meter.show([await queue.stats() for queue in queues])

    async def look() -> None:
        meter.show([await queue.stats() for queue in queues])

    with meter.bar:
        async with repeated(meter.bar.seconds, look):
            yield
    meter.show([await queue.stats() for queue in queues], end=True)
