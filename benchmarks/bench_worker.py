"""What do the workers add to a pop and an ack, and how well do they keep many handlers busy?"""

import asyncio
import time
from collections.abc import Iterator
from typing import Any

from redis.asyncio import Redis as AsyncRedis

from benchmarks._harness import ROUNDS, SLICES, Bench, Result, Target, payload, ratio, run_one
from benchmarks.bench_push import raw_members, zadd_in_hundreds
from dpq import DPQ, AsyncDPQ, AsyncWorker, Push, Task, Worker

RUNNING = 100  # handlers at once
SLEEP = 0.01  # seconds of each
ASYNC_TASKS = 20_000
TASKS = 1600  # in each slice: the beginning and the end of a run are to weigh little
PREFETCHED = 6000
HELD, HELD_SECONDS = 1000, 12  # leases of 30 s


class _Handler:
    """Does nothing, and stops its worker after so many tasks."""

    worker: Worker

    def __init__(self, tasks: int) -> None:
        self.left = tasks

    def __call__(self, _: Task[Any]) -> None:
        self.left -= 1
        if self.left == 0:
            self.worker.stop()


def run_worker(queue: DPQ[Any], tasks: int, **settings: Any) -> None:
    handler = _Handler(tasks)
    handler.worker = Worker(queue, handler, **settings)
    handler.worker.run()


def _one_by_one(bench: Bench, concurrency: int) -> Result:
    queue = bench.queue()
    bench.fill(queue, (ROUNDS + 1) * SLICES * (TASKS + concurrency))

    def fill() -> None:
        bench.redis.delete("raw")
        bench.redis.zadd("raw", dict(raw_members(bench, SLICES * TASKS)))

    def zpopmin() -> None:
        for _ in range(TASKS):
            assert bench.redis.zpopmin("raw")

    def work() -> None:
        run_worker(queue, TASKS, concurrency=concurrency)

    name = f"Worker of concurrency {concurrency}, no-op handler / ZPOPMIN one by one"
    measured = ratio(bench, work, zpopmin, fill, TASKS)
    return Result(name, "x", Target("at least", 0.65), *measured)


def _prefetched(bench: Bench) -> Result:
    queue, tasks = bench.queue(), PREFETCHED
    members: list[tuple[bytes, int]] = []
    bench.fill(queue, (ROUNDS + 1) * SLICES * (tasks + 200))

    def fill() -> None:
        bench.redis.delete("raw")
        members[:] = raw_members(bench, SLICES * tasks)

    def work() -> None:
        run_worker(queue, tasks, prefetch=100)

    def zadd() -> None:
        for _ in range(tasks // 1000):
            zadd_in_hundreds(bench, members)

    measured = ratio(bench, work, zadd, fill, tasks)
    name = "Worker of concurrency 1, prefetch=100 / 100 ZADD in a pipeline"
    return Result(name, "x", Target("at least", 0.65), *measured)


async def _asynchronous(url: str) -> tuple[float, float]:
    """Tasks a second: of a worker whose handlers sleep, and of a raw client, one by one."""
    client = AsyncRedis.from_url(url)
    queue = AsyncDPQ[Any](client, "bench-async")
    await queue.admin.drop()
    await queue.push_many(Push(payload(n)) for n in range(ASYNC_TASKS))
    await client.delete("raw")
    await client.zadd("raw", {str(n): n for n in range(ASYNC_TASKS // 10)})

    async def handle(_: Task[Any]) -> None:
        await asyncio.sleep(SLEEP)

    began = time.perf_counter()
    worker = AsyncWorker(queue, handle, concurrency=RUNNING, prefetch=RUNNING)
    assert await worker.drain() == ASYNC_TASKS
    ours = ASYNC_TASKS / (time.perf_counter() - began)
    began = time.perf_counter()
    for _ in range(ASYNC_TASKS // 10):
        assert await client.zpopmin("raw")
    raw = ASYNC_TASKS // 10 / (time.perf_counter() - began)
    await queue.admin.drop()
    await queue.close()
    await client.aclose()
    return ours, raw


def _busy(bench: Bench) -> Result:
    pairs = [asyncio.run(_asynchronous(bench.server.url)) for _ in range(ROUNDS + 1)][1:]
    ideal = RUNNING / SLEEP
    detail = f"{pairs[-1][0]:.0f}/s, ideal {ideal:.0f}/s, raw asyncio ZPOPMIN {pairs[-1][1]:.0f}/s"
    name = (
        f"AsyncWorker, {RUNNING} handlers of {SLEEP * 1000:.0f} ms, prefetch={RUNNING} "
        "/ the lesser of ideal and raw"
    )
    samples = [ours / min(ideal, raw) for ours, raw in pairs]
    return Result(name, "x", Target("at least", 0.9), samples, detail)


async def _heartbeats(url: str) -> int:
    client = AsyncRedis.from_url(url)
    queue = AsyncDPQ[Any](client, "bench-held", default_visibility=30)
    await queue.push_many(Push(n) for n in range(HELD))
    running, all_run = 0, asyncio.Event()

    async def handle(_: Task[Any]) -> None:
        nonlocal running
        running += 1
        if running == HELD:
            all_run.set()
        await asyncio.Event().wait()

    worker = AsyncWorker(queue, handle, concurrency=HELD, grace=0)
    run = asyncio.create_task(worker.run())
    await all_run.wait()
    await client.config_resetstat()
    await asyncio.sleep(HELD_SECONDS)
    calls: int = (await client.info("commandstats"))["cmdstat_evalsha"]["calls"]
    worker.stop()
    await run
    await queue.admin.drop()
    await queue.close()
    await client.aclose()
    return calls


def measure(bench: Bench) -> Iterator[Result]:
    yield _one_by_one(bench, 1)
    yield _one_by_one(bench, 8)
    yield _prefetched(bench)
    yield _busy(bench)
    calls = asyncio.run(_heartbeats(bench.server.url)) / HELD_SECONDS
    name = f"calls while {HELD} tasks run, leases of 30 s"
    yield Result(name, "/s", Target("at most", 1), [calls], f"over {HELD_SECONDS} s")


if __name__ == "__main__":
    run_one("worker")
