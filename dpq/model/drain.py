"""Drain times: what a caller gets, and what they are computed from. No I/O, no clock."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal, NamedTuple

from pydantic import BaseModel, ConfigDict

from dpq.model.clearing import Wanted
from dpq.model.gates import Gate
from dpq.model.rates import span, span_between

__all__ = ["Drain"]

DrainState = Literal["clears", "stalled", "will not drain", "even", "unknown", "none due", "empty"]

MAX_OVER_SECONDS = 3600
"""Seconds that a drain time is measured over at most."""


class Drain(BaseModel):
    """The time until all tasks that are due now have started.

    Attributes:
        seconds: The seconds until then, about; 0.0 if no task is due, None if it is not known.
        state: `clears`; `stalled`: hardly any task ends; `will not drain`: more come than end;
            `even`: about as many come as end; `unknown`: no limit says it, and nothing was
            measured; `none due`: all that is left is delayed or invisible; `empty`: no live task
            is left.
        because: What is slowest, in words; for `none due`, when the next task is due.
        backlog: The tasks that are due and have not begun.
        low: The least seconds until then, by the scatter of what came and ended, or in a family, if
            the other queues take nothing; None if neither decides.
        high: The most seconds; None if they are not known.
    """

    model_config = ConfigDict(frozen=True)

    seconds: float | None
    state: DrainState
    because: str
    backlog: int
    low: float | None = None
    high: float | None = None

    @property
    def about(self) -> str:
        """Say the seconds with what is known of them: `35 m`, `30 to 40 m`, `20 m or more`."""
        if self.low is None:
            return span(self.seconds or 0.0)
        return span_between(self.low, math.inf if self.high is None else self.high)


class Scope(NamedTuple):
    """A limit and what waits for it.

    Attributes:
        group: A group, `*` for all without a limit of their own, or "" for the queue.
        waiting: Its tasks that are due.
        gate: What it allows.
        wanted: Some of them; none if all take one request, and none is kept for others.
    """

    group: str
    waiting: int
    gate: Gate
    wanted: Sequence[Wanted]

    def words(self, text: str) -> str:
        """Say what its limit is."""
        return f"group {self.group!r}: {text}" if self.group else f"the queue: {text}"


class DrainLook(NamedTuple):
    """A look at a queue, or at one partition. Times are ms.

    Attributes:
        came: Tasks that were pushed or replayed, since the queue began.
        ended: Tasks that were acked or buried.
        delayed: Tasks that are delayed.
        next_due: The time when the first of them is due; infinity without one.
        invisible: Tasks that consumers have.
        exists: Something of the queue is stored.
        family: The keys `conf` of all queues of the family, as the head lists them, or "".
        others: Looks at the other queues of the family, which follow the same limits.
    """

    now: float
    paused_until: float
    backlog: int
    came: int
    ended: int
    scopes: Sequence[Scope]
    delayed: int = 0
    next_due: float = math.inf
    invisible: int = 0
    exists: bool = True
    family: str = ""
    smallest_first: bool = False
    others: Sequence[DrainLook] = ()


class Paper(NamedTuple):
    """A change of a limit on paper. Rules are as `plain_rules` writes them, "" for none.

    Attributes:
        stands: The rules that stand.
        every: The rules of every group without a limit of its own.
        now: The looks with the limit that stands, at the partitions that store it.
        then: The looks with the changed limit.
    """

    stands: str
    every: str
    now: Sequence[DrainLook]
    then: Sequence[DrainLook]
