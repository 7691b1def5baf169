"""How many 429s does a host with a strict limit give when requests take unequal times to reach it?

A simulation, as bench_adaptive. The host allows 10 requests in any second; each takes a time on its
way there, drawn anew. The queue is told the limit and nothing else.
"""

import random
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from benchmarks._harness import Bench, Result, Target, run_one
from benchmarks._simulated import START_MS, Queued, Sliding, crawl
from dpq import DPQ

CONSUMERS = 4
ROUNDS = 3
REQUESTS = 3000  # served, in each round: five minutes
ANSWER_MS = 20


class Way(NamedTuple):
    """What is between a consumer and the host.

    Attributes:
        takes: Draws how long a request is on its way, ms.
        most: How much longer than the least the crawl may take.
        slack: What somebody who knows the way would tell, seconds.
        rate: Requests that the host allows in any second.
    """

    takes: Callable[[random.Random], float]
    most: float
    slack: float
    rate: int = 10


WAYS = {
    "10/s, 0 to 50 ms of jitter": Way(lambda chance: chance.uniform(0, 50), 1.12, 0.05),
    "10/s, 0 to 100 ms of jitter": Way(lambda chance: chance.uniform(0, 100), 1.12, 0.1),
    "10/s, a way of 30 ms, log-normal": Way(
        lambda chance: chance.lognormvariate(3.4, 0.8), 1.25, 0.15
    ),
    "10/s, 20 to 30 ms, of 50 one 400 later": Way(
        lambda chance: chance.uniform(20, 30) + (400 if chance.random() < 0.02 else 0), 1.25, 0.1
    ),
    "1/s, 0 to 600 ms of jitter": Way(lambda chance: chance.uniform(0, 600), 1.75, 0.6, rate=1),
}


def _crawl(bench: Bench, way: Way, slack: float | None, requests: int) -> tuple[float, float]:
    """Crawl until so many are served: the 429s in 200 requests, and the time over the least."""
    host, clock = Sliding(lambda _: way.rate), [START_MS]
    queue: DPQ[Any] = bench.queue(clock=lambda: clock[0])
    queue.set_limit(way.rate, 1, group="api", slack=slack)
    crawl(
        Queued(queue),
        clock,
        host,
        ends=lambda: len(host.served) == requests,
        consumers=CONSUMERS,
        way_ms=lambda: way.takes(bench.random),
        answer_ms=lambda: ANSWER_MS,
    )
    queue.admin.drop()
    least_ms = (requests / way.rate - 1) * 1000  # a second's at once, then as many each second
    refused = host.refused / (host.refused + requests) * 200
    return refused, (host.served[-1] - START_MS) / least_ms


def measure(bench: Bench) -> Iterator[Result]:
    for shape, way in WAYS.items():
        few = REQUESTS // 10
        plain = _crawl(bench, way, 0, few)
        without = f"with slack=0: {plain[0]:.3g} and {plain[1]:.3g} x"
        rounds = [_crawl(bench, way, None, REQUESTS) for _ in range(ROUNDS)]
        refused, took = zip(*rounds, strict=True)
        name = f"429s in 200 requests, {shape}"
        yield Result(name, "", Target("at most", 0.99), refused, without, by="most")
        learning, told = (_crawl(bench, way, slack, few)[1] for slack in (None, way.slack))
        short = f"the first {few}: {learning:.3g} x; with slack={way.slack:g}: {told:.3g} x"
        name = f"time / the least that the host allows, {shape}"
        yield Result(name, "x", Target("at most", way.most), took, short, by="most")


if __name__ == "__main__":
    run_one("jitter")
