"""What share of a limit do workers reach, when the server is some way off? The host counts.

    python -m benchmarks.bench_reached [--rates 10,200] [--ms 0,1,20] [--workers 1,4] [--seconds 5]

Each row is one even limit of the queue with a burst of 1, and workers of 8 threads whose handlers
take 20 ms: 8 threads reach 400 a second at most. `most` is the most handlers that began within any
second, all processes together; the limit says the rate, and a thread that wakes late may add one.
`near_ms` is how near two of them began, at the hundredth. `calls` are scripts and waits for a task.
"""

import json
import subprocess
import sys
import time
from bisect import bisect_left
from collections.abc import Iterator
from contextlib import closing
from itertools import pairwise
from typing import Any

import typer
from redis import Redis

from benchmarks._distance import Distance
from benchmarks._harness import REPOSITORY, Bench, Result, Target
from dpq import DPQ, Push, Worker
from dpq.server import Server, find_binary

THREADS, GROUPS, SLEEP = 8, 400, 0.02
WARM_UP = 1.0
"""Seconds that do not count: programs start, and learn how far the server is."""

RATES = (10, 50, 200, 300)


def work(url: str, name: str, threads: int, settings: str) -> None:
    """Handle tasks until stdin ends; print when each handler began (the program of one worker)."""
    began: list[float] = []

    def handle(_: Any) -> None:
        began.append(time.monotonic())
        time.sleep(SLEEP)

    queue: DPQ[Any] = DPQ(Redis.from_url(url), name, default_visibility=60)
    worker = Worker(queue, handle, concurrency=threads, **json.loads(settings))
    with worker.running():
        print("runs", flush=True)
        sys.stdin.read()
        taken = time.process_time()
    print(json.dumps([began, taken]))


def reached(
    bench: Bench,
    rate: float,
    round_trip_ms: float,
    workers: int,
    *,
    seconds: float = 5.0,
    threads: int = THREADS,
    **settings: Any,
) -> dict[str, float]:
    """Run workers under a limit; return the share of it that they reached, and its costs."""
    queue = bench.queue()
    count = int(min(rate, 2500) * (seconds + WARM_UP + 10)) + 4 * GROUPS
    queue.push_many(Push(n, group=f"g{n % GROUPS}", priority=n % 97) for n in range(count))
    queue.set_limit(rate, 1)
    with closing(Distance(f"unix:{bench.server.url.removeprefix('unix://')}")) as distance:
        url = f"unix://{distance.path}"
        distance.set(round_trip_ms, Redis.from_url(url).ping)
        if round_trip_ms == 0:
            url = bench.server.url
        command = [sys.executable, "-m", "benchmarks.bench_reached", url, queue.queue_name]
        command += [str(threads), json.dumps(settings)]
        running = [
            subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=REPOSITORY)
            for _ in range(workers)
        ]
        for each in running:
            assert each.stdout
            assert each.stdout.readline() == b"runs\n"
        time.sleep(WARM_UP)
        begin = time.monotonic()
        until = begin + seconds
        before = _commands(bench.redis)
        time.sleep(max(0.0, until - time.monotonic()))
        after = _commands(bench.redis)
        told = [json.loads(each.communicate(timeout=seconds + 60)[0]) for each in running]
    moments = sorted(moment for began, _ in told for moment in began)
    inside = bisect_left(moments, until) - bisect_left(moments, begin)
    most = max(bisect_left(moments, at + 1.0) - i for i, at in enumerate(moments))
    nearest = sorted(b - a for a, b in pairwise(moments))
    calls = {name: after.get(name, 0) - before.get(name, 0) for name in after}
    tasks = max(1, inside)
    queue.admin.drop()
    return {
        "share": inside / seconds / rate,
        "most": most,
        "near_ms": nearest[len(nearest) // 100] * 1000,
        "calls": (calls.get("evalsha", 0) + calls.get("bzpopmin", 0)) / tasks,
        "server_us": calls["usec"] / tasks,
        "client_us": sum(taken for _, taken in told) / max(1, len(moments)) * 1e6,
    }


def _commands(redis: Any) -> dict[str, float]:
    found = redis.info("commandstats")
    calls = {name.removeprefix("cmdstat_"): each["calls"] for name, each in found.items()}
    return {**calls, "usec": redis.info("cpu")["used_cpu_user"] * 1e6}


def measure(bench: Bench) -> Iterator[Result]:
    for round_trip_ms in (1.0, 20.0):
        for rate in RATES:
            found = [reached(bench, rate, round_trip_ms, 1) for _ in range(3)]
            bound = 0.98 if round_trip_ms < 20 else 0.95
            name = f"share of {rate}/s that a worker reaches, {round_trip_ms:g} ms away"
            yield Result(name, "x", Target("at least", bound), [each["share"] for each in found])


def main(
    rates: str = "10,50,200,300,1000",
    ms: str = "0,1,20",
    workers: str = "1,4",
    seconds: float = 5.0,
    threads: int = THREADS,
    prefetch: int = 0,
) -> None:
    """Print one row for each rate, round trip and number of workers."""
    with Server.start(find_binary()) as server:
        bench = Bench(server)
        for away in map(float, ms.split(",")):
            for count in map(int, workers.split(",")):
                for rate in map(float, rates.split(",")):
                    row = reached(
                        bench,
                        rate,
                        away,
                        count,
                        seconds=seconds,
                        threads=threads,
                        prefetch=prefetch,
                    )
                    shown = " ".join(f"{key} {value:8.2f}" for key, value in row.items())
                    print(f"{away:4g} ms {count} x {threads} {rate:6g}/s  {shown}", flush=True)


if __name__ == "__main__":
    if len(sys.argv) > 1 and not sys.argv[1].startswith("--"):
        work(sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4])
    else:
        typer.run(main)
