"""The scheduler daemon, alone and as a process."""

import logging
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from kit.nodes import alone
from kit.schedulers import in_ready, running
from redis import Redis
from redis.backoff import NoBackoff
from redis.exceptions import NoPermissionError
from redis.retry import Retry
from support import PATIENCE_S, wait_for

from dpq import DPQ, Scheduler
from dpq.link.connections import Connections
from dpq.registry.all_queues import Sieve
from dpq.scheduler import daemon, upkeep
from dpq.scheduler.connections import Listener
from dpq.script.command import once
from dpq.script.keys import REGISTRY, STORAGE_FORMAT, key_of
from dpq.server import Server

ROOT = Path(__file__).parents[2]

SOAK = settings.get_current_profile_name() == "soak"


def calls(redis: Redis) -> int:
    return sum(
        int(row["calls"]) for name, row in redis.info("commandstats").items() if "eval" in name
    )


@pytest.fixture
def other(redis: Redis, queue_name: str) -> Iterator[DPQ]:
    """A second queue."""
    with DPQ(redis, f"{queue_name}-2") as queue:
        yield queue
        queue.admin.drop()


@pytest.mark.fakeredis
def test_run_once_does_one_step(redis: Redis, live: DPQ, queue_name: str) -> None:
    """A step moves what is due, once, and says how much that was."""
    live.push(1, delay=0.001)
    live.push(2, delay=1000)
    wait_for(lambda: live.next_event() == 0, live.stats)
    scheduler = Scheduler(redis, [queue_name])
    assert scheduler.run_once() == 1
    assert scheduler.run_once() == 0
    assert (in_ready(live), live.stats().delayed) == (1, 1)


def test_due_tasks_and_expired_leases_come_back(redis: Redis, live: DPQ) -> None:
    """A delayed task and one with a dead consumer become ready though nobody pops."""
    live.push("leased")
    with running(Scheduler(redis)):
        live.pop(visibility=0.2)
        live.push("delayed", delay=0.2)
        wait_for(lambda: in_ready(live) == 2, live.stats)
    assert live.stats().expired_leases == 1


def test_sleeps_until_the_event(redis: Redis, live: DPQ, queue_name: str) -> None:
    """Between two events a daemon asks the server nothing."""
    with running(Scheduler(redis, [queue_name])):
        live.push(1, delay=2.0)
        wait_for(lambda: redis.exists(key_of(queue_name, "tick")) == 0, live.stats)
        before = calls(redis)
        wait_for(lambda: redis.zcard(key_of(queue_name, "ready")) == 1, live.stats)
        assert calls(redis) - before <= 8  # two steps, and what was on its way: it does not poll


def test_new_queues_are_picked_up(redis: Redis, live: DPQ, other: DPQ) -> None:
    """A queue that begins while the daemon looks after another is looked after at once."""
    live.push(1)
    scheduler = Scheduler(redis)
    with running(scheduler):
        wait_for(lambda: scheduler._upkeep.queues, live.stats)
        other.push(1, delay=0.05)
        wait_for(lambda: in_ready(other) == 1, other.stats)


LEFT: dict[str, Callable[[Redis, str], Any]] = {
    "nothing": lambda redis, name: None,
    "its name": lambda redis, name: redis.sadd(REGISTRY, name),  # by a client that just opens it
    "a marker": lambda redis, name: redis.zadd(key_of(name, "wake"), {"w": 0}),  # put back by a pop
}
"""What others may leave of a queue when they race with its drop."""


@pytest.mark.parametrize("left", LEFT)
def test_a_queue_that_is_gone_is_let_go(redis: Redis, live: DPQ, other: DPQ, left: str) -> None:
    """One that is dropped costs nothing from then on, and is looked after when it begins anew."""
    live.push(1)
    other.push(1)
    scheduler = Scheduler(redis)
    with running(scheduler):
        for _ in range(2):
            wait_for(lambda: len(scheduler._upkeep.queues) == 2, live.stats)
            other.admin.drop()
            LEFT[left](redis, other.queue_name)
            wait_for(lambda: list(scheduler._upkeep.queues) == [live.queue_name], live.stats)
            wait_for(lambda: not redis.sismember(REGISTRY, other.queue_name), live.stats)
            other.push(1, delay=0.05)
            wait_for(lambda: in_ready(other) == 1, other.stats)


@pytest.mark.parametrize(
    ("damage", "told"),
    [
        (
            lambda q: q.redis.hset(key_of(q.queue_name, "conf"), "format", 99),
            "this queue gets no upkeep",
        ),
        (lambda q: q.redis.set(key_of(q.queue_name, "delayed"), "x"), "the server refuses"),
    ],
    ids=["of a newer DPQ", "key of the wrong type"],
)
def test_a_queue_that_cannot_be_stepped_hinders_no_other(
    redis: Redis,
    live: DPQ,
    other: DPQ,
    caplog: pytest.LogCaptureFixture,
    damage: Callable[[DPQ], Any],
    told: str,
) -> None:
    """It is left alone and named; the others are served."""
    other.push(1)
    damage(other)
    live.push(2, delay=0.05)
    with caplog.at_level(logging.ERROR), running(Scheduler(redis)):
        wait_for(lambda: in_ready(live) == 1, live.stats)
    assert f"{other.queue_name}: {told}" in caplog.text
    redis.hset(key_of(other.queue_name, "conf"), "format", STORAGE_FORMAT)


