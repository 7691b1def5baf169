"""What do limits cost, what does a group cost that may not run, and how exactly does a pop wait?"""

import multiprocessing
import time
from collections.abc import Callable, Iterator
from itertools import pairwise
from multiprocessing.queues import SimpleQueue
from multiprocessing.synchronize import Barrier
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
    server_clock,
)
from benchmarks.bench_pop import GROUPS, TASKS, in_hundreds
from benchmarks.bench_push import ONE_BY_ONE
from dpq import DPQ, Push

WIDE = 1_000_000  # units a second, and at once: never reached here
CLOSED = 1_000_000  # tasks that wait in a closed group
BESIDE = 100_000  # the same, beside the tasks that are popped
POPS = 12
RATE, WAITERS, SECONDS = 50, 4, 4
START_PATIENCE_S = 120  # until all processes have started


def _hundreds_in_groups(bench: Bench) -> Result:
    queue = bench.queue()
    queue.set_limit(WIDE, 1, WIDE)
    queue.set_limit(100, 1, 100, group="*")
    queue.push_many(
        Push(payload=payload(n), priority=p, group=f"host-{bench.random.randrange(GROUPS)}.com")
        for n, p in enumerate(bench.priorities(TASKS))
    )
    name = f"in hundreds, a limit on the queue and on {GROUPS} groups / 100 ZADD"
    return Result(name, "x", Target("at least", 0.28), *in_hundreds(bench, queue))


def _one_by_one(bench: Bench) -> Result:
    free, limited = bench.queue(), bench.queue()

    def fill() -> None:
        for queue in (free, limited):
            queue.admin.drop()
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
    with_it.admin.drop()
    bench.wait_until_freed()
    detail = f"of the server {server[0]:.0f} us, without {server[1]:.0f} us"
    name = f"{POPS} pops past a {what} group of {CLOSED:,} / without it"
    return Result(name.replace(",", " "), "x", Target("at most", 1.5), samples, detail)


def _beside(bench: Bench, what: str, groups: int) -> Result:
    """The server's processor time for pops that no limit concerns, as soon as there is one."""
    with_it, without = bench.queue(), bench.queue()
    clock = server_clock(bench.server.pid)
    for queue in (with_it, without):
        queue.push_many(
            Push(payload(n), priority=p, group=f"host-{n % groups}.com" if groups else None)
            for n, p in enumerate(bench.priorities(SLICES * (ROUNDS + 1) * ONE_BY_ONE))
        )
    if what == "a limit of another group":
        with_it.set_limit(1, 86_400, group="other")
    else:
        bench.fill(with_it, 1 if what == "a closed group" else BESIDE, group="other")
        with_it.delay_group("other", 86_400)
    samples: list[float] = []
    took = {with_it: 0.0, without: 0.0}
    for _ in range(ROUNDS + 1):
        took = dict.fromkeys(took, 0.0)
        for turn in range(SLICES):
            for queue in (with_it, without) if turn % 2 else (without, with_it):
                before = clock()
                for _ in range(ONE_BY_ONE):
                    assert queue.pop().task
                took[queue] += (clock() - before) * 1e6 / SLICES / ONE_BY_ONE
        samples.append(took[with_it] / took[without])
    detail = f"of the server {took[with_it]:.1f} us, without {took[without]:.1f} us"
    kind = f"of {groups} groups" if groups else "without a group"
    name = f"pop of tasks {kind} beside {what} / without it, server"
    for queue in (with_it, without):
        queue.admin.drop()
    bench.wait_until_freed()
    return Result(name, "x", Target("at most", 1.15), samples[1:], detail)


def _consume(url: str, name: str, start: "Barrier", grants: "SimpleQueue[list[float]]") -> None:
    seen: list[float] = []
    with DPQ[Any].from_url(url, name, default_visibility=60) as queue:
        queue.stats()  # opens it
        start.wait()
        until = time.monotonic() + SECONDS
        while time.monotonic() < until:
            task = queue.pop(timeout=0.5).task
            if task and task.visible_until:
                seen.append(task.visible_until.timestamp() * 1000)
                queue.ack(task)
    grants.put(seen)


def _exact_waits(bench: Bench) -> Iterator[Result]:
    late: list[float] = []
    calls: list[float] = []
    context = multiprocessing.get_context("spawn")
    for _ in range(ROUNDS):
        queue = bench.queue()
        queue.set_limit(RATE, 1)
        bench.fill(queue, 2 * RATE * SECONDS)
        grants: SimpleQueue[list[float]] = context.SimpleQueue()
        start = context.Barrier(WAITERS + 1, timeout=START_PATIENCE_S)
        arguments = (bench.server.url, queue.queue_name, start, grants)
        processes = [
            context.Process(target=_consume, args=arguments, daemon=True) for _ in range(WAITERS)
        ]
        for process in processes:
            process.start()
        start.wait()  # the time begins when all have started, however long that takes
        before = bench.script_time()[0]
        moments = sorted(moment for _ in processes for moment in grants.get())
        for process in processes:
            process.join()
        acks = len(moments)
        calls.append((bench.script_time()[0] - before - acks) / acks)
        late.append(percentile([b - a - 1000 / RATE for a, b in pairwise(moments)], 0.99))
        queue.admin.drop()
    shape = f"{WAITERS} waiting processes, {RATE}/s"
    name = f"lateness of a unit's grant, {shape}, p99"
    yield Result(name, "ms", Target("at most", 5), late)
    yield Result(f"calls of pop for each unit, {shape}", "", Target("at most", 2.2), calls)


def measure(bench: Bench) -> Iterator[Result]:
    yield _hundreds_in_groups(bench)
    yield _one_by_one(bench)
    yield from _exact_waits(bench)
    yield _past_a_group(bench, "closed")
    yield _past_a_group(bench, "spent")
    for groups in (0, 500):
        for what in ("a closed group", "a limit of another group", f"{BESIDE} closed tasks"):
            yield _beside(bench, what, groups)


if __name__ == "__main__":
    run_one("limits")
