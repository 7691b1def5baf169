"""A limit that several queues share: the others' handlers take from the queue that has it."""

import json
import subprocess
import sys
from typing import Any

from dpq import DPQ, Push, RateLimit

RATE, BURST = 20, 5
TASKS, TEAMS, PROCESSES = 20, 3, 3

TEAM = """
import json, sys, time
from dpq import DPQ, Worker
url, api, team = sys.argv[1:]
limits, queue = DPQ.from_url(url, api), DPQ.from_url(url, team)
asked = []

def fetch(task):
    before = time.monotonic()
    with limits.acquire():
        asked.append((before, time.monotonic()))

Worker(queue, fetch, concurrency=2).drain()
print(json.dumps(asked))
"""


def test_no_window_is_above_its_bound(server: Any, redis: Any, queue_name: str) -> None:
    """Processes of three queues take no more of the limit than it allows, and do all.

    Each grant lies between two moments, so what is proved holds on a machine of any speed.
    """
    teams = [f"{queue_name}-{n}" for n in range(TEAMS)]
    limits = DPQ[Any](redis, queue_name)
    limits.set_limit([RateLimit(RATE, 1, burst=BURST)])
    queues = [DPQ[Any](redis, team) for team in teams]
    for queue in queues:
        queue.push_many(Push(n) for n in range(TASKS))
    working = [
        subprocess.Popen(
            [sys.executable, "-c", TEAM, server.url, queue_name, teams[n % TEAMS]],
            stdout=subprocess.PIPE,
        )
        for n in range(PROCESSES)
    ]
    grants = sorted(each for one in working for each in json.loads(one.communicate(timeout=60)[0]))
    for queue in [*queues, limits]:
        assert queue.size() == 0
        queue.admin.drop()
    most = RATE + BURST - 1
    assert len(grants) == TASKS * TEAMS
    for begin, _ in grants:
        assert sum(begin <= first and last < begin + 1 for first, last in grants) <= most
    took = max(last for _, last in grants) - grants[0][0]
    assert took >= (len(grants) - most) / RATE
