"""`AsyncWorker` keeps the contract of `Worker`, and its own: coroutines, cancellation, its loops.

The first part runs the tests of test_worker.py once more, over `AwaitedWorker`: see kit/awaited.py.
"""

import asyncio
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Collection, Coroutine, Iterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from random import Random
from typing import Any

import pytest
from kit.awaited import (
    LOOPS,
    AwaitedOfOneClient,
    AwaitedWorker,
    AwaitedWorkerOfAsyncHooks,
    asyncio_client,
    awaited_tests,
    loop_in_a_thread,
    over_asyncio,
)
from kit.workers import PATIENCE, Make, Start, asked, queues, threads_of_workers
from redis import Redis
from redis import asyncio as aio
from redis.asyncio.connection import AbstractConnection
from redis.exceptions import ConnectionError as RedisConnectionError

from dpq import (
    DPQ,
    AsyncDPQ,
    AsyncWorker,
    Backoff,
    ConfigurationError,
    Context,
    Push,
    Task,
    Tasks,
)
from dpq.protocol.keys import key_of
from dpq.server import Server
from dpq.worker import runner_async

engines = pytest.mark.fakeredis

Queue = AsyncDPQ[Any]
Scene = Callable[..., Coroutine[Any, Any, Any]]


# The contract of `Worker`, awaited

SUITE = Path(__file__).parent / "test_worker.py"
FACES = {"DPQ": AwaitedOfOneClient}
shared = over_asyncio(SUITE, Worker=AwaitedWorker, **FACES)
globals().update(awaited_tests(shared))
q = shared.q

with_async_hooks = over_asyncio(SUITE, Worker=AwaitedWorkerOfAsyncHooks, **FACES)
test_async_hooks_see_every_task = with_async_hooks.test_hooks_see_every_task
test_async_hooks_that_raise_change_nothing = with_async_hooks.test_hooks_that_raise_change_nothing


@pytest.fixture(params=LOOPS)
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


# The own contract of the asyncio face


@pytest.fixture(params=LOOPS)
def play(request: pytest.FixtureRequest, redis: Redis, queue_name: str) -> Callable[..., Any]:
    """Plays a scene, `async def scene(q)`, in an event loop that is closed at the end.

    A scene of several queues has as many parameters; options are those of the queues.
    """

    def run(scene: Scene, **options: Any) -> Any:
        count = scene.__code__.co_argcount

        async def whole() -> Any:
            client = asyncio_client(redis)
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


# How much it holds


@engines
@pytest.mark.parametrize("prefetch", [0, 1, 4])
def test_it_fetches_all_that_it_may_hold(play: Any, prefetch: int) -> None:
    """When the first handlers have begun, it holds them and `prefetch` more."""

    async def scene(q: Queue) -> None:
        gate = Gate()
        await q.push_many(Push(n) for n in range(20))
        async with running(AsyncWorker(q, gate, concurrency=3, prefetch=prefetch)):
            await gate.wait_for(3)
            assert (await q.stats()).invisible == 3 + prefetch

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


# Leases


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


def test_many_handlers_share_round_trips(play: Any) -> None:
    """One round trip settles what was done and brings what comes next, for all handlers."""

    async def scene(q: Queue) -> None:
        trips = asked(q)
        await q.push_many(Push(n) for n in range(1000))
        await AsyncWorker(q, lambda _: None, concurrency=100).drain()
        assert len(trips) < 80, trips

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
    monkeypatch.setattr(runner_async, "LEAVE_SECONDS", 0.1)

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


# Hooks


# Again, and for long


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


# Faults


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

        monkeypatch.setattr(b._operations, "pop", fault)
        with pytest.raises(RuntimeError, match="a fault"):
            await worker.run()
        stats = await a.stats()
        assert (stats.ready, stats.invisible) == (2, 0)
        assert not a._leases._held

    play(scene)


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
            run_all, away = q._session.run_all, asyncio.Event()

            async def fails(operations: Any, **_: Any) -> list[Any]:
                for steps in operations:
                    steps.close()
                away.set()
                return [RedisConnectionError("away")] * len(operations)

            q._session.run_all = fails  # type: ignore[method-assign, assignment]
            await q.redis.zadd(key_of(q.queue_name, "wake"), {"w": 0})  # it looks now
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
            q._session.run_all = run_all  # type: ignore[method-assign]
            await until(stats_say(q, acked=1))
            assert len(waits) < 200  # a loop that spins makes thousands

    play(scene)


def cut_at_commands(
    monkeypatch: pytest.MonkeyPatch, numbers: Collection[int], when: str
) -> Callable[[], int]:
    """Let the event loop close the connection before or after redis-py writes its n-th command.

    The task that reads does not know it yet. A later write raises in uvloop, not in asyncio's loop.
    Returns a function that counts the commands.
    """
    send, sent = AbstractConnection.send_packed_command, 0

    async def send_and_cut(self: Any, *args: Any, **options: Any) -> None:
        nonlocal sent
        sent += 1
        cut = sent in numbers and self.is_connected
        if when == "after":
            await send(self, *args, **options)
        if cut and self.is_connected:
            self._writer.transport.abort()
            await asyncio.sleep(0)  # now it is closed; the reader is next
        if when == "before":
            await send(self, *args, **options)

    monkeypatch.setattr(AbstractConnection, "send_packed_command", send_and_cut)
    return lambda: sent


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("several", [False, True])
def test_a_worker_outlives_cuts_at_any_command(
    play: Any, monkeypatch: pytest.MonkeyPatch, several: bool, when: str
) -> None:
    """Whatever it writes, also in the middle of connecting: it goes on by itself.

    Several cuts meet also the new connection, and the client that is asked after it.
    """

    async def scene(q: Queue) -> None:
        nonlocal count
        await q.stats()
        count = cut_at_commands(patches, numbers, when)
        seen: list[Any] = []
        worker = AsyncWorker(q, lambda task: seen.append(task.payload), prefetch=4, visibility=0.3)
        async with running(worker) as work:
            for n in range(3):
                await q.push(n)
                await until(lambda: work.done() or n in seen, lambda: (numbers, seen))  # noqa: B023
            worker.stop()
            assert await work >= 3  # a reply that was lost brings its task again

    first, count = 1, lambda: 1
    while first <= count():
        numbers = {first}
        if several:
            numbers |= {*Random(first).sample(range(first + 1, first + 12), 4)}
        with monkeypatch.context() as patches:
            play(scene)
        first += 3 if several else 1
    assert first > 10


# Limits


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
