"""The verdict on a queue, drawn: its words are made in `dpq.explain`, and nowhere else."""

import time
from collections.abc import Callable, Iterable
from datetime import UTC, datetime

from dpq.explain.incidents import LEAST_URGENT
from dpq.types import Drain, Verdict, VerdictState
from dpq.views.sampler import Snapshot
from dpq.views.words import until

ORDERED_SECONDS = 60.0
"""Seconds for which queues keep their places on a page: a button must not move under a finger."""


def say_state(snapshot: Snapshot, now_ms: float) -> str:
    """Write the verdict for a narrow column: its state, or when it is done or over."""
    verdict = snapshot.verdict
    drain = verdict.drain
    if verdict.state is VerdictState.MOVING and snapshot.backlog and drain:
        return verdict.state.value if drain.state == "unknown" else drain.say
    if verdict.state is VerdictState.PAUSED and verdict.until:
        return f"paused, {until(verdict.until.timestamp() * 1000, now_ms)}"
    return verdict.state.value


def say_drain(drain: Drain) -> str:
    """Say when all due tasks will have begun, and why then: `all begun in 3 h: group 'a': 1/s`."""
    if drain.state in ("empty", "none due", "unknown"):
        return drain.because
    return f"{drain.say if drain.state == 'clears' else drain.state}: {drain.because}"


def worst_first(verdicts: Iterable[Verdict]) -> list[Verdict]:
    """Return the verdicts that need a person, those of `LEAST_URGENT` last, then those with
    warnings; of equal states the longest first."""
    last = datetime.max.replace(tzinfo=UTC)
    states = [*(each for each in VerdictState if each not in LEAST_URGENT), *LEAST_URGENT]
    return sorted(
        (each for each in verdicts if each.needs_person or each.warnings),
        key=lambda each: (
            *(not each.needs_person, states.index(each.state)),
            *(each.since or last, each.queue),
        ),
    )


class Places:
    """The order of the queues with something wrong: new ones come last, and each minute all are
    ordered anew."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """Take the clock, seconds."""
        self._clock, self._until = clock, 0.0
        self._names: list[str] = []

    def order(self, verdicts: Iterable[Verdict]) -> list[Verdict]:
        """Return the verdicts with something wrong, each at the place of its queue."""
        found, now = {each.queue: each for each in worst_first(verdicts)}, self._clock()
        if now >= self._until:
            self._names, self._until = [], now + ORDERED_SECONDS
        self._names += [name for name in found if name not in self._names]
        return [found[name] for name in self._names if name in found]
