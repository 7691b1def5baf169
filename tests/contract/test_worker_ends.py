"""How both workers end a delivery that goes wrong, and how they look after several queues.

Here over `Worker`; test_worker_async.py runs over `AsyncWorker` what `THREADS_ONLY` does not name.
"""

import functools
import time
from typing import Any

import pytest
from kit.waiting import recheck, wait_for_idle
from kit.workers import Make
from redis import Redis
from redis.asyncio import Redis as AsyncRedis

from dpq import (
    DPQ,
    AsyncDPQ,
    AsyncWorker,
    ConfigurationError,
    Push,
    RateLimited,
    Task,
    Worker,
)
from dpq.model import schedule
from dpq.transport import watches

THREADS_ONLY = (
    "test_a_generator_is_no_handler",  # it asks both
    "test_the_last_ack_ends_a_drain",
    "test_hooks_hear_of_a_time_limit",
    "test_hooks_that_nobody_would_call",
)

SOON = 50.0
"""Seconds: what a slow machine may take; a wake-up that is lost takes 60 here."""


@pytest.fixture
def q(make: Make) -> DPQ[Any]:
    return make()


# Several queues


def test_a_limit_of_one_of_several_queues(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its next unit is looked for when it is due, though another queue had work meanwhile."""
    recheck(monkeypatch, 60.0)
    a, b = make("-a"), make("-b")
    a.set_limit(5, 1)
    a.push_many(Push(n) for n in range(4))
    b.push_many(Push(n) for n in range(2))
    began = time.monotonic()
    Worker([a, b], lambda task: None).drain()
    assert 0.5 < time.monotonic() - began < SOON


# Ends that make no sense


def test_an_ack_that_cannot_be_made(q: DPQ[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """It keeps no other; its task ends in the dead letters, where somebody sees it."""
    q.push("odd", cron="* * * * *", timezone="Europe/Berlin", priority=10)
    task_id = q.peek(1, state="delayed")[0].id
    q.update(task_id, delay=0)
    q.push_many(Push(n) for n in range(5))

    def unknown(name: str) -> Any:
        raise ConfigurationError(f"timezone {name!r} is unknown here")

    monkeypatch.setattr(schedule, "zone", unknown)
    Worker(q, lambda task: None, prefetch=10).drain()
    stats = q.stats()
    assert (stats.acked, stats.expired_leases, stats.dead) == (5, 0, 1)
    assert "unknown here" in q.dead.list()[0].reason


def test_what_returns_a_generator_is_no_handler(q: DPQ[Any]) -> None:
    """What only its result shows is a failed attempt."""
    q.push("a", max_attempts=1)
    Worker(q, lambda task: (each for each in [task])).drain()
    (dead,) = q.dead.list()
    assert "is a generator" in (dead.last_error or "")


def test_a_generator_is_no_handler(q: DPQ[Any]) -> None:
    """It is refused where it is seen."""

    def handler(task: Task[Any]) -> Any:
        yield task

    @functools.wraps(handler)
    def wrapped(task: Task[Any]) -> Any:
        return handler(task)

    async def later(task: Task[Any]) -> Any:
        yield task

    for kind in (Worker, AsyncWorker):
        queue: Any = q if kind is Worker else AsyncDPQ(AsyncRedis(), "x")
        for generator in (handler, wrapped, later, functools.partial(handler)):
            with pytest.raises(ConfigurationError, match="is a generator"):
                kind(queue, generator)
            with pytest.raises(ConfigurationError, match="is a generator"):
                kind(queue, {"name": generator})


# Limits that were hit


def test_what_was_fetched_under_the_same_limit_goes_back(q: DPQ[Any]) -> None:
    """After a 429 nothing that was fetched ahead of it asks the same host."""
    for n in range(10):
        q.push(n, group="host")
        q.push(100 + n, group="other")
    seen: list[Any] = []

    def handler(task: Task[Any]) -> None:
        seen.append(task.group)
        if task.group == "host" and seen.count("host") == 1:
            raise RateLimited(0.5)

    Worker(q, handler, prefetch=8).drain()
    after = seen[seen.index("host") + 1 :]
    assert after[:10] == ["other"] * 10
    assert q.stats().acked == 20
    assert q.stats().deferred == 1


def test_a_429_of_a_member_gives_back_only_what_runs_as_it(q: DPQ[Any]) -> None:
    """The task runs again as another member; what was fetched ahead for that one goes on."""
    q.set_limit("1000/s", burst=50, group="host", members=["a", "b"])
    q.push_many(Push(n, group="host") for n in range(10))
    seen: list[Any] = []

    def handler(task: Task[Any]) -> None:
        seen.append((task.member, task.payload))
        if task.payload == 0 and len(seen) == 1:
            raise RateLimited(5000)

    Worker(q, handler, prefetch=8).drain()
    assert [member for member, _ in seen].count("a") == 1
    assert sorted(payload for _, payload in seen) == [0, *range(10)]
    [first, second] = q.group("host").members
    assert (first.reason, second.reason) == ("rate limited", None)
    assert (q.stats().acked, q.stats().deferred) == (10, 1)


def test_a_server_that_forgot_the_scripts_lets_none_through(q: DPQ[Any], redis: Redis) -> None:
    """A 429 is told before the next task is asked for, however it has to be sent."""
    redis.script_flush()  # on a server of somebody else the test is skipped here
    q.push_many(Push(n, group="host") for n in range(3))
    seen: list[Any] = []
    closed: list[bool] = []

    def handler(task: Task[Any]) -> None:
        seen.append(task.payload)
        if len(seen) == 1:
            redis.script_flush()
            raise RateLimited(0.3)
        closed.append(time.monotonic() - began >= 0.3)

    began = time.monotonic()
    Worker(q, handler).drain()
    assert seen == [0, 0, 1, 2]
    assert closed == [True] * 3


def test_the_last_ack_ends_a_drain(
    q: DPQ[Any], redis: Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also when it was sent for itself, while all threads waited for a task."""
    monkeypatch.setattr(watches, "RECHECK_SECONDS", 60.0)
    q.push("a")

    def handler(task: Task[Any]) -> None:
        wait_for_idle(redis)

    worker = Worker(q, handler, concurrency=2, prefetch=1)
    began = time.monotonic()
    worker.drain()
    assert time.monotonic() - began < SOON


# Hooks


def test_hooks_hear_of_a_time_limit(q: DPQ[Any]) -> None:
    """A thread that was overtaken by its time limit has failed, also when it returns at last."""
    told: list[Any] = []
    q.push("a", max_attempts=1)
    worker = Worker(
        q,
        lambda task, context: wait_until_lost(context),
        time_limit=0.05,
        after=lambda context, error: told.append(type(error)),
        on_error=lambda context, error: told.append(str(error)),
    )
    worker.drain()
    assert told == ["ran longer than 0.05 s", TimeoutError]
    assert worker.handled == {"TimeoutError": 1}


def wait_until_lost(context: Any) -> None:
    give_up = time.monotonic() + SOON
    while not context.lost:
        assert time.monotonic() < give_up
        time.sleep(0.005)


def test_hooks_that_nobody_would_call(q: DPQ[Any]) -> None:
    """They are refused at once."""

    async def hook(*_: Any) -> None: ...

    for name in ("before", "after", "on_error"):
        with pytest.raises(ConfigurationError, match=f"{name} .* is a coroutine function"):
            Worker(q, print, **{name: hook})
        with pytest.raises(ConfigurationError, match=f"{name} is 5: it must be a function"):
            Worker(q, print, **{name: 5})
