"""`AsyncWorker` keeps the contract of `Worker`, and its own: coroutines, cancellation, its loops.

The first part runs the tests of test_worker.py once more, over `AwaitedWorker`: see kit/awaited.py.
"""

import asyncio
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager, suppress
from contextvars import ContextVar
from pathlib import Path
from typing import Any

import pytest
from kit.awaited import (
    LOOPS,
    RUN_ON,
    AwaitedOfOneClient,
    AwaitedWorker,
    AwaitedWorkerOfAsyncHooks,
    awaited_tests,
    loop_in_a_thread,
    over_asyncio,
)
from kit.workers import PATIENCE, Make, Start, queues, raising, threads_of_workers
from redis import Redis

from dpq import AsyncDPQ, AsyncWorker, Context, Push, Task

Queue = AsyncDPQ[Any]

variable: ContextVar[str] = ContextVar("variable")


# The contract of `Worker`, awaited

HERE = Path(__file__).parent
FACES = {"DPQ": AwaitedOfOneClient}
for name in (
    "heartbeats",
    "worker_told",
    "worker_ends",
    "worker_refused",
    "worker_results",
    "worker",
):
    shared = over_asyncio(HERE / f"test_{name}.py", Worker=AwaitedWorker, **FACES)
    globals().update(awaited_tests(shared, *getattr(shared, "THREADS_ONLY", ())))
q = shared.q

with_async_hooks = over_asyncio(HERE / "test_worker.py", Worker=AwaitedWorkerOfAsyncHooks, **FACES)
test_async_hooks_see_every_task = with_async_hooks.test_hooks_see_every_task


@pytest.fixture(params=RUN_ON)
def loop(request: pytest.FixtureRequest) -> Iterator[None]:
    with loop_in_a_thread(LOOPS[request.param]):
        yield


@pytest.fixture
def make(loop: None, redis: Redis, queue_name: str) -> Iterator[Make]:
    with queues(AwaitedOfOneClient, redis, queue_name) as make:
        yield make


@pytest.fixture
def start(loop: None) -> Iterator[Start]:
    with threads_of_workers() as start:
        yield start


# The own contract of the asyncio face: its tests are coroutine functions


async def until(condition: Callable[[], Any], seen: Callable[[], Any] = lambda: "nothing") -> None:
    """Wait for a named condition, which may be a coroutine function."""
    give_up = time.monotonic() + PATIENCE
    while True:
        met = condition()
        if asyncio.iscoroutine(met):
            met = await met
        if met:
            return
        assert time.monotonic() < give_up, f"after {PATIENCE} s: {seen()}"
        await asyncio.sleep(0.005)


def stats_say(q: Queue, **counts: int) -> Callable[[], Coroutine[Any, Any, bool]]:
    async def look() -> bool:
        stats = await q.stats()
        return all(getattr(stats, name) == count for name, count in counts.items())

    return look


@asynccontextmanager
async def running(worker: AsyncWorker, **options: Any) -> AsyncIterator["asyncio.Task[int]"]:
    """Runs a worker meanwhile; it ends without grace if it has not ended by then."""
    work = asyncio.create_task(worker.run(**options))
    try:
        yield work
    finally:
        if not work.done():
            work.cancel()
        with suppress(asyncio.CancelledError, Exception):
            await work


class Gate:
    """A handler that notes what it gets, and returns when it is opened."""

    def __init__(self) -> None:
        self.begun: list[Any] = []
        self.cancelled: list[Any] = []
        self.attempts: set[int] = set()
        self._opened = asyncio.Semaphore(0)

    async def __call__(self, task: Task[Any]) -> None:
        self.begun.append(task.payload)
        self.attempts.add(task.attempt)
        try:
            await self._opened.acquire()
        except asyncio.CancelledError:
            self.cancelled.append(task.payload)
            raise

    def open(self, times: int = 1000) -> None:
        for _ in range(times):
            self._opened.release()

    async def wait_for(self, count: int) -> None:
        await until(lambda: len(self.begun) >= count, lambda: self.begun)


# Leases


@pytest.mark.parametrize("end", ["cancel", "release"])
async def test_a_cancelled_coroutine_hears_why(queue: Queue, end: str) -> None:
    """CancelledError has the reason: the task was cancelled, or another consumer may have it."""
    heard: list[Any] = []

    async def handler(task: Task[Any], context: Context[Any]) -> None:
        try:
            await asyncio.sleep(PATIENCE)
        except asyncio.CancelledError as error:
            heard.append((str(error), context.reason, context.lost))
            raise

    wanted = await queue.push("a")
    worker = AsyncWorker(queue, handler, visibility=0.3)
    async with running(worker):
        await until(stats_say(queue, invisible=1))
        if end == "cancel":
            await queue.cancel(wanted)
        else:
            assert await queue.admin.release_held(await queue.admin.held()) == 1
        await until(lambda: heard)
        worker.stop()
    said = {
        "cancel": (f"task {wanted} was cancelled", "cancelled", True),
        "release": (f"lease of {wanted} lost", "lease lost", True),
    }
    assert heard[0] == said[end]


# How a handler ends


async def test_a_time_limit_cancels(queue: Queue) -> None:
    """A handler that runs too long is cancelled, and has failed with a TimeoutError."""
    gate = Gate()
    task_id = await queue.push("a")
    worker = AsyncWorker(queue, gate, time_limit=0.1)
    async with running(worker):
        await until(stats_say(queue, delayed=1))
        assert gate.cancelled == ["a"]
        task = await queue.get(task_id)
        assert (task.attempt, task.last_error) == (2, "TimeoutError: ran longer than 0.1 s")
        assert worker.handled == {"TimeoutError": 1}


# Stopping


