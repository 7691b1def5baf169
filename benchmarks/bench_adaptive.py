"""How well is a limit learned that nobody knows and that changes? A simulation: time goes by hand.

A host allows so many requests in any second, and changes that twice. Four consumers ask it; an
answer takes 60 ms, and a 429 says Retry-After: 1. The queue's only knowledge is `Adaptive`.
"""

import heapq
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from benchmarks._harness import Bench, Result, Target, run_one
from dpq import DPQ, Adaptive, Push, Task

STEPS = (20, 5, 40)  # what the host allows in a second
STEP_MS = 120_000
LATENCY_MS = 60
CONSUMERS = 4
START_MS = 1_700_000_000_000
BATCH = 2000


class _Host:
    """Never more than the limit in any second; counts what it allowed and refused."""

    def __init__(self) -> None:
        self.recent: deque[int] = deque()
        self.served = 0
        self.refused = 0

    def ask(self, ms: int, limit: int) -> bool:
        while self.recent and self.recent[0] <= ms - 1000:
            self.recent.popleft()
        if len(self.recent) >= limit:
            self.refused += 1
            return False
        self.recent.append(ms)
        self.served += 1
        return True


def _crawl(queue: DPQ[Any], clock: list[int]) -> tuple[list[int], _Host]:
    """Crawl through all steps; how many were served in each, and the host."""
    host, served, end = _Host(), [0] * len(STEPS), START_MS + STEP_MS * len(STEPS)
    running: list[tuple[int, int, Task[Any], bool]] = []
    while clock[0] < end:
        step = (clock[0] - START_MS) // STEP_MS
        while len(running) < CONSUMERS and (task := queue.pop().task):
            answer = host.ask(clock[0], STEPS[step])
            served[step] += answer
            heapq.heappush(running, (clock[0] + LATENCY_MS, task.token, task, answer))
        event = queue.next_event()
        moments = [running[0][0]] if running else []
        if event is not None and len(running) < CONSUMERS:
            moments.append(clock[0] + max(1, round(event * 1000)))
        clock[0] = min([*moments, end])
        while running and running[0][0] <= clock[0]:
            _, _, task, answer = heapq.heappop(running)
            if answer:
                queue.ack(task)
            else:
                queue.rate_limited(task, 1)
        if len(queue) < BATCH // 2:
            queue.push_many(Push(n, group="api") for n in range(BATCH))
    return served, host


def _way(bench: Bench, name: str, tell: Callable[[DPQ[Any]], None]) -> Sequence[Result]:
    clock = [START_MS]
    queue = bench.queue(clock=lambda: clock[0])
    tell(queue)
    queue.push_many(Push(n, group="api") for n in range(BATCH))
    served, host = _crawl(queue, clock)
    allowed = [limit * STEP_MS // 1000 for limit in STEPS]
    by_step = ", ".join(
        f"{limit}/s: {count / most:.2f}"
        for limit, count, most in zip(STEPS, served, allowed, strict=True)
    )
    share = host.served / sum(allowed)
    refused = host.refused / (host.served + host.refused) * 1000
    bounds = (0.6, 30) if name == "learned" else (0, 1000)
    return [
        Result(f"{name}: share of the allowed requests", "", Target("at least", bounds[0]),
               [share], by_step),
        Result(f"{name}: 429s in 1000 requests", "", Target("at most", bounds[1]), [refused]),
    ]  # fmt: skip


def measure(bench: Bench) -> list[Result]:
    learn = Adaptive(floor=1, ceiling=100, step=1)
    return [
        *_way(bench, "learned", lambda q: q.set_limit(10, 1, group="api", adaptive=learn)),
        *_way(bench, "fixed at 20/s", lambda q: q.set_limit(20, 1, group="api")),
        *_way(bench, "closings alone", lambda q: None),
    ]


if __name__ == "__main__":
    run_one("adaptive")
