"""How long after a push, or after its due time, does a waiting consumer have a task?"""

import multiprocessing
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection
from statistics import median
from typing import Any

from redis import Redis

from benchmarks._harness import (
    ROUNDS,
    Bench,
    Result,
    Target,
    percentile,
    run_one,
    wait_until,
)
from dpq import DPQ

PUSHES = 200  # in each round, after as many to warm up
DELAYED = 100  # in each round
DELAYED_WITHIN = 3.0  # seconds
WAIT = 20  # seconds; nothing here takes so long

# Processes on one machine share the monotonic clock.


def _consume_dpq(url: str, queue_name: str, times: Connection) -> None:
    with DPQ[list[int]](Redis.from_url(url), queue_name) as queue:
        while True:
            task, on_success, _ = queue.pop(timeout=WAIT)
            now = time.monotonic_ns()
            if task is None or task.payload is None:
                return
            times.send(now - task.payload)
            on_success()


def _consume_raw(url: str, key: str, times: Connection) -> None:
    redis = Redis.from_url(url, socket_timeout=WAIT + 1)
    while popped := redis.bzpopmin(key, timeout=WAIT):
        now = time.monotonic_ns()
        if popped[1] == b"stop":
            return
        times.send(now - int(popped[1]))


@contextmanager
def _consumer(consume: Callable[..., None], *args: str) -> Iterator[Connection]:
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe(duplex=False)
    process = context.Process(target=consume, args=(*args, there), daemon=True)
    process.start()
    try:
        yield here
    finally:
        process.join(WAIT)
        process.kill()
        process.join()


def _received(times: Connection) -> float:
    if not times.poll(WAIT):
        raise TimeoutError(f"no task came within {WAIT} s")
    return times.recv() / 1e6


def _push(bench: Bench, queue: DPQ[Any]) -> Result:
    def both_wait() -> bool:
        return bool(bench.redis.info("clients")["blocked_clients"] == 2)

    ours: list[float] = []
    raw: list[float] = []
    url = bench.server.url
    with (
        _consumer(_consume_dpq, url, queue.queue_name) as dpq_times,
        _consumer(_consume_raw, url, "raw") as raw_times,
    ):
        for _ in range((ROUNDS + 1) * PUSHES):
            wait_until(both_wait, "both consumers wait")
            queue.push(time.monotonic_ns())
            ours.append(_received(dpq_times))
            wait_until(both_wait, "both consumers wait")
            bench.redis.zadd("raw", {str(time.monotonic_ns()): 0})
            raw.append(_received(raw_times))
        queue.push(None)
        bench.redis.zadd("raw", {"stop": 0})
    rounds = range(PUSHES, len(ours), PUSHES)
    samples = [median(ours[i : i + PUSHES]) / median(raw[i : i + PUSHES]) for i in rounds]
    detail = (
        f"p50 {median(ours):.2f} ms, raw {median(raw):.2f} ms, p99 {percentile(ours, 0.99):.2f}"
    )
    name = "push -> waiting consumer / ZADD -> BZPOPMIN, p50"
    return Result(name, "x", Target("at most", 1.5), samples, detail)


def _due(bench: Bench, queue: DPQ[Any]) -> Result:
    samples, middles = [], []
    with _consumer(_consume_dpq, bench.server.url, queue.queue_name) as times:
        wait_until(lambda: bench.redis.info("clients")["blocked_clients"] == 1, "it waits")
        for _ in range(ROUNDS):
            for _ in range(DELAYED):
                delay = bench.random.uniform(0.2, DELAYED_WITHIN)
                queue.push(time.monotonic_ns() + round(delay * 1e9), delay=delay)
            late = [_received(times) for _ in range(DELAYED)]
            samples.append(percentile(late, 0.99))
            middles.append(median(late))
        queue.push(None)
    detail = f"p50 {median(middles):.2f} ms, longest {max(samples):.2f} ms"
    name = "lateness of a delayed task, no daemon, p99"
    return Result(name, "ms", Target("at most", 5), samples, detail)


def measure(bench: Bench) -> Iterator[Result]:
    yield _push(bench, bench.queue())
    yield _due(bench, bench.queue())


if __name__ == "__main__":
    run_one("latency")
