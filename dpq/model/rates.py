"""Rates and durations as words for people: `10/s`, `300/15min`, `2 h 5 m`. No I/O, no clock."""

SHOWN_UNITS = {"d": 86_400, "h": 3600, "min": 60, "s": 1}
"""Seconds of each unit of a shown window, the longest first; no unit fits: ms."""


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
