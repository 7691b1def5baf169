"""drain: the time until all due tasks have started is right within a factor of 1.5."""

from collections.abc import Callable
from typing import Any

import pytest

from dpq import DPQ, Push, RateLimit
from dpq.testing import Clock


def in_two_groups(q: DPQ[Any]) -> None:
    q.set_limit(2, 1, group="a")
    q.set_limit(1, 5, group="b")
    q.push_many([Push(n, group="ab"[n % 2]) for n in range(40)])


def closed_first(q: DPQ[Any]) -> None:
    q.set_limit(1, 1, group="a")
    q.push_many([Push(n, group="a") for n in range(30)])
    q.delay_group("a", 60)


def in_a_moving_window(q: DPQ[Any]) -> None:
    q.set_limit(RateLimit(10, 60, moving=True))
    q.push_many([Push(n) for n in range(35)])


def in_two_windows(q: DPQ[Any]) -> None:
    q.set_limit([RateLimit(10, 1), RateLimit(60, 60)])
    q.push_many([Push(n) for n in range(100)])


@pytest.mark.parametrize("fill", [in_two_groups, closed_first, in_a_moving_window, in_two_windows])
def test_the_time_is_right(q: DPQ[Any], clock: Clock, fill: Callable[[DPQ[Any]], None]) -> None:
    """A consumer that pops whatever it may has started the last task about then."""
    fill(q)
    said, began = q.drain(), clock.ms
    assert (said.state, said.backlog) == ("clears", len(q))
    left = said.backlog
    while left:
        tasks = q.pop_many(100)
        q.ack_many(tasks)
        left -= len(tasks)
        if left:
            clock.advance(0.05)
    took = (clock.ms - began) / 1000
    assert took / 1.5 <= (said.seconds or 0) + 0.5 <= took * 1.5 + 1


def test_without_due_tasks(q: DPQ[Any], clock: Clock) -> None:
    """It says what is left, and a delayed task that is due is no such rest."""
    assert q.drain().state == "empty"
    q.push("x", delay=10)
    assert q.drain().state == "none due"


def test_what_is_due_counts_where_it_stands(q: DPQ[Any], clock: Clock) -> None:
    """No call has moved delayed tasks that are due, and tasks whose lease has ended."""
    q.set_limit(1, 10)
    q.push_many([Push("a"), Push("b"), Push("c", delay=5), Push("d", delay=99)])
    q.pop(visibility=5)
    clock.advance(6)
    said = q.drain()
    assert (said.state, said.backlog, said.seconds) == ("clears", 3, 24.0)
    [limit] = [state for state in q.limits() if state.group is None]
    assert limit.waiting == 3
