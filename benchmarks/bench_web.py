"""What does a page of the dashboard cost, with a million tasks in ten thousand groups?

Each page is read anew in each round: what tabs share is over a second old by then, and charts are
not kept here. Work is the processor time of the dashboard's process, Redis that of the server.
"""

import time
from collections.abc import Iterator
from statistics import median
from typing import Any

from starlette.testclient import TestClient

from benchmarks._harness import ROUNDS, Bench, Result, Target, payload, run_one, server_clock
from benchmarks.bench_pop import GROUPS
from dpq import DPQ, Push, RateLimit
from dpq.script.keys import key_of
from dpq.views.shared import FRESH_SECONDS
from dpq.web import app
from dpq.web import site as web_site

TASKS = 1_000_000
NAMED = 100  # groups with a limit of their own
CLOSED = 1000
TABS = 100


def _group(number: int) -> str:
    return f"host-{number}.example.com"


def _fill(bench: Bench, queue: DPQ[Any]) -> str:
    """Push a million tasks, and bring some into each state; returns the id of one that waits."""
    queue.set_limit([RateLimit(1000, 1)], group="*")
    for n in range(NAMED):
        queue.set_limit([RateLimit(50, 1), RateLimit(9000, 60, unit="tokens")], group=_group(n))
    queue.push("first of its group", 2_000_000, group=_group(1))
    waits = queue.push("waits", -1, group=_group(1))
    queue.push_many(
        Push(
            payload=payload(n),
            priority=priority,
            group=_group(bench.random.randrange(GROUPS)),
            delay=3600 if n % 20 == 0 else 0,
        )
        for n, priority in enumerate(bench.priorities(TASKS))
    )
    for task in queue.pop_many(200):
        queue.bury(task, f"HTTP 40{len(task.id) % 5} for {task.payload}")
    queue.pop_many(1000)
    for n in range(CLOSED):
        queue.delay_group(_group(GROUPS - 1 - n), 3600)
    _fill_history(bench, queue)
    return waits


def _fill_history(bench: Bench, queue: DPQ[Any]) -> None:
    """Write a slot for each minute of a day, and each quarter of an hour of 14 days, as it is now.

    Its times are in all buckets that a busy queue has.
    """
    queue._session.run(queue._session.operations.remember)
    key = key_of(queue.queue_name, "history")
    (text, *_) = bench.redis.hvals(key)
    at, counts = text.split(b" ", 1)
    times = b"".join(b" %c%d %d" % (letter, n, 10 * n) for letter in b"wr" for n in range(18))
    for letter, length, size in (("m", 60_000, 1440), ("q", 900_000, 1344)):
        now = int(at) // length
        for n in range(now - size + 1, now + 1):
            slot = b"%d %b%b" % (n * length, counts, times)
            bench.redis.hset(key, f"{letter}{n % size}", slot)


def _pages(queue: DPQ[Any], task: str) -> dict[str, str]:
    here = f"/q/{queue.queue_name}"
    names = ("next", "limits", "dead", "recurring", "workers")
    states = ("ready", "waiting", "delayed", "invisible")
    return {
        "overview": "/",
        "queue": here,
        "14 days": f"{here}?span=14d",
        "history of a day": f"/api/queues/{queue.queue_name}/history?seconds=86400",
        **{name: f"{here}/{name}" for name in names},
        "a limit": f"{here}/limit?scope=group&group={_group(1)}",
        "groups by name": f"{here}/limits?way=name",
        "closed groups": f"{here}/limits?way=closed",
        "a task": f"{here}/tasks/{task}",
        **{f"tasks, {state}": f"{here}/tasks?state={state}" for state in states},
        "tasks of a group": f"{here}/tasks?state=waiting&group={_group(1)}",
        "a text that no task has": f"{here}/tasks?find=nowhere",
        "server": "/server",
    }


def measure(bench: Bench) -> Iterator[Result]:
    queue = bench.queue()
    paths = _pages(queue, _fill(bench, queue))
    server = server_clock(bench.server.pid)

    def cost(path: str) -> tuple[float, float]:
        time.sleep(FRESH_SECONDS)
        before, began = server(), time.process_time()
        answer = browser.get(path)
        took = time.process_time() - began
        assert answer.status_code == 200, f"{path}: {answer.text}"
        return took * 1000, (server() - before) * 1000

    def scripts(path: str, looks: int) -> int:
        """How many scripts have so many looks sent that begin within a second?"""
        time.sleep(FRESH_SECONDS)
        before, began, seen = bench.script_time()[0], time.monotonic(), 0
        while seen < looks and time.monotonic() < began + FRESH_SECONDS / 2:
            browser.get(path)
            seen += 1
        return bench.script_time()[0] - before

    with TestClient(app(queue), base_url="http://127.0.0.1:8321") as browser:
        for path in paths.values():  # compiles templates, loads scripts
            cost(path)
        kept = web_site.STORY_SECONDS, web_site.STORY_SHARE
        web_site.STORY_SECONDS = web_site.STORY_SHARE = 0
        costs = {name: [cost(path) for _ in range(ROUNDS)] for name, path in paths.items()}
        for i, (what, bound) in enumerate([("work", 50), ("Redis", 10)]):
            each = {name: median([cost[i] for cost in found]) for name, found in costs.items()}
            slowest = sorted(each, key=lambda name: -each[name])
            detail = ", ".join(f"{name} {each[name]:.1f}" for name in slowest[:4])
            samples = [cost[i] for cost in costs[slowest[0]]]
            yield Result(f"slowest page: {what}", "ms", Target("at most", bound), samples, detail)
        web_site.STORY_SECONDS, web_site.STORY_SHARE = kept
        path = paths["queue"]
        samples = [scripts(path, TABS) / scripts(path, 1) for _ in range(ROUNDS)]
        name = f"scripts for {TABS} looks at a queue within a second / for one"
        yield Result(name, "x", Target("at most", 1), samples)
    queue.close()


if __name__ == "__main__":
    run_one("web")
