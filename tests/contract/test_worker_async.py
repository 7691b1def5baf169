"""`AsyncWorker`: what it promises to handlers, to other consumers, and to the server."""

import asyncio
import importlib.util
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager, suppress
from typing import Any

import fakeredis
import pytest
from redis import Redis
from redis import asyncio as aio
from redis.exceptions import ConnectionError as RedisConnectionError
from support import address_of

from dpq import (
    DPQ,
    AsyncDPQ,
    AsyncWorker,
    Backoff,
    ConfigurationError,
    Context,
    Push,
    RateLimited,
    Reject,
    Release,
    Retry,
    Task,
    Tasks,
)
from dpq.server import Server
from dpq.transport import waiter
from dpq.worker import worker_async

PATIENCE = 120.0  # seconds until a test gives up
LATE = 3.0  # seconds: more than anything here takes, less than a wake-up that was lost costs

LOOPS: dict[str, Callable[[], asyncio.AbstractEventLoop]] = {"asyncio": asyncio.new_event_loop}
if importlib.util.find_spec("uvloop"):  # not on Windows
    import uvloop

    LOOPS["uvloop"] = uvloop.new_event_loop

engines = pytest.mark.fakeredis

Queue = AsyncDPQ[Any]
Scene = Callable[..., Coroutine[Any, Any, Any]]


@pytest.fixture(params=LOOPS)
def play(request: pytest.FixtureRequest, redis: Redis, queue_name: str) -> Callable[..., Any]:
    """Plays a scene, `async def scene(q)`, in an event loop that is closed at the end.

    A scene of several queues has as many parameters; options are those of the queues.
    """

    def run(scene: Scene, **options: Any) -> Any:
        count = scene.__code__.co_argcount

        async def whole() -> Any:
            client = client_of(redis)
            options.setdefault("backoff", Backoff(jitter=0))
            names = [queue_name, *(f"{queue_name}-{n}" for n in range(2, count + 1))][:count]
            queues: list[Queue] = [AsyncDPQ(client, name, **options) for name in names]
            try:
                return await scene(*queues)
            finally:
                for queue in queues:
                    await queue.drop()
                    await queue.close()
                await client.aclose()

        with asyncio.Runner(loop_factory=LOOPS[request.param]) as runner:
            return runner.run(asyncio.wait_for(whole(), 3 * PATIENCE))

    return run


def client_of(redis: Redis, **options: Any) -> Any:
    settings = redis.connection_pool.connection_kwargs
    if isinstance(redis, fakeredis.FakeRedis):
        return fakeredis.FakeAsyncRedis(host=settings["host"])
    return aio.Redis(**address_of(redis), **{"socket_timeout": 5, **options})


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


def blocked(redis: Redis) -> list[dict[str, Any]]:
    return [c for c in redis.client_list() if c["cmd"] == "bzpopmin" and "b" in c["flags"]]


async def idle(redis: Redis, count: int = 1) -> None:
    if type(redis) is Redis:
        await until(lambda: len(blocked(redis)) == count, lambda: blocked(redis))


# Handlers


@engines
def test_every_task_is_handled_once(play: Any) -> None:
    """Coroutine functions and plain ones, with the context or without; `run` counts them."""

    async def scene(q: Queue) -> None:
        seen: list[Any] = []

        async def one(task: Task[Any]) -> None:
            await asyncio.sleep(0)
            seen.append(task.payload)

        async def two(task: Task[Any], context: Context[Queue]) -> None:
            seen.append(task.payload)
            assert context.task is task
            assert context.queue is q
            assert not context.lost
            assert not context.stopping

        for handler in (one, two, lambda task: seen.append(task.payload)):
            seen.clear()
            await q.push_many(Push(n) for n in range(20))
            worker = AsyncWorker(q, handler, concurrency=5)
            assert await worker.drain() == 20
            assert sorted(seen) == list(range(20))
            assert worker.handled == {"done": 20}
        assert (await q.stats()).acked == 60

    play(scene)


@engines
def test_handlers_by_name(play: Any) -> None:
    """A mapping of names, or a `Tasks`; a task that names none is dead, with the reason."""

    async def scene(q: Queue) -> None:
        tasks = Tasks(q)
        seen: list[Any] = []

        @tasks.task()
        async def fetch(url: str, context: Context[Any]) -> None:
            seen.append((url, context.queue is q))

        async def by_name(task: Task[Any]) -> None:
            seen.append(task.payload["args"]["url"])

        for handlers in (tasks, {"fetch": by_name}):
            await fetch.push(url="x")
            await q.push({"task": "other"})
            await q.push({"task": ["fetch"]})
            await AsyncWorker(q, handlers).drain()
        assert seen == [("x", True), "x"]
        reasons = [dead.reason for dead in await q.dead.list()]
        assert reasons.count("unknown task 'other'") == 2
        assert len(reasons) == 4

    play(scene)


