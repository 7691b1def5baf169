"""A priority as an exact, sortable key.

A sorted set compares scores as doubles, and a double holds every integer only up to 2^53. So the
score is minus the priority as a double, and the member starts with the residual: what the double
lost, as decimal digits that sort the better priority first. Equal priorities, `3` and `3.0` among
them, get equal keys, and the server's sequence decides.
"""

import math
from numbers import Integral

from dpq.model.errors import ConfigurationError

INT64_MIN = -(2**63)
INT64_MAX = 2**63 - 1
EXACT_INT = 2**53  # a double has every int up to here

_EXACT = "1"  # sorts between "0..." (better than the double says) and "2..." (worse)


def encode_priority(priority: float) -> tuple[str, str]:
    """Turn a priority into its text, from which the score is computed, and its residual.

    The text keeps the type: an `int` comes back as an `int`. `-0.0` becomes `0.0`.
    """
    kind = type(priority)
    if kind is not int and kind is not float and kind is not bool:  # an IntEnum, a numpy number
        if isinstance(priority, Integral):
            kind, priority = int, int(priority)
        elif isinstance(priority, float):
            kind, priority = float, float(priority)
    if kind is int:
        if -EXACT_INT <= priority <= EXACT_INT:
            return str(priority), _EXACT
        if INT64_MIN <= priority <= INT64_MAX:
            return str(priority), _residual(int(priority))
    elif kind is float and math.isfinite(priority):
        return repr(priority + 0.0), _EXACT  # -0.0 + 0.0 is 0.0
    raise ConfigurationError(
        f"priority is {priority!r}: it must be an int from -2^63 to 2^63-1 or a finite float "
        "(a bigger one runs first; with order='min' a smaller one)"
    )


def priority_or_none(priority: float | None) -> tuple[str, str]:
    """Turn a new priority into its text and residual; two empty texts for None."""
    return ("", "") if priority is None else encode_priority(priority)


def _residual(priority: int) -> str:
    lost = priority - int(float(priority))
    if lost > 0:
        return f"0{999 - lost:03d}"
    return f"2{-lost:03d}" if lost < 0 else _EXACT


def decode_priority(text: str) -> int | float:
    """Turn the stored text of a priority back into the number it was.

    In a queue whose smallest number runs first, the text is that of the negative number, with a "0"
    in front of its digits (lua/lib/record/rank.lua): `-05` is 5, and `01.5` is -1.5.
    """
    digits = text.lstrip("-")
    number = int(text) if digits.isdigit() else float(text)
    return -number if digits[0] == "0" and digits[1:2].isdigit() else number