# One harms not all


def plant(redis: Redis, count: int) -> None:
    """Names without a queue, and one that no queue can have."""
    redis.sadd(REGISTRY, "a{b", b"\xff\xfe", *(f"junk-{n}" for n in range(count)))


def refusing(*_: Any) -> None:
    raise NoPermissionError("no permission")


@pytest.mark.parametrize("moment", [0, 1, 2])
def test_a_queue_that_begins_while_its_name_is_taken_out(
    redis: Redis, live: DPQ, moment: int
) -> None:
    """Whenever a producer begins a queue whose name stood there before, the name stays there."""
    redis.sadd(REGISTRY, live.queue_name)
    steps = Sieve().is_queue(live.queue_name)
    command = next(steps)
    with suppress(StopIteration):
        for n in range(5):
            if n == moment:
                live.push(1)
            command = steps.send(live._session.send(once(command)))
    assert redis.sismember(REGISTRY, live.queue_name)


def test_no_marker_hides_another(redis: Redis, queue_name: str) -> None:
    """A marker that always has a wake-up leaves the others their turn."""
    first, second = (key_of(f"{queue_name}-{n}", "tick") for n in (1, 2))
    redis.zadd(first, {"a": 0, "b": 0, "c": 0})
    redis.zadd(second, {"w": 0})
    waiter = Listener(Connections(redis), [first, second], [])
    woken = [waiter.wait(PATIENCE_S) for _ in range(3)]
    assert [marker.number for marker in woken if marker] == [0, 1, 0]
    waiter.close()
    redis.delete(first, second)


def test_the_first_event_of_all_queues(redis: Redis, live: DPQ, queue_name: str) -> None:
    """A daemon sleeps until the first event of its queues, not until that of another one."""
    for _ in range(5):  # a machine that stands still for 4 s proves nothing
        with DPQ(redis, f"{queue_name}-1") as later:
            later.push("later", delay=4.5)
            live.push("first", delay=1.5)  # the daemon is asleep by then
            redis.delete(key_of(later.queue_name, "tick"), key_of(queue_name, "tick"))
            with running(Scheduler(redis, [queue_name, later.queue_name])):
                wait_for(lambda: in_ready(live), live.stats)
                on_time = (later.next_event() or 0) > 1
            later.admin.drop()
            live.purge()
        if on_time:
            return
    raise AssertionError("the first task came with the later one")


@pytest.mark.parametrize("known", ["nothing", "a queue", "a named queue"])
def test_reconnects(
    directory: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, known: str
) -> None:
    """A daemon whose server goes away waits with backoff, and goes on when it is back: with a
    queue that is not due meanwhile, too, it does not say so before."""
    for module in (daemon, upkeep):
        monkeypatch.setattr(module, "RECHECK_SECONDS", 0.3)
    with (
        alone(Path(directory) / "node", appendonly="no") as node,
        Redis(unix_socket_path=str(node.socket), retry=Retry(NoBackoff(), 0)) as redis,
        DPQ(redis, "before") as before,
        caplog.at_level(logging.INFO, logger="dpq"),
    ):
        if known != "nothing":
            before.push(1, delay=60)
        with running(Scheduler(redis, ["before", "after"] if known == "a named queue" else None)):
            wait_for(lambda: "scheduler: upkeep of" in caplog.text, lambda: caplog.text)
            if known == "a queue":
                wait_for(
                    lambda: "before: this queue gets upkeep" in caplog.text, lambda: caplog.text
                )
            node.kill()
            wait_for(lambda: caplog.text.count("next try in") > 3, lambda: caplog.text)
            assert "the server answers again" not in caplog.text
            node.start()
            wait_for(lambda: "the server answers again" in caplog.text, lambda: caplog.text)
            with DPQ(redis, "after") as queue:
                queue.push(1, delay=0.05)
                wait_for(lambda: in_ready(queue) == 1, queue.stats)


COMMAND, PROGRAM = ["-m", "dpq", "admin", "scheduler"], ["delayed_tasks_scheduler.py"]


@pytest.mark.parametrize(
    ("command", "number"),
    [(COMMAND, signal.SIGTERM), (PROGRAM, signal.SIGINT)]
    + SOAK * [(COMMAND, signal.SIGINT), (PROGRAM, signal.SIGTERM)],
)
def test_as_a_process(
    server: Server, live: DPQ, queue_name: str, command: list[str], number: signal.Signals
) -> None:
    """Both ways to start it serve the queue that the environment names; a signal ends it."""
    environment = {**os.environ, "DPQ_URL": server.url, "DPQ_QUEUES": queue_name}
    process = subprocess.Popen(
        [sys.executable, *command], cwd=ROOT, env=environment, stderr=subprocess.PIPE, text=True
    )
    try:
        live.push(1, delay=0.3)
        wait_for(lambda: in_ready(live) == 1, live.stats)
        process.send_signal(number)
        _, talk = process.communicate(timeout=PATIENCE_S)
    finally:
        process.kill()
        process.wait()
    assert process.returncode == 0, talk
    assert f"{queue_name}: moved 1" in talk
    assert f"{number.name} has ended it" in talk
