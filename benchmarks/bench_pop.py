"""What do pop and ack cost, against a raw ZPOPMIN (which loses what a dying consumer has taken)?"""

from collections.abc import Iterator
from typing import Any

from benchmarks._harness import ROUNDS, SLICES, Bench, Result, Target, payload, ratio, run_one
from benchmarks.bench_push import HUNDREDS, ONE_BY_ONE, raw_members, zadd_in_hundreds
from dpq import DPQ, Push

GROUPS = 10_000
TASKS = (ROUNDS + 1) * SLICES * HUNDREDS * 100


def in_hundreds(bench: Bench, queue: DPQ[Any]) -> tuple[list[float], str]:
    """Consume a queue of `TASKS` by hundreds, against writing as many raw members by hundreds."""
    members: list[tuple[bytes, int]] = []

    def prepare() -> None:
        bench.redis.delete("raw")
        members[:] = raw_members(bench, SLICES * HUNDREDS * 100)

    def consume() -> None:
        for _ in range(HUNDREDS):
            tasks = queue.pop_many(100)
            queue.ack_many(tasks)
            assert len(tasks) == 100

    return ratio(bench, consume, lambda: zadd_in_hundreds(bench, members), prepare, HUNDREDS * 100)


def measure(bench: Bench) -> Iterator[Result]:
    queue = bench.queue()

    def fill() -> None:
        queue.admin.drop()
        bench.fill(queue, SLICES * ONE_BY_ONE)
        bench.redis.delete("raw")
        bench.redis.zadd("raw", dict(raw_members(bench, SLICES * ONE_BY_ONE)))

    def consume() -> None:
        for _ in range(ONE_BY_ONE):
            _, on_success, _ = queue.pop()
            on_success()

    def zpopmin() -> None:
        for _ in range(ONE_BY_ONE):
            assert bench.redis.zpopmin("raw")

    one_by_one = ratio(bench, consume, zpopmin, fill, ONE_BY_ONE)
    yield Result("pop + ack / ZPOPMIN", "x", Target("at least", 0.5), *one_by_one)
    bench.fill(queue, TASKS)
    hundreds = in_hundreds(bench, queue)
    name = "pop_many of 100 + ack_many / 100 ZADD in a pipeline"
    yield Result(name, "x", Target("at least", 0.6), *hundreds)
    queue.push_many(
        Push(payload=payload(n), priority=p, group=f"host-{bench.random.randrange(GROUPS)}.com")
        for n, p in enumerate(bench.priorities(TASKS))
    )
    name = f"the same with {GROUPS} groups"
    yield Result(name, "x", Target("at least", 0.38), *in_hundreds(bench, queue))


if __name__ == "__main__":
    run_one("pop")
