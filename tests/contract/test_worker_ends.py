"""How both workers end a delivery that goes wrong, and how they look after several queues.

Here over `Worker`; test_worker_async.py runs over `AsyncWorker` what `THREADS_ONLY` does not name.
"""

import time
from typing import Any

import pytest
from kit.waiting import recheck
from kit.workers import Make
from redis import Redis

from dpq import (
    DPQ,
    Push,
    RateLimited,
    Task,
    Worker,
)

THREADS_ONLY = ("test_hooks_hear_of_a_time_limit",)

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


def test_a_request_that_is_always_refused(q: DPQ[Any], caplog: pytest.LogCaptureFixture) -> None:
    """The others of its group are done; then it is a dead letter, which the log tells."""
    q.push_many(Push(n, group="host", priority=-n) for n in range(9))

    def handler(task: Task[Any]) -> None:
        if task.payload == 0:
            raise RateLimited(0.01, reason="413 tokens, and 400 are allowed")

    worker = Worker(q, handler)
    with caplog.at_level("INFO", "dpq"):
        while q.size():
            worker.drain()
    dead = q.dead.list()[0]
    assert (q.stats().acked, dead.payload, dead.reason) == (8, 0, "always rate limited")
    assert dead.last_error == "413 tokens, and 400 are allowed"
    assert (dead.attempts, q.stats().failed) == (0, 0)
    assert f"{dead.id} is dead after attempt 1 of 10: always rate limited: 413" in caplog.text


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
