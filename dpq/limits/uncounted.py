"""A warning of units that are likely to be misspelt, which no limit would count. No I/O."""

import sys
import warnings
from collections.abc import Iterable
from functools import lru_cache

from dpq.model.errors import CostWarning
from dpq.model.validation import nearest

USUAL = ("tokens", "input_tokens", "output_tokens")
"""The units that the headers of hosts name."""

LIKENESS = 0.9
"""The share of letters from which on a unit is taken for a misspelt usual one."""


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
