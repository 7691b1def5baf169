"""Does looking for a reply before sleeping cost throughput where processors are short?

`dpq/transport/spin.py` looks for a moment before a thread sleeps. Who looks keeps a processor that
others might use. So here several processes push, pop and ack on too few processors, with it and
without it, in turn.
"""

import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from multiprocessing import get_context
from statistics import median
from typing import Any

from dpq.transport.spin import Spin

from benchmarks._harness import ROUNDS, Bench, Result, Target, run_one, server_clock
from benchmarks._processes import processes
from dpq import DPQ

SECONDS = 0.1  # of each slice
PAIRS = 8  # in each round
KEPT = 0.95  # at least so much of the throughput without it


def _open(url: str, name: str) -> tuple[DPQ[Any], Callable[..., None]]:
    return DPQ[Any].from_url(url, name, default_visibility=3600), Spin.until_readable


def _sleep_at_once(*_: Any) -> None:
    """Look never."""


def _work(tools: tuple[DPQ[Any], Callable[..., None]], kind: str, end: float) -> tuple[int, float]:
    """Return how many tasks went through, and the processor time of this process."""
    queue, looking = tools
    Spin.until_readable = looking if kind == "looking" else _sleep_at_once  # type: ignore[method-assign]
    done, before = 0, time.process_time()
    while time.monotonic() < end:
        queue.push({"number": done})
        task, on_success, _ = queue.pop()
        if task:
            on_success()
            done += 1
    return done, time.process_time() - before


def _burn() -> None:
    while True:
        pass


@contextmanager
def _burners(cores: Sequence[int]) -> Iterator[None]:
    """Keep each of these processors busy with a process that is not ours."""
    context = get_context("spawn")
    started = [context.Process(target=_burn, daemon=True) for _ in cores]
    for process, core in zip(started, cores, strict=True):
        process.start()
        os.sched_setaffinity(process.pid or 0, {core})
    try:
        yield
    finally:
        for process in started:
            process.kill()
            process.join()


def _compared(
    bench: Bench, what: str, count: int, cores: Sequence[int], *, target: bool, spent: bool = False
) -> Result:
    """Compare slices that stand side by side; a sample is the median of the pairs of a round.

    Args:
        bench: Whose server answers.
        what: The name of the case.
        count: The number of processes.
        cores: Where they run.
        target: Are processors short?
        spent: Compare the processor time of a task instead of the tasks of a second. If others want
            the processors, the scheduler gives each its share, and the time decides.
    """
    queue = bench.queue()
    queue.stats()  # opens it
    clock = server_clock(bench.server.pid)
    samples, last = [], {"looking": (0.0, 0.0), "asleep": (0.0, 0.0)}
    with processes(count, _open, _work, bench.server.url, queue.queue_name, cores) as several:

        def one(kind: str) -> tuple[float, float]:
            """Return tasks a second, and tasks for a second of all processors."""
            before = clock()
            both = several.slice(kind, SECONDS)
            done, own = (sum(column) for column in zip(*both, strict=True))
            return max(done, 1) / SECONDS, max(done, 1) / (own + clock() - before)

        for _ in range(ROUNDS + 1):
            pairs = []
            for turn in range(PAIRS):
                order = ("looking", "asleep") if turn % 2 else ("asleep", "looking")
                pairs.append({kind: one(kind) for kind in order})
            samples.append(median(pair["looking"][spent] / pair["asleep"][spent] for pair in pairs))
            for kind in last:
                rate, for_time = (median(pair[kind][part] for pair in pairs) for part in (0, 1))
                last[kind] = rate, 1e6 / for_time
    queue.drop()
    detail = "last: " + ", asleep ".join(
        f"{rate:.0f}/s and {cost:.0f} us of all processors" for rate, cost in last.values()
    )
    name = f"looking before sleeping / asleep at once, {what}"
    return Result(name, "x", Target("at least", KEPT) if target else None, samples[1:], detail)


@contextmanager
def _server_on(bench: Bench, cores: Sequence[int]) -> Iterator[None]:
    before = os.sched_getaffinity(bench.server.pid)
    os.sched_setaffinity(bench.server.pid, cores)
    try:
        yield
    finally:
        os.sched_setaffinity(bench.server.pid, before)


def measure(bench: Bench) -> Iterator[Result]:
    if not hasattr(os, "sched_setaffinity"):
        return
    server = sorted(os.sched_getaffinity(bench.server.pid))
    mine = sorted(os.sched_getaffinity(0) - set(server)) or server
    client = mine[:1]
    both = [*server[:1], *client]
    yield _compared(bench, "1 process, a core for each", 1, client, target=False)
    yield _compared(bench, "4 processes on one core", 4, client, target=True)
    with _server_on(bench, both):
        for count in (2, 4, 8):
            what = f"{count} processes and the server on 2 cores"
            yield _compared(bench, what, count, both, target=True)
        with _burners(both):
            what = "2 processes and the server on 2 cores, others busy on both"
            yield _compared(bench, what, 2, both, target=True, spent=True)
    with _server_on(bench, client):
        what = "4 processes and the server on one core"
        yield _compared(bench, what, 4, client, target=True)
    with _burners(client):
        what = "1 process, another busy on its core"
        yield _compared(bench, what, 1, client, target=True, spent=True)


if __name__ == "__main__":
    run_one("spin")