# Several queues


@pytest.mark.parametrize(
    ("options", "order"),
    [
        ({}, "aaaaabbbbb"),
        ({"order": "round_robin"}, "ababababab"),
        ({"weighted": True}, "aabaaabbbb"),
    ],
    ids=["strict", "round_robin", "weights"],
)
def test_orders_of_queues(play: Any, options: dict[str, Any], order: str) -> None:
    """Strict, in turn, or three looks at one for each at the other."""

    async def scene(a: Queue, b: Queue) -> None:
        for queue, name in ((a, "a"), (b, "b")):
            await queue.push_many(Push(name) for _ in range(5))
        seen: list[str] = []
        queues: Any = {a: 3, b: 1} if options.get("weighted") else [a, b]
        turns = {"order": options["order"]} if "order" in options else {}
        await AsyncWorker(queues, lambda task: seen.append(task.payload), **turns).drain()
        assert "".join(seen) == order

    play(scene)


# How much it holds


@engines
@pytest.mark.parametrize("prefetch", [0, 1, 4])
def test_it_holds_what_it_runs(play: Any, prefetch: int) -> None:
    """As many tasks are leased as handlers run, and `prefetch` more."""

    async def scene(q: Queue) -> None:
        gate = Gate()
        await q.push_many(Push(n) for n in range(20))
        async with running(AsyncWorker(q, gate, concurrency=3, prefetch=prefetch)):
            await gate.wait_for(3)
            assert (await q.stats()).invisible == 3 + prefetch
            for n in range(3):
                gate.open(1)
                await gate.wait_for(4 + n)
                assert (await q.stats()).invisible <= 3 + prefetch + 1  # one is not acked yet
            await until(lambda: stats_say(q, acked=3)())
            gate.open()
            await until(stats_say(q, acked=20))

    play(scene)


@engines
@pytest.mark.parametrize("prefetch", [0, 6])
def test_no_more_handlers_run_than_may(play: Any, prefetch: int) -> None:
    """At most `concurrency` handlers run at once, however many tasks are there to be run."""
    running, seen = 0, []

    async def handler(task: Task[Any]) -> None:
        nonlocal running
        running += 1
        seen.append(running)
        for _ in range(task.payload % 3 + 1):
            await asyncio.sleep(0)
        running -= 1

    async def scene(q: Queue) -> None:
        await q.push_many(Push(n) for n in range(30))
        await AsyncWorker(q, handler, concurrency=3, prefetch=prefetch).drain()

    play(scene)
    assert len(seen) == 30
    assert max(seen) == 3


