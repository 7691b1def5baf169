"""drain: the time until all due tasks have started is right within a factor of 1.5."""

import math
from collections.abc import Callable
from itertools import product
from typing import Any

import pytest

from dpq import DPQ, Push, Quota, RateLimit
from dpq.testing import Clock

Running = list[tuple[float, Any]]


def run(
    q: DPQ[Any], clock: Clock, left: int, running: Running, takes: float = 0, most: float = math.inf
) -> float:
    """Pop whatever may run, and end it after a time, until that many have started.

    Args:
        left: How many are to start.
        running: What runs, and until when, ms; what still runs afterwards is left in it.
        takes: Seconds that each task takes.
        most: Seconds that this lasts at most.

    Returns:
        The seconds until the last of them has started.
    """
    began = last = clock.ms
    while left > 0 and clock.ms < began + most * 1000:
        batch = q._session.run(q._operations.pop, 100, 1e6, "")
        if batch.tasks:
            last, left = clock.ms, left - len(batch.tasks)
            running += [(clock.ms + takes * 1000, task) for task in batch.tasks]
        wait = batch.next_event_ms if not batch.tasks else 0
        ends = [end for end, _ in running]
        clock.ms = math.ceil(min(clock.ms + (math.inf if wait is None else wait), *ends, math.inf))
        q.ack_many([task for end, task in running if end <= clock.ms])
        running[:] = [(end, task) for end, task in running if end > clock.ms]
        if takes:
            q._session.run(q._operations.remember)
    return (last - began) / 1000


def check(q: DPQ[Any], clock: Clock, running: Running | None = None, takes: float = 0) -> None:
    """Compare the drain time with what a consumer does."""
    said = q.admin.drain()
    assert said.state == "clears"
    took = run(q, clock, said.backlog, running or [], takes)
    assert took / 1.5 <= (said.seconds or 0) + 0.5 <= took * 1.5 + 1


LIMITS: dict[str, Callable[[str], RateLimit | Quota]] = {
    "even": lambda unit: RateLimit(100, 10, unit=unit),
    "burst of 4": lambda unit: RateLimit(100, 10, burst=4, unit=unit),
    "burst of all": lambda unit: RateLimit(100, 10, burst=100, unit=unit),
    "moving": lambda unit: RateLimit(100, 10, unit=unit, moving=True),
    "quota": lambda unit: Quota(100, "hour", unit=unit),
    "spread": lambda unit: Quota(100, "hour", unit=unit, spread=True),
}

COSTS: dict[str, list[dict[str, int]]] = {
    "equal": [{"tokens": 35}],
    "mixed": [{"tokens": 5}, {"tokens": 35}],
    "capped": [{"tokens": 500}, {"tokens": 5}],
    "of two units": [{"": 1, "tokens": 60}, {"": 20, "tokens": 5}],
}


@pytest.mark.parametrize(("limit", "cost"), list(product(LIMITS, COSTS)))
def test_the_time_is_right(q: DPQ[Any], clock: Clock, limit: str, cost: str) -> None:
    """Of a limit and its tasks; some of its units are already spent."""
    costs, group = COSTS[cost], "g" if cost in ("mixed", "capped") else None
    units = ["tokens"] if len(costs[0]) == 1 else ["", "tokens"]
    q.set_limit([LIMITS[limit](unit) for unit in units], group=group)
    q.push_many([Push(n, group=group, cost=costs[n % len(costs)]) for n in range(23)])
    q.ack_many(q.pop_many(1))
    clock.advance(1)
    check(q, clock)


def in_two_groups(q: DPQ[Any]) -> None:
    q.set_limit(2, 1, group="a")
    q.set_limit(1, 5, group="b")
    q.push_many([Push(n, group="ab"[n % 2]) for n in range(40)])


def closed_first(q: DPQ[Any]) -> None:
    q.set_limit(1, 1, group="a")
    q.push_many([Push(n, group="a") for n in range(60)])
    q.delay_group("a", 60)


def paused_first(q: DPQ[Any]) -> None:
    q.set_limit(1, 1)
    q.push_many([Push(n) for n in range(60)])
    q.pause(60)


def in_two_windows(q: DPQ[Any]) -> None:
    q.set_limit([RateLimit(10, 1), RateLimit(60, 60)])
    q.push_many([Push(n) for n in range(100)])


def behind_the_others(q: DPQ[Any]) -> None:
    q.set_limit(10, 1)
    q.set_limit(1, 1, group="a")
    q.push_many([Push(n, group="a" if n >= 150 else "b") for n in range(165)])


