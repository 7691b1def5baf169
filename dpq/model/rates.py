"""Rates as words for people: `10/s`, `300/15min`. No I/O, no clock."""

SHOWN_UNITS = {"d": 86_400, "h": 3600, "min": 60, "s": 1}
"""Seconds of each unit of a shown window, the longest first; no unit fits: ms."""


def per_text(units: float, per: float) -> str:
    """Write units per time: `10/s`, `300/15min`."""
    name, long = next(
        ((name, per / s) for name, s in SHOWN_UNITS.items() if per % s == 0), ("ms", per * 1000)
    )
    return f"{units:.15g}/{'' if long == 1 else f'{long:.15g}'}{name}"
