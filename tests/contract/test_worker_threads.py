"""`Worker` beside test_worker.py: its threads, interrupts and faults; signals to either worker."""

import threading
from typing import Any

import pytest
from kit.waiting import wait_for_idle
from kit.workers import (
    PATIENCE,
    Gate,
    Make,
    Start,
    raising,
)
from redis import Redis

from dpq import DPQ, Context, Push, Task, Tasks, Worker
from dpq.link import waiter


@pytest.fixture
def q(make: Make) -> DPQ[Any]:
    return make()


def test_a_registry_of_tasks(q: DPQ[Any]) -> None:
    """A `Tasks` runs its functions; what it does not know, or cannot call, is dead."""
    tasks, seen = Tasks(q), []

    @tasks.task()
    def fetch(url: str, context: Context[Any]) -> None:
        seen.append((url, context.queue is q))

    fetch.push(url="x")
    q.push({"task": "fetch", "args": {"uri": "x"}})
    q.push({"task": "other"})
    assert Worker(q, tasks).drain() == 3
    assert seen == [("x", True)]
    assert len(q.dead.list()) == 2


def test_a_block_outlasts_a_short_wait(q: DPQ[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker opens no block for each wait alone: else it would send one for each near moment."""
    seconds: list[float] = []
    begin = waiter._Block.begin

    def note(block: Any, wait: float) -> None:
        seconds.append(wait)
        begin(block, wait)

    monkeypatch.setattr(waiter._Block, "begin", note)
    q.push("x", delay=0.2)
    Worker(q, lambda task: None).drain()
    if q._session.connections.nodes.direct:
        assert min(seconds) > 1


def test_a_coroutine_that_comes_late_is_a_failed_attempt(q: DPQ[Any]) -> None:
    """A coroutine that nobody could foresee is not taken for work that is done."""

    async def handle(task: Task[Any]) -> None: ...

    task_id = q.push("b")
    worker = Worker(q, lambda task: (worker.stop(), handle(task))[1])
    worker.run()
    assert "AsyncWorker" in (q.get(task_id).last_error or "")


@pytest.mark.parametrize("again", [False, True], ids=["grace", "second"])
def test_after_the_grace_tasks_go_back(q: DPQ[Any], gate: Gate, start: Start, again: bool) -> None:
    """When the grace is over, or cut short, unfinished tasks go back uncounted; `run` returns."""
    q.push_many(Push(n) for n in range(3))
    worker = Worker(q, gate, concurrency=2, prefetch=1, grace=1000 if again else 0.1)
    running = start(worker)
    gate.wait_for(2)
    worker.stop()
    if again:
        worker.stop()
    assert running.result(PATIENCE) == 0
    assert worker.given_back == 2
    assert [(t.payload, t.attempt) for t in q.pop_many(5)] == [(0, 1), (1, 1), (2, 1)]
    gate.open()
    assert q.stats().acked == 0


def slots(before: set[threading.Thread]) -> list[str]:
    """The threads of handlers that live and were not there before."""
    names = [thread.name for thread in set(threading.enumerate()) - before]
    return [name for name in names if name.startswith("dpq-") and name[4:].isdigit()]


def test_nothing_is_left_behind(q: DPQ[Any], redis: Redis) -> None:
    """After `run` no thread of it lives, and no connection more than before is open."""
    worker = Worker(q, lambda _: None, concurrency=4, prefetch=4, time_limit=5)
    seen = []
    before = set(threading.enumerate())
    q.push(0)
    open_before = len(redis.client_list())  # ours, and those that tests before this one have left
    for _ in range(4):
        q.push_many(Push(n) for n in range(50))
        worker.drain()
        threads = {t.name for t in set(threading.enumerate()) - before}
        assert {name for name in threads if name.startswith("dpq")} <= {"dpq-leases"}
        wait_for_idle(redis, 0)
        seen.append(len(redis.client_list()))
    assert max(seen) <= open_before + 1 + 5  # the waiter's, and what slots and keeper use at once


def test_a_fault_of_the_loop_is_raised(
    q: DPQ[Any], gate: Gate, monkeypatch: pytest.MonkeyPatch, start: Start
) -> None:
    """What no handler has raised ends `run`, and what is held goes back."""
    q.push_many(Push(n) for n in range(4))
    running = start(Worker(q, gate, concurrency=2, prefetch=2, grace=0.1))
    gate.wait_for(2)
    monkeypatch.setattr(q._operations, "pop", raising(RuntimeError("a fault")))
    gate.open(1)
    with pytest.raises(RuntimeError, match="a fault"):
        running.result(PATIENCE)
    assert (q.stats().acked, q.stats().invisible) == (1, 0)
