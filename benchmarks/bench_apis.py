"""Do limits hold as APIs have them: units, costs that are known late, pools of keys, daily quotas?

Most rows count what several processes were granted, and look at every window of the limit.
"""

import random
import time
from bisect import bisect_left
from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import accumulate
from typing import Any
from zoneinfo import ZoneInfo

from benchmarks._harness import Bench, Result, Target, payload, run_one
from benchmarks._processes import processes
from benchmarks.bench_pop import GROUPS, TASKS, in_hundreds
from dpq import DPQ, Push, Quota, RateLimit

WIDE = 1_000_000_000
PROCESSES = 8
SECONDS = 20.0
REQUESTS = RateLimit(100, 1, burst=10)
TOKENS = RateLimit(20_000, 1, burst=4_000, unit="tokens")
RESERVED, SPENT = 800, 400  # tokens: what a push says, and the middle of what a task spends
EACH_MEMBER, MEMBERS = RateLimit(20, 1), ("key-a", "key-b", "key-c")
QUOTA, DAY_OF_CHANGE = 2000, datetime(2026, 3, 8, tzinfo=ZoneInfo("America/Los_Angeles"))

Grant = tuple[float, int]
"""When, ms, and how many units."""


def windows_above(grants: list[Grant], per_ms: float, bound: int) -> int:
    """Count the windows, one from each grant on, in which there is more than the bound."""
    grants.sort()
    moments = [moment for moment, _ in grants]
    sums = [0, *accumulate(units for _, units in grants)]
    ends = (bisect_left(moments, moment + per_ms) for moment in moments)
    return sum(sums[end] - sums[start] > bound for start, end in enumerate(ends))


def _bound(limit: RateLimit) -> int:
    return int(limit.rate) + limit.burst - 1


def _in_hundreds(bench: Bench) -> Result:
    queue = bench.queue()
    windows = [RateLimit(WIDE, 1, WIDE), RateLimit(WIDE, 1, WIDE, unit="tokens")]
    queue.set_limit(windows, group="*")
    queue.push_many(
        Push(
            payload=payload(n),
            priority=priority,
            group=f"host-{bench.random.randrange(GROUPS)}.com",
            cost={"tokens": 1800},
        )
        for n, priority in enumerate(bench.priorities(TASKS))
    )
    name = f"in hundreds, limits of two units on {GROUPS} groups / 100 ZADD"
    return Result(name, "x", Target("at least", 0.15), *in_hundreds(bench, queue))


def _opened(url: str, name: str) -> DPQ[Any]:
    return DPQ[Any].from_url(url, name, default_visibility=60)


def _call(queue: DPQ[Any], _: str, end: float) -> list[tuple[float, int, str | None]]:
    """Run tasks; tell what each has really spent. Returns when, how much, and as which member."""
    seen: list[tuple[float, int, str | None]] = []
    chance = random.Random()
    while (left := end - time.monotonic()) > 0:
        task = queue.pop(timeout=left).task
        if task is None:
            continue
        time.sleep(chance.uniform(0.02, 0.06))
        spent = chance.randint(SPENT // 2, SPENT * 3 // 2)
        queue.ack(task, cost={"tokens": spent} if task.costs else None)
        seen.append((task.token / 1000, spent if task.costs else 1, task.member))
    return seen


def _two_units(bench: Bench) -> Iterator[Result]:
    queue = bench.queue()
    queue.set_limit([REQUESTS, TOKENS], group="gpt")
    most = int(REQUESTS.rate * SECONDS) * 2
    queue.push_many(Push(n, group="gpt", cost={"tokens": RESERVED}) for n in range(most))
    with processes(PROCESSES, _opened, _call, bench.server.url, queue.queue_name) as several:
        seen = [grant for grants in several.slice("", SECONDS) for grant in grants]
    tokens = [(moment, spent) for moment, spent, _ in seen]
    requests = [(moment, 1) for moment, _, _ in seen]
    above = windows_above(tokens, 1000, _bound(TOKENS)) + windows_above(
        requests, 1000, _bound(REQUESTS)
    )
    shape = f"{PROCESSES} processes, two units, costs reserved twice over"
    yield Result(
        f"windows above a bound by final costs, {shape}", "", Target("at most", 0), [above]
    )
    took = (max(tokens)[0] - min(tokens)[0]) / 1000
    share = sum(spent for _, spent in tokens) / (TOKENS.rate * took)
    detail = f"{len(seen)} tasks in {took:.0f} s"
    yield Result(
        "share of the tighter limit used there", "", Target("at least", 0.9), [share], detail
    )


def _pool(bench: Bench) -> Iterator[Result]:
    counts = {}
    above = 0
    for members in (MEMBERS[:1], MEMBERS):
        queue = bench.queue()
        queue.set_limit([EACH_MEMBER], group="api", members=members)
        queue.push_many(Push(n, group="api") for n in range(int(EACH_MEMBER.rate * SECONDS * 4)))
        with processes(PROCESSES, _opened, _call, bench.server.url, queue.queue_name) as several:
            seen = [grant for grants in several.slice("", SECONDS / 2) for grant in grants]
        counts[members] = len(seen)
        for member in members:
            grants = [(moment, 1) for moment, _, name in seen if name == member]
            above += windows_above(grants, 1000, _bound(EACH_MEMBER))
    times = counts[MEMBERS] / counts[MEMBERS[:1]]
    yield Result("tasks of three members / of one", "x", Target("at least", 2.9), [times])
    yield Result("windows above a member's bound", "", Target("at most", 0), [above])


def _day(bench: Bench) -> Result:
    clock = [DAY_OF_CHANGE.timestamp() * 1000]
    queue: DPQ[Any] = bench.queue(clock=lambda: int(clock[0]))
    queue.set_limit(Quota(QUOTA, "day", timezone="America/Los_Angeles"), group="api")
    queue.push_many(Push(n, group="api") for n in range(2 * QUOTA))
    used = 0
    midnight = DAY_OF_CHANGE.astimezone(UTC).timestamp() * 1000 + 23 * 3_600_000
    while clock[0] < midnight:
        tasks = queue.pop_many(100)
        queue.ack_many(tasks)
        used += len(tasks)
        clock[0] += 60_000
    assert used <= QUOTA
    name = "a day's quota on a day of 23 hours: share used"
    return Result(name, "", Target("at least", 0.98), [used / QUOTA], f"{used} of {QUOTA}")


def measure(bench: Bench) -> Iterator[Result]:
    yield _in_hundreds(bench)
    yield from _two_units(bench)
    yield from _pool(bench)
    yield _day(bench)


if __name__ == "__main__":
    run_one("apis")
