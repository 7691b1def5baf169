"""Drain time: when the backlog of a queue is gone. No I/O, no clock.

Source: docs/design.md, "Forecast".
"""

import math
from collections.abc import Sequence
from typing import Literal, NamedTuple

from pydantic import BaseModel, ConfigDict

from dpq.model.clearing import Wanted
from dpq.model.gates import ONE_REQUEST, Gate
from dpq.model.limits import EVERY_GROUP
from dpq.model.pools import UNTIL_OPENED_MS

__all__ = ["Drain"]

DrainState = Literal["clears", "stalled", "will not drain", "unknown", "none due", "empty"]

COVERED = 0.9
"""The share of the backlog that limits must hold, so that they alone say when it is gone."""

MAX_OVER_SECONDS = 3600
"""Seconds that a drain time is measured over at most."""

STALLED_PER_HOUR = 0.01
"""The share of the backlog that must end in an hour; below it the queue is stalled."""


PLAIN = (Wanted(ONE_REQUEST, math.inf),)
"""A task of one request."""


class Drain(BaseModel):
    """The time until all tasks that are due now have started.

    Attributes:
        seconds: The seconds until then; 0.0 if no task is due, None if it is not known.
        state: `clears`; `stalled`: hardly any task ends; `will not drain`: as many come as end;
            `unknown`: no limit says it, and nothing was measured; `none due`: all that is left is
            delayed or invisible; `empty`: no live task is left.
        because: What is slowest, in words; for `none due`, when the next task is due.
        backlog: The tasks that are due and have not begun.
    """

    model_config = ConfigDict(frozen=True)

    seconds: float | None
    state: DrainState
    because: str
    backlog: int


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


def closed_longest(looks: Sequence[DrainLook], most: int) -> list[Scope]:
    """Find the groups that a 429 or a hand keeps closed, the last to open first."""
    closed = [
        scope
        for look in looks
        for scope in look.scopes
        if scope.group and scope.gate.why in ("l", "h") and scope.gate.opens > look.now
    ]
    return sorted(closed, key=lambda scope: -scope.gate.opens)[:most]


def drain_of(looks: Sequence[DrainLook], before: Sequence[DrainLook] | None = None) -> Drain:
    """Compute the drain time of all partitions; with an earlier look, by what has ended since."""
    backlog = sum(look.backlog for look in looks)

    def said(state: DrainState, because: str, seconds: float | None = None) -> Drain:
        seconds = None if seconds is None else round(max(0.0, seconds), 6)
        return Drain(seconds=seconds, state=state, because=because, backlog=backlog)

    if not backlog:
        return said(*_without_backlog(looks))
    if all(look.paused_until == math.inf for look in looks):
        return said("stalled", "the queue is paused")
    by_limits, slowest, known = 0.0, "", True
    for look in looks:
        seconds, words, covers = _by_limits(look)
        if seconds == math.inf:
            return said("stalled", words)
        known = known and covers
        if seconds > by_limits or not slowest:
            by_limits, slowest = max(by_limits, seconds), words or slowest
    if before is not None:
        elapsed = (looks[0].now - before[0].now) / 1000
        came = sum(look.came for look in looks) - sum(look.came for look in before)
        ended = sum(look.ended for look in looks) - sum(look.ended for look in before)
        if elapsed > 0 and (came or ended or not known):
            came_rate, rate = max(0, came) / elapsed, max(0, ended) / elapsed
            rates = f"{came_rate:.3g} tasks come and {rate:.3g} end a second"
            if not came and rate * 3600 < STALLED_PER_HOUR * backlog:
                return said("stalled", rates)
            if came_rate >= rate:
                return said("will not drain", rates)
            measured = backlog / (rate - came_rate)
            if measured >= by_limits:
                return said("clears", rates, measured)
            return said("clears", slowest, by_limits)
    if not known:
        return said("unknown", slowest or "no limit says it: measure it for some seconds (over=)")
    return said("clears", slowest or "the limits let all of them start now", by_limits)


def _without_backlog(looks: Sequence[DrainLook]) -> tuple[DrainState, str, float | None]:
    """Say what is left of a queue of which no task is ready or waiting.

    Returns:
        The state; why; the seconds.
    """
    delayed, invisible = (
        sum(getattr(look, of) for look in looks) for of in ("delayed", "invisible")
    )
    wait = min((look.next_due - look.now) / 1000 for look in looks)
    if wait <= 0:
        return "unknown", "delayed tasks are due: the next pop or a scheduler moves them", None
    left = [f"{invisible} invisible"] * (invisible > 0)
    if delayed:
        left.append(f"{delayed} delayed, the first of them due in {wait:.1f} s")
    if not any(look.exists for look in looks):
        return "empty", "there is no such queue: the first push makes it", 0.0
    if not left:
        return "empty", "no live task is left", 0.0
    return "none due", f"no task is due: {', '.join(left)}", 0.0


