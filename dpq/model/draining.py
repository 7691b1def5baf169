"""The drain time: when the backlog of a queue is gone. No I/O, no clock.

If a partition's tasks were all read, a forecast says when the last one starts; else each limit
says it for its tasks. It knows only what it is to compare: limits with what came and ended, groups
with the queue. What a limit allows, it asks `gates`. Source: docs/design.md, "Forecast".
"""

import math
from collections.abc import Sequence
from copy import deepcopy

from dpq.model.clearing import Wanted
from dpq.model.drain import Drain, DrainLook, DrainState, Scope
from dpq.model.forecast import Candidate, View
from dpq.model.forecasting import Forecasting
from dpq.model.gates import ONE_REQUEST
from dpq.model.limits import EVERY_GROUP
from dpq.model.pace import UNKNOWN, Pace, Point
from dpq.model.pools import UNTIL_OPENED_MS
from dpq.model.priority import Aging
from dpq.model.rates import span

COVERED = 0.9
"""The share of the backlog that limits must hold, so that they alone say when it is gone."""

STALLED_PER_HOUR = 0.01
"""The share of the backlog that must end in an hour; below it the queue is stalled."""

PLAIN = (Wanted(ONE_REQUEST, math.inf),)
"""A task of one request."""


def closed_longest(looks: Sequence[DrainLook], most: int) -> list[Scope]:
    """Find the groups that a 429 or a hand keeps closed, the last to open first."""
    closed = [
        scope
        for look in looks
        for scope in look.scopes
        if scope.group and scope.gate.why in ("l", "h") and scope.gate.opens > look.now
    ]
    return sorted(closed, key=lambda scope: -scope.gate.opens)[:most]


def point_of(looks: Sequence[DrainLook]) -> Point:
    """Take the counts of a look at all partitions."""
    backlog, delayed, came, ended = (
        sum(getattr(look, name) for look in looks)
        for name in ("backlog", "delayed", "came", "ended")
    )
    return Point(looks[0].now / 1000, backlog, delayed, came, 0, ended)


def drain_of(looks: Sequence[DrainLook], pace: Pace = UNKNOWN) -> Drain:
    """Compute the drain time of all partitions: by their limits, and by their pace if it is known.

    The slower of both is the drain time. In a family, other queues take units of the same limits:
    the drain time is that of all due tasks of these limits together, and `low` that without them.
    """
    due = sum(other.backlog for look in looks for other in look.others)
    if not due:
        return _drain_of(looks, pace)
    shared = deepcopy([_with_others(look) for look in looks])  # a look changes gates
    alone, together = _drain_of(looks, pace), _drain_of(shared, pace)
    if alone.state != "clears" or together.state != "clears" or not alone.backlog:
        return together
    least, most = alone.seconds or 0.0, together.seconds or 0.0
    if most <= least:
        return alone
    words = (
        f"{due} task{'s' * (due > 1)} of other queues of its family {'are' if due > 1 else 'is'}"
    )
    because = f"{together.because}; {words} due as well: without them {span(least)}"
    low = least if alone.low is None else alone.low
    high = max(most, together.high or 0.0)
    return together.model_copy(update={"because": because, "low": low, "high": high})


def _with_others(look: DrainLook) -> DrainLook:
    """Count the tasks of the other queues of the family where they wait for the same limit."""
    scopes = []
    for scope in look.scopes:
        same = [each for other in look.others for each in other.scopes if each.group == scope.group]
        if scope.waiting:
            wanted = [*scope.wanted, *(task for each in same for task in each.wanted)]
            waiting = scope.waiting + sum(each.waiting for each in same)
            scope = scope._replace(waiting=waiting, wanted=wanted)
        scopes.append(scope)
    return look._replace(scopes=scopes, others=())


