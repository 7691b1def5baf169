"""Quotas: never more than so many units in a calendar period of a time zone."""

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from kit.limits import SCOPES, fill, payloads
from kit.periods import after, begin_of, first_moment, ms_of

from dpq import Quota


def at(clock, *date, zone="UTC"):
    """Set the clock to a local time of a zone."""
    clock.ms = ms_of(datetime(*date, tzinfo=ZoneInfo(zone)))


def quota(q, scope="g"):
    """What is left of the only quota, and when it resets."""
    [state] = next(state for state in q.admin.limits() if state.group == scope).quotas
    return state.left, state.resets_at


@pytest.mark.parametrize("scope", SCOPES)
def test_a_day(q, clock, scope):
    """As many as the quota says, then nothing until midnight."""
    at(clock, 2026, 3, 2, 22)
    q.set_limit(Quota(3, "day"), group=scope)
    fill(q, 9)
    assert payloads(q) == [0, 1, 2]
    clock.advance(7199.999)
    assert payloads(q) == []
    clock.advance(0.001)
    assert payloads(q) == [3, 4, 5]
    clock.advance(86_400)
    assert payloads(q, 2) == [6, 7]
    clock.advance(86_399)
    assert payloads(q) == [8]
    assert q.check() == []


# Periods, against Python's own zones

ZONES = [
    *("UTC", "America/Los_Angeles", "Europe/Berlin", "Asia/Kolkata", "Asia/Kathmandu"),
    *("Australia/Lord_Howe", "America/St_Johns", "Pacific/Chatham", "Africa/Casablanca"),
    *("America/Havana", "Asia/Beirut", "America/Santiago", "Africa/Cairo", "Pacific/Apia"),
    *("America/Scoresbysund", "Pacific/Kiritimati", "Antarctica/Troll", "America/New_York"),
]
"""With half hours, with changes at midnight, by half an hour and by two hours, and without any."""


@given(
    zone=st.sampled_from(ZONES),
    period=st.sampled_from(["day", "week", "month"]),
    moment=st.integers(
        ms_of(datetime(2024, 1, 1, tzinfo=UTC)), ms_of(datetime(2031, 1, 1, tzinfo=UTC))
    ),
    later=st.integers(0, 10 * 365 * 86_400_000),
    near=st.booleans(),
)
@example("America/Los_Angeles", "month", 1_709_251_199_999, 0, False)  # the leap day of 2024
@example("UTC", "month", 1_709_251_200_000, 0, False)
def test_periods_are_those_of_the_calendar(q, clock, zone, period, moment, later, near):
    """From the day when it was set on for 10 years, on all days, also near the changes."""
    there = ZoneInfo(zone)
    clock.ms = moment
    q.set_limit(Quota(5, period, zone), group="g")
    clock.ms += later
    if near:  # the last second of a period, or the first one of the next
        end = first_moment(
            there, after(period, begin_of(period, datetime.fromtimestamp(clock.ms / 1000, there)))
        )
        clock.ms = round(end * 1000) - later % 2
    local = datetime.fromtimestamp(clock.ms / 1000, there)
    end = first_moment(there, after(period, begin_of(period, local)))
    assert quota(q)[1].timestamp() == end


# A day on which clocks change


@pytest.mark.parametrize(("date", "hours"), [((2026, 3, 8), 23), ((2026, 11, 1), 25)])
@pytest.mark.parametrize("spread", [False, True])
def test_a_day_when_clocks_change(q, clock, date, hours, spread):
    """500 a day are used to 0.98 at least, and not one more, on days of 23 and 25 hours.

    Spread, they are granted evenly: in no hour more than a tenth above the mean.
    """
    zone = ZoneInfo("America/Los_Angeles")
    at(clock, *date, zone=zone.key)
    begin = clock.ms
    clock.ms -= 3_600_000
    q.set_limit(Quota(500, "day", zone.key, spread=spread), group="g")
    fill(q, 1300)
    by_day: dict[int, int] = {}
    by_hour: dict[int, int] = {}
    ended = begin + hours * 3_600_000
    while clock.ms < ended + 3_600_000:
        tasks = q.pop_many(1000)
        granted = len(tasks)
        for task in tasks:
            q.ack(task)
        day = datetime.fromtimestamp(clock.ms / 1000, zone).toordinal()
        by_day[day] = by_day.get(day, 0) + granted
        hour = (clock.ms - begin) // 3_600_000
        by_hour[hour] = by_hour.get(hour, 0) + granted
        opens = q.admin.group("g").opens_at
        clock.ms = min(ms_of(opens), ended + 3_600_000) if opens else clock.ms + 20_000
    today = datetime(*date, tzinfo=zone).toordinal()
    assert 0.98 * 500 <= by_day[today] <= 500
    assert max(by_day.values()) <= 500
    if spread:
        mean = 500 / hours
        assert all(by_hour[hour] <= 1.1 * mean + 1 for hour in range(hours))
    assert q.check() == []


# Counting


def test_spread_makes_up_for_idle_time(q, clock):
    """What was left over is paced over the rest; the first of a period is free at once."""
    at(clock, 2026, 3, 2, 0)
    q.set_limit(Quota(4, "day", spread=True), group="g")
    fill(q, 9)
    assert payloads(q) == [0]
    assert q.admin.group("g").opens_at == datetime(2026, 3, 2, 6, tzinfo=UTC)
    assert q.admin.group("g").reason == "quota"
    clock.advance(18 * 3600)
    assert payloads(q) == [1]
    clock.advance(2 * 3600)
    assert payloads(q) == [2]
    clock.advance(2 * 3600 - 0.001)
    assert payloads(q) == []
    clock.advance(0.001)
    assert payloads(q) == [3]
    clock.advance(2 * 3600)
    assert payloads(q) == [4]


# Refunds


# Changes


def test_the_clock_is_set_back(q, clock):
    """The count stays, and the period is over at the end of the one that it is now."""
    at(clock, 2026, 3, 9, 12)
    q.set_limit(Quota(3, "day", spread=False), group="g")
    fill(q, 9)
    assert payloads(q, 2) == [0, 1]
    clock.advance(-3 * 86_400)
    assert quota(q) == (1, datetime(2026, 3, 7, tzinfo=UTC))
    assert payloads(q) == [2]
    clock.advance(12 * 3600)
    assert payloads(q) == [3, 4, 5]


# Damage
