"""The scheduler daemon, alone and as a process."""

import logging
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from redis import Redis
from redis.backoff import NoBackoff
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.retry import Retry
from support import PATIENCE_S, wait_for

from dpq import DPQ, Scheduler
from dpq._keys import STORAGE_FORMAT, key_of
from dpq._nodes import Node
from dpq.server import Server

ROOT = Path(__file__).parents[2]


@pytest.fixture
def live(redis: Redis, queue_name: str) -> Iterator[DPQ]:
    """A queue on the server's own clock."""
    queue = DPQ(redis, queue_name)
    yield queue
    queue.drop()
    queue.close()


@contextmanager
def running(scheduler: Scheduler) -> Iterator[None]:
    thread = threading.Thread(target=scheduler.run)
    thread.start()
    try:
        yield
    finally:
        scheduler.stop()
        thread.join(PATIENCE_S)
        assert not thread.is_alive()


def calls(redis: Redis) -> int:
    return sum(
        int(row["calls"]) for name, row in redis.info("commandstats").items() if "eval" in name
    )


@pytest.mark.fakeredis
def test_run_once_does_one_step(redis: Redis, live: DPQ, queue_name: str) -> None:
    """A step moves what is due, once, and says how much that was."""
    live.push(1, delay=0.001)
    live.push(2, delay=1000)
    wait_for(lambda: live.next_event() == 0, live.stats)
    scheduler = Scheduler(redis, [queue_name])
    assert scheduler.run_once() == 1
    assert scheduler.run_once() == 0
    assert (live.stats().ready, live.stats().delayed) == (1, 1)


def test_due_tasks_and_expired_leases_come_back(redis: Redis, live: DPQ) -> None:
    """A delayed task and one with a dead consumer become ready though nobody pops."""
    live.push("leased")
    with running(Scheduler(redis)):
        live.pop(visibility=0.2)
        live.push("delayed", delay=0.2)
        wait_for(lambda: live.stats().ready == 2, live.stats)
    assert live.stats().expired_leases == 1


def test_sleeps_until_the_event(redis: Redis, live: DPQ, queue_name: str) -> None:
    """Between two events a daemon asks the server nothing."""
    with running(Scheduler(redis, [queue_name])):
        live.push(1, delay=1.0)
        wait_for(lambda: redis.exists(key_of(queue_name, "tick")) == 0, live.stats)
        before = calls(redis)
        wait_for(lambda: redis.zcard(key_of(queue_name, "ready")) == 1, live.stats)
        assert calls(redis) - before <= 5  # two steps, and what was on its way


def test_new_queues_are_picked_up(redis: Redis, live: DPQ, queue_name: str) -> None:
    """A queue that begins while the daemon runs is looked after at once."""
    with running(Scheduler(redis)):
        other = DPQ(redis, queue_name + "-2")
        other.push(1, delay=0.05)
        wait_for(lambda: other.stats().ready == 1, other.stats)
        other.drop()
        other.close()


def test_several_at_once(redis: Redis, live: DPQ) -> None:
    """Three daemons on one queue move each task once."""
    for number in range(300):
        live.push(number, delay=0.05)
    with running(Scheduler(redis)), running(Scheduler(redis)), running(Scheduler(redis)):
        wait_for(lambda: live.stats().ready == 300, live.stats)
    assert live.check() == []


def test_a_queue_of_another_format_hinders_no_other(
    redis: Redis, live: DPQ, queue_name: str, caplog: pytest.LogCaptureFixture
) -> None:
    """A queue stored by a newer DPQ is left alone and named; the others are served."""
    newer = queue_name + "-1-newer"
    DPQ(redis, newer).push(1)
    redis.hset(key_of(newer, "conf"), "format", STORAGE_FORMAT + 1)
    live.push(2, delay=0.05)
    with caplog.at_level(logging.ERROR), running(Scheduler(redis)):
        wait_for(lambda: live.stats().ready == 1, live.stats)
    assert f"{newer}: left alone" in caplog.text
    redis.hset(key_of(newer, "conf"), "format", STORAGE_FORMAT)
    DPQ(redis, newer).drop()


def test_a_queue_that_the_server_refuses_hinders_no_other(
    redis: Redis, live: DPQ, queue_name: str, caplog: pytest.LogCaptureFixture
) -> None:
    """A queue whose key has the wrong type is reported; the others are served."""
    broken = queue_name + "-1-broken"
    DPQ(redis, broken).push(1)
    redis.set(key_of(broken, "delayed"), "no sorted set")
    live.push(2, delay=0.05)
    with caplog.at_level(logging.ERROR), running(Scheduler(redis)):
        wait_for(lambda: live.stats().ready == 1, live.stats)
    assert f"{broken}: the server refuses" in caplog.text
    DPQ(redis, broken).drop()


