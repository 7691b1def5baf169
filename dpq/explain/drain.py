"""Drain times: when the backlog of a queue has begun. No I/O, no clock.

The script `drain` says when each limit will have let its due tasks start; `drain_of` compares these
moments with what came and ended. Source: docs/design.md, "Drain time".
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

from pydantic import BaseModel, ConfigDict

from dpq.explain.pace import UNKNOWN, Pace, Point
from dpq.limits.limits import EVERY_GROUP
from dpq.limits.pools import UNTIL_OPENED_MS
from dpq.limits.rules import LimitRules
from dpq.limits.words import write_word
from dpq.model.rates import span, span_between
from dpq.script.values import read_texts

__all__ = ["Drain"]

DrainState = Literal["clears", "stalled", "will not drain", "even", "unknown", "none due", "empty"]

MAX_OVER_SECONDS = 3600
"""Seconds that a drain time is measured over at most."""

COVERED = 0.9
"""The share of the backlog that limits must hold, so that they alone say when it is gone."""

STALLED_PER_HOUR = 0.01
"""The share of the backlog that must end in an hour; below it the queue is stalled."""


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
        low: The least seconds until then, by the scatter of what came and ended; None if that does
            not decide.
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
    """A limit and what waits for it. Times are ms.

    Attributes:
        group: A group, `*` for all without a limit of their own, or "" for the queue.
        waiting: Its tasks that are due.
        clears: When it will have let all of them start.
        slowest: Its slowest rule, by the name that its gate has for it, or "".
        opens: Closed until this moment.
        why: `l` after a 429, `h` by hand, or `-`.
        busy: Its concurrency holds tasks back: the pace depends on how long tasks run.
        rated: It has a rate, a quota or a budget.
        unreadable: Its rules cannot be read.
        rules: Its rules as they are stored.
    """

    group: str
    waiting: int
    clears: float
    slowest: str
    opens: float
    why: str
    busy: bool
    rated: bool
    unreadable: bool
    rules: str

    def words(self, text: str) -> str:
        """Say what its limit is."""
        return f"group {self.group!r}: {text}" if self.group else f"the queue: {text}"

    @property
    def because(self) -> str:
        """Say its slowest rule."""
        if self.slowest in ("", "host"):
            return self.words("what its host says is left" if self.slowest else "closed")
        rules = LimitRules.read(self.rules, self.group or None)
        for window in rules.windows:
            if f"{window.per * 1000:.0f}" == self.slowest.rstrip("abcdefghijklmnopqrstuvwxyz_"):
                return self.words(write_word(window))
        return self.words("; ".join(map(write_word, rules.quotas)))


class DrainLook(NamedTuple):
    """A look at a queue. Times are ms.

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


class Paper(NamedTuple):
    """A change of a limit on paper. Rules are as `plain_rules` writes them, "" for none.

    Attributes:
        stands: The rules that stand.
        every: The rules of every group without a limit of its own.
        now: The look with the limit that stands.
        then: The look with the changed limit.
    """

    stands: str
    every: str
    now: DrainLook
    then: DrainLook


def point_of(look: DrainLook) -> Point:
    """Take the counts of a look."""
    return Point(look.now / 1000, look.backlog, look.delayed, look.came, 0, look.ended)


def drain_of(look: DrainLook, pace: Pace = UNKNOWN, group: str | None = None) -> Drain:
    """Compute the drain time: the slower of what limits say, and of the pace if that is known.

    With a group, of its tasks alone, as if no other tasks wait.
    """
    own = None
    if group not in (None, EVERY_GROUP):
        own = next(scope for scope in look.scopes if scope.group == group)
    backlog = look.backlog if own is None else own.waiting

    def said(
        state: DrainState,
        because: str,
        seconds: float | None = None,
        low: float | None = None,
        high: float | None = None,
    ) -> Drain:
        about, low, high = (
            None if each is None or each == math.inf else round(max(0.0, each), 6)
            for each in (seconds, low, high)
        )
        return Drain(
            seconds=about, state=state, because=because, backlog=backlog, low=low, high=high
        )

    if not backlog:
        return said(*_without_backlog(look))
    if look.paused_until == math.inf:
        return said("stalled", "the queue is paused")
    by_limits, slowest, known = _by_limits(look, [own] if own else look.scopes, backlog)
    if by_limits == math.inf:
        return said("stalled", slowest)
    come, done = pace.come or 0.0, pace.done or 0.0
    if pace.kind != "counting" and (come or done or not known):
        rates = f"{come:.3g} tasks come and {done:.3g} end a second"
        if not come and done * 3600 < STALLED_PER_HOUR * backlog:
            return said("stalled", rates)
        if pace.kind == "even":
            return said("even", f"about as many tasks come as end: {rates}")
        if pace.kind not in ("clears", "open"):
            return said("will not drain", rates)
        measured = backlog / (done - come)
        if measured >= by_limits:
            return said("clears", rates, measured, pace.low, pace.high)
    elif not known:
        return said("unknown", slowest or "no limit says it: measure it for some seconds (over=)")
    because = slowest or "the limits let all of them start now"
    return said("clears", because, by_limits)


