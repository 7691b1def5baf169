"""pop_first: the first queue of a list that has a task, and one wait for all of them."""

from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest
from kit.waiting import LONG, PATIENCE, blocked, wait_for_waiters
from redis import Redis

from dpq import DPQ, pop_first
from dpq.link import waiter, watches


@pytest.fixture(autouse=True)
def trusting(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing but a wake-up, or the waiter's own timer, brings a task in a test's time."""
    monkeypatch.setattr(watches, "RECHECK_SECONDS", 60.0)


@pytest.fixture
def three(redis: Redis, queue_name: str) -> Iterator[list[DPQ[Any]]]:
    queues: list[DPQ[Any]] = [DPQ(redis, f"{queue_name}-{n}") for n in range(3)]
    yield queues
    for queue in queues:
        queue.admin.drop()
        queue.close()


@pytest.mark.fakeredis
def test_the_list_decides(three: list[DPQ[Any]]) -> None:
    """A task of the first queue comes before a better one of the second; then there is none."""
    a, b, c = three
    c.push("c", priority=9)
    b.push("b", priority=5)
    a.push("a")
    found = []
    for _ in range(4):
        queue, task = pop_first(three)
        found.append(task and (three.index(queue), task.payload))
        if task:
            queue.ack(task)
    assert found == [(0, "a"), (1, "b"), (2, "c"), None]
    assert sum(map(len, three)) == 0


def test_waits_on_many_sets_keep_few_connections(
    three: list[DPQ[Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The waiters of the last sets of queues are kept, and all of one set: they serve again."""
    monkeypatch.setattr(waiter, "MOST_KEPT", 1)
    a, b, c = three
    for queues in ([a, b], [a, c], [a, b, c], [a, b, c], [a, c]):
        pop_first(queues, timeout=0.01)
    assert [kept.markers[-1] for _, kept in a._waiters._kept] == [c._operations.marker] * 2
    many: list[set[Any]] = []
    for _ in range(2):
        with ExitStack() as stack:  # as many threads that wait at once
            many.append({stack.enter_context(a._waiters.take(("m",))) for _ in range(4)})
    assert many[0] == many[1]


@pytest.mark.parametrize("number", range(3))
@pytest.mark.parametrize("delay", [0, 0.3])
def test_any_queue_wakes(
    three: list[DPQ[Any]], redis: Redis, background: Any, number: int, delay: float
) -> None:
    """A push to any of the queues wakes the waiter, at the moment when the task is due."""
    popped = background(pop_first, three, timeout=LONG)
    wait_for_waiters(redis, 1)  # one connection for all of them
    three[number].push("x", delay=delay)
    queue, task = popped.result(PATIENCE)
    assert (queue, task.payload) == (three[number], "x")
    assert queue.ack(task)


def test_a_dead_waiter_costs_no_lease(three: list[DPQ[Any]], redis: Redis, background: Any) -> None:
    """If the connection of a waiter is cut, no task is leased; the wake-up is not lost for long."""
    popped = background(pop_first, three, timeout=LONG)
    wait_for_waiters(redis, 1)
    [client] = blocked(redis)
    redis.client_kill_filter(_id=client["id"])
    three[1].push("x")
    assert popped.result(PATIENCE)[1].payload == "x"
    assert three[1].stats().popped == 1
