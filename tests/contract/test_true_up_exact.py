"""Costs that are named too high, under fire: processes pop, and tell at the end what they spent.

When a task was granted is read off its lease, as in test_limits_exact. What is proved is a bound,
so it holds on a machine of any speed.
"""

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from redis import Redis
from support import PATIENCE_S, wait_for

from dpq import DPQ, Push, RateLimit
from dpq.server import Server

PROCESSES = 4
LEASE_MS = 600_000

GROUP = [RateLimit(150, 1, 20, slack=0), RateLimit(4000, 1, 900, unit="tokens", slack=0)]
QUEUE = [
    RateLimit(5000, 1, 700, unit="tokens", slack=0, estimate=60),
    RateLimit(9000, 2, 900, unit="tokens"),
]

CONSUME = """
import json, os, random, sys, threading
from redis import Redis
from dpq import DPQ
url, name, lease_ms, folder, count = sys.argv[1:]
for n in range(int(count) - 1):
    if not os.fork():
        break
redis = Redis.from_url(url)
q = DPQ(redis, name, default_visibility=int(lease_ms) / 1000)
grants, chance = [], random.Random(os.getpid())

def consume():
    held, running = [], True
    while running or held:
        task = q.pop(timeout=0.05).task if running else None
        if task is not None:
            running = task.payload != "stop"
            granted_at = round(task.visible_until.timestamp() * 1000) - int(lease_ms)
            reserved = (task.costs or {}).get("tokens")
            most = 60 if reserved is None else reserved
            spent = chance.randint(0, most) if running else 0
            grants.append([granted_at, task.group, task.cost, reserved, spent, task.payload])
            held.append((task, spent))
        if held and (len(held) > 5 or not running or chance.random() < 0.4):
            done, spent = held.pop(chance.randrange(len(held)))
            way = chance.choice(["spent", "ack", "many"])
            if way == "spent":
                q.spent(done, tokens=spent)
            if way == "many":
                q.ack_many([done], [{"tokens": spent}])
            else:
                q.ack(done, cost={"tokens": spent})

threads = [threading.Thread(target=consume) for _ in range(2)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
q.close()
with open(f"{folder}/{os.getpid()}", "x") as file:
    json.dump(grants, file)
try:
    while True:  # those that this process has started
        os.wait()
except ChildProcessError:
    pass
"""


class Grant(NamedTuple):
    """A task as it was handed out at a moment in ms, and what it has spent."""

    at: int
    group: str | None
    requests: int
    reserved: int | None
    spent: int
    payload: int | str


def most_in_any(grants: Sequence[Grant], window: RateLimit) -> int:
    """The most units by final costs that any span of the window's length has seen."""

    def units(grant: Grant) -> int:
        return grant.requests if window.unit == "" else grant.spent

    return max(
        sum(units(each) for each in grants if start.at <= each.at < start.at + window.per * 1000)
        for start in grants
    )


def test_no_window_holds_more_than_its_bound_by_final_costs(
    server: Server, redis: Redis, queue_name: str, tmp_path: Path
) -> None:
    """Of two units, of a group and of the queue, however many hold tasks at once; and all run."""
    q: DPQ[Any] = DPQ(redis, queue_name)
    q.set_limit(QUEUE)
    q.set_limit(GROUP, group="g")
    count = 300
    words = [server.url, queue_name, str(LEASE_MS), str(tmp_path), str(PROCESSES)]
    q.push_many(
        Push(
            n,
            n % 3,
            group=["g", "g", "h", None][n % 4],
            cost=1 if n % 7 == 0 else {"tokens": n * 37 % 300 + 1},
        )
        for n in range(count)
    )
    with subprocess.Popen(
        [sys.executable, "-c", CONSUME, *words], env={**os.environ, "PYTHONPATH": os.getcwd()}
    ) as started:
        try:
            wait_for(lambda: q.stats().acked == count, seen=q.stats)
            q.clear_limit()
            q.push_many(Push("stop") for _ in range(2 * PROCESSES))
            assert started.wait(PATIENCE_S) == 0
        finally:
            started.kill()
    texts = [json.loads(path.read_text()) for path in tmp_path.iterdir()]
    grants = [Grant(*each) for some in texts for each in some]
    grants = [grant for grant in grants if grant.payload != "stop"]
    assert sorted(int(grant.payload) for grant in grants) == list(range(count))
    named = [grant for grant in grants if grant.reserved is not None]
    for granted, windows in (
        (named, QUEUE),
        ([grant for grant in named if grant.group == "g"], GROUP),
    ):
        for window in windows:
            allowed = window.rate + window.burst - 1
            assert most_in_any(granted, window) <= allowed, (granted, window)
    assert q.check() == []
    q.close()
