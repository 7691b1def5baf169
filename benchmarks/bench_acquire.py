"""How well do processes without a queue share a limit, and what does each grant cost?

Eight processes ask for permits of one group as fast as they get them. Windows are counted by the
server's clock: the moments for which the permits were granted.

Then threads wait for few leases, each held for 50 ms: who is served, and when? The yardstick
is as many threads as there are leases, in the same run: nobody waits then.
"""

import threading
import time
from bisect import bisect_left
from collections.abc import Iterator
from typing import Any

from benchmarks._harness import Bench, Result, Target, run_one
from benchmarks._processes import processes
from dpq import DPQ, Push

RATE, PROCESSES, SECONDS, ROUNDS = 200, 8, 10, 3
WARM_UP_SECONDS = 0.5
HOLD_SECONDS, HELD_FOR = 0.05, 4


class _Counted:
    """A queue that counts its calls of the script."""

    def __init__(self, url: str, name: str) -> None:
        self.queue: DPQ[Any] = DPQ.from_url(url, name)
        self.calls = 0
        connections = self.queue._session.connections
        send = connections.call_all

        def call_all(commands: Any) -> Any:
            self.calls += sum(command.script.name == "acquire" for command in commands)
            return send(commands)

        connections.call_all = call_all  # type: ignore[method-assign]


def _work(tools: _Counted, kind: str, end: float) -> tuple[int, list[float]]:
    before, moments = tools.calls, []
    while time.monotonic() < end:
        with tools.queue.acquire(kind) as permit:
            moments.append(float(permit._caller.moment))
    return tools.calls - before, moments


def measure(bench: Bench) -> Iterator[Result]:
    queue = bench.queue()
    queue.set_limit(RATE, 1, group="api", slack=0)
    shares, above, costs = [], [], []
    with processes(PROCESSES, _Counted, _work, bench.server.url, queue.queue_name) as several:
        several.slice("api", WARM_UP_SECONDS)
        for _ in range(ROUNDS):
            answers = several.slice("api", SECONDS)
            moments = sorted(moment for _, found in answers for moment in found)
            inside = moments[-1] - moments[0]
            shares.append((len(moments) - 1) / inside * 1000 / RATE)
            above.append(
                float(
                    sum(
                        bisect_left(moments, at + 1000) - first > RATE
                        for first, at in enumerate(moments)
                    )
                )
            )
            costs.append(sum(calls for calls, _ in answers) / len(moments))
    queue.admin.drop()
    shape = f"{PROCESSES} processes, {RATE}/s"
    yield Result(f"acquire, share of the limit used, {shape}", "", Target("at least", 0.95), shares)
    yield Result(f"acquire, windows above the bound, {shape}", "", Target("at most", 0), above)
    yield Result(f"acquire, calls for each grant, {shape}", "", Target("at most", 1.1), costs)
    yield from _waiting_for_leases(bench)
    yield from _before_tasks(bench)


class _Turns:
    """Threads that hold one of a few leases in turn, as requests to a host would."""

    def __init__(self, tools: _Counted, leases: int) -> None:
        self.tools, self.leases = tools, leases
        tools.queue.set_limit(concurrency=leases, group="api")

    def run(self, threads: int) -> tuple[list[int], float, float]:
        """Return what each thread was granted, the longest wait, and calls for each grant."""
        served, granted, waits = [0] * threads, list[int](), [0.0]
        before = self.tools.calls
        end = time.monotonic() + HELD_FOR

        def work(number: int) -> None:
            while time.monotonic() < end:
                with self.tools.queue.acquire("api") as permit:
                    served[number] += time.monotonic() < end
                    waits.append(permit.waited)
                    granted.append(number)
                    time.sleep(HOLD_SECONDS)

        together = [threading.Thread(target=work, args=(n,)) for n in range(threads)]
        for thread in together:
            thread.start()
        for thread in together:
            thread.join()
        return served, max(waits), (self.tools.calls - before) / len(granted)


def _waiting_for_leases(bench: Bench) -> Iterator[Result]:
    for leases, threads in ((1, 8), (3, 6), (3, 20), (3, 60)):
        tools = _Counted(bench.server.url, bench.queue().queue_name)
        turns = _Turns(tools, leases)
        shares, evenness, latest, costs = [], [], [], []
        for _ in range(ROUNDS):
            alone, _, _ = turns.run(leases)
            served, wait, calls = turns.run(threads)
            shares.append(sum(served) / sum(alone))
            evenness.append(min(served) / max(served))
            latest.append(wait / (threads / sum(served) * HELD_FOR))
            costs.append(calls)
        tools.queue.admin.drop()
        tools.queue.close()
        shape = f"{threads} threads, {leases} leases"
        yield Result(f"acquire, share of the leases, {shape}", "", Target("at least", 0.95), shares)
        yield Result(f"acquire, least to most served, {shape}", "", None, evenness)
        yield Result(f"acquire, latest to the fair wait, {shape}", "", Target("at most", 2), latest)
        yield Result(f"acquire, calls for each grant, {shape}", "", None, costs)


def _before_tasks(bench: Bench) -> Iterator[Result]:
    """Six consumers of priority 0 keep three leases busy; how long does priority 9 wait?"""
    queue = bench.queue()
    queue.set_limit(concurrency=3, group="api")
    queue.push_many(Push(payload=n, group="api") for n in range(3000))
    stop, waits = threading.Event(), []

    def consume() -> None:
        while not stop.is_set():
            task, on_success, _ = queue.pop(timeout=0.5)
            if task:
                time.sleep(HOLD_SECONDS)
                on_success()

    consumers = [threading.Thread(target=consume) for _ in range(6)]
    for thread in consumers:
        thread.start()
    for _ in range(20):
        with queue.acquire("api", priority=9) as permit:
            waits.append(permit.waited)
    stop.set()
    for thread in consumers:
        thread.join()
    queue.admin.drop()
    yield Result("acquire, wait of priority 9 among tasks", "s", Target("at most", 0.1), waits)


if __name__ == "__main__":
    run_one("acquire")
