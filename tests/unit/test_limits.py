"""limits: what a limit may be, and its text in the hash `limits`."""

import math

import pytest

from dpq import Adaptive, ConfigurationError, RateLimit, Reserve
from dpq.limits.rules import LimitRules

NO_NUMBER = [math.nan, math.inf, -math.inf, True, "1", None]
NO_COUNT = [1.0, -1]


def refused(what, **settings):
    """The message of the refusal."""
    with pytest.raises(ConfigurationError) as caught:
        what(**settings)
    return str(caught.value)


UNITS, TO_A_BILLION = "an int from 1 to 1000000000", "from 0.001 to 1000000000"
ALL_PRIORITIES = "from -9223372036854775808 to 9223372036854775808"
FINE = {
    RateLimit: {"rate": 1, "per": 1, "burst": 1},
    Reserve: {"units": 1, "priority": 1},
    Adaptive: {"floor": 2, "ceiling": 5, "step": 1},
}


@pytest.mark.parametrize(
    ("kind", "name", "good", "bad", "bound"),
    [
        (RateLimit, "rate", [0.001, 1, 2.5, 10**9], [0, 0.0009, 10**9 + 1], TO_A_BILLION),
        (RateLimit, "per", [0.001, 3600, 315_360_000], [0, 0.0009, 315_360_001], "10 years"),
        (RateLimit, "burst", [1, 10**9], [0, 10**9 + 1, *NO_COUNT], UNITS),
        (Reserve, "units", [1, 10**9 - 1], [0, 10**9, *NO_COUNT], "an int from 1 to 999999999"),
        (Reserve, "priority", [-(2**63), -1.5, 0, 2**63], [2**64, -(2**64)], ALL_PRIORITIES),
        (Adaptive, "floor", [0.001, 3, 5], [0, -1], "from 0.001 to"),
        (Adaptive, "ceiling", [2, 10**9], [1.9, 10**9 + 1], "from 2 to 1000000000"),
        (Adaptive, "step", [0.001, 10**9], [0, 10**9 + 1], TO_A_BILLION),
    ],
)
def test_bounds(kind, name, good, bad, bound):
    """Each number has its bounds, both allowed; beyond them the value is named."""
    shown = name if kind is RateLimit else f"{kind.__name__.lower()}.{name}"
    for value in good:
        assert getattr(kind(**FINE[kind] | {name: value}), name) == value
    for value in [*bad, *NO_NUMBER]:
        told = refused(kind, **FINE[kind] | {name: value})
        assert told.startswith(f"{shown} is {value!r}: ")
        assert bound in told


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"reserve": (1, 5)}, "reserve is (1, 5): it must be a Reserve"),
        ({"adaptive": 5}, "adaptive is 5: it must be an Adaptive"),
        ({"burst": 3, "reserve": Reserve(3, 5)}, "reserve.units is 3 and burst is 3: burst must"),
        ({"adaptive": Adaptive(6, 9)}, "rate is 5: it must be from adaptive.floor 6 to adaptive."),
        ({"adaptive": Adaptive(1, 4.5)}, "rate is 5: it must be from adaptive.floor 1 to adaptiv"),
    ],
)
def test_what_does_not_go_together(settings, told):
    """A reserve as large as the burst, a rate outside of what is learned, and strangers."""
    assert refused(RateLimit, rate=5, per=1, **settings).startswith(told)


# The arguments of set_limit


ONE = "per, burst, adaptive, reserve and slack go with a single rate: give them to each RateLimit"
WINDOWS = [RateLimit(1, 1)]


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({}, "the limit is empty: give a rate, a concurrency, or both; or a quota"),
        ({"rate": []}, "the limit is empty: give a rate, a concurrency, or both; or a quota"),
        ({"rate": 5}, "rate is 5, but per is missing: give the seconds of its window"),
        ({"per": 5}, ONE),
        ({"concurrency": 5, "burst": 2}, ONE),
        *(({"rate": WINDOWS, **more}, ONE) for more in ({"per": 5}, {"burst": 2}, {"slack": 0})),
        ({"rate": WINDOWS[0], "adaptive": Adaptive(1, 2)}, ONE),
        ({"rate": WINDOWS, "reserve": Reserve(1, 2)}, ONE),
        ({"rate": 1, "per": 1, "slack": -1}, "slack is -1: it must be seconds from 0 to 3600"),
        ({"rate": 1, "per": 1, "slack": "1"}, "slack is '1': it must be seconds from 0 to 3600"),
        ({"rate": [5]}, "a window is 5: it must be a RateLimit"),
        ({"rate": "5/s", "per": 1}, "rate is '5/s': leave out per, since a text names its window"),
        ({"rate": "5/s", "slack": -1}, "slack is -1: it must be seconds from 0 to 3600"),
        ({"rate": [RateLimit(1, 1)] * 9}, "the limit has 9 windows: it may have at most 8"),
        (
            {"rate": [RateLimit(1, 1), RateLimit(2, 2, adaptive=Adaptive(1, 2))]},
            "adaptive is given for a longer window: only the shortest can learn",
        ),
        *(
            ({"concurrency": most}, f"concurrency is {most!r}: it must be an int from 1 to 1000000")
            for most in (0, -1, 1.0, True, "3", 1_000_001)
        ),
    ],
)
def test_refused(settings, told):
    """What says nothing, too much or something else is refused with what would be right."""
    assert refused(LimitRules.checked, **settings).startswith(told)


def test_a_rate_may_be_said_as_the_command_line_says_it():
    """A text is a rate with its window; what else holds is said beside it."""
    same = [("10/s", 10, 1), ("300/15m", 300, 900), ("2.5/min", 2.5, 60), ("100/60", 100, 60)]
    rules = LimitRules.checked
    for text, rate, per in same:
        assert rules(text) == rules(rate, per)
    beside = {"burst": 3, "concurrency": 2, "reserve": Reserve(1, 5), "slack": 0.2}
    for more in ({"burst": 3}, beside, {"adaptive": Adaptive(1, 20)}):
        assert rules("10/s", **more) == rules(10, 1, **more)


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"moving": 1}, "moving is 1: it must be True or False"),
        ({"rate": 0.5}, "rate is 0.5 of a moving window, which grants whole units: it must be a"),
        ({"rate": 2.5}, "rate is 2.5 of a moving window"),
        ({"burst": 10}, "burst is 10 of a moving window, which grants all 10 at once if it may"),
        ({"adaptive": Adaptive(1, 20)}, "adaptive is given for a moving window: only an even"),
        ({"reserve": Reserve(10, 1)}, "reserve.units is 10 and rate is 10: rate must be larger"),
    ],
)
def test_a_moving_window_is_refused_with_what_would_be_right(settings, told):
    """Of a moving window neither a part of a unit, nor a burst, nor a learned rate makes sense."""
    moving = {"rate": 10, "per": 60, "moving": True, **settings}
    assert refused(RateLimit, **moving).startswith(told)


# Text


@pytest.mark.parametrize(
    ("per", "ms"),
    [(0.001, 1), (0.0011, 2), (1.0001, 1001), (0.1 + 0.2, 300), (1 / 3, 334), (60, 60_000)],
)
def test_milliseconds_of_a_window(per, ms):
    """A window is stored in whole ms, rounded up: that grants less, and never more."""
    assert LimitRules.checked(1, per).text() == f"0|1 {ms} 1"
