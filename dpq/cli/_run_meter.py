"""The progress of `dpq run`: a bar at a terminal, else a line every 5 s; JSON lines if wanted."""

import math
import time
from collections import Counter, deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from rich.progress import BarColumn, MofNCompleteColumn, TextColumn

from dpq import AsyncDPQ, LimitState, QueueStats
from dpq.cli._progress import Bar, repeated
from dpq.cli._terminal import emit, talk

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
        self._refused = Counter({"429": 0})  # answers that were not good, by status
        self._limited_before: int | None = None
        self._seen: deque[tuple[float, int]] = deque()
        self._since = time.monotonic()
        self._bar = Bar(
            BarColumn(bar_width=24),
            MofNCompleteColumn(),
            TextColumn("{task.fields[told]}"),
            lines=as_json,
            total=total,
            told="",
        )

    def saved(self) -> None:
        """Count an answer that this process has saved."""
        self._saved += 1

    def refused(self, status: int | None, *, limited: bool = False) -> None:
        """Count a request that got no good answer here; the status is None if none came.

        Args:
            limited: It was a limit of the API, which closes the group.
        """
        self._refused["no answer" if status is None else str(status)] += 1
        self._limited += limited

    @asynccontextmanager
    async def showing(self, queue: AsyncDPQ[Any], group: str) -> AsyncIterator[None]:
        """Show the progress while the body runs: of the queue, and of its group."""

        async def look() -> None:
            self._show(await queue.stats(), await queue.group(group))

        await look()
        try:
            async with repeated(self._bar.seconds, look):
                yield
        finally:
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
        if self._limited_before is None:
            self._limited_before = stats.rate_limited  # by earlier runs
        rate = (done - before) / (now - then) if now > then else 0.0
        seconds = left / rate if rate > 0 else math.inf
        told = {
            "done": done,
            "total": self._total,
            "dead": stats.dead,
            "rate_limited": max(0, stats.rate_limited - self._limited_before),
            "refused_here": dict(self._refused),
            "per_minute": round(rate * 60, 1),
            "seconds_left": None if math.isinf(seconds) else round(seconds),
            "closed_until": closed,
        }
        if self._json:
            emit(told)
            return
        text = f"{rate * 60:.0f}/min, {self._refusals()}, dead {stats.dead}, "
        text += f"{_clock(seconds)} left"
        if closed:
            text += f", {state.reason} until {closed.astimezone():%Y-%m-%d %H:%M:%S}"
        self._bar.show(f"{done} of {self._total}, {text}", completed=done, told=text)

    def end(self, *, saved: int, dead: int, left: int, stopped: str) -> None:
        """Say how the run ended."""
        seconds = time.monotonic() - self._since
        if self._json:
            told = {"saved": saved, "total": self._total, "dead": dead, "left": left}
            mine = {"sent_here": self._saved, "rate_limited_here": self._limited}
            refused = {"refused_here": dict(self._refused)}
            over = {"seconds": round(seconds, 3), "stopped": stopped or None}
            emit({**told, **mine, **refused, **over})
            return
        if stopped:
            talk(f"stopped: {stopped}")
        talk(
            f"{saved} of {self._total} saved, {self._saved} of them now, in {_clock(seconds)}; "
            f"{self._refusals()}, dead {dead}, left {left}"
        )

    def _refusals(self) -> str:
        """Write how many requests got which answer, as in `429s 0, 503s 8`."""
        return ", ".join(
            f"{said}s {count}" if said.isdecimal() else f"{said} {count}"
            for said, count in sorted(self._refused.items())
        )


def _clock(seconds: float) -> str:
    if math.isinf(seconds):
        return "?"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"
