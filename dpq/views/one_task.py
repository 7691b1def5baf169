"""The life of one task, as its page shows it. No I/O, no clock."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from dpq import TaskState
from dpq.types import Event
from dpq.views.event_text import event_text

STEPS_SHOWN = 40
"""Steps of a task's life on its page: the push, and the newest ones."""

REAL_TOKEN = 10**15
"""A token above it is the server's clock in microseconds, the moment of its pop. Tests with a clock
of their own have smaller ones."""


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
