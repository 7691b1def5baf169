"""Warnings of costs that a limit does not count as they are. No I/O.

Scripts that meet a limit and a cost name them in their replies (`lib/limits/uncounted.lua`), so it
takes no call of its own. `push`, `acquire` and `set_limit` warn by it.
"""

import sys
import warnings
from collections.abc import Iterable

from dpq.model.errors import CostWarning
from dpq.model.validation import nearest

MOST_TOLD = 10_000
"""Queues and units that are remembered as told: a process that meets more is silent about them."""

USUAL = ("tokens", "input_tokens", "output_tokens")
"""The units that the headers of hosts name."""

LIKENESS = 0.9
"""The share of letters from which on a unit is taken for a misspelt usual one."""

_told: set[tuple[str, str, str]] = set()


def warn_of_costs(queue_name: str, texts: Iterable[str]) -> None:
    """Warn of each cost that a script has named, once for each queue and unit in this process."""
    for text in texts:
        group, unit, units, most, others = text.split("\t")
        whose = f"group {group!r}" if group else f"queue {queue_name!r}"
        if most:
            _warn(queue_name, unit, "above", _above(whose, unit, units, most))
        else:
            names = [name for name in others.split(" ") if name]
            hint = nearest(unit, names) or f": its limit counts {', '.join(map(repr, names))}"
            text = f"no limit that holds for {whose} counts {unit!r}, so that cost limits nothing"
            _warn(queue_name, unit, "unknown", text + hint)


def warn_of_units(queue_name: str, units: Iterable[str]) -> None:
    """Warn of units of a limit that are likely to be misspelt."""
    for unit in units:
        hint = "" if unit in ("", *USUAL) else nearest(unit, USUAL, LIKENESS)
        if unit == "requests":
            hint = "; requests are what a limit without a unit counts"
        if hint:
            text = f"a limit of {unit!r} counts only tasks with a cost in {unit!r}{hint}"
            _warn(queue_name, unit, "unusual", text)


def _above(whose: str, unit: str, units: str, most: str) -> str:
    what = f"a cost of {units} {unit or 'requests'} is more than"
    if most.startswith("m"):
        return (
            f"{what} a moving window of {whose} grants, {most[1:]}: the task waits until it is "
            "empty, and has it for itself. Split the task, or set a larger limit"
        )
    return (
        f"{what} the limit of {whose} ever grants, {most}: no more than {most} are charged, and it "
        "runs. Split the task, or set a larger limit"
    )


def _warn(queue_name: str, unit: str, kind: str, text: str) -> None:
    key = queue_name, unit, kind
    if key not in _told and len(_told) < MOST_TOLD:
        _told.add(key)
        warnings.warn(text, CostWarning, _level_of_caller())


def _level_of_caller() -> int:
    """Return the `stacklevel` of the first caller that is no part of DPQ, for `_warn`."""
    level, frame = 1, sys._getframe(1)
    while frame.f_back and f"{frame.f_globals.get('__name__')}.".startswith(
        ("dpq.", "contextlib.")
    ):
        level, frame = level + 1, frame.f_back
    return level