def _drain_of(looks: Sequence[DrainLook], pace: Pace) -> Drain:
    backlog = sum(look.backlog for look in looks)

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
    come, done = pace.come or 0.0, pace.done or 0.0
    if pace.kind != "counting" and (come or done or not known):
        rates = f"{come:.3g} tasks come and {done:.3g} end a second"
        if not come and done * 3600 < STALLED_PER_HOUR * backlog:
            return said("stalled", rates)
        if pace.kind == "even":
            return said(
                "even", f"about as many tasks come as end: {come:.3g} and {done:.3g} a second"
            )
        if pace.kind not in ("clears", "open"):
            return said("will not drain", rates)
        measured = backlog / (done - come)
        if measured >= by_limits:
            return said("clears", rates, measured, pace.low, pace.high)
        return said("clears", slowest, by_limits)
    if not known:
        return said("unknown", slowest or "no limit says it: measure it for some seconds (over=)")
    return said("clears", slowest or "the limits let all of them start now", by_limits)


def drain_of_scope(looks: Sequence[DrainLook], group: str | None) -> Drain:
    """Compute the drain time of one group, as if no other tasks wait; else that of all tasks."""
    if group in (None, EVERY_GROUP):
        return drain_of(looks)
    return drain_of([_of_scope(look, str(group)) for look in looks])


def _of_scope(look: DrainLook, group: str) -> DrainLook:
    """Leave out of a look all tasks but those of a group."""
    whole, own = (next(each for each in look.scopes if each.group == g) for g in ("", group))
    whole = whole._replace(waiting=own.waiting, wanted=own.wanted)
    others = [_of_scope(other, group) for other in look.others]
    return look._replace(backlog=own.waiting, scopes=[whole, own], others=others)


def drain_of_short_tasks(looks: Sequence[DrainLook], group: str | None) -> Drain:
    """Compute `drain_of_scope` as if tasks took no time, so that no concurrency holds them back."""
    for gate in (scope.gate for look in looks for scope in look.scopes):
        for each in (gate, *gate.members.values()):
            each.concurrency = 0
    return drain_of_scope(looks, group)


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
        due_in = f"{wait:.1f} s" if wait < 60 else span(wait)
        first = f"the first of them due in {due_in}"
        if wait * 1000 > UNTIL_OPENED_MS / 2:
            first = "when other tasks have ended"
        left.append(f"{delayed} delayed, {first}")
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
            known = False  # the pace depends on how long tasks run
            if not rates:
                run = "in order: one task runs, or waits for its retry," if gate.in_order else ""
                run = run or "as many tasks run as may,"
                slowest = slowest or scope.words(f"{run} however long they do")
    covered = covered or held >= COVERED * look.backlog
    if known and all(len(scope.wanted) == scope.waiting for scope in look.scopes):
        latest, words = _last_start(look, latest)
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


def _last_start(look: DrainLook, instant: float) -> tuple[float, str]:
    """Foresee when the last task starts, ms, of a partition whose tasks were all read.

    Returns:
        The moment; what holds the last task back, "" if nothing does.
    """
    view = View(instant, heavy=True, gates={scope.group: scope.gate for scope in look.scopes})
    view.aging = Aging(smallest_first=look.smallest_first)
    found = {scope.group: [*scope.wanted] for scope in look.scopes if scope.waiting}
    for group, tasks in found.items():  # "" has all tasks: those without a known group stay there
        for task in tasks if group else ():
            found[""].remove(task)
    for group, tasks in found.items():
        heads = 1 if group else len(tasks)
        best = sorted(tasks, key=lambda task: task.place)
        view.ready += [_candidate(group, task) for task in best[:heads]]
        view.waiting[group] = [_candidate(group, task) for task in best[heads:]]
    count = sum(map(len, found.values()))
    starts = Forecasting(view, grain=0.001, run_ms=0.0, lease_ms=0.0).run(count).starts
    if len(starts) < count:
        return math.inf, "the limits let no more tasks start"
    if not starts or not starts[-1].task.reason:
        return instant, ""
    return starts[-1].at, starts[-1].task.because


def _candidate(group: str, task: Wanted) -> Candidate:
    place = task.order, task.order, -task.rank
    return Candidate("", *place, 0, group, None, task.units, 0, None, None)