def among_the_others(q: DPQ[Any]) -> None:
    q.set_limit(10, 1)
    q.set_limit(1, 1, group="a")
    q.push_many([Push(n, group="b" if n % 11 else "a") for n in range(165)])


def in_unequal_groups(q: DPQ[Any]) -> None:
    q.set_limit([RateLimit(100, 10, burst=4)])
    q.set_limit([RateLimit(30, 10, moving=True)], group="a")
    q.set_limit([RateLimit(20, 10)], group="b")
    q.push_many([Push(n, group="aaaaaaabcc"[n % 10], cost=1 + n % 9) for n in range(90)])


def heavy_at_last(q: DPQ[Any]) -> None:
    q.set_limit([RateLimit(100, 10, burst=40)], group="a")
    q.push_many([Push(n, group="a", cost=1 if n < 210 else 40) for n in range(280)])


def outside_groups(q: DPQ[Any]) -> None:
    q.set_limit(100, 10)
    q.push_many([Push(n, cost=20) for n in range(60)] + [Push(n, group="g") for n in range(20)])


def without_a_cost(q: DPQ[Any]) -> None:
    q.set_limit([RateLimit(100, 10, unit="tokens", estimate=40)], group="a")
    q.push_many([Push(n, group="a") for n in range(20)])


def in_a_pool(q: DPQ[Any]) -> None:
    q.set_limit([RateLimit(10, 10, moving=True)], group="p", members=["x", "y"])
    q.push_many([Push(n, group="p", cost=1 + n % 4) for n in range(40)])


def with_one_member(q: DPQ[Any]) -> None:
    in_a_pool(q)
    q.delay_group("p", 3600, member="x")


def as_the_host_says(q: DPQ[Any]) -> None:
    q.push_many([Push(n, group="g") for n in range(100)])
    says = {"x-ratelimit-limit-requests": "8", "x-ratelimit-remaining-requests": "3"}
    q.observe("g", headers=says | {"x-ratelimit-reset-requests": "5s"})


def in_windows_of_the_host(q: DPQ[Any]) -> None:
    q.push_many([Push(n, group="g") for n in range(100)])
    says = {"ratelimit": '"a";r=3;t=30', "ratelimit-policy": '"a";q=20;w=60'}
    q.observe("g", headers=says)


QUEUES = [
    *(in_two_groups, closed_first, paused_first, in_two_windows),
    *(behind_the_others, among_the_others, in_unequal_groups, heavy_at_last, outside_groups),
    *(without_a_cost, in_a_pool, with_one_member, as_the_host_says, in_windows_of_the_host),
]


@pytest.mark.parametrize("fill", QUEUES)
def test_of_many_kinds(q: DPQ[Any], clock: Clock, fill: Callable[[DPQ[Any]], None]) -> None:
    """Groups, pools, closings, pauses, and what hosts say."""
    fill(q)
    check(q, clock)


def test_a_window_that_opens_soon(q: DPQ[Any], clock: Clock) -> None:
    """It holds units of a while ago."""
    q.set_limit([RateLimit(10, 60, moving=True)])
    q.push_many([Push(n) for n in range(15)])
    q.ack_many(q.pop_many(10))
    clock.advance(50)
    check(q, clock)


@pytest.mark.parametrize("rate", [None, 10, 1])
def test_a_concurrency(q: DPQ[Any], clock: Clock, rate: int | None) -> None:
    """The history knows how long tasks run; a slower rate decides."""
    q.set_limit(rate, 1, group="a", concurrency=5) if rate else q.set_limit(
        group="a", concurrency=5
    )
    q.push_many([Push(n, group="a") for n in range(200)])
    running: Running = []
    run(q, clock, 200, running, takes=3, most=70)
    check(q, clock, running, takes=3)


def test_without_due_tasks(q: DPQ[Any], clock: Clock) -> None:
    """It says what is left, and a delayed task that is due is no such rest."""
    assert q.admin.drain().state == "empty"
    q.push("x", delay=10)
    assert q.admin.drain().state == "none due"


def test_what_is_due_counts_where_it_stands(q: DPQ[Any], clock: Clock) -> None:
    """No call has moved delayed tasks that are due, and tasks whose lease has ended."""
    q.set_limit(1, 10)
    q.push_many([Push("a"), Push("b"), Push("c", delay=5), Push("d", delay=99)])
    q.pop(visibility=5)
    clock.advance(6)
    said = q.admin.drain()
    assert (said.state, said.backlog, said.seconds) == ("clears", 3, 24.0)
    [limit] = [state for state in q.admin.limits() if state.group is None]
    assert limit.waiting == 3
