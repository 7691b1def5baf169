"""What does a group cost that may not run, and what a limit of others?"""

import time
from collections.abc import Iterator
from statistics import median
from typing import Any

from benchmarks._harness import (
    ROUNDS,
    SLICES,
    Bench,
    Result,
    Target,
    payload,
    run_one,
    server_clock,
)
from benchmarks.bench_push import ONE_BY_ONE
from dpq import DPQ, Push

CLOSED = 1_000_000  # tasks that wait in a closed group
BESIDE = 100_000  # the same, beside the tasks that are popped
POPS = 12


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


def measure(bench: Bench) -> Iterator[Result]:
    yield _past_a_group(bench, "closed")
    yield _past_a_group(bench, "spent")
    for groups in (0, 500):
        for what in ("a closed group", "a limit of another group", f"{BESIDE} closed tasks"):
            yield _beside(bench, what, groups)


if __name__ == "__main__":
    run_one("limits")
