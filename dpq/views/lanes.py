"""The next starts of a queue as lanes: a lane for each group, a mark for each start.

The page Next calls it on what `forecast` returned; `dpq.web.svg` draws it. No I/O, no clock.
"""

from collections import Counter
from collections.abc import Sequence
from typing import Literal, NamedTuple

from dpq import Forecast
from dpq.model.rates import span

LANES = 12
"""Lanes of groups at most: more would not fit on a screen. The table has all tasks."""

TICKS = 6
"""Labels of the scale at most; more would touch on a phone."""

STEPS = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 21_600, 43_200, 86_400)
"""Seconds between two labels; beyond the last one, whole days."""

SQUEEZED = 20
"""If half of the starts would stand in the first 1/20 of the scale, the scale ends earlier."""

Hold = Literal["now", "group", "queue", "delay"]

HOLDS: dict[Hold, str] = {
    "now": "may start now",
    "group": "held by the limit of its group",
    "queue": "held by the limit of the whole queue",
    "delay": "delayed or paused",
}
"""The obstacle of a task until its start, in words."""


class Mark(NamedTuple):
    """A start: its place on the scale (0 to 1), what holds it until then, and words for it."""

    at: float
    hold: Hold
    words: str


class Lane(NamedTuple):
    """The starts of a group, or of the whole queue.

    Attributes:
        name: The group; "" for tasks without a group; None for the whole queue.
        marks: The starts on the scale, the first one first.
        later: The number of starts beyond the scale.
        words: The starts in a sentence.
    """

    name: str | None
    marks: list[Mark]
    later: int
    words: str


class Lanes(NamedTuple):
    """The picture of what comes next.

    Attributes:
        lanes: The whole queue first, if there are several groups; then groups by their first start.
        ticks: The labels of the scale, each with its place (0 to 1).
        holds: What holds the tasks back, as far as it occurs.
        left_out: The number of groups without a lane.
    """

    lanes: list[Lane]
    ticks: list[tuple[float, str]]
    holds: list[Hold]
    left_out: int


def hold_of(task: Forecast) -> Hold:
    """Return what holds a task back until it starts."""
    if task.reason is None:
        return "now"
    if task.reason in ("delayed", "paused"):
        return "delay"
    return "queue" if task.because.startswith("the queue: ") else "group"


def lanes_of(found: Sequence[Forecast]) -> Lanes | None:
    """Sort starts into lanes; None if there is none."""
    if not found:
        return None
    end = _end_of([task.in_seconds for task in found])
    groups: dict[str, list[Forecast]] = {}
    for task in found:
        groups.setdefault(task.group or "", []).append(task)
    shown = list(groups.items())[:LANES]
    lanes = [_lane(name, tasks, end) for name, tasks in shown]
    if len(groups) > 1:
        lanes.insert(0, _lane(None, found, end))
    met = {hold_of(task) for task in found}
    holds = [hold for hold in HOLDS if hold in met]
    return Lanes(lanes, _ticks(end), holds, len(groups) - len(shown))


def _end_of(starts: Sequence[float]) -> float:
    """Choose the end of the scale: the last start, or an earlier one if few are far away."""
    ordered = sorted(starts)
    middle, last = ordered[len(ordered) // 2], len(ordered) - 1
    while last > len(ordered) // 2 and middle < ordered[last] / SQUEEZED:
        last -= 1
    return max(10.0, ordered[last])


def _lane(name: str | None, tasks: Sequence[Forecast], end: float) -> Lane:
    marks = [
        Mark(
            task.in_seconds / end,
            hold_of(task),
            f"{_when(task.in_seconds)}: {task.id}"
            + ("" if task.reason is None else f", {task.because}"),
        )
        for task in tasks
        if task.in_seconds <= end
    ]
    held = Counter(hold_of(task) for task in tasks)
    first, last = tasks[0].in_seconds, tasks[-1].in_seconds
    words = f"{len(tasks)} {'start' if len(tasks) == 1 else 'starts'}, {_when(first)}"
    words += f" to {_when(last)}" if last > first else ""
    words += ": " + ", ".join(f"{held[hold]} {HOLDS[hold]}" for hold in HOLDS if held[hold])
    return Lane(name, marks, len(tasks) - len(marks), words)


def _when(seconds: float) -> str:
    return f"in {span(seconds)}" if seconds else "now"


def _ticks(end: float) -> list[tuple[float, str]]:
    days = 86_400 * (int(end / 86_400 / TICKS) + 1)
    step = next((step for step in STEPS if end / step < TICKS), days)
    return [(n * step / end, span(n * step) if n else "now") for n in range(int(end / step) + 1)]
