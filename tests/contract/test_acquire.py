"""`acquire` of both faces: units of a limit without a task, against real servers and real time."""

import asyncio
import threading
import time
from collections import Counter
from typing import Any

import pytest
from kit.awaited import asyncio_queue

from dpq import LimitTimeoutError, RateLimit, RateLimited
from dpq.script.keys import key_of
from dpq.types import Permit

TOO_MANY = {"Retry-After": "30"}


def calls_of(q: Any) -> Counter[str]:
    """Counts the scripts that a queue calls from now on."""
    counted: Counter[str] = Counter()
    original = q._session.connections.call_all

    def call_all(commands: Any) -> Any:
        counted.update(command.script.name for command in commands)
        return original(commands)

    q._session.connections.call_all = call_all
    return counted


def test_one_call_for_each_grant(live):
    """Callers sleep until their booked moment, in order, and need no other call."""
    live.set_limit(50, 1, group="g")
    live.push("opened")
    calls, moments = calls_of(live), []

    def ask() -> None:
        with live.acquire("g") as permit:
            moments.append(float(permit._caller.moment))
            assert isinstance(permit, Permit)
            assert permit.group == "g"

    threads = [threading.Thread(target=ask) for _ in range(10)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert calls == {"acquire": 10}
    moments.sort()
    assert moments[-1] - moments[0] >= 9 * 20 - 0.01


def test_a_timeout(live):
    """The error comes at once where it is known, and takes nothing."""
    live.set_limit(1, 60, group="g")
    with live.acquire("g"):
        pass
    for timeout in (0, 30):
        with pytest.raises(LimitTimeoutError) as raised, live.acquire("g", timeout=timeout):
            pytest.fail("granted")
        assert 50 < raised.value.retry_after <= 60
        assert raised.value.group == "g"
    assert live.check() == []


def test_a_429(live):
    """A report closes the group for tasks and callers, and says what the host said."""
    live.push("x", group="g")
    with live.acquire("g") as permit:
        assert permit.report(200, {}) is None
        limited = permit.report(429, TOO_MANY)
    assert isinstance(limited, RateLimited)
    assert limited.retry_after == 30
    assert live.pop().task is None
    assert live.admin.group("g").reason == "rate limited"
    with pytest.raises(LimitTimeoutError) as raised, live.acquire("g", timeout=1):
        pytest.fail("granted")
    assert 20 < raised.value.retry_after <= 30


def test_a_limit_that_is_raised(live):
    """`RateLimited` out of the body is reported, and raised further."""
    with pytest.raises(RateLimited), live.acquire("g"):
        raise RateLimited(30)
    assert not live.admin.group("g").open
    with pytest.raises(RateLimited), live.acquire("other"):
        raise RateLimited(30, scope="task")
    assert live.admin.group("other").open


LEFT = {"RateLimit": "limit=9, remaining=4, reset=60"}


def test_a_pool_whose_answers_tell(live):
    """The permit names its member; what its answer says is left, and what it has spent, counts."""
    live.set_limit([RateLimit(1, 60, 1000, unit="t")], group="a", members=["x", "y"])
    with live.acquire("a", cost={"t": 100}) as first, live.acquire("a") as second:
        assert (first.member, second.member) == ("x", "y")
        assert first.report(200, LEFT) is None
        first.spent(t=70)
        first.spent(t=80)
    state = live.admin.group("a")
    assert [round(member.units_left[0]) for member in state.members] == [920, 1000]
    assert [len(member.budgets) for member in state.members] == [1, 0]
    with live.acquire("a", cost={"t": 100}) as third:
        assert third.report(429, TOO_MANY)
    assert [member.open for member in live.admin.group("a").members].count(False) == 1
    assert live.check() == []


def test_a_paused_queue_grants(live):
    """`pause` stops tasks: a caller is not held up."""
    live.push("x")
    live.pause()
    with live.acquire("g", timeout=0):
        pass


def test_concurrency(live):
    """No more permits than the concurrency are out; who waits is called when one ends."""
    live.set_limit(concurrency=2, group="g")
    inside, most, calls = [], [], calls_of(live)

    def ask() -> None:
        with live.acquire("g"):
            inside.append(1)
            most.append(len(inside))
            time.sleep(0.01)
            inside.pop()

    threads = [threading.Thread(target=ask) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert max(most) <= 2
    if live._session.connections.nodes.direct:  # doubles poll
        assert calls["acquire"] <= 3 * 6
    assert live.redis.zcard(key_of(live.queue_name, "tracked")) == 0
    assert live.check() == []


def test_a_permit_is_renewed(live):
    """While the body runs, the permit outlives its lease; afterwards it is gone."""
    live.set_limit(concurrency=1, group="g")
    with live.acquire("g", lease=0.3) as permit:
        first = permit._held.member
        deadline = time.monotonic() + 60
        while permit._held.member == first and time.monotonic() < deadline:
            time.sleep(0.01)
        assert permit._held.member != first
        with pytest.raises(LimitTimeoutError), live.acquire("g", timeout=0):
            pytest.fail("granted")
    with live.acquire("g", timeout=0):
        pass


@pytest.mark.parametrize("asleep", [True, False])
async def test_a_cancelled_caller_gives_its_booking_back(redis, queue_name, asleep):
    """Wherever it is cancelled: while it sleeps, and while its answer is under way."""
    async with asyncio_queue(redis, queue_name) as q:
        await q.set_limit(1, 4.9, group="g")
        tracked = key_of(queue_name, "tracked")
        async with q.acquire("g"):
            pass
        waiting = asyncio.create_task(q.acquire("g").__aenter__())
        if asleep:
            while (await q.admin.group("g")).units_left[0] >= 0:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        else:
            await asyncio.sleep(0)
        waiting.cancel()
        while not redis.zlexcount(tracked, b"[g\x0c", b"(g\x0d"):  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        assert await q.check() == []
