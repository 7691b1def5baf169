"""Calendar periods of time zones, as Python's own zones have them."""

from datetime import datetime, timedelta
from zoneinfo import ZoneInfo


def ms_of(moment: datetime) -> int:
    return round(moment.timestamp() * 1000)


def first_moment(zone: ZoneInfo, wall: datetime) -> float:
    """The first moment when the clocks of a zone show this or more, epoch seconds."""
    moment = wall.replace(tzinfo=zone).timestamp()
    if datetime.fromtimestamp(moment, zone).replace(tzinfo=None) == wall:
        return moment
    early, late = moment - 86_400, moment + 86_400  # left out by a change: when that is
    while late - early > 0.5:
        middle = (early + late) / 2
        if datetime.fromtimestamp(middle, zone).replace(tzinfo=None) >= wall:
            late = middle
        else:
            early = middle
    return round(late)


def begin_of(period: str, local: datetime) -> datetime:
    """The first local moment of the period, as the calendar has it."""
    day = local.replace(hour=0, minute=0, second=0, microsecond=0, tzinfo=None, fold=0)
    if period == "week":
        return day - timedelta(days=day.weekday())
    return day.replace(day=1) if period == "month" else day


def after(period: str, begin: datetime) -> datetime:
    """The first local moment of the next period."""
    if period == "month":
        return (begin + timedelta(days=32)).replace(day=1)
    return begin + timedelta(days=7 if period == "week" else 1)


def period_of(period: str, zone: str, ms: int) -> tuple[int, int]:
    """The beginning and the end of a period, ms."""
    there = ZoneInfo(zone)
    local = datetime.fromtimestamp(ms / 1000, there)
    if period == "hour":
        begin = ms - ms % 1000 - (local.minute * 60 + local.second) * 1000
        return begin, begin + 3_600_000
    begins = begin_of(period, local)
    end = first_moment(there, after(period, begins))
    return round(first_moment(there, begins) * 1000), round(end * 1000)
