"""Drain times: when the backlog of a queue has begun. No I/O, no clock.

The script `drain` says when each limit will have let its due tasks start; `drain_of` compares these
moments with what came and ended. Source: docs/design.md, "Drain time".
"""

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from dpq.explain.pace import UNKNOWN, Pace
from dpq.limits.limits import EVERY_GROUP, RateLimit, quota_text
from dpq.limits.pools import UNTIL_OPENED_MS
from dpq.limits.rules import LimitRules
from dpq.limits.words import rate_text
from dpq.model.rates import few, per_text, span, span_between
from dpq.model.task_data import Frozen
from dpq.script.values import read_fields, read_texts

if TYPE_CHECKING:
    from dpq.explain.survey import Overview

MAX_OVER_SECONDS = 3600
"""Seconds that a drain time is measured over at most."""

COVERED = 0.9
"""The share of the backlog that limits must hold, so that they alone say when it is gone."""

STALLED_PER_HOUR = 0.01
"""The share of the backlog that must end in an hour; below it the queue is stalled."""

DrainState = Literal["clears", "stalled", "will not drain", "even", "unknown", "none due", "empty"]

LONGEST_SECONDS = 20 * 365 * 86_400.0
"""Seconds: every delay ends sooner. A group with a later end is closed until a user opens it."""


class Drain(Frozen):
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

    seconds: float | None
    state: DrainState
    because: str
    backlog: int
    low: float | None = None
    high: float | None = None

    @property
    def say(self) -> str:
        """Say when all will have begun: `all begun in 30 to 40 m`; or why that is not known."""
        if self.seconds is None or self.state != "clears":
            return self.because
        if self.seconds > LONGEST_SECONDS:
            return "not before it is opened"
        if self.low is None:
            return f"all begun in {span(self.seconds)}"
        high = math.inf if self.high is None else self.high
        return f"all begun in {span_between(self.low, high)}"


def gate_name(window: RateLimit) -> str:
    """Return the name that a window has in a gate; see lua/lib/limits/window_rule.lua."""
    return f"{round(window.per * 1000)}{'_' * window.moving}{window.unit}"


class Scope(NamedTuple):
    """A limit and what waits for it, as the script drain returns the fields. Times are ms."""

    group: str  # `*` for all groups without a limit of their own, or "" for the queue
    waiting: int  # its tasks that are due
    clears: float  # when it will have let all of them start
    slowest: str  # its slowest rule, by the name that its gate has for it, or ""
    busy: bool  # its concurrency holds tasks back: the pace depends on how long tasks run
    rated: bool  # it has a rate, a quota or a budget
    unreadable: bool  # its rules cannot be read
    rules: str  # its rules as they are stored
    learned: float  # the rate that its first window has learned, of a pool the lowest; or 0.0

    def words(self, text: str) -> str:
        """Say what its limit is."""
        return f"group {self.group!r}: {text}" if self.group else f"the queue: {text}"

    @property
    def because(self) -> str:
        """Say its slowest rule."""
        if self.slowest in ("", "host"):
            return self.words("what its host says is left" if self.slowest else "closed")
        rules = LimitRules.read(self.rules, self.group or None)
        for n, window in enumerate(rules.windows):
            if gate_name(window) == self.slowest and self.learned and not n:
                unit = f"{window.unit}=" * bool(window.unit)
                return self.words(f"{unit}{per_text(few(self.learned), window.per)}, as learned")
            if gate_name(window) == self.slowest:
                return self.words(rate_text(window))
        return self.words("; ".join(map(quota_text, rules.quotas)))


class DrainLook(NamedTuple):
    """The tasks that are due, and what holds them. Times are ms; infinity: until it is resumed."""

    now: float
    paused_until: float
    backlog: int
    scopes: Sequence[Scope] = ()

    @property
    def begun(self) -> dict[str, float]:
        """The ms at which limits have let all due tasks of a group start, where they say it."""
        if self.paused_until == math.inf:
            return {}
        told = (each for each in self.scopes if each.rated and each.waiting and not each.unreadable)
        return {each.group: each.clears for each in told if each.clears < UNTIL_OPENED_MS}


def drain_of(look: DrainLook, pace: Pace = UNKNOWN, group: str | None = None) -> Drain:
    """Compute the drain time: the slower of what limits say, and of the pace if that is known.

    With a group, of its tasks alone, as if no other tasks wait.
    """
    own = None
    if group not in (None, EVERY_GROUP):
        own = next(scope for scope in look.scopes if scope.group == group)
    backlog = look.backlog if own is None else own.waiting

    def said(state: DrainState, because: str, *times: float) -> Drain:
        known = (round(max(0.0, time), 6) if time < math.inf else None for time in times)
        named = dict(zip(("seconds", "low", "high"), known, strict=False))
        return Drain(**{"seconds": None, **named}, state=state, because=because, backlog=backlog)

    if not backlog:
        return said("none due", "no task is due", 0.0)
    if look.paused_until == math.inf:
        return said("stalled", "the queue is paused")
    by_limits, slowest, known = _by_limits(look, [own] if own else look.scopes, backlog)
    if by_limits == math.inf:
        return said("stalled", slowest)
    come, done, net = pace.come or 0.0, pace.done or 0.0, pace.net or 0.0
    if pace.kind != "counting" and (come or done or not known):
        if not come and net * 3600 < STALLED_PER_HOUR * backlog:
            return said("stalled", pace.say)
        if pace.kind == "even":
            return said("even", pace.say)
        if pace.kind not in ("clears", "open"):
            return said("will not drain", pace.say)
        if backlog / net >= by_limits:
            rates = f"{come:.3g} tasks come and {done:.3g} end a second"
            return said("clears", rates, backlog / net, pace.low, pace.high)
    elif not known:
        return said("unknown", slowest or "no limit says when, and too little was seen to tell")
    because = slowest or "the limits let all of them start now"
    return said("clears", because, by_limits)


def nothing_due(seen: "Overview") -> Drain:
    """Say what is left of a queue of which no task is due."""
    survey, delayed = seen.survey, seen.stats.delayed
    left = [f"{survey.leases} invisible"] * (survey.leases > 0)
    if delayed and survey.due_ms is not None:
        wait = (survey.due_ms - survey.now_ms) / 1000
        first = f"the first of them due in {f'{wait:.1f} s' if wait < 60 else span(wait)}"
        if wait > LONGEST_SECONDS:
            first = "when other tasks have ended"
        left.append(f"{delayed} delayed, {first}")
    state: DrainState = "none due" if left else "empty"
    because = f"no task is due: {', '.join(left)}" if left else "no live task is left"
    if not seen.exists:
        because = "there is no such queue: the first push makes it"
    return Drain(seconds=0.0, state=state, because=because, backlog=0)


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
                slowest = slowest or scope.words("that depends on how long its tasks run")
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
    (now, paused, backlog), texts = map(read_texts, reply)
    fields = len(Scope._fields)
    rows = (texts[n : n + fields] for n in range(0, len(texts), fields))
    until = math.inf if paused == "inf" else float(paused or 0)
    scopes = [Scope(*read_fields(Scope, row)) for row in rows]
    return DrainLook(float(now), until, int(backlog), scopes)