@pytest.mark.parametrize("how", ["grace", "second", "cancel", "cancel in grace"])
async def test_after_the_grace_tasks_go_back(queue: Queue, how: str) -> None:
    """A grace that is over or cut short, or a cancelled `run`: handlers end, tasks go back."""
    gate = Gate()
    await queue.push_many(Push(n) for n in range(3))
    worker = AsyncWorker(
        queue, gate, concurrency=2, prefetch=1, grace=0.1 if how == "grace" else 1000
    )
    async with running(worker) as work:
        await gate.wait_for(2)
        if how != "cancel":
            worker.stop()
            await until(stats_say(queue, ready=1))
        if how == "second":
            worker.stop()
        elif how.startswith("cancel"):
            work.cancel()
            with pytest.raises(asyncio.CancelledError):
                await work
        if not how.startswith("cancel"):
            assert await work in (0, 2)
    assert worker.given_back == 2
    assert sorted(gate.cancelled) == [0, 1]
    assert [(t.payload, t.attempt) for t in await queue.pop_many(5)] == [(0, 1), (1, 1), (2, 1)]


async def worker_that_handles_one(q: Queue) -> AsyncWorker:
    worker = AsyncWorker(q, lambda _: None)
    await worker.drain()
    return worker


async def test_a_run_that_is_cancelled_at_any_step_loses_nothing(queue: Queue) -> None:
    """Whatever `run` is at, a cancellation gives back all that is not done, at once."""
    handled: list[Any] = []

    async def handler(task: Task[Any]) -> None:
        await asyncio.sleep(0)
        handled.append(task.payload)

    await queue.push_many(Push(n) for n in range(400))
    for steps in range(0, 120, 4):
        worker = AsyncWorker(queue, handler, concurrency=2, prefetch=2)
        work = asyncio.create_task(worker.run())
        for _ in range(steps):
            await asyncio.sleep(0)
        work.cancel()
        with pytest.raises(asyncio.CancelledError):
            await work
        stats = await queue.stats()
        assert stats.invisible == 0
        assert stats.acked == len(handled)
        assert not queue._leases._held
    await worker_that_handles_one(queue)
    stats = await queue.stats()
    assert (stats.acked, stats.failed, stats.expired_leases) == (400, 0, 0)
    assert len(handled) == len(set(handled))


async def test_a_crash_cancels_the_body(queue: Queue, monkeypatch: pytest.MonkeyPatch) -> None:
    """A program whose worker has failed does not go on without it: what it waits for is cancelled,
    and it gets the error; it can await again, as before."""
    monkeypatch.setattr(queue._operations, "pop", raising(RuntimeError("a fault")))
    with pytest.raises(RuntimeError, match="a fault"):
        async with AsyncWorker(queue, lambda _: None).running():
            await asyncio.sleep(PATIENCE)
    this = asyncio.current_task()
    assert this
    assert this.cancelling() == 0
    await asyncio.sleep(0.01)


# Plain functions, and signals


async def test_a_plain_function_runs_in_a_thread(queue: Queue) -> None:
    """It may block: the loop goes on. It keeps its context variables, and hears its time limit.
    While it runs on, no other task begins in its place: it would wait for the thread in vain."""
    loop_thread, gate = threading.get_ident(), threading.Event()
    variable.set("of the program")
    heard: list[Any] = []
    free: list[int] = []

    class Plain(list[Any]):  # it has no hash
        def __call__(self, task: Task[Any], context: Context[Any]) -> int:
            heard.append((threading.get_ident() == loop_thread, variable.get()))
            if task.payload == "stop":
                next(iter(()))  # a StopIteration, which no future takes
            gate.wait(PATIENCE)
            heard.append(context.wait(PATIENCE) and context.reason)
            return 1

    await queue.push("a", time_limit=0.1, max_attempts=1)
    await queue.push("stop", max_attempts=1)
    worker = AsyncWorker(queue, Plain(), after=lambda *_: free.append(worker._runner.free))
    async with running(worker):
        await until(stats_say(queue, dead=1))
        assert ((await queue.stats()).ready, len(worker._held())) == (1, 1)
        gate.set()
        await until(stats_say(queue, dead=2))
    assert list(map(str, heard)) == [str((False, "of the program")), "time limit", str(heard[0])]
    assert free == [0, 0]  # below 0 a step does not wait, so the loop would stand still


PROGRAM = """
import asyncio, os, signal, sys
from dpq import AsyncDPQ, AsyncWorker
async def handle(task):
    os.kill(os.getpid(), getattr(signal, task.payload))
    await asyncio.sleep(0.1)
async def main():
    if sys.argv[2] == "uvicorn":
        signal.signal(signal.SIGTERM, lambda *_: print("uvicorn"))
    async with AsyncDPQ.from_url(sys.argv[1], "signals") as q:
        await q.push(sys.argv[3])
        workers = [AsyncWorker(each, handle) for each in (q, AsyncDPQ(q.redis, "other"))]
        runs = [each.run(until_empty=sys.argv[2] == "uvicorn") for each in workers]
        print(*await asyncio.gather(*runs), "done")
asyncio.run(main())
"""


@pytest.mark.parametrize(
    ("owner", "number", "said"),
    [
        ("nobody", "SIGTERM", "1 0 done"),
        ("nobody", "SIGINT", "1 0 done"),
        ("uvicorn", "SIGTERM", "uvicorn 1 0 done"),
        ("uvicorn", "SIGINT", "1 0 done"),
    ],
)
def test_a_run_takes_the_signals_that_nobody_else_has(owner: str, number: str, said: str) -> None:
    """In a program's own `asyncio.run` they end all runs with their grace; the program goes on."""
    command = [sys.executable, "-Wignore", "-c", PROGRAM, "embedded:", owner, number]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (ended.stdout.split(), ended.returncode) == (said.split(), 0), ended.stderr
