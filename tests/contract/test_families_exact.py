"""Families under fire: eight processes pop from three queues that have one limit in common.

What is proved is a bound, so it holds on a machine of any speed. The turns of queues are in
tests/lua/test_families.py.
"""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from redis import Redis
from support import PATIENCE_S, wait_for

from dpq import DPQ, Push, RateLimit
from dpq.server import Server

LEASE_MS = 600_000
OF_PROCESSES = (0, 0, 0, 0, 0, 1, 1, 2)
"""The queue of each process: the first has most consumers, the last has one."""

CONSUME = """
import json, os, sys, time
from redis import Redis
from dpq import DPQ
url, lease_ms, folder, hold, *names = sys.argv[1:]
while len(names) > 1:
    if not os.fork():
        break
    names.pop()
q = DPQ(Redis.from_url(url), names.pop(), default_visibility=int(lease_ms) / 1000)
grants, running = [], True
while running:
    task = q.pop(timeout=60).task
    running = task.payload != "stop"
    begun = task.visible_until.timestamp() * 1000 - int(lease_ms)
    time.sleep(float(hold))
    q.ack(task)
    grants.append([begun, task.token, running])
with open(f"{folder}/{os.getpid()}", "x") as file:
    json.dump([q.queue_name, grants], file)
q.close()
while True:
    try:
        os.wait()
    except ChildProcessError:
        break
"""


@pytest.mark.parametrize("scope", [None, "host"])
@pytest.mark.parametrize("limit", ["rate", "concurrency"])
def test_eight_processes_on_three_queues(
    server: Server, redis: Redis, queue_name: str, tmp_path: Path, limit: str, scope: str | None
) -> None:
    """No window is above its bound, and each queue is served, however few its consumers are."""
    names = [queue_name, f"{{{queue_name}}}crawl", f"{{{queue_name}}}web"]
    queues: list[DPQ[Any]] = [DPQ(redis, name) for name in names]
    window, count, hold = RateLimit(20, 0.5, 2), 40, 0.0
    for q in queues:
        q.push_many(Push(n, priority=1, group=scope) for n in range(count))
        q.push_many(Push("stop", group=scope) for _ in range(OF_PROCESSES.count(queues.index(q))))
    if limit == "rate":
        queues[1].set_limit([window], group=scope)
    else:
        queues[1].set_limit(concurrency=2, group=scope)
        hold = 0.005
    words = [server.url, str(LEASE_MS), str(tmp_path), str(hold), *(names[i] for i in OF_PROCESSES)]
    done = subprocess.run(
        [sys.executable, "-c", CONSUME, *words],
        env={**os.environ, "PYTHONPATH": os.getcwd()},
        timeout=PATIENCE_S,
        check=True,
    )
    assert done.returncode == 0
    wait_for(lambda: len(list(tmp_path.iterdir())) == 8, seen=lambda: list(tmp_path.iterdir()))
    told = [json.loads(path.read_text()) for path in tmp_path.iterdir()]
    order = sorted(at for _, grants in told for at, _, _ in grants)
    assert len(order) == 3 * count + len(OF_PROCESSES)
    if limit == "rate":
        for start in order:
            within = [at for at in order if start <= at < start + window.per * 1000]
            assert len(within) <= window.rate + window.burst - 1
    for q in queues:
        assert q.check() == []
        assert q.stats().acked == count + OF_PROCESSES.count(queues.index(q))
    for q in reversed(queues):
        q.drop()
        q.close()
