"""How well is a limit learned that nobody knows and that changes? A simulation: time goes by hand.

A host allows so many requests in any second, and changes that twice. Four consumers ask it; an
answer takes 60 ms, and a 429 says Retry-After: 1. The queue's only knowledge is `Adaptive`.
"""

from collections.abc import Callable, Iterator
from typing import Any

from benchmarks._harness import Bench, Result, Target, run_one
from benchmarks._simulated import START_MS, Host, crawl, fill
from dpq import DPQ, Adaptive

STEPS = (20, 5, 40)  # what the host allows in a second
STEP_MS = 120_000
ANSWER_MS = 60
CONSUMERS = 4


def _way(
    bench: Bench, name: str, tell: Callable[[DPQ[Any]], None], *bounds: float
) -> Iterator[Result]:
    """Crawl through all steps; `bounds`, where there are targets, of the share and of the 429s."""
    host, clock, end = Host(), [START_MS], START_MS + STEP_MS * len(STEPS)
    queue = bench.queue(clock=lambda: clock[0])
    tell(queue)
    fill(queue)

    def step(ms: float) -> int:
        return min(len(STEPS) - 1, int(ms - START_MS) // STEP_MS)

    crawl(
        queue,
        clock,
        host,
        lambda ms: STEPS[step(ms)],
        ends=lambda: clock[0] >= end,
        consumers=CONSUMERS,
        answer_ms=ANSWER_MS,
    )
    queue.drop()
    allowed = [limit * STEP_MS // 1000 for limit in STEPS]
    served = [sum(step(ms) == n for ms in host.served) for n in range(len(STEPS))]
    by_step = ", ".join(
        f"{limit}/s: {count / most:.2f}"
        for limit, count, most in zip(STEPS, served, allowed, strict=True)
    )
    share = len(host.served) / sum(allowed)
    refused = host.refused / (len(host.served) + host.refused) * 1000
    least, most = (
        (Target("at least", bounds[0]), Target("at most", bounds[1])) if bounds else (None, None)
    )
    yield Result(f"{name}: share of the allowed requests", "", least, [share], by_step)
    yield Result(f"{name}: 429s in 1000 requests", "", most, [refused])


def measure(bench: Bench) -> Iterator[Result]:
    learn = Adaptive(floor=1, ceiling=100, step=1)
    yield from _way(
        bench, "learned", lambda q: q.set_limit(10, 1, group="api", adaptive=learn), 0.85, 15
    )
    yield from _way(bench, "fixed at 20/s", lambda q: q.set_limit(20, 1, group="api"))
    yield from _way(bench, "closings alone", lambda q: None)


if __name__ == "__main__":
    run_one("adaptive")
