"""`Worker` beside test_worker.py: its threads, interrupts and faults; signals to either worker."""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from kit.awaited import LOOPS
from kit.waiting import wait_for_idle
from kit.workers import (
    PATIENCE,
    Gate,
    Make,
    Start,
    asked,
    raising,
)
from redis import Redis
from support import wait_for

from dpq import DPQ, Context, Push, Task, Tasks, Worker
from dpq.server import Server

engines = pytest.mark.fakeredis


@pytest.fixture
def q(make: Make) -> DPQ[Any]:
    return make()


@engines
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


@engines
def test_a_coroutine_that_comes_late_is_a_failed_attempt(q: DPQ[Any]) -> None:
    """A coroutine that nobody could foresee is not taken for work that is done."""

    async def handle(task: Task[Any]) -> None: ...

    task_id = q.push("b")
    worker = Worker(q, lambda task: (worker.stop(), handle(task))[1])
    worker.run()
    assert "AsyncWorker" in (q.get(task_id).last_error or "")


def test_a_thread_that_sleeps_gets_no_task(
    q: DPQ[Any], redis: Redis, gate: Gate, start: Start
) -> None:
    """A busy thread takes no task for one that waits at the server, and would begin it late."""
    q.push("first")
    start(Worker(q, gate, concurrency=2))
    gate.wait_for(1)
    wait_for_idle(redis)
    trips = asked(q)
    q.pause()
    q.push_many([Push("second"), Push("third")])  # the marker wakes the idle thread, in vain
    wait_for(lambda: ["pop"] in trips, lambda: trips)
    wait_for_idle(redis)
    redis.hdel(f"dpq:{{{q.queue_name}}}:conf", "paused_until")  # ready, and nobody is told
    taken: list[int] = []
    hold = q._leases.hold
    q._leases.hold = lambda *args: (taken.append(1), hold(*args))[1]  # type: ignore[method-assign,func-returns-value]
    gate.open(1)
    gate.wait_for(2)
    assert len(taken) == 1


@engines
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


PROGRAM = """
import asyncio, sys, time
from dpq import DPQ, AsyncDPQ, AsyncWorker, Worker

url, name, kind = sys.argv[1:]

def goes_on(task, context):
    return not (task.payload == "until told" and context.stopping)

def handler(task, context):
    print(task.payload, flush=True)
    while goes_on(task, context):
        time.sleep(0.01)

async def awaited(task, context):
    print(task.payload, flush=True)
    while goes_on(task, context):
        await asyncio.sleep(0.01)

async def main():
    async with AsyncDPQ.from_url(url, name) as q:
        worker = AsyncWorker(q, awaited, concurrency=2, grace=60)
        print("ended", await worker.run(signals=True), worker.given_back, flush=True)

if kind == "threads":
    worker = Worker(DPQ.from_url(url, name), handler, concurrency=2, grace=60)
    print("ended", worker.run(), worker.given_back, flush=True)
elif kind == "uvloop":
    import uvloop
    uvloop.run(main())
else:
    asyncio.run(main())
"""


@pytest.mark.parametrize("kind", ["threads", [*LOOPS][-1]])
@pytest.mark.parametrize("twice", [False, True], ids=["once", "twice"])
def test_signals(server: Server, q: DPQ[Any], kind: str, twice: bool) -> None:
    """The first signal of a process lets handlers finish, in a worker of either kind; a second one
    gives back, uncounted, and the process ends. daemon/test_cli_worker.py has more of both."""
    payload = "for ever" if twice else "until told"
    q.push(payload)
    command = [sys.executable, "-c", PROGRAM, server.url, q.queue_name, kind]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
        try:
            assert child.stdout
            assert child.stdout.readline().strip() == payload
            child.send_signal(signal.SIGINT)
            if twice:
                child.send_signal(signal.SIGTERM)
            said = child.stdout.readline().strip()
            cancelled = int(twice and kind != "threads")  # may count as handled
            assert said in (("ended 0 1", f"ended {cancelled} 1") if twice else ("ended 1 0",))
            assert child.wait(PATIENCE) == 0
        finally:
            child.kill()
    assert (q.stats().acked, q.stats().ready) == ((0, 1) if twice else (1, 0))
    assert not twice or q.pop().task.attempt == 1


