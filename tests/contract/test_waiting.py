"""Waiting pops: woken by whatever makes a task ready, without polling, and losing nothing.

The waiters here trust in being woken for a minute instead of 5 s, so that nothing but a wake-up, or
the waiter's own timer for a moment that it knows, brings a task in the time that a test allows.
"""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import pytest
from kit.waiting import LONG, PATIENCE, wait_for_waiters, wait_until
from redis import Redis
from redis.backoff import ConstantBackoff
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.retry import Retry

from dpq import DPQ, Push, QueueFullError, Task
from dpq.link import watches
from dpq.model import producer
from dpq.script.keys import key_of
from dpq.server import Server

SOON = 0.3  # seconds until something is due


@pytest.fixture(autouse=True)
def trusting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watches, "RECHECK_SECONDS", 60.0)
    monkeypatch.setattr(producer, "ASK_FOR_ROOM_SECONDS", 60.0)


def the_task(future: Any) -> Task[Any]:
    task = future.result(PATIENCE).task
    assert task is not None
    return task


# What wakes


PUSHES: dict[str, Callable[[DPQ[Any]], object]] = {
    "push": lambda q: q.push("a"),
    "push_many": lambda q: q.push_many([Push(payload="a")]),
    "into a group": lambda q: q.push("a", group="g"),
    "delayed": lambda q: q.push("a", delay=SOON),
}


@pytest.mark.fakeredis
@pytest.mark.parametrize("event", PUSHES.values(), ids=PUSHES)
def test_a_push_wakes(
    waiting: DPQ[Any], redis: Redis, background: Any, event: Callable[[DPQ[Any]], object]
) -> None:
    """A waiting pop returns a task that is pushed meanwhile, when it is due."""
    popped = background(waiting.pop, timeout=LONG)
    wait_for_waiters(redis, 1)

    event(waiting)

    assert the_task(popped).payload == "a"


WAYS_BACK: dict[str, Callable[[DPQ[Any], Task[Any]], object]] = {
    "release": lambda q, task: q.release(task),
    "release later": lambda q, task: q.release(task, delay=SOON),
    "fail": lambda q, task: q.fail(task, "no", delay=SOON),
    "hide": lambda q, task: q.set_visibility(task, SOON),
    "shorten": lambda q, task: q.extend(task, SOON),
    "replay": lambda q, task: (q.bury(task, "no"), q.dead.replay()),
    "rerun": lambda q, task: (q.push("a", key="k", on_duplicate="rerun"), q.ack(task)),
}


@pytest.mark.parametrize("event", WAYS_BACK.values(), ids=WAYS_BACK)
def test_whatever_brings_a_running_task_back_wakes(
    waiting: DPQ[Any], redis: Redis, background: Any, event: Callable[[DPQ[Any], Task[Any]], object]
) -> None:
    """A waiting pop gets a task that its holder gives up, defers, fails, buries or lets run out."""
    task_id = waiting.push("a", key="k")
    task = waiting.pop(visibility=600).task
    popped = background(waiting.pop, timeout=LONG)
    wait_for_waiters(redis, 1)

    event(waiting, task)

    assert the_task(popped).id == task_id


@pytest.mark.parametrize("opened", [True, False], ids=["by hand", "by time"])
def test_an_opened_group_wakes(
    waiting: DPQ[Any], redis: Redis, background: Any, opened: bool
) -> None:
    """The tasks of a closed group are had as soon as it opens, by hand or by time."""
    waiting.delay_group("g", 600)
    waiting.push("a", group="g")
    popped = background(waiting.pop, timeout=LONG)
    wait_for_waiters(redis, 1)

    waiting.delay_group("g", 0 if opened else SOON)

    assert the_task(popped).payload == "a"


# How many


def scripts_run(redis: Redis) -> int:
    return sum(
        redis.info("commandstats").get(f"cmdstat_{name}", {}).get("calls", 0)
        for name in ("evalsha", "eval")
    )


