"""The page of one task in data and words: when it begins, what has happened to it, and where it is.

The dashboard's page and its JSON show the same. No I/O, no clock.
"""

from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

from dpq import TaskState
from dpq.explain.survey import Explained
from dpq.explain.verdict_facts import UNATTENDED, VerdictState, busy_handlers, is_attended
from dpq.model.rates import span
from dpq.types import Drain, Event
from dpq.views.event_text import event_text
from dpq.views.limits import drain_ms
from dpq.views.sampler import Snapshot
from dpq.views.words import number

Kind = Literal["running", "never", "unknown", "about", "earliest"]

STEPS_SHOWN = 40
"""Steps of a task's life on its page: the push, and the newest ones."""

STAY = ("closed by hand", "unreadable")
"""Reasons of a closing that may have no end."""

REAL_TOKEN = 10**15
"""A token above it is the server's clock in microseconds, the moment of its pop. Tests with a clock
of their own have smaller ones."""


class Begins(NamedTuple):
    """The moment when a task begins, as far as that is known.

    Attributes:
        kind: "running" since `at_ms`; "about" at `at_ms`; "earliest", not before it;
            "unknown"; "never", as it stands.
        at_ms: The moment, by the server's clock; with "unknown", what limits allow, or None.
        latest_ms: The moment when all tasks that are due will have begun, if none comes and none
            fails; None if that is not known.
        because: The reason, in words.
    """

    kind: Kind
    at_ms: float | None
    latest_ms: float | None
    because: str


class Step(NamedTuple):
    """A moment in the life of a task.

    Attributes:
        at_ms: The moment.
        kind: Its kind in words, as in `failed`.
        tone: "good" for a delivery, "warn" for a return, "bad" for a failure or a death; or "".
        detail: More about it, or "".
        until_ms: The moment that belongs behind the detail, or None.
        frames: Where its error was raised, the last call first.
    """

    at_ms: float
    kind: str
    tone: str
    detail: str
    until_ms: float | None = None
    frames: tuple[str, ...] = ()


TONES = {
    "failed": "bad",
    "dead": "bad",
    "lease_expired": "bad",
    "rate_limited": "warn",
}
"""The tones of steps, by the kinds of events."""


def begun_ms(task: Any) -> float | None:
    """Return the moment of a task's last delivery; None if it has none."""
    return float(task.token // 1000) if task.token > REAL_TOKEN else None


def begins(
    task: Any,
    why: Explained,
    snapshot: Snapshot,
    drain: Drain | None,
) -> Begins:
    """Estimate when a task begins."""
    if task.state is TaskState.INVISIBLE:
        return Begins("running", begun_ms(task), None, "")
    if task.state is TaskState.DEAD:
        return Begins("never", None, None, "nothing runs a dead letter until it is replayed")
    if snapshot.survey.paused_until == "inf":
        return Begins("unknown", None, None, "the queue is paused until somebody resumes it")
    if any(not each.open and not each.opens_at and each.reason in STAY for each in why.limits):
        return Begins("unknown", None, None, why.sentence)
    if task.state is TaskState.DELAYED and task.visible_until is None:
        return Begins("unknown", None, None, why.sentence)
    at, kind, because, before = _by_limits(task, why, snapshot)
    idle = _idle(snapshot)
    if idle:
        return Begins("unknown", at if at > why.now_ms else None, None, idle)
    done = snapshot.pace.done
    if before and done:
        by_rate = why.now_ms + before / done * 1000
        if by_rate > at + 1000:
            over = span(snapshot.pace.seconds)
            at, because = by_rate, f"{done:.3g} have ended in a second, over the last {over}"
    elif before and at <= why.now_ms:  # limits allow it, and nothing ends
        over = span(snapshot.pace.seconds)
        rate = "no rate is known yet" if done is None else f"nothing has ended in the last {over}"
        return Begins("unknown", None, None, rate)
    elif at <= why.now_ms and (busy := busy_handlers(snapshot.workers)):
        because = f"it is next, when one of {number(busy)} busy handlers is free"
        return Begins("unknown", None, None, because)
    latest = None
    if kind == "earliest" and drain and drain.state == "clears":
        latest = why.now_ms + (drain.high or drain.seconds or 0) * 1000
    return Begins(kind, at, latest if latest and latest > at else None, because)


def _by_limits(task: Any, why: Explained, snapshot: Snapshot) -> tuple[float, Kind, str, int]:
    """Return when limits let a task begin, how exactly, why then, and how many come before it."""
    if task.state is TaskState.DELAYED:
        due = task.visible_until.timestamp() * 1000
        return due, "earliest", "it is due then, and others may come before it", 0
    before = why.ahead + why.in_group
    group = why.limits[1:]
    own = group[0].waiting if group else 0
    times = [
        drain_ms(state.model_copy(update={"waiting": count + 1}), why.now_ms)
        for state, count in ((why.limits[0], before), *((each, why.in_group) for each in group))
    ]
    times += [why.until_ms]
    at = max((each for each in times if each is not None), default=float(why.now_ms))
    if snapshot.stats.waiting > own:
        return at, "earliest", "tasks that wait in other groups may come before it, too", before
    return at, "about", "", before


def _idle(snapshot: Snapshot) -> str:
    """Say that no consumer is seen, or that all are stuck; "" if one is seen."""
    verdict = snapshot.verdict
    if verdict.state in (*UNATTENDED, VerdictState.HANDLERS_BUSY):
        return verdict.because
    if is_attended(snapshot.survey, snapshot.workers):
        return ""
    return (
        "no consumer is seen: no worker reports, and none has asked for a task in the last minute"
    )


def steps_of(events: Sequence[Event]) -> list[Step]:
    """Write the events of a task as steps; `events` are in their order."""
    steps: list[Step] = []
    for event in events:
        said = event_text(event)
        words = (said.detail, event.member and f"as {event.member}", event.worker)
        at, tone = event.at.timestamp() * 1000, TONES.get(event.kind, "")
        detail = ", ".join(filter(None, words))
        steps.append(Step(at, said.kind, tone, detail, said.until_ms, event.frames))
    return steps


def life(task: Any, events: Sequence[Event]) -> list[Step]:
    """List what has happened to a task, the oldest first."""
    kinds = {event.kind for event in events}
    known = [Step(task.enqueued_at.timestamp() * 1000, "pushed", "", "")]
    if at_ms := begun_ms(task):
        known.append(Step(at_ms, "delivered", "good", f"delivery {task.deliveries}"))
    if "dead" not in kinds and task.state is TaskState.DEAD:
        known.append(Step(task.died_at.timestamp() * 1000, "dead", "bad", task.reason))
    return sorted([*known, *steps_of(events)], key=lambda step: step.at_ms)


def shown_steps(steps: Sequence[Step]) -> tuple[list[Step], int]:
    """Return the steps that a page shows, and how many it leaves out behind the first one."""
    left_out = max(0, len(steps) - STEPS_SHOWN)
    return [*steps[:1], *steps[1 + left_out :]], left_out
