"""`order="min"`: the smallest priority runs first, and each user's number comes back as it was."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from redis import Redis

import dpq
from dpq import DPQ, Filter, Push, Reserve
from dpq.testing import Clock, QueueFactory


@pytest.fixture
def made(redis: Redis, clock: Clock, queue_name: str) -> Iterator[Callable[..., DPQ[Any]]]:
    """Makes clients of queues whose names begin as the test's."""
    with QueueFactory(redis, clock) as factory:
        yield lambda end="", **named: factory(queue_name + end, **named)


def payloads(q: DPQ[Any]) -> list[Any]:
    return [task.payload for task in q.pop_many(1000)]


BIG = 2**60 + 1  # no double holds it, nor its neighbours


def of_bulk(q: DPQ[Any], number: Any) -> Any:
    q.push("not", 5)
    id_ = q.push("x", 7)
    assert [q.admin.count(Filter(least=least, most=9)) for least in (5, 6)] == [2, 1]
    assert q.admin.bulk("update", Filter(least=6), priority=number).done == 1
    return [q.get(id_).priority]


def of_acquire(q: DPQ[Any], number: Any) -> Any:
    """A caller with a small number may take what is kept for small numbers, another may not."""
    q.set_limit(1, 60, 2, reserve=Reserve(1, number), slack=0)
    assert q.admin.limits()[0].windows[0].reserve == Reserve(1, number)
    with q.acquire(timeout=0, priority=2**62):
        pass
    for worse in (number + 1024, 2**62):
        with pytest.raises(dpq.LimitTimeoutError), q.acquire(timeout=0, priority=worse):
            pass
    q.push("x", number + 1024)
    assert q.pop().task is None
    with q.acquire(timeout=0, priority=number):
        return [number]


METHODS = {"bulk": of_bulk, "acquire": of_acquire}
"""What the state machine does not call with the smallest first, and what it makes of a number."""


@pytest.mark.parametrize("number", [5, 0.0, -2.5, BIG], ids=repr)
@pytest.mark.parametrize("name", METHODS)
def test_a_number_goes_through(made: Callable[..., DPQ[Any]], name: str, number: Any) -> None:
    """What a method was given is told again, with its type; and the stored order fits to it."""
    q = made(order="min")
    told = METHODS[name](q, number)
    assert list(map(repr, told)) == [repr(number)] * len(told)
    assert q.check() == []


def test_who_had_the_queue_open_before(made: Callable[..., DPQ[Any]]) -> None:
    """The server decides: a client that knew another order pushes, changes and asks right."""
    owner, stale, late = made(), made(), made()
    stale.push("x", 1)
    late.push("x", 1)
    assert stale.settings.order == late.settings.order == "fifo"
    owner.admin.drop()
    anew = made(order="min")
    anew.push("5", 5, key="k")
    stale.push("4", 4)  # the short way
    stale.push("6", 6, group="g", cost=2)
    stale.push_many([Push("8", 8), Push("-8", -8, delay=0.001)])
    late.update(key="k", priority=7)
    anew.set_limit(1, 60, 9, reserve=Reserve(8, 5), slack=0, group="h")
    with stale.acquire("h", timeout=0):
        pass
    assert anew.check() == []
    task = stale.pop().task
    assert task is not None
    assert task.priority == 4
    stale.release(task, priority=9)
    assert [(task.payload, task.priority) for task in anew.peek(9)] == [
        *(("6", 6), ("5", 7), ("8", 8), ("4", 9))
    ]