def test_one_push_wakes_one_waiter(waiting: DPQ[Any], redis: Redis, background: Any) -> None:
    """With five waiting, a push costs its own call and at most two pops, not one for each."""
    waiting.stats()
    popped = [background(waiting.pop, timeout=LONG, visibility=600) for _ in range(5)]
    wait_for_waiters(redis, 5)
    redis.config_resetstat()

    for number in range(5):
        waiting.push(number)
        wait_until(
            f"{number + 1} waiters served", lambda n=number: sum(f.done() for f in popped) == n + 1
        )
        wait_for_waiters(redis, 4 - number)
        assert scripts_run(redis) <= 3 * (number + 1) + 4  # the first push makes the queue

    assert sorted(the_task(future).payload for future in popped) == list(range(5))


def test_a_push_of_three_wakes_three(waiting: DPQ[Any], redis: Redis, background: Any) -> None:
    """One marker is enough for several tasks: a woken pop wakes the next while work remains."""
    popped = [background(waiting.pop, timeout=LONG, visibility=600) for _ in range(5)]
    wait_for_waiters(redis, 5)

    waiting.push_many(Push(payload=n) for n in range(3))
    wait_until("three waiters served", lambda: sum(f.done() for f in popped) == 3)
    wait_for_waiters(redis, 2)

    waiting.push_many(Push(payload=n) for n in range(3, 5))
    assert sorted(the_task(future).payload for future in popped) == list(range(5))


