"""Warnings of costs that a limit does not count as they are. No I/O.

Scripts that meet a limit and a cost name them in their replies (`lua/lib/uncounted.lua`), so it
takes no call of its own. `push`, `acquire` and `set_limit` warn by it.
"""

import sys
import warnings
from collections.abc import Iterable

from dpq.model.errors import CostWarning
from dpq.model.validation import nearest

MOST_TOLD = 10_000
"""Queues and units that are remembered as told: a process that meets more is silent about them."""

_told: set[tuple[str, str, bool]] = set()


def warn_of_costs(queue_name: str, texts: Iterable[str]) -> None:
    """Warn of each cost, once for each queue and unit in this process."""
    for text in texts:
        group, unit, units, most, others = text.split("\t")
        key = queue_name, unit, bool(most)
        if key not in _told and len(_told) < MOST_TOLD:
            _told.add(key)
            whose = f"group {group!r}" if group else f"queue {queue_name!r}"
            said = _above(unit, units, most) if most else _unknown(unit, others.split())
            warnings.warn(said.format(whose=whose), CostWarning, _level_of_caller())


def _above(unit: str, units: str, most: str) -> str:
    what = f"a cost of {units} {unit or 'requests'}"
    if most.startswith("m"):
        return (
            f"{what} is more than a moving window of {{whose}} has, {most[1:]}: the task waits "
            "until it is empty, and goes beyond it. Split the task"
        )
    return (
        f"{what} is more than a window of {{whose}} ever grants, {most}: it counts as {most}, so "
        "more than the limit says is used. Split the task, or set a larger limit"
    )


def _unknown(unit: str, others: list[str]) -> str:
    names = ", ".join(repr(name or "requests") for name in others)
    return (
        f"no limit of {{whose}} counts {unit!r}, so a cost in it limits nothing; counted are "
        f"{names}{nearest(unit, others)}"
    )


def _level_of_caller() -> int:
    """Return the `stacklevel` of the first caller that is no part of DPQ."""
    level, frame = 1, sys._getframe(2)
    while frame and f"{frame.f_globals.get('__name__')}.".startswith("dpq."):
        level, frame = level + 1, frame.f_back  # type: ignore[assignment]
    return level + 1
