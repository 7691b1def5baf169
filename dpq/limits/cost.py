"""The cost of a task: how many units it takes of a limit, by unit. No I/O, no clock."""

import sys
import warnings
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any

from dpq.model.errors import ConfigurationError, CostWarning
from dpq.model.task import Cost
from dpq.model.validation import nearest, unit_name, whole_number

MAX_COST = 1_000_000_000
"""Units of each kind that a task takes at most."""

MAX_UNITS = 4
"""Units with a name that a task may take: they stand in its record."""

USUAL = ("tokens", "input_tokens", "output_tokens")
"""The units that the headers of hosts name."""

LIKENESS = 0.9
"""The share of letters from which on a unit is taken for a misspelt usual one."""


def write_cost(cost: Cost) -> int | str:
    """Check what a task costs, and convert it to the text of its record: `1,tokens=1800`."""
    if not isinstance(cost, Mapping):
        return whole_number("cost", cost, 1, MAX_COST)
    named = _checked({"": 1, **cost})
    requests = named.pop("")
    texts = [f"{unit}={units}" for unit, units in sorted(named.items())]
    return ",".join([str(requests), *texts]) if texts else requests


def write_spent(cost: Cost | None, units: Mapping[str, int] | None = None) -> str:
    """Check what a task has spent, and convert it to text: `tokens=812,=1`; "" for nothing."""
    if cost is None and not units:
        return ""
    told = dict(cost) if isinstance(cost, Mapping) else {} if cost is None else {"": cost}
    for unit, number in (units or {}).items():
        if unit in told:
            raise ConfigurationError(f"the cost of {unit!r} is given twice: give it once")
        told[unit] = number
    return ",".join(
        f"{unit}={number}" for unit, number in sorted(_checked(told).items(), reverse=True)
    )


def _checked(cost: Mapping[str, Any]) -> dict[str, int]:
    checked = {
        unit if unit == "" else unit_name("a unit of cost", unit): whole_number(
            f"cost[{unit!r}]", number, 0, MAX_COST
        )
        for unit, number in cost.items()
    }
    named = len(checked.keys() - {""})
    if named > MAX_UNITS:
        raise ConfigurationError(
            f"cost names {named} units: it may name at most {MAX_UNITS} beside requests"
        )
    return checked


def read_cost(text: str) -> tuple[int, dict[str, int] | None]:
    """Read the cost in a record: its requests, and other units that the caller named, or None."""
    requests, *others = text.split(",")
    named = (other.partition("=") for other in others if "~" not in other)
    return int(requests), {unit: int(units) for unit, _, units in named} or None


def warn_of_units(units: Iterable[str]) -> None:
    """Warn of units that look misspelt; Python's filter tells it once for each line that calls."""
    for unit in units:
        if hint := _hint_at(unit):
            text = f"a cost in {unit!r} counts only in a limit of {unit!r}{hint}"
            warnings.warn(text, CostWarning, _level_of_caller())


@lru_cache(maxsize=1000)
def _hint_at(unit: str) -> str:
    if unit == "requests":
        return "; without a unit, costs and limits count requests"
    return "" if unit in ("", *USUAL) else nearest(unit, USUAL, LIKENESS)


def _level_of_caller() -> int:
    """Return the `stacklevel` of the first caller that is no part of DPQ, for `warn_of_units`."""
    level, frame = 1, sys._getframe(1)
    while frame.f_back and f"{frame.f_globals.get('__name__')}.".startswith(
        ("dpq.", "contextlib.")
    ):
        level, frame = level + 1, frame.f_back
    return level