@engines
def test_prefetched_tasks_go_back_uncounted(play: Any) -> None:
    """What has not begun at a stop is as it was: the same order, the same attempt."""

    async def scene(q: Queue) -> None:
        gate = Gate()
        await q.push_many(Push(n, priority=-(n // 3)) for n in range(8))
        worker = AsyncWorker(q, gate, prefetch=5)
        async with running(worker) as work:
            await gate.wait_for(1)
            worker.stop()
            await until(stats_say(q, ready=7))
            gate.open()
            assert await work == 1
        tasks = await q.pop_many(10)
        assert [(task.payload, task.attempt) for task in tasks] == [(n, 1) for n in range(1, 8)]

    play(scene)


# Leases


@pytest.mark.many_calls
@engines
@pytest.mark.parametrize("concurrency", [10, 1], ids=["running", "prefetched"])
def test_leases_are_extended_in_batches(play: Any, concurrency: int) -> None:
    """A task may run, or wait to, for many times its lease: few calls for all keep it."""

    async def scene(q: Queue) -> None:
        gate, calls, seen = Gate(), [], []
        extend = q._leases._extend

        def extended(leases: Any) -> Any:
            calls.append(len(leases))
            return extend(leases)

        q._leases._extend = extended  # type: ignore[method-assign]
        await q.push_many(Push(n) for n in range(10))
        began = time.monotonic()
        worker = AsyncWorker(
            q, gate, concurrency=concurrency, prefetch=10 - concurrency, visibility=0.6
        )
        async with running(worker):

            async def over() -> bool:
                seen.append((await q.pop()).task)
                return sum(calls) >= 80  # eight rounds of ten: more than two leases long

            await until(stats_say(q, invisible=10))
            await until(over, lambda: calls)
            assert set(seen) == {None}
            assert len(calls) <= (time.monotonic() - began) / 0.1 + 4
            gate.open()
            await until(stats_say(q, acked=10))
            assert gate.attempts == {1}

    play(scene)


@engines
def test_a_lost_lease_cancels_its_handler(play: Any) -> None:
    """Within a third of the lease the handler is cancelled; the worker goes on."""

    async def scene(q: Queue) -> None:
        contexts: list[Context[Any]] = []
        gate = Gate()

        async def handler(task: Task[Any], context: Context[Any]) -> None:
            contexts.append(context)
            await gate(task)

        first = await q.push("a")
        worker = AsyncWorker(q, handler, visibility=0.3)
        async with running(worker):
            await gate.wait_for(1)
            await q.cancel(first)
            await until(lambda: gate.cancelled == ["a"])
            assert contexts[0].lost
            await q.push("b")
            gate.open(1)
            await until(stats_say(q, acked=1))
            assert worker.handled == {"CancelledError": 1, "done": 1}

    play(scene)


# Round trips


def scripts_of(q: Queue) -> list[list[str]]:
    trips: list[list[str]] = []
    call_all = q._link.call_all

    def noted(commands: Any) -> Any:
        names = [command.script.name for command in commands]
        if not {"beat", "stats"} & set(names):
            trips.append(names)
        return call_all(commands)

    q._link.call_all = noted  # type: ignore[method-assign]
    return trips


def test_an_ack_and_the_next_pop_travel_together(play: Any) -> None:
    """One round trip settles what was done and brings what comes next, for all handlers."""

    async def scene(q: Queue) -> None:
        await q.push_many(Push(n) for n in range(10))
        trips = scripts_of(q)
        await AsyncWorker(q, lambda _: None).drain()
        assert trips == [["pop"], *[["ack", "pop"]] * 10]

        trips.clear()
        await q.push_many(Push(n) for n in range(1000))
        await AsyncWorker(q, lambda _: None, concurrency=100).drain()
        assert len(trips) < 80, trips

    play(scene)


def test_acks_of_busy_handlers_are_gathered(play: Any) -> None:
    """A finished task is acked although the other handlers last, and nothing can be taken."""

    async def scene(q: Queue) -> None:
        gate = Gate()
        await q.push_many(Push(n) for n in range(4))
        async with running(AsyncWorker(q, gate, prefetch=10)):
            for n in range(4):
                gate.open(1)
                await until(stats_say(q, acked=n + 1))

    play(scene)


# How a handler ends


async def run_once(q: Queue, error: BaseException, **options: Any) -> AsyncWorker:
    """Handle one task, which raises."""

    async def handler(task: Task[Any]) -> None:
        worker.stop()
        raise error

    worker = AsyncWorker(q, handler, **options)
    await worker.run()
    return worker


@engines
def test_how_a_handler_ends_says_what_becomes_of_its_task(play: Any) -> None:
    """An error, `Retry`, `RateLimited`, `Reject`: as in `lease()`."""

    async def scene(q: Queue) -> None:
        failed = await q.push("a", priority=9)
        assert (await run_once(q, ValueError("no such page"))).handled == {"ValueError": 1}
        task = await q.get(failed)
        assert (task.attempt, task.last_error) == (2, "ValueError: no such page")

        again = await q.push("b", priority=8)
        await run_once(q, Retry(50, reason="not yet"))
        task = await q.get(again)
        assert (task.attempt, task.last_error) == (2, "not yet")

        back = await q.push("b", priority=8)
        await run_once(q, Release(50))
        task = await q.get(back)
        assert (task.attempt, task.deferrals, task.last_error) == (1, 0, None)

        limited = await q.push("c", priority=7, group="g")
        await run_once(q, RateLimited(100))
        task = await q.get(limited)
        assert (task.attempt, task.deferrals) == (1, 1)
        assert not (await q.group("g")).open

        await q.push("d", priority=6)
        await run_once(q, Reject("gone for good"))
        assert [dead.reason for dead in await q.dead.list()] == ["gone for good"]

    play(scene, backoff=Backoff(base=100, jitter=0))


class Unspeakable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no words")


@engines
@pytest.mark.parametrize(
    "error", [SystemExit(3), KeyboardInterrupt(), asyncio.CancelledError()], ids=repr
)
def test_what_breaks_a_handler_off_is_a_failed_attempt(play: Any, error: BaseException) -> None:
    """Given back uncounted, its task would come again and again; the worker goes on."""

    async def scene(q: Queue) -> None:
        await q.push("a")
        attempts: list[tuple[int, int]] = []

        async def handler(task: Task[Any]) -> None:
            attempts.append((task.attempt, task.deliveries))
            if len(attempts) == 1:
                raise error

        assert await AsyncWorker(q, handler).drain() == 2
        assert attempts == [(1, 1), (2, 2)]

    play(scene, backoff=Backoff(base=0.01, jitter=0))


@engines
def test_an_error_without_words_is_a_failed_attempt(play: Any) -> None:
    """An error whose text cannot be had fails its task and nothing else."""

    async def scene(q: Queue) -> None:
        task_id = await q.push("a")
        await run_once(q, Unspeakable())
        assert "Unspeakable" in ((await q.get(task_id)).last_error or "")

    play(scene)


@engines
@pytest.mark.parametrize("error", [None, ValueError("too late")], ids=["clean", "error"])
def test_a_handler_that_settles_has_the_last_word(play: Any, error: Exception | None) -> None:
    """What the handler itself has said of its task stands, however the handler ends."""

    async def scene(q: Queue) -> None:
        await q.push("a")

        async def handler(task: Task[Any], context: Context[Queue]) -> None:
            worker.stop()
            await context.queue.fail(task, "mine", delay=100)
            if error:
                raise error

        worker = AsyncWorker(q, handler)
        await worker.run()
        (task,) = await q.peek(state="delayed")
        assert (task.attempt, task.last_error) == (2, "mine")

    play(scene)


@engines
def test_a_time_limit_cancels(play: Any) -> None:
    """A handler that runs too long is cancelled, and has failed with a TimeoutError."""

    async def scene(q: Queue) -> None:
        gate = Gate()
        task_id = await q.push("a")
        worker = AsyncWorker(q, gate, time_limit=0.1)
        async with running(worker):
            await until(stats_say(q, delayed=1))
            assert gate.cancelled == ["a"]
            task = await q.get(task_id)
            assert (task.attempt, task.last_error) == (2, "TimeoutError: ran longer than 0.1 s")
            assert worker.handled == {"TimeoutError": 1}

    play(scene)


@engines
@pytest.mark.parametrize("limit", [None, 100])
def test_a_timeout_of_the_handlers_own_is_its_own(play: Any, limit: float | None) -> None:
    """A bare TimeoutError that the handler raises is not taken for the worker's limit."""

    async def scene(q: Queue) -> None:
        task_id = await q.push("a")
        await run_once(q, TimeoutError(), time_limit=limit)
        assert (await q.get(task_id)).last_error == "TimeoutError: "

    play(scene)


def test_a_handler_that_cancels_itself_is_given_back(play: Any) -> None:
    """A cancellation that strikes only after the handler, in a hook, loses no task."""

    async def scene(q: Queue) -> None:
        await q.push("a")

        async def handler(task: Task[Any]) -> None:
            worker.stop()
            current = asyncio.current_task()
            assert current
            current.cancel()

        async def after(*_: Any) -> None:
            await asyncio.sleep(0)

        worker = AsyncWorker(q, handler, after=after)
        await worker.run()
        assert not q._leases._held
        assert (await q.stats()).invisible == 0

    play(scene)


# Stopping


@engines
def test_a_stop_waits_for_handlers(play: Any) -> None:
    """After `stop` no task is taken; what ends is acked at once, and `run` returns with all."""

    async def scene(q: Queue) -> None:
        gate = Gate()
        await q.push_many(Push(n) for n in range(5))
        worker = AsyncWorker(q, gate, concurrency=2)
        async with running(worker) as work:
            await gate.wait_for(2)
            worker.stop()
            gate.open(1)
            await until(stats_say(q, acked=1))
            assert not work.done()
            gate.open(1)
            assert await work == 2
        stats = await q.stats()
        assert (stats.acked, stats.ready, stats.invisible) == (2, 3, 0)
        assert worker.given_back == 0

    play(scene)


@engines
@pytest.mark.parametrize("how", ["grace", "second", "cancel", "cancel in grace"])
def test_after_the_grace_tasks_go_back(play: Any, how: str) -> None:
    """A grace that is over or cut short, or a cancelled `run`: handlers end, tasks go back."""

    async def scene(q: Queue) -> None:
        gate = Gate()
        await q.push_many(Push(n) for n in range(3))
        worker = AsyncWorker(
            q, gate, concurrency=2, prefetch=1, grace=0.1 if how == "grace" else 1000
        )
        async with running(worker) as work:
            await gate.wait_for(2)
            if how != "cancel":
                worker.stop()
                await until(stats_say(q, ready=1))
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
        assert [(t.payload, t.attempt) for t in await q.pop_many(5)] == [(0, 1), (1, 1), (2, 1)]

    play(scene)


def test_who_has_settled_its_task_is_not_given_back(play: Any) -> None:
    """A handler that acks its task and goes on is cancelled after the grace, and not counted."""

    async def scene(q: Queue) -> None:
        gate = Gate()

        async def handler(task: Task[Any]) -> None:
            await q.ack(task)
            await gate(task)

        await q.push("a")
        worker = AsyncWorker(q, handler, grace=0)
        async with running(worker) as work:
            await gate.wait_for(1)
            worker.stop()
            await work
        assert gate.cancelled == ["a"]
        assert worker.given_back == 0
        assert (await q.stats()).acked == 1

    play(scene)


def test_a_handler_that_will_not_end_holds_nothing_up(
    play: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A handler that is deaf to its cancellation costs a moment; its task goes back."""
    monkeypatch.setattr(worker_async, "LEAVE_SECONDS", 0.1)

    async def scene(q: Queue) -> None:
        deaf = asyncio.Event()
        begun = asyncio.Event()

        async def handler(task: Task[Any]) -> None:
            begun.set()
            while not deaf.is_set():
                with suppress(asyncio.CancelledError):
                    await deaf.wait()

        await q.push("a")
        worker = AsyncWorker(q, handler, grace=0)
        work = asyncio.create_task(worker.run())
        await begun.wait()
        worker.stop()
        assert await asyncio.wait_for(work, PATIENCE) == 0
        assert (await q.stats()).ready == 1
        assert (await worker_that_handles_one(q)).handled == {"done": 1}
        deaf.set()
        await until(lambda: worker.handled.total() == 1)

    play(scene)


async def worker_that_handles_one(q: Queue) -> AsyncWorker:
    worker = AsyncWorker(q, lambda _: None)
    await worker.drain()
    return worker


@pytest.mark.many_calls
@engines
def test_a_run_that_is_cancelled_at_any_step_loses_nothing(play: Any) -> None:
    """Whatever `run` is at, a cancellation gives back all that is not done, at once."""

    async def scene(q: Queue) -> None:
        handled: list[Any] = []

        async def handler(task: Task[Any]) -> None:
            await asyncio.sleep(0)
            handled.append(task.payload)

        await q.push_many(Push(n) for n in range(400))
        for steps in range(0, 120, 4):
            worker = AsyncWorker(q, handler, concurrency=2, prefetch=2)
            work = asyncio.create_task(worker.run())
            for _ in range(steps):
                await asyncio.sleep(0)
            work.cancel()
            with pytest.raises(asyncio.CancelledError):
                await work
            stats = await q.stats()
            assert stats.invisible == 0
            assert stats.acked == len(handled)
            assert not q._leases._held
        await worker_that_handles_one(q)
        stats = await q.stats()
        assert (stats.acked, stats.failed, stats.expired_leases) == (400, 0, 0)
        assert len(handled) == len(set(handled))

    play(scene)


@engines
def test_a_stop_before_the_run_is_not_lost(play: Any) -> None:
    """Who stops a worker whose `run` has not begun yet ends that run; the next one works."""

    async def scene(q: Queue) -> None:
        await q.push("a")
        worker = AsyncWorker(q, lambda _: None)
        worker.stop()
        assert await worker.run() == 0
        assert await worker.drain() == 1

    play(scene)


PROGRAM = """
import asyncio, sys
from redis.asyncio import Redis
from dpq import AsyncDPQ, AsyncWorker

async def handler(task, context):
    print(task.payload, flush=True)
    while not (task.payload == "until told" and context.stopping):
        await asyncio.sleep(0.01)

async def main():
    q = AsyncDPQ(Redis.from_url(sys.argv[1]), sys.argv[2])
    worker = AsyncWorker(q, handler, concurrency=2, grace=60)
    print("ended", await worker.run(), worker.given_back, flush=True)
    await q.close()
    await q.redis.aclose()

if sys.argv[3] == "uvloop":
    import uvloop
    uvloop.run(main())
else:
    asyncio.run(main())
"""


@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.parametrize("twice", [False, True], ids=["once", "twice"])
def test_signals(server: Server, redis: Redis, queue_name: str, loop: str, twice: bool) -> None:
    """The first signal of a process lets handlers finish; a second one gives back."""
    q: DPQ[Any] = DPQ(redis, queue_name)
    payload = "for ever" if twice else "until told"
    q.push(payload)
    command = [sys.executable, "-c", PROGRAM, server.url, queue_name, loop]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
        try:
            assert child.stdout
            assert child.stdout.readline().strip() == payload
            child.send_signal(signal.SIGINT)
            if twice:
                child.send_signal(signal.SIGTERM)
            said = child.stdout.readline().strip()
            assert said in (("ended 0 1", "ended 1 1") if twice else ("ended 1 0",))
            assert child.wait(PATIENCE) == 0
        finally:
            child.kill()
    assert (q.stats().acked, q.stats().ready) == ((0, 1) if twice else (1, 0))
    q.close()


def test_signals_are_given_back(play: Any) -> None:
    """After `run` the handlers of signals are those from before."""

    async def scene(q: Queue) -> None:
        numbers = (signal.SIGTERM, signal.SIGINT)
        before = [signal.getsignal(number) for number in numbers]
        seen: list[Any] = []
        for signals in (True, False):
            await q.push("a")
            worker = AsyncWorker(q, lambda _: seen.append([signal.getsignal(n) for n in numbers]))
            await worker.run(until_empty=True, signals=signals)
        assert (seen[0] != before, seen[1] == before) == (True, True)
        assert [signal.getsignal(number) for number in numbers] == before

    play(scene)


# Draining


@engines
def test_drain_waits_for_all_that_lives(play: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Delayed tasks, failing ones, and those that run elsewhere, are waited for."""
    monkeypatch.setattr(worker_async, "RECHECK_SECONDS", 0.1)
    monkeypatch.setattr(waiter, "RECHECK_SECONDS", 0.1)

    async def scene(q: Queue) -> None:
        seen: Counter[str] = Counter()

        async def handler(task: Task[Any]) -> None:
            seen[task.payload] += 1
            if task.payload == "fails":
                raise ValueError

        await q.push("elsewhere")
        other = (await q.pop(visibility=600)).task
        await q.push("delayed", delay=0.2)
        await q.push("fails")
        async with running(AsyncWorker(q, handler, concurrency=2), until_empty=True) as work:
            await until(stats_say(q, acked=1, dead=1))
            assert not work.done()
            assert other
            await q.ack(other)
            await work
        assert seen == {"delayed": 1, "fails": 3}

    play(scene, backoff=Backoff(base=0.05, jitter=0), default_max_attempts=3)


def test_drain_ends_with_the_last_task(play: Any, redis: Redis) -> None:
    """Nothing is waited for once the last handler has ended."""

    async def scene(q: Queue) -> None:
        gate = Gate()
        await q.push("a")
        async with running(AsyncWorker(q, gate, concurrency=2), until_empty=True) as work:
            await gate.wait_for(1)
            await idle(redis)
            began = time.monotonic()
            gate.open()
            assert await work == 1
            assert time.monotonic() - began < LATE

    play(scene)


# Hooks


@engines
@pytest.mark.parametrize("awaited", [False, True], ids=["plain", "async"])
def test_hooks_see_every_task(play: Any, awaited: bool) -> None:
    """`before`, `after` with the error, and `on_error` for what failed; not for a 429."""

    async def scene(q: Queue) -> None:
        seen: list[Any] = []
        errors = {"bad": Reject("no"), "limit": RateLimited(0, scope="task")}
        bad, limit = errors["bad"], errors["limit"]

        async def handler(task: Task[Any]) -> None:
            if task.payload["n"] in errors:
                raise errors.pop(task.payload["n"])

        def note(name: str) -> Callable[..., Any]:
            def plain(context: Context[Any], *error: Any) -> None:
                seen.append((name, context.task.payload["n"], *error))

            async def hook(context: Context[Any], *error: Any) -> None:
                await asyncio.sleep(0)
                plain(context, *error)

            return hook if awaited else plain

        for n in ("good", "bad", "limit"):
            await q.push({"task": "a", "n": n})
        await q.push({"task": "b", "n": "unknown"})
        await AsyncWorker(
            q, {"a": handler}, before=note("before"), after=note("after"), on_error=note("error")
        ).drain()
        assert seen[:6] == [
            ("before", "good"),
            ("after", "good", None),
            ("before", "bad"),
            ("error", "bad", bad),
            ("after", "bad", bad),
            ("before", "limit"),
        ]
        assert ("after", "limit", limit) in seen
        assert ("error", "limit", limit) not in seen
        unknown = [each[0] for each in seen if each[1] == "unknown"]
        assert unknown == ["before", "error", "after"]

    play(scene)


@engines
@pytest.mark.parametrize("awaited", [False, True], ids=["plain", "async"])
@pytest.mark.parametrize("error", [ValueError("hook"), SystemExit(1)], ids=repr)
def test_hooks_that_raise_change_nothing(
    play: Any, error: BaseException, awaited: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """What a hook raises is logged; the task is settled as its handler ended."""

    def plain(*_: Any) -> None:
        raise error

    async def hook(*_: Any) -> None:
        raise error

    async def scene(q: Queue) -> None:
        await q.push("good")
        await q.push("bad", max_attempts=1)

        async def handler(task: Task[Any]) -> None:
            if task.payload == "bad":
                raise ValueError

        used = hook if awaited else plain
        await AsyncWorker(q, handler, before=used, after=used, on_error=used).drain()
        stats = await q.stats()
        assert (stats.acked, stats.dead) == (1, 1)

    play(scene)
    assert caplog.text.count("a hook failed") == 5


# Again, and for long


@engines
def test_a_worker_may_run_again(play: Any) -> None:
    """Each run works off what is there; the count goes on."""

    async def scene(q: Queue) -> None:
        worker = AsyncWorker(q, lambda _: None, concurrency=2, prefetch=2)
        for count in (3, 6):
            await q.push_many(Push(n) for n in range(3))
            assert await worker.drain() == count

    play(scene)


def test_nothing_is_left_behind(play: Any, redis: Redis) -> None:
    """After `run` no task of the loop is left, and no connection more than before is open."""

    async def scene(q: Queue) -> None:
        worker = AsyncWorker(q, lambda _: None, concurrency=4, prefetch=4, time_limit=5)
        seen = []
        for _ in range(3):
            await q.push_many(Push(n) for n in range(50))
            await worker.drain()
            await q._leases.aclose()
            names = {task.get_name() for task in asyncio.all_tasks()} - {"dpq-calls", "dpq-replies"}
            seen.append((len(names), len(redis.client_list())))
        assert seen[0] == seen[1] == seen[2]

    play(scene)


# Idle


def test_an_idle_worker_asks_nothing(
    play: Any, redis: Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At empty queues a worker sends less than a command a second, and a push wakes it."""
    monkeypatch.setattr(waiter, "RECHECK_SECONDS", 60.0)  # else one falls into the 2 s, or not

    async def scene(a: Queue, b: Queue) -> None:
        gate = Gate()
        gate.open()
        async with running(AsyncWorker([a, b], gate, concurrency=4)):
            await idle(redis)
            await until(b.workers)
            sent: list[Any] = []  # by these queues: others may be left from other tests
            for queue in (a, b):
                call_all = queue._link.call_all
                monkeypatch.setattr(
                    queue._link,
                    "call_all",
                    lambda c, call_all=call_all: (sent.append(c), call_all(c))[1],
                )
            over = time.monotonic() + 2
            await until(lambda: time.monotonic() > over)
            assert len(sent) <= 2, sent
            for queue in (b, a, b):
                before = len(gate.begun)
                began = time.monotonic()
                await queue.push("a")
                await gate.wait_for(before + 1)
                assert time.monotonic() - began < 20

    play(scene)


@pytest.mark.parametrize("order", ["strict", "round_robin"])
def test_workers_hand_wake_ups_on(
    play: Any, redis: Redis, order: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worker that is kept busy by one queue swallows no wake-up of the other one."""
    for module in (waiter, worker_async):
        monkeypatch.setattr(module, "RECHECK_SECONDS", 60.0)

    async def scene(a: Queue, b: Queue) -> None:
        busy, free = Gate(), Gate()
        async with running(AsyncWorker([a, b], busy, order=order)):
            await idle(redis)
            mine = blocked(redis)[0]["id"]
            async with running(AsyncWorker([b], free)):
                await idle(redis, 2)
                await a.push("a")
                await busy.wait_for(1)
                await until(lambda: mine not in [c["id"] for c in blocked(redis)])
                for n in range(3):
                    began = time.monotonic()
                    await b.push(n)
                    await free.wait_for(n + 1)
                    free.open(1)
                    assert time.monotonic() - began < LATE

    play(scene)


# Faults


def test_contradicting_settings_raise(play: Any, redis: Redis) -> None:
    """A setting that the server contradicts raises from `run`."""

    async def scene(q: Queue) -> None:
        await q.push("a")
        other: Queue = AsyncDPQ(q.redis, q.queue_name, order="lifo")
        with pytest.raises(ConfigurationError, match="order"):
            await AsyncWorker(other, print).run()
        await other.close()

    play(scene, order="fifo")


def test_a_server_that_is_away_at_the_start_raises(queue_name: str) -> None:
    """`run` raises when it cannot reach the server at all: nobody has heard of it yet."""

    async def scene() -> None:
        client = aio.Redis(unix_socket_path="/nonexistent/dpq.sock", retry=None)
        q: Queue = AsyncDPQ(client, queue_name)
        with pytest.raises(RedisConnectionError, match="cannot reach"):
            await AsyncWorker(q, print).run()
        await q.close()
        await client.aclose()

    asyncio.run(scene())


def test_a_fault_of_the_loop_is_raised(play: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """What no handler has raised ends `run`; what was taken before it goes back."""

    async def scene(a: Queue, b: Queue) -> None:
        gate = Gate()
        await a.push_many(Push(n) for n in range(2))
        worker = AsyncWorker([a, b], gate, concurrency=3)

        def fault(*_: Any) -> Any:
            raise RuntimeError("a fault")

        monkeypatch.setattr(b._commands, "pop", fault)
        with pytest.raises(RuntimeError, match="a fault"):
            await worker.run()
        stats = await a.stats()
        assert (stats.ready, stats.invisible) == (2, 0)
        assert not a._leases._held

    play(scene)


def test_killed_connections_cost_nothing(play: Any, redis: Redis) -> None:
    """CLIENT KILL of everything, idle and busy: each task is handled, and acked once."""

    def kill_all() -> None:
        mine = redis.client_id()
        for client in redis.client_list():
            if int(client["id"]) != mine:
                redis.client_kill_filter(_id=client["id"])

    async def scene(q: Queue) -> None:
        gate = Gate()
        async with running(AsyncWorker(q, gate, concurrency=2)):
            for n in range(4):
                await idle(redis)
                kill_all()
                await q.push(n)
                await gate.wait_for(n + 1)
                kill_all()
                gate.open(1)
            await until(stats_say(q, acked=4))
            assert gate.begun == [0, 1, 2, 3]

    play(scene)


@pytest.fixture
def directory() -> Iterator[str]:
    path = tempfile.mkdtemp(prefix="dpq-")
    yield path
    shutil.rmtree(path, ignore_errors=True)


@pytest.mark.parametrize("loop", LOOPS)
def test_a_worker_outlives_a_restart_of_the_server(
    server: Server, queue_name: str, directory: str, loop: str
) -> None:
    """The server dies under a worker and comes back with its data: it goes on by itself."""

    async def scene() -> None:
        gate = Gate()
        with Server.join(directory, server.binary) as first:
            client = aio.Redis(unix_socket_path=first.url.removeprefix("unix://").split("?")[0])
            q: Queue = AsyncDPQ(client, queue_name)
            await q.push_many(Push(n) for n in range(3))
            worker = AsyncWorker(q, gate, concurrency=2, prefetch=2)
            async with running(worker) as work:
                await gate.wait_for(2)
                os.kill(first.pid, signal.SIGKILL)
                gate.open()
                with Server.join(directory, server.binary) as second:
                    assert second.pid != first.pid
                    await q.push("new")
                    await until(stats_say(q, acked=4))
                    worker.stop()
                    assert await work >= 4
            await q.close()
            await client.aclose()

    with asyncio.Runner(loop_factory=LOOPS[loop]) as runner:
        runner.run(asyncio.wait_for(scene(), 3 * PATIENCE))


def test_a_worker_waits_quietly_while_the_server_is_away(
    play: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A handler that ends meanwhile does not keep the loop spinning."""

    async def scene(q: Queue) -> None:
        gate = Gate()
        waits: list[Any] = []
        worker = AsyncWorker(q, gate, concurrency=3)
        await q.push("a")
        async with running(worker):
            await gate.wait_for(1)
            drive, away = q._drive_all, asyncio.Event()

            async def fails(operations: Any, **_: Any) -> list[Any]:
                for steps in operations:
                    steps.close()
                away.set()
                return [RedisConnectionError("away")] * len(operations)

            q._drive_all = fails  # type: ignore[method-assign, assignment]
            worker._look = True
            worker._news.set_result(None)
            await away.wait()
            wait = asyncio.wait

            def counted(*args: Any, **options: Any) -> Any:
                waits.append(1)
                return wait(*args, **options)

            monkeypatch.setattr(asyncio, "wait", counted)
            gate.open()
            await until(lambda: worker.handled.total() == 1)
            over = time.monotonic() + 0.3
            await until(lambda: time.monotonic() > over)
            monkeypatch.setattr(asyncio, "wait", wait)
            q._drive_all = drive  # type: ignore[method-assign]
            await until(stats_say(q, acked=1))
            assert len(waits) < 200  # a loop that spins makes thousands

    play(scene)


# Limits


def test_a_storm_of_429_stays_within_the_limits(play: Any) -> None:
    """Many handlers at three limited groups: no window is overdrawn."""

    async def scene(q: Queue) -> None:
        await q.set_limit(10, 0.5, group="*")
        await q.push_many(Push(n, group=f"g{n % 3}") for n in range(90))
        taken: dict[str, list[float]] = {}

        async def handler(task: Task[Any]) -> None:
            assert task.group
            assert task.visible_until
            taken.setdefault(task.group, []).append(task.visible_until.timestamp() - 600)
            if task.payload % 17 == 0 and task.deferrals == 0:
                raise RateLimited(0.15)

        worker = AsyncWorker(q, handler, concurrency=20, visibility=600)
        assert await worker.drain() == 96
        assert worker.handled == {"done": 90, "RateLimited": 6}
        for times in taken.values():
            times.sort()
            assert all(b - a >= 0.499 for a, b in zip(times, times[10:], strict=False)), times
        assert await q.check() == []

    play(scene)


@engines
@pytest.mark.parametrize("options", [{}, {"time_limit": 1000}], ids=repr)
def test_a_task_has_a_time_limit_of_its_own(play: Any, options: Any) -> None:
    """It holds without a limit of the worker, and before one."""

    async def scene(q: Queue) -> None:
        task_id = await q.push("slow", time_limit=0.1)

        async def handler(task: Task[Any]) -> None:
            worker.stop()
            await asyncio.sleep(PATIENCE)

        worker = AsyncWorker(q, handler, **options)
        await worker.run()
        task = await q.get(task_id)
        assert (task.attempt, task.last_error) == (2, "TimeoutError: ran longer than 0.1 s")

    play(scene, backoff=Backoff(base=100, jitter=0))


def test_a_closed_queue_says_so(play: Any, server: Server) -> None:
    """As the blocking one does."""

    async def scene(q: Queue) -> None:
        other = AsyncDPQ.from_url(server.url, q.queue_name)
        await other.push("a")
        await other.close()
        for call in (other.push("b"), other.pop(), other.stats(), other.size(), other.drop()):
            with pytest.raises(ConfigurationError, match="is closed"):
                await call
        assert (await q.pop()).task is not None

    play(scene)
