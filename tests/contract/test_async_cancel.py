"""Cancellation at any await loses nothing.

Each test runs a call again and again, and cancels it one turn of the event loop later each time,
until it ends before it is cancelled. So every await of the call has been cancelled in between,
those of the connection and of background work included.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

import pytest
from hypothesis import settings
from kit.awaited import asyncio_client
from kit.waiting import blocked
from redis import Redis

from dpq import AsyncDPQ, Push, RateLimited, Task
from dpq.link import watches

PATIENCE = 120.0  # seconds until a test gives up
MOST_STEPS = 5_000  # no call takes so many turns: a guard against a test that never ends


# Polling a server has no event to wait for, and `timeout` is that of a pop.

# ruff: noqa: ASYNC109, ASYNC110
Queue = AsyncDPQ[Any]
Opened = Callable[..., Queue]


@pytest.fixture(autouse=True)
def trusting(monkeypatch: pytest.MonkeyPatch) -> None:
    """Waiters trust in being woken, so that nothing else brings a task in a test's time."""
    monkeypatch.setattr(watches, "RECHECK_SECONDS", 60.0)


@pytest.fixture
def opened(opened: Opened, redis: Redis) -> Opened:
    """Opens objects of one queue, each with a client of its own."""
    return lambda: opened(client=asyncio_client(redis))


@pytest.fixture
def q(opened: Opened) -> Queue:
    return opened()


async def cancelled_after(turns: int, work: Coroutine[Any, Any, Any]) -> bool:
    """Cancel a call after so many turns of the loop; False when it had ended before."""
    task = asyncio.ensure_future(work)
    for _ in range(turns):
        await asyncio.sleep(0)
    if not task.done():
        task.cancel()
    await asyncio.wait((task,))
    if task.cancelled():
        return True
    task.result()
    return False


async def rest(q: Queue) -> None:
    """Wait until nothing that a cancelled call has left goes on behind it."""
    while q._background:
        await asyncio.wait(q._background)


async def at_every_turn(
    q: Queue,
    prepare: Callable[[], Awaitable[Any]],
    call: Callable[[Any], Coroutine[Any, Any, Any]],
    after: Callable[[Any, bool], Awaitable[None]],
) -> None:
    for turns in range(MOST_STEPS):
        made = await prepare()
        cancelled = await cancelled_after(turns, call(made))
        await rest(q)
        await after(made, cancelled)
        assert await q.check() == []
        await q.purge()
        if not cancelled:
            assert turns > 0, "the call was never cancelled in its middle"
            return
    pytest.fail(f"not done after {MOST_STEPS} turns")


async def all_ready(q: Queue, count: int) -> None:
    """All tasks are ready, none is doubled, and no attempt was counted."""
    stats = await q.stats()
    assert (stats.ready, stats.invisible, stats.delayed, stats.dead) == (count, 0, 0, 0)
    tasks = await q.pop_many(count + 1)
    assert sorted(task.payload for task in tasks) == list(range(count))
    assert {task.attempt for task in tasks} == {1}


MANY = pytest.param(
    *(130, 0, False),
    marks=pytest.mark.skipif(
        settings.get_current_profile_name() != "soak",
        reason="12 s of processor time: pytest --hypothesis-profile soak tests/contract",
    ),
)
"""A `pop_many` of two round trips."""


@pytest.mark.parametrize(("count", "timeout", "fresh"), [(1, 20, False), MANY, (1, 20, True)])
async def test_a_cancelled_pop_gives_back(
    q: Queue, opened: Opened, count: int, timeout: float, fresh: bool
) -> None:
    """Whatever a cancelled pop still gets is ready again, uncounted; connecting included."""

    async def prepare() -> Queue:
        await q.push_many(Push(payload=n) for n in range(count))
        return opened() if fresh else q

    async def pop(queue: Queue) -> None:
        if count == 1:
            await queue.pop(timeout)
        else:
            assert len(await queue.pop_many(count, timeout)) == count

    async def after(queue: Queue, cancelled: bool) -> None:
        await rest(queue)
        if cancelled:
            await all_ready(q, count)
        else:
            assert (await q.stats()).invisible == count
        if fresh:
            await queue.close()
            await queue.redis.aclose()

    await at_every_turn(q, prepare, pop, after)


