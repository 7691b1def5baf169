"""The pace of a queue: estimates neither jump nor lie, over half hours that are simulated."""

import math
import random
from collections.abc import Callable

import pytest

from dpq.explain.pace import Point, pace_of

Rate = Callable[[int], float]


def simulated(
    seed: int, seconds: int, come: Rate, end: Rate, backlog: int, pushed: Rate = lambda _: 0
) -> list[Point]:
    """Look each second at a queue with random arrivals and ends, and pushes of many at once."""
    chance = random.Random(seed)
    points, total, acked = list[Point](), backlog, 0

    def random_count(rate: float) -> int:
        count, at = 0, chance.expovariate(rate) if rate else math.inf
        while at < 1:
            count, at = count + 1, at + chance.expovariate(rate)
        return count

    for second in range(seconds):
        total += random_count(come(second)) + int(pushed(second))
        acked = min(total, acked + random_count(end(second)))
        points.append(Point(float(second), total - acked, 0, total, 0, acked))
    return points


def test_the_truth_is_in_the_range() -> None:
    """A queue that clears is done within the range that is said, at 9 of 10 looks or more."""
    right = looks = 0
    for seed in range(10):
        points = simulated(seed, 1200, lambda _: 2, lambda _: 8, 6000)
        done = next(int(point.at) for point in points if not point.backlog)
        for now in range(60, done, 20):
            pace = pace_of(points[max(0, now - 320) : now + 1])
            assert pace.kind == "clears"
            right, looks = right + (pace.low <= done - now <= pace.high), looks + 1
    assert right / looks > 0.9


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("come", [0, 5])
def test_a_stop_is_seen_in_half_a_minute(seed: int, come: float) -> None:
    """All consumers are gone: 30 s later nobody is told when it is done."""
    points = simulated(seed, 900, lambda _: come, lambda now: 5.5 if now < 600 else 0, 6000)
    assert pace_of(points[280:601]).kind == ("clears" if not come else "even")
    for now in range(630, 900):
        pace = pace_of(points[now - 320 : now + 1])
        assert (pace.kind, pace.done) == ("stopped", 0)
    assert pace_of(points[310:631]).say == "none finished in 30 s"


@pytest.mark.parametrize(("end", "kind"), [(10, "even"), (8, "grows"), (5, "grows")])
def test_pushes_once_a_minute_hide_no_growth(end: float, kind: str) -> None:
    """600 tasks come at the start of each minute, and fewer end: it is seen, and stays so."""
    points = simulated(1, 900, lambda _: 0, lambda _: end, 3000, lambda at: 600 * (at % 60 == 0))
    assert {pace_of(points[now - 320 : now + 1]).kind for now in range(330, 900, 10)} == {kind}
