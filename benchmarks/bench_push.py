"""What does a push cost, against a raw ZADD of the same bytes?"""

from collections.abc import Iterator
from itertools import count
from typing import Any

from benchmarks._harness import SLICES, Bench, Result, Target, payload, ratio, raw_member, run_one
from dpq import Push

ONE_BY_ONE = 400  # in each slice
HUNDREDS = 10


def zadd_in_hundreds(bench: Bench, members: list[tuple[bytes, int]]) -> None:
    """One slice of raw pipelines; `members` is used up."""
    for _ in range(HUNDREDS):
        pipe = bench.redis.pipeline(transaction=False)
        for _ in range(100):
            member, priority = members.pop()
            pipe.zadd("raw", {member: priority})
        pipe.execute()


def raw_members(bench: Bench, tasks: int) -> list[tuple[bytes, int]]:
    return [(raw_member(n), priority) for n, priority in enumerate(bench.priorities(tasks))]


def measure(bench: Bench) -> Iterator[Result]:
    queue, numbers = bench.queue(), count()
    members: list[tuple[bytes, int]] = []
    bodies: list[tuple[Any, int]] = []

    def fresh() -> None:
        bench.redis.delete("raw")
        queue.admin.drop()
        tasks = SLICES * max(ONE_BY_ONE, HUNDREDS * 100)
        members[:] = raw_members(bench, tasks)
        bodies[:] = [(payload(next(numbers)), p) for p in bench.priorities(tasks)]

    def push() -> None:
        for _ in range(ONE_BY_ONE):
            body, priority = bodies.pop()
            queue.push(body, priority=priority)

    def zadd() -> None:
        for _ in range(ONE_BY_ONE):
            member, priority = members.pop()
            bench.redis.zadd("raw", {member: priority})

    def push_many() -> None:
        for _ in range(HUNDREDS):
            some = (bodies.pop() for _ in range(100))
            queue.push_many(Push(payload=body, priority=priority) for body, priority in some)

    one_by_one = ratio(bench, push, zadd, fresh, ONE_BY_ONE)
    yield Result("push / ZADD", "x", Target("at least", 0.85), *one_by_one)
    hundreds = ratio(
        bench, push_many, lambda: zadd_in_hundreds(bench, members), fresh, HUNDREDS * 100
    )
    name = "push_many of 100 / 100 ZADD in a pipeline"
    yield Result(name, "x", Target("at least", 0.9), *hundreds)


if __name__ == "__main__":
    run_one("push")
