"""Waiting pops at limits: they sleep until the moment, without a herd, and nobody is forgotten.

As in test_waiting.py the waiters trust in being woken for a minute instead of 5 s, so nothing but a
wake-up, or the timer of the one that watches the moment, brings a task in the time a test allows.
Nothing here depends on how fast the machine is: a wait is bounded from below by the server's clock,
and herds are counted in calls.
"""

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pytest
from kit.waiting import LONG, PATIENCE, blocked, wait_for_waiters, wait_until
from kit.workers import note_calls
from redis import Redis

from dpq import DPQ, Push, Task
from dpq.link import watches

SOON = 0.1  # seconds until the next unit

Pop = Callable[..., "Future[Any]"]


@pytest.fixture(autouse=True)
def trusting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watches, "RECHECK_SECONDS", 60.0)


@pytest.fixture
def q(redis: Redis, queue_name: str) -> Iterator[DPQ[Any]]:
    """A queue in real time."""
    queue: DPQ[Any] = DPQ(redis, queue_name, default_visibility=600)
    yield queue
    queue.admin.drop()
    queue.close()


@pytest.fixture
def pops(q: DPQ[Any]) -> list[str]:
    """Grows by one with each pop that is sent."""
    sent: list[str] = []
    names = lambda commands: (command.script.name for command in commands)  # noqa: E731
    note_calls(q, lambda commands: sent.extend(name for name in names(commands) if name == "pop"))
    return sent


@pytest.fixture
def waits(q: DPQ[Any]) -> Iterator[Pop]:
    """Starts a waiting pop in a thread of its own."""
    with ThreadPoolExecutor(16) as threads:
        yield lambda timeout=LONG: threads.submit(q.pop, timeout=timeout)


def the_task(future: "Future[Any]") -> Task[Any]:
    task = future.result(PATIENCE).task
    assert task is not None
    return task


def served(futures: list["Future[Any]"]) -> list["Future[Any]"]:
    return [future for future in futures if future.done()]


def server_seconds(redis: Redis) -> float:
    seconds, micros = redis.time()
    return seconds + micros / 1e6


def fill(q: DPQ[Any], count: int, group: str | None = "g") -> None:
    q.push_many(Push(payload=n, group=group) for n in range(count))


SCOPES = [None, "g"]


# The moment


@pytest.mark.parametrize("scope", SCOPES)
def test_a_waiting_pop_sleeps_until_the_unit(
    q: DPQ[Any], redis: Redis, waits: Pop, pops: list[str], scope: str | None
) -> None:
    """It asks once, sleeps until the limit grants, and asks again: not before, nor in between."""
    q.set_limit(1, SOON, group=scope)
    fill(q, 2)
    began = server_seconds(redis)
    assert q.pop().task is not None
    pops.clear()

    assert the_task(waits()).payload == 1

    assert server_seconds(redis) - began >= SOON
    assert len(pops) <= 3  # the second may come a moment too early: the client's timer and rounding


# No herd


@pytest.mark.parametrize("scope", SCOPES)
def test_one_unit_wakes_one(
    q: DPQ[Any], redis: Redis, waits: Pop, pops: list[str], scope: str | None
) -> None:
    """Of twelve that wait at a rate each unit wakes one: each asks twice, not for every unit."""
    q.set_limit(1, 0.02, group=scope)
    fill(q, 13)
    assert q.pop().task is not None
    pops.clear()
    waiting = [waits() for _ in range(12)]
    assert sorted(the_task(future).payload for future in waiting) == list(range(1, 13))
    assert len(pops) <= 2 * 12 + 12


@pytest.mark.parametrize("scope", [None, "g"])
def test_the_end_of_a_lease_wakes_one(
    q: DPQ[Any], redis: Redis, waits: Pop, pops: list[str], scope: str | None
) -> None:
    """At a full queue or group each ack wakes one of those that wait, and no other asks."""
    q.set_limit(concurrency=1, group=scope)
    fill(q, 5)
    task = the_task(waits())
    waiting = [waits() for _ in range(4)]
    wait_for_waiters(redis, 4)
    for count in (1, 2, 3, 4):
        pops.clear()
        q.ack(task)
        wait_until(f"{count} waiters served", lambda n=count: len(served(waiting)) == n)
        wait_for_waiters(redis, 4 - count)
        assert len(pops) <= 2
        task = max((f.result().task for f in served(waiting)), key=lambda popped: popped.token)


# Changes


@pytest.mark.parametrize("scope", SCOPES)
@pytest.mark.parametrize("change", ["set", "clear"])
def test_a_looser_limit_wakes(
    q: DPQ[Any], redis: Redis, waits: Pop, scope: str | None, change: str
) -> None:
    """Those that sleep by a limit of one in ten minutes go on by what is said now."""
    q.set_limit(1, 600, group=scope)
    fill(q, 4)
    assert q.pop().task is not None
    waiting = [waits() for _ in range(3)]
    wait_for_waiters(redis, 3)
    if change == "set":
        q.set_limit(20, SOON, burst=3, group=scope)
    else:
        q.clear_limit(scope)
    assert sorted(the_task(future).payload for future in waiting) == [1, 2, 3]


# Those who leave


@pytest.mark.parametrize("scope", SCOPES)
def test_one_that_gives_up_hands_on_its_moment(
    q: DPQ[Any], redis: Redis, waits: Pop, scope: str | None
) -> None:
    """When the one that watches the moment leaves by its timeout, another watches it."""
    q.set_limit(1, 3 * SOON, group=scope)
    fill(q, 2)
    opens_at = server_seconds(redis) + 3 * SOON
    assert q.pop().task is not None
    watcher = waits(SOON)
    wait_until("a waiter, or its end", lambda: watcher.done() or blocked(redis))
    other = waits()
    if watcher.result(PATIENCE).task is None:
        assert the_task(other).payload == 1
    else:  # on a busy machine it had begun so late that the moment came before its timeout
        assert server_seconds(redis) >= opens_at
        q.push("one more", group="g")
        assert the_task(other).payload == "one more"