def _without_backlog(look: DrainLook) -> tuple[DrainState, str, float | None]:
    """Say what is left of a queue of which no task is ready or waiting."""
    wait = (look.next_due - look.now) / 1000
    if wait <= 0:
        return "unknown", "delayed tasks are due: the next pop or a scheduler moves them", None
    left = [f"{look.invisible} invisible"] * (look.invisible > 0)
    if look.delayed:
        due_in = f"{wait:.1f} s" if wait < 60 else span(wait)
        first = f"the first of them due in {due_in}"
        if wait * 1000 > UNTIL_OPENED_MS / 2:
            first = "when other tasks have ended"
        left.append(f"{look.delayed} delayed, {first}")
    if not look.exists:
        return "empty", "there is no such queue: the first push makes it", 0.0
    if not left:
        return "empty", "no live task is left", 0.0
    return "none due", f"no task is due: {', '.join(left)}", 0.0


def _by_limits(look: DrainLook, scopes: Sequence[Scope], backlog: int) -> tuple[float, str, bool]:
    """Compute what the limits allow, in seconds."""
    latest = start = max(look.now, look.paused_until)
    slowest = "the queue is paused" if latest > look.now else ""
    held, covered, known, queued = 0, not backlog, True, 0.0
    for scope in scopes:
        covered = covered or (scope.rated and scope.group in ("", EVERY_GROUP))
        if not scope.waiting:
            continue
        if scope.unreadable or scope.clears >= UNTIL_OPENED_MS:
            reason = "its limit cannot be read" if scope.unreadable else "closed until it is opened"
            return math.inf, scope.words(reason), False
        held += scope.waiting if scope.rated and scope.group else 0
        if scope.busy:
            known = False
            if not scope.rated:
                rules = scope.rules  # "" of a group that a 429 has closed, without a limit
                in_order = bool(rules) and LimitRules.read(rules, scope.group or None).in_order
                runs = "in order: one task runs, or waits for its retry," if in_order else ""
                runs = runs or "as many tasks run as may,"
                slowest = slowest or scope.words(f"{runs} however long they do")
        took = scope.clears - start
        if scope.clears > latest:
            latest, slowest = scope.clears, scope.because
        if scope.group:  # its tasks may run among the others, or behind them: the mean of both
            least, behind = max(queued, took), took + queued * (1 - scope.waiting / backlog)
            latest = max(latest, start + math.sqrt(least * max(least, behind)))
        else:
            queued = took
    covered = covered or held >= COVERED * backlog
    return (latest - look.now) / 1000, slowest, covered and known


def read_drain(reply: Sequence[Any]) -> DrainLook:
    """Read the reply of drain."""
    settings, flat = reply
    now, paused, backlog, came, ended, delayed, first, running, stored, _ = read_texts(settings)
    texts = read_texts(flat)
    rows = zip(texts[::4], texts[1::4], texts[2::4], texts[3::4], strict=True)
    return DrainLook(
        now=float(now),
        paused_until=math.inf if paused == "inf" else float(paused or 0),
        backlog=int(backlog),
        came=int(came),
        ended=int(ended),
        scopes=[_scope(*row) for row in rows],
        delayed=int(delayed),
        next_due=float(first or math.inf),
        invisible=int(running),
        exists=stored != "0",
    )


def _scope(group: str, waiting: str, text: str, rules: str) -> Scope:
    clears, slowest, opens, why, busy, rated = text.split(" ")
    slowest = "" if slowest == "-" else slowest
    is_busy, is_rated, unreadable = busy == "1", rated == "1", rated == "?"
    return Scope(
        *(group, int(waiting), float(clears), slowest, float(opens), why),
        *(is_busy, is_rated, unreadable, rules),
    )