async def test_a_cancelled_push_adds_once_or_not_at_all(q: Queue) -> None:
    """Other calls of the same object go on, and see one task or none."""

    async def after(_: Any, cancelled: bool) -> None:
        assert await q.size() in ((0, 1) if cancelled else (1,))

    await at_every_turn(q, q.stats, lambda _: q.push("a"), after)


async def test_a_cancelled_ack_can_be_sent_again(q: Queue) -> None:
    """The task is gone, or still leased to its holder, who may ack it."""

    async def prepare() -> Task[Any]:
        await q.push("a")
        return (await q.pop()).task

    async def after(task: Task[Any], cancelled: bool) -> None:
        left = await q.size()
        assert left in ((0, 1) if cancelled else (0,))
        assert await q.ack(task) is bool(left)

    await at_every_turn(q, prepare, q.ack, after)


async def ends_well() -> None:
    await asyncio.sleep(0)


async def fails() -> None:
    await asyncio.sleep(0)
    raise ZeroDivisionError


async def is_limited() -> None:
    await asyncio.sleep(0)
    raise RateLimited(60, scope="task")


@pytest.mark.parametrize("body", [ends_well, fails, is_limited], ids=lambda body: body.__name__)
async def test_a_cancelled_lease_is_settled(q: Queue, body: Callable[[], Awaitable[None]]) -> None:
    """Cancelled in its body, a lease is released uncounted; at its end, it is settled all the same.

    No lease is left to run out.
    """

    async def prepare() -> None:
        await q.push(0)

    async def lease(_: Any) -> None:
        try:
            async with q.lease() as task:
                assert task.payload == 0
                await body()
        except ZeroDivisionError:
            pass

    async def after(_: Any, cancelled: bool) -> None:
        stats = await q.stats()
        assert stats.invisible == 0
        if stats.ready:
            assert cancelled
            await all_ready(q, 1)
        else:
            assert (body is ends_well, stats.delayed) in ((True, 0), (False, 1))
        assert q._leases._held == {}

    await at_every_turn(q, prepare, lease, after)


async def until_blocked(redis: Redis, count: int) -> None:
    async with asyncio.timeout(PATIENCE):
        while count != len(blocked(redis)):
            await asyncio.sleep(0)


@pytest.mark.parametrize(("delay", "shared"), [(0, False), (0.001, True)])
async def test_a_cancelled_wait_hands_on(
    q: Queue, opened: Opened, redis: Redis, delay: float, shared: bool
) -> None:
    """What woke a waiter that is cancelled wakes the next one: it gets the task, uncounted."""

    async def first_is_cancelled(q: Queue, other: Queue, turns: int) -> bool:
        first = asyncio.ensure_future(q.pop(timeout=None))
        await until_blocked(redis, 1)
        second = asyncio.ensure_future(other.pop(timeout=None))
        await until_blocked(redis, 2)
        push = asyncio.ensure_future(other.push("a", delay=delay))
        for _ in range(turns):
            await asyncio.sleep(0)
        if not first.done():
            first.cancel()
        await asyncio.wait((first, push))
        if not first.cancelled():
            await other.push("b")
        async with asyncio.timeout(PATIENCE):
            popped = await second
        assert popped.task.attempt == 1
        await rest(q)
        await until_blocked(redis, 0)
        assert await q.check() == []
        assert (await q.stats()).invisible == (1 if first.cancelled() else 2)
        await q.purge()
        return first.cancelled()

    other = q if shared else opened()
    turns = 0
    while await first_is_cancelled(q, other, turns):
        turns += 1
        assert turns < MOST_STEPS
    assert turns > 2
