"""Order: whatever way a task comes to be due, a pop returns the best of all that are."""

import random
from collections.abc import Callable
from typing import Any

import pytest
from redis import Redis

from dpq import DPQ, Backoff, Push, Task, TaskState

PRIORITIES: list[int | float] = [
    *(0, 1, 1, 1, -1, 3, 3.0, 2.5, -2.5, 0.0, -0.0, -0.0),
    *(2**53 - 1, 2**53, 2**53 + 1, 2**53 + 2, 2**53 + 3, float(2**53)),
    *(-(2**53), -(2**53) - 1, -(2**53) - 2, -(2**53) - 3),
    *(2**63 - 1, 2**63 - 2, 2**63 - 512, 2**63 - 513, float(2**63), -(2**63), -(2**63) + 1),
    *(1e300, -1e300, 1.7976931348623157e308, 5e-324, -5e-324, 0.1 + 0.2, 0.3),
]
"""Ties, neighbours that one double cannot tell apart, and the ends of every range."""

Way = Callable[[DPQ[int], Any], None]


def best_first(pushed: list[tuple[int | float, int]], order: str = "fifo") -> list[int]:
    """The reference: Python compares int and float exactly, and its sort is stable."""
    if order == "lifo":
        pushed = pushed[::-1]
    sign = 1 if order == "min" else -1
    return [number for _, number in sorted(pushed, key=lambda pair: sign * pair[0])]


def shuffled(seed: int) -> list[int | float]:
    chosen = PRIORITIES * 2
    random.Random(seed).shuffle(chosen)
    return chosen


def drain(q: DPQ[int], batch: int) -> list[int]:
    """Everything that is ready, popped one by one or in batches."""
    found: list[int] = []
    while tasks := q.pop_many(batch):
        found += [task.payload for task in tasks]
        q.ack_many(tasks)
    return found


def fill(q: DPQ[int], priorities: list[int | float], **arguments: Any) -> list[tuple[Any, int]]:
    """Push alternately one by one and in batches; payloads count the pushes."""
    half = len(priorities) // 2
    for number, priority in enumerate(priorities[:half]):
        q.push(number, priority, **arguments)
    q.push_many(
        Push(payload=number, priority=priority, **arguments)
        for number, priority in enumerate(priorities[half:], half)
    )
    return [(priority, number) for number, priority in enumerate(priorities)]


def pop_all(q: DPQ[int]) -> list[Task[int]]:
    return q.pop_many(1000, visibility=10)


def nothing(q: DPQ[int], clock: Any) -> None:
    """Pushed only."""


def replayed_slowly(q: DPQ[int], clock: Any) -> None:
    for task in pop_all(q):
        q.bury(task, "no")
    q.dead.replay(rate=100)
    clock.advance(1000)


def mixed(q: DPQ[int], clock: Any) -> None:
    ways = [
        lambda task: None,  # its lease runs out
        lambda task: q.release(task),
        lambda task: q.release(task, delay=3),
        lambda task: q.fail(task, "no", delay=2),
        lambda task: q.set_visibility(task, 4),
        lambda task: q.bury(task, "no"),
    ]
    for task in pop_all(q):
        ways[task.payload % len(ways)](task)
    q.dead.replay()
    clock.advance(10)


WAYS = [nothing, replayed_slowly, mixed]


@pytest.mark.parametrize("batch", [1, 7])
@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
def test_every_way_back_to_ready_keeps_priority_and_place(
    q: DPQ[int], clock: Any, way: Way, batch: int
) -> None:
    """Pushed, released, expired, failed, deferred or replayed: the order is the sorted one."""
    pushed = fill(q, shuffled(1))

    way(q, clock)

    assert drain(q, batch) == best_first(pushed)


@pytest.mark.parametrize("order", ["lifo", "min"])
@pytest.mark.parametrize("way", [nothing, mixed], ids=lambda way: way.__name__)
def test_another_order(redis: Redis, queue_name: str, clock: Any, way: Way, order: Any) -> None:
    """With "lifo" the newest of equal priorities runs first; with "min" the smallest priority, and
    the oldest of equal ones. What the user wrote comes back, also its type."""
    q: DPQ[int] = DPQ(redis, queue_name, order=order, clock=clock, backoff=Backoff(jitter=0))
    pushed = fill(q, shuffled(3))

    way(q, clock)

    assert q.check() == []
    found = {task.payload: task.priority for state in TaskState for task in q.peek(1000, state)}
    assert {n: repr(found[n]) for _, n in pushed} == {n: repr(p or abs(p)) for p, n in pushed}
    assert drain(q, 1) == best_first(pushed, order)


@pytest.mark.parametrize("batch", [1, 7])
@pytest.mark.parametrize("way", [nothing, mixed], ids=lambda way: way.__name__)
def test_order_among_groups_is_exact(q: DPQ[int], clock: Any, way: Way, batch: int) -> None:
    """A group shows one task at a time, and still the best of all groups comes next."""
    priorities = shuffled(4)
    groups = ["a", "b", "a b", "é", None]
    for number, priority in enumerate(priorities):
        q.push(number, priority, group=groups[number % len(groups)])

    way(q, clock)

    assert drain(q, batch) == best_first([(p, n) for n, p in enumerate(priorities)])
    assert q.check() == []