def test_an_idle_waiter_asks_nothing(
    waiting: DPQ[Any], redis: Redis, background: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At an empty queue a waiter sends nothing for a second, with the real recheck time."""
    monkeypatch.undo()
    assert watches.RECHECK_SECONDS == 10
    popped = background(waiting.pop, timeout=LONG)
    wait_for_waiters(redis, 1)
    redis.config_resetstat()

    until = time.monotonic() + 1
    wait_until("1 s to pass", lambda: time.monotonic() > until)

    own = {"cmdstat_info", "cmdstat_client|list", "cmdstat_client", "cmdstat_config|resetstat"}
    stats = redis.info("commandstats")
    sent = {
        name: s["calls"] for name, s in stats.items() if name not in own and "config" not in name
    }
    assert not sent
    waiting.push("a")
    the_task(popped)


# Timeouts


def test_a_timeout_ends_the_wait_and_not_before(waiting: DPQ[Any]) -> None:
    """With nothing to do a pop returns after its timeout with three times None."""
    began = time.monotonic()
    assert waiting.pop(timeout=0.2) == (None, None, None)
    assert time.monotonic() - began >= 0.2
    assert waiting.pop_many(5, timeout=0.05) == []


@pytest.mark.parametrize("timeout", [0, 0.001])
def test_nothing_is_never_said_while_something_is_due(
    q: DPQ[Any], clock: Any, timeout: float
) -> None:
    """Catching up with 1000 due tasks is not waiting: the best of them is returned at once."""
    q.push_many(Push(payload=n, priority=n, delay=1) for n in range(1000))
    clock.advance(1)
    assert q.pop(timeout=timeout).task.payload == 999


def test_a_wait_may_be_longer_than_the_clients_socket_timeout(
    server: Server, redis: Redis, queue_name: str, background: Any
) -> None:
    """A client that gives up on replies after 0.2 s waits for 1 s, and is woken within a wait."""
    with Redis.from_url(server.url, socket_timeout=0.2) as client:
        q: DPQ[Any] = DPQ(client, queue_name)
        began = time.monotonic()
        assert q.pop(timeout=1).task is None
        assert time.monotonic() - began >= 1

        popped = background(q.pop, timeout=LONG)
        wait_for_waiters(redis, 1)
        until = time.monotonic() + 0.5
        wait_until("0.5 s of blocking", lambda: time.monotonic() > until)
        q.push("a")
        assert the_task(popped).payload == "a"
        q.close()


# Faults

WAIT_FOR_EVER = """
import sys
from redis import Redis
from dpq import DPQ
DPQ(Redis.from_url(sys.argv[1]), sys.argv[2]).pop(timeout=None)
"""


def test_a_waiter_that_is_killed_costs_no_task(
    server: Server, redis: Redis, waiting: DPQ[Any], background: Any
) -> None:
    """SIGKILL of a consumer that a push has woken: the next consumer has the task at once."""
    command = [sys.executable, "-c", WAIT_FOR_EVER, server.url, waiting.queue_name]
    child = subprocess.Popen(command, env={**os.environ, "PYTHONPATH": os.getcwd()})
    try:
        wait_for_waiters(redis, 1)
        child.send_signal(signal.SIGSTOP)  # it is woken, and cannot look
        waiting.push("a")
        child.kill()
        child.wait(PATIENCE)
    finally:
        child.kill()
        child.wait(PATIENCE)

    task = waiting.pop().task
    assert (task.payload, task.attempt, task.deliveries) == ("a", 1, 1)

    popped = background(waiting.pop, timeout=LONG)
    wait_for_waiters(redis, 1)
    waiting.push("b")
    assert the_task(popped).payload == "b"


def test_a_waiter_outlives_a_restart_of_the_server(
    server: Server, queue_name: str, directory: str, background: Any
) -> None:
    """The server is killed under a waiter and comes back with its data: the wait goes on.

    A call tries again for as long as its client does: here, for as long as the server may take.
    """
    faults = (RedisConnectionError, OSError)  # redis-py 6 passes the system's own errors on
    patient = Retry(ConstantBackoff(0.05), round(PATIENCE / 0.05), faults)
    with (
        Server.join(directory, server.binary) as first,
        Redis.from_url(first.url) as redis,
        Redis.from_url(first.url, retry=patient) as client,
        DPQ[Any](client, queue_name) as q,
    ):
        popped = background(q.pop, timeout=LONG)
        wait_for_waiters(redis, 1)
        os.kill(first.pid, signal.SIGKILL)
        with Server.join(directory, server.binary) as second:
            assert (second.url, second.pid != first.pid) == (first.url, True)
            wait_for_waiters(redis, 1)
            assert not popped.done()
            DPQ(redis, queue_name).push("a")
            assert the_task(popped).payload == "a"


# Producers that wait for room


def wait_for_producers(q: DPQ[Any], redis: Redis, count: int) -> None:
    """Until so many stand in the line of a full queue, and will hear a call."""
    tracked = key_of(q.queue_name, "tracked")

    def standing() -> bool:
        entries = redis.zrange(tracked, 0, -1)
        deaf = type(redis) is not Redis
        return sum(deaf or not entry.endswith(b" ") for entry in entries) == count

    wait_until(f"{count} producers in the line", standing)


def test_a_push_waits_for_room(waiting: DPQ[Any], redis: Redis, background: Any) -> None:
    """A push into a full queue returns once a task of it is finished."""
    waiting.admin.set_bounds(max_tasks=1)
    waiting.push("a")
    pushed = background(waiting.push, "b", timeout=LONG)
    wait_for_producers(waiting, redis, 1)

    waiting.pop(timeout=LONG).on_success()

    assert waiting.get(pushed.result(PATIENCE)).payload == "b"
    assert not redis.exists(key_of(waiting.queue_name, "tracked"))


def test_no_room_in_time(waiting: DPQ[Any], redis: Redis) -> None:
    """If there is no room within the timeout, the push is refused, and nothing is left of it."""
    waiting.admin.set_bounds(max_tasks=1)
    waiting.push("a")
    with pytest.raises(QueueFullError):
        waiting.push("b", timeout=0.05)
    assert waiting.size() == 1
    assert not redis.exists(key_of(waiting.queue_name, "tracked"))
