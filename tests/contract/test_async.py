"""`AsyncDPQ`: one loop, one connection, no waiting thread. The rest is asked of `DPQ`, its twin."""

import asyncio
import contextlib
import gc
import os
import subprocess
import sys
import weakref
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from kit.awaited import LONG, LOOPS, PATIENCE, asyncio_client
from kit.waiting import kill_all
from redis import Redis
from redis import asyncio as aio
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import ConnectionError as RedisConnectionError
from support import address_of

from dpq import DPQ, AsyncDPQ, ConfigurationError, Push
from dpq.link import watches
from dpq.server import Server

# ruff: noqa: ASYNC110  # polling a server has no event to wait for


def small_pool(redis: Redis, kind: type[aio.ConnectionPool]) -> aio.ConnectionPool:
    """Two asyncio connections to the server of a blocking client."""
    pool = asyncio_client(redis).connection_pool
    return kind(connection_class=pool.connection_class, max_connections=2, **pool.connection_kwargs)


@pytest.fixture(autouse=True)
def trusting(monkeypatch: pytest.MonkeyPatch) -> None:
    """Waiters trust in being woken, so that nothing else brings a task in a test's time."""
    monkeypatch.setattr(watches, "RECHECK_SECONDS", 60.0)


Queue = AsyncDPQ[Any]
Opened = Callable[..., Queue]


async def until(what: str, met: Callable[[], Any]) -> None:
    """Poll a named condition from within the loop."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(PATIENCE / 2):
            while not met():
                await asyncio.sleep(0.001)
    assert met(), f"{what}: not within {PATIENCE / 2} s"


class Other(aio.Redis):
    """A client that is not plain."""

    calls = 0

    async def execute_command(self, *args: Any, **options: Any) -> Any:
        type(self).calls += 1
        return await super().execute_command(*args, **options)


KINDS: dict[str, Callable[[Redis], Any]] = {
    "plain": asyncio_client,
    "decoding": partial(asyncio_client, decode_responses=True),
    "RESP2": partial(asyncio_client, protocol=2),
    "single connection": partial(asyncio_client, single_connection_client=True),
    "subclass": lambda redis: Other(**address_of(redis)),
    "few connections": lambda redis: aio.Redis.from_pool(
        small_pool(redis, aio.BlockingConnectionPool)
    ),
}


@pytest.mark.parametrize("kind", KINDS)
async def test_any_client_serves(opened: Opened, redis: Redis, kind: str) -> None:
    """Calls at once, waits, leases and dead letters work over every kind of client."""
    Other.calls = 0
    queue = opened(client=KINDS[kind](redis))
    await asyncio.gather(*(queue.push(f"ünï {n}", key=f"ключ {n}") for n in range(20)))
    async with queue.lease() as task:
        assert task.payload.startswith("ünï")
    tasks = await asyncio.gather(*(queue.pop(timeout=5) for _ in range(19)))
    waits = [asyncio.ensure_future(queue.pop(timeout=LONG)) for _ in range(3)]
    assert await queue.pop(timeout=0.01) == (None, None, None)
    await queue.push_many(Push(payload=n) for n in range(3))
    assert sorted([(await wait).task.payload for wait in waits]) == [0, 1, 2]
    await queue.bury(tasks[0].task, "no")
    assert [dead.reason for dead in await queue.dead.list()] == ["no"]
    assert all([await popped.on_success() for popped in tasks[1:]])
    assert await queue.check() == []
    assert (await queue.redis.ping()) is True
    assert (Other.calls > 60) is (kind == "subclass")


async def test_a_contradiction_is_told_at_the_first_call(
    opened: Opened, redis: Redis, queue_name: str
) -> None:
    """A constructor cannot ask the server; the first call does, and names both values."""
    DPQ(redis, queue_name, order="lifo")
    queue = opened(order="fifo")
    answers = await asyncio.gather(
        queue.stats(), queue.push(1), queue.pop(), return_exceptions=True
    )
    assert len(answers) == 3
    for error in answers:
        assert isinstance(error, ConfigurationError)
        assert "order is fifo" in str(error) and "lifo" in str(error)  # noqa: PT018
    follower = opened()
    await follower.stats()
    assert follower.settings.order == "lifo"


@pytest.mark.parametrize("retries", [0, 3])
async def test_a_killed_connection_with_calls_in_flight(
    opened: Opened, redis: Redis, retries: int
) -> None:
    """With retries all of 50 calls succeed; one without them tells, and sends nothing twice."""
    redis.client_id()
    queue = opened(client=asyncio_client(redis, retry=Retry(NoBackoff(), retries)))
    await queue.push("so that the queue is there")
    redis.execute_command("CLIENT", "PAUSE", 10_000, "WRITE")
    calls = [asyncio.ensure_future(queue.push(n, key=str(n))) for n in range(50)]
    await until(
        "the calls to be sent", lambda: len(queue._session.connections._links[""]._awaited) == 50
    )
    kill_all(redis)
    redis.execute_command("CLIENT", "UNPAUSE")
    answers = await asyncio.gather(*calls, return_exceptions=True)
    failed = [a for a in answers if isinstance(a, Exception)]
    assert len(failed) == (0 if retries else 50)
    assert all(isinstance(error, RedisConnectionError) for error in failed)
    assert await queue.size() == 1 + (50 if retries else 0)
    assert redis.info("clients")["connected_clients"] <= 4  # no stampede into the pool


@pytest.mark.parametrize("runner", LOOPS, indirect=True)
async def test_tasks_share_one_queue_object(queue: Queue) -> None:
    """A hundred tasks on one AsyncDPQ pop and ack 500 tasks: each exactly once."""
    await queue.push_many(Push(payload=n) for n in range(500))
    found: list[int] = []

    async def consume() -> None:
        while (popped := await queue.pop()).task is not None:
            found.append(popped.task.payload)
            await popped.on_success()

    await asyncio.gather(*(consume() for _ in range(100)))
    assert sorted(found) == list(range(500))
    assert (await queue.stats()).acked == 500


@pytest.mark.filterwarnings("ignore::ResourceWarning")  # of what is left open
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("closed", [True, False], ids=["closed", "left open"])
def test_an_object_serves_one_loop_after_another(
    redis: Redis, queue_name: str, closed: bool
) -> None:
    """`asyncio.run` twice with one object: calls, waits and kept leases work in the second, too."""
    client = asyncio_client(redis)
    q: AsyncDPQ[Any] = AsyncDPQ(client, queue_name)

    async def work(last: bool) -> None:
        await q.push("a")
        wait = asyncio.ensure_future(q.pop(timeout=LONG))
        assert (await wait).task.payload == "a"
        async with q.lease() as none:
            assert none is None
        task_id = await q.push("b")
        async with q.lease(visibility=0.2) as task:
            first = (await q.get(task_id)).visible_until
            async with asyncio.timeout(PATIENCE):
                while (await q.get(task_id)).visible_until == first:
                    await asyncio.sleep(0.01)
            assert task.id == task_id
        if closed or last:
            await q.close()
        await client.aclose()  # redis-py's pool does not go from loop to loop

    asyncio.run(work(False))
    asyncio.run(work(True))
    gc.collect()


async def test_a_slow_extension_does_not_undo_a_settling(
    queue: Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What ends a delivery waits for the extension that is on its way, so it has the last word."""
    await queue.push("a")
    started, go_on = asyncio.Event(), asyncio.Event()
    extend = queue._leases._extend

    async def slow(leases: Any) -> Any:
        started.set()
        await go_on.wait()
        return await extend(leases)

    monkeypatch.setattr(queue._leases, "_extend", slow)
    async with queue.lease(visibility=0.5) as task:
        await started.wait()
        hiding = asyncio.ensure_future(queue.set_visibility(task, 600))
        await asyncio.wait([hiding], timeout=0.2)
        assert not hiding.done()
        go_on.set()
        await hiding
    (hidden,) = await queue.peek(1, "delayed")
    assert hidden.visible_until.timestamp() > asyncio.get_running_loop().time()
    assert (await queue.stats()).invisible == 0


