"""Events as words: of a queue, its changes and failures of late, and the life of one task.

The stream of events has numbers and the texts of limits as they are stored. It also has texts of
other programs, which stay as they are. No I/O, no clock.
"""

import re
from collections import Counter
from collections.abc import Sequence
from datetime import datetime
from typing import Any, NamedTuple

from dpq import TaskState
from dpq.limits.rules import rules_words
from dpq.model.history import Event
from dpq.model.moments import moment_of, say_moment
from dpq.model.rates import many, span
from dpq.model.reports import WorkerInfo

_MS = re.compile(r"\b(\d{1,15}) ms\b")
_STATUS = re.compile(r"^(\d{3}), (.*)$")
_UNTIL = re.compile(r"^(.*) (\d{13})$")


class EventText(NamedTuple):
    """An event in words."""

    kind: str  # the kind of the event, as in `429`, `503` or `limit set`
    detail: str  # more about it, or ""
    until_ms: float | None = None  # the moment that belongs behind the detail, or None

    def whole(self, at: datetime) -> str:
        """Return the detail with its moment, as people read it at some time."""
        until = "" if self.until_ms is None else f" {say_moment(moment_of(self.until_ms), at)}"
        return self.detail + until


def event_text(event: Event) -> EventText:
    """Write an event in words; a detail of an unknown form stays as it is."""
    kind, detail = kind_text(event.kind), event.detail
    if event.kind == "limit_set":
        return EventText(kind, _change_text(event))
    if event.kind in ("dead", "failed", "by_hand", "deployed"):  # the text of another program
        return EventText(kind, detail + _by(event))
    if event.kind == "learned":
        return EventText(kind, f"a rate of {detail}")
    if event.kind == "rate_limited" and (status := _STATUS.match(detail)):
        kind, detail = status.groups()
    if found := _UNTIL.match(detail):
        return EventText(kind, found[1], float(found[2]))
    if detail == "0 ms":
        return EventText(kind, "at once")
    return EventText(kind, _MS.sub(lambda ms: span(int(ms[1]) / 1000), detail))


def kind_text(kind: str) -> str:
    """Write the kind of an event in words. The detail of a 429 may have another status."""
    return "429" if kind == "rate_limited" else kind.replace("_", " ")


def _change_text(event: Event) -> str:
    """Say what became of a limit, what it was, and who changed it."""
    group = event.group or None
    now = event.detail if event.detail == "removed" else rules_words(event.detail, group)
    if event.before and event.before == event.detail:
        now += ", begun anew"
    elif event.before:
        now += f" (was {rules_words(event.before, group)})"
    return now + _by(event)


def _by(event: Event) -> str:
    return f", by {event.by}" if event.by else ""


# What happened of late

DAY_MS, HOUR_MS = 86_400_000, 3_600_000

SHOWN = 5
"""Changes, and parts of failures, in one list."""


class Change(NamedTuple):
    """A change of a queue: its time, its words, and its event, which may be undone."""

    at: datetime
    words: str
    event: Event | None = None


def changes(events: Sequence[Event], workers: Sequence[WorkerInfo], now_ms: float) -> list[Change]:
    """List what operators did in the last day, and which workers began: the newest first."""
    found = [Change(event.at, _words(event), event) for event in _since(events, now_ms - DAY_MS)]
    began: dict[str, list[datetime]] = {}
    for worker in workers:
        if worker.since.timestamp() * 1000 >= now_ms - DAY_MS:
            version = f"version {worker.program}, " * bool(worker.program)
            began.setdefault(f"{version}DPQ {worker.version}", []).append(worker.since)
    for versions, times in began.items():
        said = f"{len(times)} of {many(len(workers), 'worker')} began, with {versions}"
        found.append(Change(max(times), said))
    return sorted(found, key=lambda each: each.at, reverse=True)


def _since(events: Sequence[Event], from_ms: float) -> list[Event]:
    return [event for event in events if event.at.timestamp() * 1000 >= from_ms]


def _words(event: Event) -> str:
    scope = {"": "", "*": " of every group"}.get(event.group, f" of group {event.group!r}")
    said = event_text(event)
    return ": ".join(filter(None, (said.kind + scope, said.whole(event.at))))


def failures(events: Sequence[Event], now_ms: float) -> dict[str, list[tuple[str, int]]]:
    """Count the failed attempts of the last hour by error, worker, group and member."""
    late = _since(events, now_ms - HOUR_MS)
    parts = {
        "error": Counter(event.detail or event.kind for event in late),
        "worker": Counter(event.worker or "not told" for event in late),
        "group": Counter(event.group or "none" for event in late),
        "member": Counter(f"{event.group}: {event.member}" for event in late if event.member),
    }
    return {name: counts.most_common(SHOWN) for name, counts in parts.items() if counts}


class Limited(NamedTuple):
    """The 429s of a scope in the last day."""

    hits: str  # the number of events of each status, such as 429, as text; "" for none
    last: datetime | None  # the last 429


def limited_by(events: Sequence[Event], group: str, now_ms: float) -> Limited:
    """Find the 429s of a scope in the last day: "" for the whole queue."""
    late = _since(events, now_ms - DAY_MS)
    hits = [each for each in late if (each.kind, each.group) == ("rate_limited", group)]
    met = Counter(event_text(hit).kind for hit in hits)
    said = ", ".join(f"{count} × {status}" for status, count in sorted(met.items()))  # noqa: RUF001
    return Limited(said, hits[-1].at if hits else None)


# The life of one task

STEPS_SHOWN = 40
"""Steps of a task's life on its page: the push, and the newest ones."""

REAL_TOKEN = 10**15
"""A token above it is the server's clock in microseconds, the moment of its pop. Tests with a clock
of their own have smaller ones."""


class Step(NamedTuple):
    """A moment in the life of a task."""

    at_ms: float  # the moment
    kind: str  # its kind in words, as in `failed`
    tone: str  # "good" for a delivery, "warn" for a return, "bad" for a failure or a death; or ""
    detail: str  # more about it, or ""
    until_ms: float | None = None  # the moment that belongs behind the detail, or None
    frames: tuple[str, ...] = ()  # where its error was raised, the last call first


TONES = {"failed": "bad", "dead": "bad", "lease_expired": "bad", "rate_limited": "warn"}
"""The tones of steps, by the kinds of events."""


def begun_ms(task: Any) -> float | None:
    """Return the moment of a task's last delivery; None if it has none."""
    return float(task.token // 1000) if task.token > REAL_TOKEN else None


def steps_of(events: Sequence[Event]) -> list[Step]:
    """Write the events of a task as steps; `events` are in their order."""
    steps = []
    for event in events:
        kind, said, until_ms = event_text(event)
        detail = ", ".join(
            filter(None, (said, event.member and f"as {event.member}", event.worker))
        )
        at, tone = event.at.timestamp() * 1000, TONES.get(event.kind, "")
        steps.append(Step(at, kind, tone, detail, until_ms, event.frames))
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
