"""The window or quota that lets no task run is named, and no screen shows units below zero."""

from datetime import UTC, datetime

import pytest

from dpq import Quota, RateLimit
from dpq.cli._render import limit_table
from dpq.explain.drain import Scope
from dpq.explain.waiting import spent
from dpq.limits.rules import LimitRules
from dpq.limits.states import QuotaState
from dpq.types import LimitState
from dpq.views.limits import gauges

MIDNIGHT = datetime(2026, 11, 25, tzinfo=UTC)
SECOND, DAY = RateLimit(10, 1, burst=10), RateLimit(1000, 3600, burst=1000)
TOKENS = {"windows": (SECOND, RateLimit(1000, 60, unit="tokens"))}


def state(reason: str | None, *left: float, opens: datetime | None = None) -> LimitState:
    """A limit of 10/s, 1000/h and 1000 a day."""
    quotas = [QuotaState(quota=Quota(1000, "day"), left=0, resets_at=MIDNIGHT)]
    return LimitState(
        group="g",
        windows=[SECOND, DAY],
        units_left=[*left],
        quotas=quotas,
        concurrency=None,
        open=reason is None,
        reason=reason,  # type: ignore[arg-type]
        opens_at=opens,
    )


@pytest.mark.parametrize(
    ("made", "says"),
    [
        (state("spent", 0.2, 100), "10/s is spent"),
        (state("spent", 5, -3), "1000/h is spent"),
        (state("spent", 3, 1.5), "1000/h has too few units left"),
        (
            state("spent", 5, 300).model_copy(update=TOKENS),
            "tokens=1000/min has too few units left",
        ),
        (state("quota", 5, 5, opens=MIDNIGHT), "1000/day@UTC is spent"),
        (state("rate limited", -1050.3, 5), ""),
        (state(None, 5, 5), ""),
    ],
)
def test_the_window_that_binds_is_named(made: LimitState, says: str) -> None:
    """It is the window that opens last, or the quota whose next period opens the limit."""
    assert spent(made, made.windows) == says
    assert any(says in cell for row in limit_table("limits", [made]).records for cell in row)


def test_no_units_below_zero() -> None:
    """While a 429 closes, windows owe units: that is 0 left."""
    first, *_ = limit_table("limits", [state("rate limited", -1050.3, 5)]).records
    assert first[2] == "0.0"


def test_a_gauge_says_the_learned_rate() -> None:
    """Where 0.2 are learned, no gauge says that 10 may run."""
    learned = state(None, 0.2, 5).model_copy(update={"rate": 0.2})
    assert [each["text"] for each in gauges(learned)] == ["10/s, now 0.2", "1000/h"]


def test_the_slowest_of_two_windows_of_a_minute() -> None:
    """A drain time names the window of the unit that is slowest, whatever the unit is called."""
    windows = [RateLimit(90, 60, unit="gpt4"), RateLimit(60, 60, unit="out")]
    rules = LimitRules.checked(windows).text(0)
    for slowest, said in ("60000gpt4", "gpt4=9/min, as learned"), ("60000out", "out=60/min"):
        scope = Scope("a", 9, 0.0, slowest, False, True, False, rules, 9.0)
        assert scope.because == f"group 'a': {said}"