def test_signals_are_given_back(q: DPQ[Any]) -> None:
    """After `run` the handlers of signals are those from before; with signals=False always."""
    before = [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)]
    seen: list[bool] = []

    def look(_: Task[Any]) -> None:
        seen.append([signal.getsignal(n) for n in (signal.SIGTERM, signal.SIGINT)] == before)

    for signals in (True, False):
        q.push("a")
        Worker(q, look).run(until_empty=True, signals=signals)
    assert seen == [False, True]
    assert [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)] == before


def test_time_limits_of_the_program_leave_nothing_behind(
    q: DPQ[Any], gate: Gate, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What signal handlers raise in the main thread, also while the worker ends, reaches the caller
    of `run`; what runs and what was fetched ahead goes back, uncounted, and is extended no more."""
    q.push_many(Push(payload=n) for n in range(4))
    worker = Worker(q, gate, concurrency=1, prefetch=3, grace=PATIENCE)
    limits: list[TimeLimit] = []

    def limit(*_: object) -> None:
        limits.append(TimeLimit("the caller's own"))
        raise limits[-1]

    def interrupt() -> None:
        gate.wait_for(1)
        os.kill(os.getpid(), signal.SIGUSR1)
        wait_for(lambda: limits and worker.stopping, lambda: limits)
        os.kill(os.getpid(), signal.SIGUSR1)

    monkeypatch.setattr(worker, "_finish", partial(late, worker._finish, limits))
    before = signal.signal(signal.SIGUSR1, limit)
    interrupter = threading.Thread(target=interrupt)
    interrupter.start()
    try:
        with pytest.raises(TimeLimit) as raised:
            worker.run()
        interrupter.join()
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert raised.value in limits
    stats = q.stats()
    assert (stats.ready, stats.invisible, stats.dead) == (4, 0, 0)
    assert q._leases._held == {}
    assert {task.attempt for task in q.peek(4)} == {1}
    gate.open()


class TimeLimit(Exception):
    """The caller's own time limit, as those of RQ and Celery are."""


def late(finish: Callable[[Any], None], limits: list[Any], threads: Any) -> None:
    """Go on with the end of a worker when the second limit has struck."""
    wait_for(lambda: len(limits) > 1, lambda: limits)
    finish(threads)


def test_a_handler_that_outlives_its_run_disturbs_no_other(
    q: DPQ[Any], gate: Gate, start: Start
) -> None:
    """A handler that was given up ends in the next run of its worker: without a trace there."""
    q.push("stuck")
    before = set(threading.enumerate())
    first, second = Gate(), Gate()
    gates = iter([first, second])
    worker = Worker(q, lambda task: next(gates, gate)(task), grace=0)
    running = start(worker)
    first.wait_for(1)
    worker.stop()
    assert running.result(PATIENCE) == 0

    q.push("other")
    running = start(worker)
    second.wait_for(1)  # the one that was given back
    first.open()
    wait_for(lambda: worker.handled.total() == 1, lambda: worker.handled)
    wait_for(lambda: len(slots(before)) == 1, lambda: slots(before))
    assert gate.begun == []  # still one at a time
    second.open()
    gate.wait_for(1)
    assert not running.done()
    wait_for(lambda: q.stats().acked == 1, q.stats)


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


def test_small_acks_are_gathered(q: DPQ[Any]) -> None:
    """With prefetch a round trip settles, and brings, half as many tasks as may wait."""
    q.push_many(Push(n) for n in range(1000))
    trips = asked(q)
    Worker(q, lambda _: None, prefetch=100).drain()
    assert len(trips) <= 30, trips
    assert q.stats().acked == 1000