@pytest.mark.fakeredis
def test_a_master_that_is_away_hinders_no_queue_elsewhere(
    redis: Redis,
    live: DPQ,
    queue_name: str,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Its queues cost one try a round, and are told of once; those of other masters are served."""
    here, *there = names = [queue_name, f"{queue_name}-1", f"{queue_name}-2"]
    scheduler = Scheduler(redis, names[::-1])
    elsewhere = Node("elsewhere", redis, {})
    nodes = {key_of(name, "tick"): elsewhere for name in there}
    monkeypatch.setattr(scheduler._link.nodes, "of", nodes.get)  # None is one, too
    monkeypatch.setattr(scheduler, "_step", (step := Steps(scheduler._step, there)))
    live.push(1, delay=0.001)
    wait_for(lambda: live.next_event() == 0, live.stats)
    assert [scheduler.run_once(), scheduler.run_once()] == [1, 0]
    assert step.asked == [there[1], here] * 2
    assert caplog.text.count("out of reach") == 1
    step.away.clear()
    scheduler.run_once()
    assert step.asked[4:] == names[::-1]


@pytest.mark.fakeredis
def test_a_partition_out_of_reach_says_nothing_of_other_masters(
    redis: Redis, live: DPQ, queue_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may be that of any of the partitions: who shares a master with the first is stepped."""
    divided = f"{queue_name}-2"
    with DPQ(redis, divided, partitions=2) as queue:
        queue.push(1)
        scheduler = Scheduler(redis, [divided, queue_name])
        scheduler.run_once()
        monkeypatch.setattr(scheduler, "_step", (step := Steps(scheduler._step, [divided])))
        scheduler.run_once()
        assert step.asked == [divided, queue_name]
        queue.drop()


def test_no_master_at_all(redis: Redis, monkeypatch: pytest.MonkeyPatch) -> None:
    """When nobody can be reached the round fails."""
    scheduler = Scheduler(redis, ["a"])
    monkeypatch.setattr(scheduler, "_step", Steps(scheduler._step, ["a"]))
    with pytest.raises(RedisConnectionError, match="gone"):
        scheduler.run_once()


class Steps:
    """Steps of a scheduler, of which some cannot reach their server."""

    def __init__(self, step: Callable[[DPQ[Any]], Any], away: list[str]) -> None:
        self.step = step
        self.away = set(away)
        self.asked: list[str] = []

    def __call__(self, queue: DPQ[Any]) -> Any:
        self.asked.append(queue.queue_name)
        if queue.queue_name in self.away:
            raise RedisConnectionError("gone")
        return self.step(queue)


def test_reconnects(caplog: pytest.LogCaptureFixture) -> None:
    """A daemon whose server goes away waits with backoff, and goes on when it is back."""
    first = Server.start()
    path = first.url.removeprefix("unix://")
    arguments = Path(f"/proc/{first.pid}/cmdline").read_bytes() if sys.platform == "linux" else b""
    redis = Redis(unix_socket_path=path, retry=Retry(NoBackoff(), 0))
    scheduler = Scheduler(redis)
    with caplog.at_level(logging.INFO, logger="dpq"), running(scheduler):
        wait_for(lambda: "looking after" in caplog.text, lambda: caplog.text)
        first.close()
        wait_for(lambda: "again in" in caplog.text, lambda: caplog.text)
        Path(path).parent.mkdir(exist_ok=True)
        again = subprocess.Popen(
            [str(first.binary.path), "--port", "0", "--unixsocket", path, "--save", ""],
            stdout=subprocess.DEVNULL,
        )
        try:
            wait_for(lambda: "the server is back" in caplog.text, lambda: (caplog.text, arguments))
            queue = DPQ(redis, "after")
            queue.push(1, delay=0.05)
            wait_for(lambda: queue.stats().ready == 1, queue.stats)
        finally:
            scheduler.stop()
            again.terminate()
            again.wait(PATIENCE_S)
            Path(path).unlink(missing_ok=True)
            Path(path).parent.rmdir()


@pytest.mark.parametrize("command", [["-m", "dpq", "scheduler"], ["delayed_tasks_scheduler.py"]])
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
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
        wait_for(lambda: live.stats().ready == 1, live.stats)
        process.send_signal(number)
        _, talk = process.communicate(timeout=PATIENCE_S)
    finally:
        process.kill()
        process.wait()
    assert process.returncode == 0, talk
    assert f"{queue_name}: moved 1" in talk
    assert f"{number.name}, stopping" in talk
