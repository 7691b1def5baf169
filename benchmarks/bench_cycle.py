"""What does the whole way of a task cost the server: push, pop and ack, in groups and under limits?

All in hundreds, over 20 000 tasks that are stored. The clock is given: 2 ms a call, or 1.5 s where
windows are to end between calls. Each row is the server's processor time of a task, against that of
a raw ZADD in pipelines of 100 in the same run.
"""

from collections.abc import Callable, Iterator
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
from benchmarks.bench_push import HUNDREDS, raw_members, zadd_in_hundreds
from dpq import DPQ, Push, RateLimit
from dpq.testing import Clock

STORED = 20_000
WIDE = 1_000_000  # units a second, and at once: never reached here
CALL_S, WINDOW_S = 0.002, 1.5

Limit = Callable[[DPQ[Any]], None]


def _rates(queue: DPQ[Any]) -> None:
    queue.set_limit(WIDE, 1, WIDE)
    queue.set_limit(100, 1, 100, group="*")


def _units(queue: DPQ[Any]) -> None:
    queue.set_limit([RateLimit(100, 1, 100), RateLimit(WIDE, 1, WIDE, unit="tokens")], group="*")


def _concurrency(queue: DPQ[Any]) -> None:
    queue.set_limit(WIDE, 1, WIDE, concurrency=100_000)
    queue.set_limit(100, 1, 100, concurrency=1000, group="*")


def _none(_: DPQ[Any]) -> None:
    pass


CASES: list[tuple[str, int, Limit, float, float]] = [
    ("no groups", 0, _none, CALL_S, 5.7),
    ("10000 groups", 10_000, _none, CALL_S, 11.4),
    ("400 groups", 400, _none, CALL_S, 11.4),
    ("limits on the queue and on 10000 groups", 10_000, _rates, CALL_S, 14.0),
    ("limits on the queue and on 400 groups", 400, _rates, CALL_S, 14.0),
    ("limits on 10000 groups, windows end between calls", 10_000, _rates, WINDOW_S, 13.5),
    ("two units on 10000 groups", 10_000, _units, CALL_S, 14.5),
    ("limits with a concurrency on 10000 groups", 10_000, _concurrency, CALL_S, 19.0),
    ("limits with a concurrency on 400 groups", 400, _concurrency, CALL_S, 19.0),
]
"""The case, its groups, its limits, the seconds of a call, and the most that it should cost."""


def _cycle(
    bench: Bench, name: str, groups: int, limit: Limit, pause: float, bound: float
) -> Result:
    clock, server, number = Clock(), server_clock(bench.server.pid), iter(range(10**9))
    queue = bench.queue(clock=clock)
    limit(queue)

    def some(count: int) -> list[Push[Any]]:
        group = bench.random.randrange
        return [
            Push(payload(next(number)), p, group=f"host-{group(groups)}.com" if groups else None)
            for p in bench.priorities(count)
        ]

    def step(work: Callable[[], Any]) -> tuple[float, Any]:
        clock.advance(pause)
        before = server()
        found = work()
        return server() - before, found

    queue.push_many(some(STORED))
    samples, parts = [], []
    for _ in range(ROUNDS + 1):
        bench.redis.delete("raw")
        members = raw_members(bench, SLICES * HUNDREDS * 100)
        raw, ours = 0.0, [0.0, 0.0, 0.0]
        for _ in range(SLICES):
            raw += step(lambda: zadd_in_hundreds(bench, members))[0]  # noqa: B023 - called at once
            for _ in range(HUNDREDS):
                pushes = some(100)
                push, _ = step(lambda: queue.push_many(pushes))  # noqa: B023
                pop, tasks = step(lambda: queue.pop_many(100))
                ack, _ = step(lambda: queue.ack_many(tasks))  # noqa: B023
                assert len(tasks) == 100
                ours = [a + b for a, b in zip(ours, (push, pop, ack), strict=True)]
        samples.append(sum(ours) / raw)
        each = SLICES * HUNDREDS * 100 / 1e6
        parts.append([part / each for part in (*ours, raw)])
    queue.admin.drop()
    bench.wait_until_freed()
    push, pop, ack, raw = (median(column) for column in zip(*parts[1:], strict=True))
    detail = f"push {push:.1f} us, pop {pop:.1f}, ack {ack:.1f}, raw {raw:.2f}"
    measure = f"push + pop + ack, {name} / ZADD, server"
    return Result(measure, "x", Target("at most", bound), samples[1:], detail)


def measure(bench: Bench) -> Iterator[Result]:
    for case in CASES:
        yield _cycle(bench, *case)


if __name__ == "__main__":
    run_one("cycle")
