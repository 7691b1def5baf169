"""What do limits cost, what does a group cost that may not run, and how exactly does a pop wait?"""

import multiprocessing
import time
from collections.abc import Callable
from itertools import pairwise
from multiprocessing.queues import SimpleQueue
from statistics import median
from typing import Any

from benchmarks._harness import (
    ROUNDS,
    SLICES,
    Bench,
    Result,
    Target,
    payload,
    percentile,
    ratio,
    run_one,
)
from benchmarks.bench_groups import GROUPS
from benchmarks.bench_pop import TASKS, in_hundreds
from benchmarks.bench_push import ONE_BY_ONE
from dpq import DPQ, Push

WIDE = 1_000_000  # units a second, and at once: never reached here
CLOSED = 1_000_000  # tasks that wait in a closed group
POPS = 12
RATE, WAITERS, SECONDS = 50, 4, 4


def _hundreds_in_groups(bench: Bench) -> Result:
    queue = bench.queue()
    queue.set_limit(WIDE, 1, WIDE)
    queue.set_limit(100, 1, 100, group="*")
    queue.push_many(
        Push(payload=payload(n), priority=p, group=f"host-{bench.random.randrange(GROUPS)}.com")
        for n, p in enumerate(bench.priorities(TASKS))
    )
    name = f"in hundreds, a limit on the queue and on {GROUPS} groups / 100 ZADD"
    return Result(name, "x", Target("at least", 0.18), *in_hundreds(bench, queue))


def _one_by_one(bench: Bench) -> Result:
    free, limited = bench.queue(), bench.queue()

    def fill() -> None:
        for queue in (free, limited):
            queue.drop()
            bench.fill(queue, SLICES * ONE_BY_ONE)
        limited.set_limit(WIDE, 1, WIDE)

    def consume(queue: DPQ[Any]) -> Callable[[], None]:
        def run() -> None:
            for _ in range(ONE_BY_ONE):
                queue.pop().on_success()

        return run

    name = "pop + ack under a limit that never binds / without one"
    measured = ratio(bench, consume(limited), consume(free), fill, ONE_BY_ONE)
    return Result(name, "x", Target("at least", 0.9), *measured)


def _pops_time(bench: Bench, queue: DPQ[Any]) -> tuple[float, float]:
    """Microseconds for some pops of tasks of other groups: the caller's, and the server's."""
    _, before = bench.script_time()
    start = time.perf_counter()
    tasks = [queue.pop().task for _ in range(POPS)]
    took = (time.perf_counter() - start) * 1e6
    _, after = bench.script_time()
    assert all(task and task.group != "big" for task in tasks)
    queue.ack_many([task for task in tasks if task])
    return took, after - before


def _past_a_group(bench: Bench, what: str) -> Result:
    """Pops past a group of a million that is closed, or whose units are spent."""
    with_it, without = bench.queue(), bench.queue()
    for queue in (with_it, without):
        if what == "spent":
            queue.set_limit(1, 86_400, group="big")
        queue.push_many(Push(n, group=f"small-{n % 100}") for n in range(POPS * 40 * ROUNDS))
    bench.fill(with_it, CLOSED, group="big")
    if what == "spent":
        with_it.push("best", priority=10**9, group="big")
        assert with_it.pop().task
    else:
        with_it.delay_group("big", 86_400)
    samples, server = [], (0.0, 0.0)
    for _ in range(ROUNDS):
        pairs = [(_pops_time(bench, with_it), _pops_time(bench, without)) for _ in range(20)]
        samples.append(median(a[0] for a, _ in pairs) / median(b[0] for _, b in pairs))
        server = median(a[1] for a, _ in pairs), median(b[1] for _, b in pairs)
    with_it.drop()
    bench.wait_until_freed()
    detail = f"of the server {server[0]:.0f} us, without {server[1]:.0f} us"
    name = f"{POPS} pops past a {what} group of {CLOSED:,} / without it"
    return Result(name.replace(",", " "), "x", Target("at most", 1.5), samples, detail)


def _consume(url: str, name: str, until: float, grants: "SimpleQueue[list[float]]") -> None:
    seen: list[float] = []
    with DPQ[Any].from_url(url, name, default_visibility=60) as queue:
        while time.monotonic() < until:
            task = queue.pop(timeout=0.5).task
            if task and task.visible_until:
                seen.append(task.visible_until.timestamp() * 1000)
                queue.ack(task)
    grants.put(seen)


def _exact_waits(bench: Bench) -> list[Result]:
    late: list[float] = []
    calls: list[float] = []
    context = multiprocessing.get_context("spawn")
    for _ in range(ROUNDS):
        queue = bench.queue()
        queue.set_limit(RATE, 1)
        bench.fill(queue, 2 * RATE * SECONDS)
        grants: SimpleQueue[list[float]] = context.SimpleQueue()
        arguments = (bench.server.url, queue.queue_name, time.monotonic() + SECONDS, grants)
        before = bench.script_time()[0]
        processes = [context.Process(target=_consume, args=arguments) for _ in range(WAITERS)]
        for process in processes:
            process.start()
        moments = sorted(moment for _ in processes for moment in grants.get())
        for process in processes:
            process.join()
        acks = len(moments)
        calls.append((bench.script_time()[0] - before - acks) / acks)
        late.append(percentile([b - a - 1000 / RATE for a, b in pairwise(moments)], 0.99))
        queue.drop()
    shape = f"{WAITERS} waiting processes, {RATE}/s"
    return [
        Result(f"lateness of a unit's grant, {shape}, p99", "ms", Target("at most", 5), late),
        Result(f"calls of pop for each unit, {shape}", "", Target("at most", 2.2), calls),
    ]


def measure(bench: Bench) -> list[Result]:
    return [
        _hundreds_in_groups(bench),
        _one_by_one(bench),
        *_exact_waits(bench),
        _past_a_group(bench, "closed"),
        _past_a_group(bench, "spent"),
    ]


if __name__ == "__main__":
    run_one("limits")