def _by_limits(look: DrainLook) -> tuple[float, str, bool]:
    """Compute what the limits of one partition allow, in seconds.

    Returns:
        The seconds; what is slowest; False if limits alone do not say it.
    """
    latest, slowest = look.now, ""
    if look.paused_until > look.now:
        latest, slowest = look.paused_until, "the queue is paused"
    held, covered, known = 0, not look.backlog, True
    for scope in look.scopes:
        gate = scope.gate
        gate.look(look.now)
        rates = gate.windows or gate.counted or gate.told or gate.members
        rated = bool(rates) or gate.opens > look.now
        covered = covered or (rated and scope.group in ("", EVERY_GROUP))
        if not scope.waiting:
            continue
        if gate.unreadable:
            return math.inf, scope.words("its limit cannot be read"), False
        if gate.opens >= UNTIL_OPENED_MS:
            return math.inf, scope.words("closed until it is opened"), False
        held += scope.waiting if rated and scope.group else 0
        if gate.is_full or 0 < gate.concurrency < gate.out + scope.waiting:
            known = False  # it depends on how long tasks run
            if not rates:
                slowest = slowest or scope.words("as many tasks run as may, however long they do")
    covered = covered or held >= COVERED * look.backlog
    if all(len(scope.wanted) == scope.waiting for scope in look.scopes):
        latest, words = _Small(look, latest).last_start()
        slowest = words or slowest
    else:
        for scope in look.scopes:
            if not scope.waiting:
                continue
            at, words = scope.gate.clears_at(scope.waiting, scope.wanted or PLAIN, look.now)
            if at > latest:
                latest, slowest = at, scope.words(words)
    if latest >= UNTIL_OPENED_MS:
        return math.inf, slowest, False
    return (latest - look.now) / 1000, slowest, covered and known


class _Small:
    """A run over virtual time of a partition whose tasks were all read, in their order.

    It is a forecast without what comes back, and without turns.
    """

    def __init__(self, look: DrainLook, instant: float) -> None:
        """Sort its tasks by group, the best first; "" are those without a known group."""
        self._instant, self._slowest = instant, ""
        self._scopes = {scope.group: scope for scope in look.scopes}
        found = {scope.group: [*scope.wanted] for scope in look.scopes if scope.waiting}
        for group, tasks in found.items():
            for task in tasks if group else ():
                found[""].remove(task)
        self._tasks = {
            group: sorted(tasks, key=lambda task: task.place, reverse=True)
            for group, tasks in found.items()
            if tasks
        }
        self._opens = dict.fromkeys(self._tasks, 0.0)

    def last_start(self) -> tuple[float, str]:
        """Compute when the last task starts, ms, and what held the tasks back."""
        while self._tasks and self._instant < UNTIL_OPENED_MS:
            free = [group for group in self._tasks if self._is_free(group)]
            moments = [at for at in self._opens.values() if at > self._instant]
            if free:
                best = min(free, key=lambda group: self._tasks[group][-1].place)
                at = self._look_at("", self._tasks[best][-1])
                if at <= self._instant:
                    self._start(best)
                    continue
                moments.append(at)
            self._instant = min(moments)
        return self._instant, self._slowest

    def _is_free(self, group: str) -> bool:
        if group and self._opens[group] <= self._instant:
            self._opens[group] = self._look_at(group, self._tasks[group][-1])
        return self._opens[group] <= self._instant

    def _look_at(self, group: str, task: Wanted) -> float:
        scope, now = self._scopes[group], self._instant
        scope.gate.look(now)
        at = scope.gate.opens_at(task.units, task.rank, now)
        if at > now:
            self._slowest = scope.words(scope.gate.reason(task.units, task.rank, now)[1])
        return at

    def _start(self, group: str) -> None:
        task = self._tasks[group].pop()
        for scope in {"", group}:
            gate = self._scopes[scope].gate
            gate.ended("", gate.charge(task.units, self._instant, "", task.rank))
        if not self._tasks[group]:
            del self._tasks[group], self._opens[group]
