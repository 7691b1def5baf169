"""What does a task cost the server, pushed, popped and acked one by one?

A percentile of single calls, not a mean: on a busy machine the slow calls are those that waited for
the processor. Servers before Redis 7.0 keep no such statistics.
"""

from collections.abc import Callable, Iterator
from typing import Any

from benchmarks._harness import ROUNDS, Bench, Result, Target, payload, run_one
from dpq import DPQ, Task

STORED = 4_000
CALLS = 100  # of each kind, in each round
SHARE = 25  # percent of the calls take no longer than what is told
WIDE = 1_000_000  # units a second, and at once: never reached here
HOURS_S = 36_000  # a window that stays spent

Limits = Callable[[DPQ[Any]], None]


def _none(_: DPQ[Any]) -> None:
    pass


def _even(queue: DPQ[Any], concurrency: int | None = None) -> None:
    queue.set_limit(WIDE, 1, WIDE)
    queue.set_limit(WIDE, 1, WIDE, group="*", concurrency=concurrency)


def _concurrency(queue: DPQ[Any]) -> None:
    _even(queue, concurrency=50)


def _closing(queue: DPQ[Any], concurrency: int | None = None) -> None:
    queue.set_limit(WIDE, 1, WIDE)
    queue.set_limit(1, HOURS_S, group="*", concurrency=concurrency)


def _both(queue: DPQ[Any]) -> None:
    _closing(queue, concurrency=2)


def _moving(queue: DPQ[Any]) -> None:
    queue.set_limit(f"{WIDE}/s,moving")
    queue.set_limit(f"{WIDE}/s,moving", group="*")


CASES: list[tuple[str, int, Limits, float]] = [
    ("400 groups", 400, _none, 1.4),
    ("20 groups", 20, _none, 1.4),
    ("limits on the queue and on 400 groups", 400, _even, 1.8),
    ("limits with a concurrency on 400 groups", 400, _concurrency, 1.9),
    ("limits, each pop closes a group", STORED, _closing, 2),
    ("limits with a concurrency, each pop closes a group", STORED, _both, 2.4),
    ("moving limits on the queue and on 400 groups", 400, _moving, 2.2),
]
"""The case, its groups, its limits, and the most that a task should cost against one without."""


class _Queue:
    """A queue of many tasks, and the percentiles of its next calls."""

    def __init__(self, bench: Bench, groups: int, limit: Limits) -> None:
        self.bench, self.groups, self.queue = bench, groups, bench.queue()
        self.number = iter(range(10**9))
        limit(self.queue)
        for _ in range(STORED):
            self.push()

    def push(self) -> str:
        n, random = next(self.number), self.bench.random
        host = f"host-{n if self.groups == STORED else random.randrange(self.groups or 1)}.com"
        group = host if self.groups else None
        return self.queue.push(payload(n), priority=random.randrange(1_000_000), group=group)

    def pop(self) -> Task[Any]:
        task = self.queue.pop().task
        assert task
        return task

    def cycle(self) -> tuple[float, float, float]:
        pushed, _ = self.times(self.push)
        popped, tasks = self.times(self.pop)
        left = iter(tasks)
        return pushed, popped, self.times(lambda: self.queue.ack(next(left)))[0]

    def times(self, call: Callable[[], Any]) -> tuple[float, list[Any]]:
        """Call that often; return the percentile of the scripts' times, us, and the answers."""
        self.bench.redis.config_resetstat()
        answers = [call() for _ in range(CALLS)]
        stats = self.bench.redis.info("latencystats")["latency_percentiles_usec_evalsha"]
        return stats[f"p{SHARE}"], answers


def measure(bench: Bench) -> Iterator[Result]:
    bench.redis.config_set("latency-tracking-info-percentiles", str(SHARE))
    plain, us = _Queue(bench, 0, _none), []
    for name, groups, limit, bound in CASES:
        queue, samples, detail = _Queue(bench, groups, limit), [], ""
        for _ in range(ROUNDS + 1):
            base, times = sum(plain.cycle()), queue.cycle()
            us.append(base)
            samples.append(sum(times) / base)
            detail = "push {:.0f} us, pop {:.0f}, ack {:.0f}; ".format(*times)
        queue.queue.admin.drop()
        target, detail = Target("at most", bound), f"{detail}no groups {base:.0f}"
        yield Result(f"{name} / no groups, p{SHARE}", "x", target, samples[1:], detail)
    yield Result(f"push + pop + ack, no groups, p{SHARE}", "us", None, us)


if __name__ == "__main__":
    run_one("single")
