"""How many 429s does a host of short windows give whose answers say what is left, and nothing else?

A simulation, as bench_adaptive. The host counts 10 requests in each second, and callers of
`acquire` ask as fast as they get permits. The queue has no limit: it knows what answers say. The
first request goes alone: before an answer nobody knows anything.
"""

from collections.abc import Iterator
from typing import Any

from benchmarks._harness import Bench, Result, Target, run_one
from benchmarks._simulated import START_MS
from benchmarks._simulated_callers import Callers, WindowHost
from dpq import DPQ

LIMIT, CALLERS, SECONDS, ROUNDS = 10, 32, 60, 3
WAY_MS = (5, 40)


def measure(bench: Bench) -> Iterator[Result]:
    refused, shares = [], []
    for _ in range(ROUNDS):
        clock, host = [START_MS], WindowHost(LIMIT)
        queue: DPQ[Any] = bench.queue(clock=lambda clock=clock: clock[0])
        callers = Callers(queue, clock, host, lambda: bench.random.uniform(*WAY_MS))
        callers.run(CALLERS, SECONDS)
        queue.admin.drop()
        refused.append(host.answers.count(429) / len(host.answers) * 100)
        shares.append(host.answers.count(200) / (LIMIT * SECONDS))
    shape = f"{CALLERS} callers, {LIMIT}/s in fixed windows, {WAY_MS[0]} to {WAY_MS[1]} ms away"
    yield Result(f"429s in 100 requests, {shape}", "", Target("at most", 1), refused, by="most")
    yield Result("share of what the host allows there", "", Target("at least", 0.85), shares)


if __name__ == "__main__":
    run_one("budgets")
