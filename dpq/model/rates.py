"""Numbers, rates and durations as words for people: `2 tasks`, `10/s`, `2 h 5 m`, `3 to 5 m`.
No I/O, no clock."""

import math
from bisect import bisect_left, bisect_right

SHOWN_UNITS = {"d": 86_400, "h": 3600, "min": 60, "s": 1}
"""Seconds of each unit of a shown window, the longest first; no unit fits: ms."""

STEPS = (1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 7, 8, 9, 10)
"""The first digits of a rough number: neighbours differ by 10 to 33 %."""


def many(count: int, one: str, more: str = "") -> str:
    """Write a number of things: `1 task`, `2 tasks`; `more` are its words if `s` is not enough."""
    return f"{count} {one if count == 1 else more or f'{one}s'}"


def per_text(units: float, per: float) -> str:
    """Write units per time: `10/s`, `300/15min`."""
    name, long = next(
        ((name, per / s) for name, s in SHOWN_UNITS.items() if per % s == 0), ("ms", per * 1000)
    )
    return f"{units:.15g}/{'' if long == 1 else f'{long:.15g}'}{name}"


def span(seconds: float) -> str:
    """Say a duration with its two largest units: `2 h 5 m`."""
    whole = int(seconds)
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    if whole < 60:
        return f"{whole} s"
    parts = [(whole // 86400, "d"), (whole // 3600 % 24, "h"), (whole // 60 % 60, "m")]
    parts.append((whole % 60, "s"))
    first = next(i for i, (count, _) in enumerate(parts) if count)
    return " ".join(f"{count} {unit}" for count, unit in parts[first : first + 2] if count)


def few(value: float, way: int = 0) -> float:
    """Round a number to one of `STEPS`: down with -1, up with 1, to the nearest with 0."""
    if value <= 0:
        return 0.0
    power = 10.0 ** math.floor(math.log10(value) + 1e-9)
    lead = value / power
    below = STEPS[max(0, bisect_right(STEPS, lead + 1e-9) - 1)]
    above = STEPS[min(len(STEPS) - 1, bisect_left(STEPS, lead - 1e-9))]
    nearest = below if lead - below <= above - lead else above
    return (below, nearest, above)[way + 1] * power


def span_between(low: float, high: float = math.inf) -> str:
    """Say a duration of which only bounds are known: `3 to 5 m`, `40 s to 2 m`, `6 m or more`."""
    if high == math.inf:
        return f"{_rough(low, -1)} or more"
    last = _rough(high, 1)
    first = _rough(low, -1, last[-1])
    if first == last:
        return f"about {first}"
    number, unit = first.split()
    return f"{number} to {last}" if last.endswith(f" {unit}") else f"{first} to {last}"


def _rough(seconds: float, way: int, unit: str = "") -> str:
    """Write a duration as one rough number, rounded in one way; 1 s at least."""
    name, long = next(
        (name, long)
        for name, long in SHOWN_UNITS.items()
        if seconds >= (long if name[0] == unit else 2 * long) or name == "s"
    )
    number = few(max(1.0, seconds / long), way)
    return f"{math.floor(number) if way < 0 else math.ceil(number)} {name[0]}"
