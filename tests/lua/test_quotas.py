"""Quotas: never more than so many units in a calendar period of a time zone."""

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st
from kit.limits import SCOPES, fill, payloads, take

from dpq import ConfigurationError, Quota, RateLimit, Reserve

HOUR = timedelta(hours=1)


def ms_of(moment: datetime) -> int:
    return round(moment.timestamp() * 1000)


def at(clock, *date, zone="UTC"):
    """Set the clock to a local time of a zone."""
    clock.ms = ms_of(datetime(*date, tzinfo=ZoneInfo(zone)))


def quota(q, scope="g"):
    """What is left of the only quota, and when it resets."""
    [state] = next(state for state in q.limits() if state.group == scope).quotas
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