async def test_a_connection_is_closed_before_it_was_used(queue: Queue) -> None:
    """As when Sentinels name another master meanwhile: nobody waits for ever, calls go on."""
    await queue.push("a")
    link = queue._session.connections._links[""]
    await link.aclose()
    await link._open()
    reader = link._reader  # it has not begun
    assert reader
    call = asyncio.ensure_future(queue.size())
    async with asyncio.timeout(20):
        await link.aclose()
        assert await call == 1
    assert reader.done()


@pytest.mark.parametrize("silence", [0.1, 60])
async def test_the_watch_of_a_connection_ends_with_it(
    opened: Opened, redis: Redis, silence: float
) -> None:
    """So a program that connects again and again does not pile up timers."""
    queue = opened(client=asyncio_client(redis, socket_timeout=silence))
    await queue.size()
    await asyncio.sleep(0.2)  # with the short timeout, the watch has looked
    watched = weakref.ref(queue._session.connections._links[""]._awaited)
    kill_all(redis)
    await queue.size()
    await until("the watch to end", lambda: gc.collect() < 0 or watched() is None)


FORKS = """
import asyncio, gc, os, sys
from dpq import AsyncDPQ

async def child(q):
    await q.push("of the child", priority=1)
    assert (await q.pop(timeout=20)).task.payload == "of the child"
    await q.close()

async def parent(url, name):
    async with AsyncDPQ.from_url(url, name) as q:
        await q.push("a")
        wait = asyncio.ensure_future(q.pop_many(2, timeout=20))
        await wait
        assert (await q.pop(timeout=0.01)).task is None  # a waiter is kept
        if (pid := os.fork()) == 0:
            code = 1
            try:
                asyncio.run(child(q))
                gc.collect()
                code = 0
            finally:
                os._exit(code)
        async with asyncio.timeout(20):
            while (ended := os.waitpid(pid, os.WNOHANG)) == (0, 0):
                await q.stats()
            assert ended == (pid, 0), ended
            wait = asyncio.ensure_future(q.pop(timeout=20))
            await q.push("b", delay=0.05)
            assert (await wait).task.payload == "b"
        await q.admin.drop()

asyncio.run(parent(*sys.argv[1:3]))
print("done")
"""


def errors_of(program: str, *words: str) -> str:
    """Run a program, which must end well; what it has written as errors."""
    done = subprocess.run(
        [sys.executable, *words[:-2], "-c", program, *words[-2:]],
        env={**os.environ, "PYTHONPATH": os.getcwd()},
        capture_output=True,
        text=True,
        timeout=PATIENCE * 2,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, "done\n"), done.stderr
    return done.stderr


def test_a_forked_child_leaves_the_parents_loop_alone(server: Server, queue_name: str) -> None:
    """Parent and child use one object, each in a loop of its own; neither goes deaf."""
    errors_of(FORKS, server.url, queue_name)
