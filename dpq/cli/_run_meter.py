"""The progress of `dpq run`: a bar at a terminal, else a line every 5 s; JSON lines if wanted."""

import asyncio
import math
import time
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

from redis.exceptions import RedisError
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

from dpq import AsyncDPQ, LimitState, QueueStats
from dpq.cli._drain import BAR_SECONDS, LINE_SECONDS
from dpq.cli._terminal import emit, errors, talk

RATE_SECONDS = 60.0
"""Seconds over which the rate is taken: as long as most limits."""


class RunMeter:
    """Shows how many requests of a batch are finished, on all machines together.

    Args:
        total: The requests of the batch.
        as_json: Write JSON lines to stdout, and nothing else.
    """

    def __init__(self, total: int, *, as_json: bool) -> None:
        self._total, self._json = total, as_json
        self._saved = self._limited = 0
        self._seen: deque[tuple[float, int]] = deque()
        self._since = time.monotonic()
        bar = errors.is_terminal and not as_json
        self._seconds = BAR_SECONDS if bar else LINE_SECONDS
        columns = (
            BarColumn(bar_width=24),
            MofNCompleteColumn(),
            TextColumn("{task.fields[told]}"),
        )
        self._bar = Progress(*columns, console=errors, transient=True) if bar else None
        self._row = self._bar.add_task("", total=total, told="") if self._bar else None

    def saved(self) -> None:
        """Count an answer that this process has saved."""
        self._saved += 1

    def limited(self) -> None:
        """Count a 429 that this process has met."""
        self._limited += 1

    @asynccontextmanager
    async def showing(self, queue: AsyncDPQ[Any], group: str) -> AsyncIterator[None]:
        """Show the progress while the body runs: of the queue, and of its group."""
        self._show(await queue.stats(), await queue.group(group))

        async def look() -> None:
            while True:
                await asyncio.sleep(self._seconds)
                with suppress(RedisError):  # the worker logs it
                    self._show(await queue.stats(), await queue.group(group))

        looking = asyncio.create_task(look())
        try:
            yield
        finally:
            looking.cancel()
            await asyncio.gather(looking, return_exceptions=True)
            if self._bar:
                self._bar.stop()

    def _show(self, stats: QueueStats, state: LimitState) -> None:
        closed = state.opens_at if state.reason in ("rate limited", "closed by hand") else None
        left = stats.ready + stats.delayed + stats.invisible + stats.waiting
        done = max(0, self._total - left)
        now = time.monotonic()
        self._seen.append((now, done))
        while self._seen[0][0] < now - RATE_SECONDS:
            self._seen.popleft()
        (then, before), (now, done) = self._seen[0], self._seen[-1]
        rate = (done - before) / (now - then) if now > then else 0.0
        seconds = left / rate if rate > 0 else math.inf
        told = {
            "done": done,
            "total": self._total,
            "dead": stats.dead,
            "rate_limited": stats.deferred,
            "per_minute": round(rate * 60, 1),
            "seconds_left": None if math.isinf(seconds) else round(seconds),
            "closed_until": closed,
        }
        if self._json:
            emit(told)
            return
        text = f"{rate * 60:.0f}/min, 429s {stats.deferred}, dead {stats.dead}, "
        text += f"{_clock(seconds)} left"
        if closed:
            text += f", {state.reason} until {closed.astimezone():%Y-%m-%d %H:%M:%S}"
        if self._bar and self._row is not None:
            self._bar.start()
            self._bar.update(self._row, completed=done, told=text)
        else:
            talk(f"{done} of {self._total}, {text}")

    def end(self, *, saved: int, dead: int, left: int, stopped: str) -> None:
        """Say how the run ended."""
        seconds = time.monotonic() - self._since
        if self._json:
            told = {"saved": saved, "total": self._total, "dead": dead, "left": left}
            mine = {"sent_here": self._saved, "rate_limited_here": self._limited}
            emit({**told, **mine, "seconds": round(seconds, 3), "stopped": stopped or None})
            return
        if stopped:
            talk(f"stopped: {stopped}")
        talk(
            f"{saved} of {self._total} saved, {self._saved} of them now, in {_clock(seconds)}; "
            f"429s {self._limited}, dead {dead}, left {left}"
        )


def _clock(seconds: float) -> str:
    if math.isinf(seconds):
        return "?"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"
