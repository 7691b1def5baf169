"""Do ten million tasks make the server slower? It takes 5 GB of memory and some minutes."""

import os
import time
from collections.abc import Iterator
from typing import Any

from benchmarks._harness import (
    ROUNDS,
    Bench,
    Result,
    Target,
    payload,
    percentile,
    run_one,
    server_clock,
)
from benchmarks._processes import processes
from benchmarks.bench_million import FEW, POPS
from dpq import DPQ, Push

MANY = 10_000_000
FILLERS = 2  # processes
SLICE = 10_000  # tasks that one of them pushes between two looks at the clock
SECONDS = 10.0
NEEDED = 12 << 30  # bytes of memory that must be free
CALLS = 400  # of push, pop_many and so on
BATCH = 100


def _open(url: str, name: str) -> tuple[DPQ[Any], list[int]]:
    return DPQ[Any].from_url(url, name, default_visibility=3600), [os.getpid() * 7_919]


def _fill(tools: tuple[DPQ[Any], list[int]], _: str, end: float) -> int:
    queue, state = tools
    done = 0
    while time.monotonic() < end:
        number = state[0] = (state[0] * 48_271 + 11) % 2_147_483_647
        queue.push_many(
            Push(payload(number + n), (number + n * 7_368_787) % 1_000_003) for n in range(SLICE)
        )
        done += SLICE
    return done


def _free_bytes() -> int:
    return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def _pop_and_ack(bench: Bench, queue: DPQ[Any]) -> tuple[float, float]:
    """Microseconds of a pop and its ack: of the two scripts, and of the server's processor."""
    clock = server_clock(bench.server.pid)
    before, scripts = clock(), bench.script_time()[1]
    for _ in range(POPS):
        queue.pop().on_success()
    spent = clock() - before
    return (bench.script_time()[1] - scripts) / POPS, spent / POPS * 1e6


def _calls(bench: Bench, queue: DPQ[Any]) -> Iterator[tuple[str, list[float]]]:
    """Calls on the full queue, and the server's processor time of each, ms."""
    clock = server_clock(bench.server.pid)

    def timed(call: Any) -> float:
        before = clock()
        call()
        return (clock() - before) * 1000

    def batch() -> None:
        queue.ack_many(queue.pop_many(BATCH))

    def push_many() -> None:
        queue.push_many(Push(payload(n), n * 7919 % 1_000_003) for n in range(BATCH))

    yield "push", [timed(lambda: queue.push("one", 500_000)) for _ in range(CALLS)]
    yield "push_many of 100", [timed(push_many) for _ in range(CALLS)]
    yield "pop_many and ack_many of 100", [timed(batch) for _ in range(CALLS)]
    yield "stats", [timed(queue.stats) for _ in range(20)]
    yield "peek of 100", [timed(lambda: queue.peek(100)) for _ in range(20)]


def measure(bench: Bench) -> Iterator[Result]:
    if _free_bytes() < NEEDED:
        yield Result(f"skipped: less than {NEEDED >> 30} GiB of memory are free", "", None, [0])
        return
    many, few = bench.queue(), bench.queue()
    many.stats()  # opens it
    used, began = bench.redis.info("memory")["used_memory"], time.monotonic()
    done = 0
    with processes(FILLERS, _open, _fill, bench.server.url, many.queue_name) as several:
        while done < MANY:
            done += sum(several.slice("fill", SECONDS))
    took = time.monotonic() - began
    size = (bench.redis.info("memory")["used_memory"] - used) / done
    detail = f"{done:,} tasks, {size * done / 2**30:.1f} GiB".replace(",", " ")
    yield Result("memory per queued task", "bytes", Target("at most", 450), [size], detail)
    yield Result(f"filling by push_many, {FILLERS} processes", "/s", None, [done / took])
    bench.fill(few, FEW)
    times = []
    for _ in range(ROUNDS + 1):
        times.append((_pop_and_ack(bench, few), _pop_and_ack(bench, many)))
        bench.fill(few, POPS)
    for index, what in enumerate(("scripts", "processor")):
        samples = [of_many[index] / of_few[index] for of_few, of_many in times[1:]]
        detail = f"last: {times[-1][0][index]:.1f} -> {times[-1][1][index]:.1f} us"
        name = f"server time of a pop and its ack at 10 000 000 tasks / at 10 000, {what}"
        yield Result(name, "x", Target("at most", 1.5), samples, detail)
    for what, spent in _calls(bench, many):
        detail = f"p50 {percentile(spent, 0.5):.2f} ms"
        name = f"longest {what} beside 10 000 000 tasks, server"
        yield Result(name, "ms", Target("at most", 5), [max(spent)], detail)
    clock = server_clock(bench.server.pid)
    before, began = clock(), time.monotonic()
    many.admin.drop()
    dropped = time.monotonic() - began
    bench.wait_until_freed()
    detail = f"the thread that frees them takes {clock() - before:.1f} s"
    yield Result("drop of 10 000 000 tasks", "ms", None, [dropped * 1000], detail)


if __name__ == "__main__":
    run_one("ten_million")
