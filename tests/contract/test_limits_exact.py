"""Limits under fire: four processes pop as fast as they can, and every grant is written down.

When a task was granted is read off its lease: the lease's end, by the server's clock, minus the
lease. What is proved is a bound, so it holds on a machine of any speed; nothing here waits for a
fixed time.
"""

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from redis import Redis
from support import PATIENCE_S, wait_for

from dpq import DPQ, Push, RateLimit
from dpq.server import Server

PROCESSES = 4
LEASE_MS = 600_000

CONSUME = """
import json, os, sys
from redis import Redis
from dpq import DPQ
url, name, lease_ms, folder, *ways = sys.argv[1:]
begun = 0
while len(ways) > 1:  # so that all import once
    if not os.fork():
        begun = 0
        break
    begun += 1
    ways.pop()
waits = ways.pop()
redis = Redis.from_url(url)
q = DPQ(redis, name, default_visibility=int(lease_ms) / 1000)
timeout = 60 if waits == "waits" else 0
if not timeout:
    q.pop()
os.write(1, b"ready\\n")
grants, running = [], True
while running:
    task = q.pop(timeout=timeout).task
    if task is not None:
        running = task.payload != "stop"
        granted_at = round(task.visible_until.timestamp() * 1000) - int(lease_ms)
        grants.append([granted_at, task.group, task.cost, task.payload, task.member])
        q.ack(task)
q.close()
with open(f"{folder}/{os.getpid()}", "x") as file:
    json.dump(grants, file)
for _ in range(begun):
    os.wait()
"""


class Grant(NamedTuple):
    """A task as it was handed out, at a moment in ms."""

    at: int
    group: str | None
    cost: int
    payload: int | str
    member: str | None = None


@pytest.fixture
def consumers(server: Server, queue_name: str, tmp_path: Path) -> Iterator[Callable[[], list[Any]]]:
    """Processes that pop, every other one waiting, the others asking again and again; a function
    that waits for their end, and returns what each of them was granted."""
    ways = ["waits", "asks"] * (PROCESSES // 2)
    words = [server.url, queue_name, str(LEASE_MS), str(tmp_path), *ways]
    with subprocess.Popen(
        [sys.executable, "-c", CONSUME, *words],
        env={**os.environ, "PYTHONPATH": os.getcwd()},
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as started:

        def written() -> list[Any]:
            assert started.communicate(timeout=PATIENCE_S) == ("", None)  # the last has ended
            return [json.loads(path.read_text()) for path in tmp_path.iterdir()]

        try:
            assert started.stdout
            for _ in ways:
                assert started.stdout.readline() == "ready\n"
            yield written
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(started.pid, signal.SIGKILL)


def most_in_any(grants: Sequence[Grant], per: float) -> int:
    """The most units that any span of `per` seconds has seen, its end not included."""
    return max(
        sum(grant.cost for grant in grants if start.at <= grant.at < start.at + per * 1000)
        for start in grants
    )


def test_no_member_of_a_pool_sees_more_than_its_limit(
    redis: Redis, queue_name: str, consumers: Callable[[], list[Any]]
) -> None:
    """Four processes share three members: each keeps its bounds, and each is used as much."""
    q: DPQ[Any] = DPQ(redis, queue_name)
    windows = [RateLimit(20, 0.5, 3), RateLimit(30, 1, 5)]
    names = ["key-a", "key-b", "key-c"]
    q.set_limit(windows, group="pool", members=names, concurrency=4)
    count = 90
    q.push_many(Push(n, group="pool", cost=1 + n % 2) for n in range(count))
    wait_for(lambda: q.stats().acked == count, seen=q.stats)
    q.push_many(Push("stop") for _ in range(PROCESSES))
    everything = (Grant(*grant) for grants in consumers() for grant in grants)
    grants = [grant for grant in everything if grant.payload != "stop"]
    assert sorted(grant.payload for grant in grants) == list(range(count))
    for name in names:
        of_one = [grant for grant in grants if grant.member == name]
        assert len(of_one) > count / 6, name
        for window in windows:
            allowed = window.rate + window.burst - 1
            assert most_in_any(of_one, window.per) <= allowed, (name, window)
    assert q.check() == []
    assert q.admin.group("pool").in_flight == 0
    q.close()
