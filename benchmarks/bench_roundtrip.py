"""What does a server cost that is 0.2 or 1 ms away?

The proxy of `benchmarks._distance` holds back what goes to the server and what comes from it. Raw
commands and DPQ go through the same proxy. The delay is set so that a raw PING takes as long as it
should.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from itertools import count
from typing import Any

from redis import Redis

from benchmarks._distance import Distance, ping_ms
from benchmarks._harness import (
    ROUNDS,
    SLICES,
    Bench,
    Result,
    Target,
    payload,
    ratio,
    raw_member,
    run_one,
)
from benchmarks.bench_worker import run_worker
from dpq import DPQ, Push

ROUND_TRIPS_MS = (0.2, 1.0)
TARGETS = {"push": (0.8, 0.9), "pop": (0.4, 0.45), "worker": (0.55, 0.8)}
"""At least, for each round trip. Pop and ack are two round trips, where ZPOPMIN is one; a worker's
ack goes along with its next pop."""

ONE_BY_ONE = 60  # tasks in each slice
BATCHES, BATCH = 6, 100
LONGER = 4
"""How much longer a worker runs than the raw side: a run's beginning and end take some round trips,
and the last ack may wait 50 ms."""


class _Far:
    """The bench's server, some time away."""

    def __init__(self, bench: Bench, distance: Distance) -> None:
        self.bench = bench
        self.url = f"unix://{distance.path}"
        self.redis = self.client()
        self._distance = distance

    def client(self) -> Any:
        return Redis.from_url(self.url)

    def queue(self) -> DPQ[Any]:
        return DPQ(self.client(), f"far-{time.monotonic_ns()}", default_visibility=3600)

    def ping_ms(self, share: float) -> float:
        """Return how long a PING takes at most in so many of all cases."""
        return ping_ms(self.redis.ping, share)

    def set(self, round_trip_ms: float) -> None:
        """Hold back so long that a PING takes so long, when the machine has time for it."""
        self._distance.set(round_trip_ms, self.redis.ping)


@contextmanager
def _far(bench: Bench) -> Iterator[_Far]:
    target = bench.server.url.removeprefix("unix://")
    with closing(Distance(f"unix:{target}")) as distance:
        yield _Far(bench, distance)


def _rows(far: _Far, round_trip_ms: float) -> Iterator[Result]:
    """Each is a ratio to raw commands through the same proxy."""
    what = f"{round_trip_ms:g} ms"
    index = ROUND_TRIPS_MS.index(round_trip_ms)
    queue, numbers = far.queue(), count()

    def measured(
        name: str,
        ours: Callable[[], object],
        raw: Callable[[], object],
        tasks: int,
        target: float | None = None,
        longer: int = 1,
    ) -> Result:
        """Compare slices of `tasks`; the raw side does a share of them if DPQ's is `longer`."""

        def fill() -> None:
            far.redis.delete("raw")
            far.redis.zadd("raw", {raw_member(n): n for n in range(SLICES * tasks)})
            if "push" not in name:
                have = queue.size()
                queue.push_many(Push(payload(n), n) for n in range(SLICES * (tasks + 220) - have))

        bound = None if target is None else Target("at least", target)
        samples, detail = ratio(far.bench, ours, raw, fill, tasks)
        samples = [sample * longer for sample in samples]
        if longer > 1:
            detail = detail.partition(", raw")[0]
        return Result(f"{what}: {name}", "x", bound, samples, detail)

    def push() -> None:
        for _ in range(ONE_BY_ONE):
            queue.push(payload(next(numbers)))

    def zadd() -> None:
        for _ in range(ONE_BY_ONE):
            far.redis.zadd("raw", {raw_member(next(numbers)): 0})

    def pop_and_ack() -> None:
        for _ in range(ONE_BY_ONE):
            queue.pop().on_success()

    def zpopmin() -> None:
        for _ in range(ONE_BY_ONE):
            assert far.redis.zpopmin("raw")

    def push_many() -> None:
        for _ in range(BATCHES):
            queue.push_many(Push(payload(next(numbers))) for _ in range(BATCH))

    def zadd_in_hundreds() -> None:
        for _ in range(BATCHES):
            pipe = far.redis.pipeline(transaction=False)
            for _ in range(BATCH):
                pipe.zadd("raw", {raw_member(next(numbers)): 0})
            pipe.execute()

    def pop_many_and_ack() -> None:
        for _ in range(BATCHES):
            queue.ack_many(queue.pop_many(BATCH))

    def zpopmin_in_hundreds() -> None:
        for _ in range(BATCHES):
            assert far.redis.zpopmin("raw", BATCH)

    many = BATCHES * BATCH
    yield measured("push / ZADD", push, zadd, ONE_BY_ONE, TARGETS["push"][index])
    yield measured(
        f"push_many of {BATCH} / {BATCH} ZADD in a pipeline", push_many, zadd_in_hundreds, many
    )
    queue.admin.drop()
    yield measured("pop + ack / ZPOPMIN", pop_and_ack, zpopmin, ONE_BY_ONE, TARGETS["pop"][index])
    yield measured(
        f"pop_many of {BATCH} + ack_many / ZPOPMIN of {BATCH}",
        pop_many_and_ack,
        zpopmin_in_hundreds,
        many,
    )
    yield measured(
        "Worker of concurrency 1, no-op handler / ZPOPMIN one by one",
        lambda: run_worker(queue, ONE_BY_ONE * LONGER),
        zpopmin,
        ONE_BY_ONE * LONGER,
        TARGETS["worker"][index],
        LONGER,
    )
    yield measured(
        "Worker of concurrency 8, no-op handler / ZPOPMIN one by one",
        lambda: run_worker(queue, ONE_BY_ONE * LONGER, concurrency=8),
        zpopmin,
        ONE_BY_ONE * LONGER,
        longer=LONGER,
    )
    yield measured(
        "Worker of concurrency 1, prefetch=100 / ZPOPMIN of 100",
        lambda: run_worker(queue, many * LONGER, prefetch=100),
        zpopmin_in_hundreds,
        many * LONGER,
        longer=LONGER,
    )
    queue.admin.drop()
    queue.close()


def measure(bench: Bench) -> Iterator[Result]:
    with _far(bench) as far:
        for round_trip_ms in ROUND_TRIPS_MS:
            far.set(round_trip_ms)
            reached = [far.ping_ms(0.5) for _ in range(ROUNDS)]
            name = f"round trip of {round_trip_ms:g} ms: a raw PING"
            yield Result(name, "ms", None, reached)
            yield from _rows(far, round_trip_ms)


if __name__ == "__main__":
    run_one("roundtrip")
