"""The progress of `dpq run`: a bar at a terminal, else a line every 5 s; JSON lines if wanted."""

import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rich.progress import BarColumn

from dpq import AsyncDPQ
from dpq.batch import BatchOutcome, Progress
from dpq.cli._progress import Bar, repeated
from dpq.cli._terminal import emit, talk
from dpq.explain.pace import KEPT_SECONDS, Point, pace_of
from dpq.model.moments import say_moment
from dpq.types import LimitState, QueueStats


class RunMeter(Progress):
    """Shows how many requests of a batch are finished, on all machines together."""

    def __init__(self, total: int, *, as_json: bool) -> None:
        super().__init__(total)
        self._json = as_json
        self._limited_before: int | None = None
        self._seen: list[Point] = []
        self._bar = Bar(BarColumn(bar_width=24), lines=as_json, at_once=True)

    def say(self, text: str) -> None:
        """Write a message for a waiting person."""
        talk(text)

    @asynccontextmanager
    async def showing(self, queue: AsyncDPQ[Any], group: str) -> AsyncIterator[None]:
        """Show the progress while the body runs: of the queue, and of its group."""

        async def look() -> None:
            self._show(await queue.stats(), await queue.admin.group(group))

        await look()
        with self._bar:
            async with repeated(self._bar.seconds, look):
                yield

    def _show(self, stats: QueueStats, state: LimitState) -> None:
        closed = state.opens_at if state.reason in ("rate limited", "closed by hand") else None
        left = stats.ready + stats.delayed + stats.invisible + stats.waiting
        done = max(0, self.total - left)
        now = time.monotonic()
        self._seen = [each for each in self._seen if each.at >= now - KEPT_SECONDS]
        self._seen.append(Point(now, left, delayed=0, pushed=0, replayed=0, acked=done))
        pace = pace_of(self._seen)
        if self._limited_before is None:
            self._limited_before = stats.rate_limited  # 429s of earlier runs
        rate = pace.done or 0.0
        told = {
            "done": done,
            "total": self.total,
            "dead": stats.dead,
            "rate_limited": max(0, stats.rate_limited - self._limited_before),
            "refused_here": dict(self.refused_here),
            "per_minute": round(rate * 60, 1),
            "seconds_left": round(left / rate) if rate else None,
            "closed_until": closed,
        }
        if self._json:
            emit(told)
            return
        text = f"{rate * 60:.0f}/min, {_refusals(self.refused_here)}, dead {stats.dead}, "
        text += pace.say
        if closed:
            text += f", {state.reason} until {say_moment(closed, datetime.now(UTC))}"
        self._bar.show(f"{done} of {self.total}, {text}", done, self.total)


def tell_outcome(outcome: BatchOutcome, save: Path, *, as_json: bool) -> None:
    """Say how a run has ended, and what to do about the rest."""
    if as_json:
        told = {name: getattr(outcome, name) for name in ("saved", "total", "dead", "left")}
        told |= {"sent_here": outcome.saved_here, "rate_limited_here": outcome.limited_here}
        told |= {"refused_here": dict(outcome.refused_here), "seconds": round(outcome.seconds, 3)}
        emit({**told, "stopped": outcome.stopped or None})
    else:
        if outcome.stopped:
            talk(f"stopped: {outcome.stopped}")
        talk(
            f"{outcome.saved} of {outcome.total} saved, {outcome.saved_here} of them now, in "
            f"{_clock(outcome.seconds)}; {_refusals(outcome.refused_here)}, dead {outcome.dead}, "
            f"left {outcome.left}"
        )
    for death in outcome.deaths:
        talk(f"dead: {death}")
    if outcome.dead:
        talk(
            f"dead letters: {outcome.dead}; `dpq --url SERVER --queue {outcome.queue} dead list` "
            "shows them, --retry-dead sends them again"
        )
    if outcome.left:
        talk(f"requests left: {outcome.left}; run the same command again to go on")
    elif outcome.missing:
        talk(
            f"results missing in {save}: {outcome.missing}; another machine has them (name its "
            "file with --also), or they were lost (--again sends these requests again)"
        )


def _refusals(refused: Mapping[str, int]) -> str:
    """Write the number of requests for each refusing status, as in `429s 0, 503s 8`."""
    return ", ".join(
        f"{said}s {count}" if said.isdecimal() else f"{said} {count}"
        for said, count in sorted(refused.items())
    )


def _clock(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"
