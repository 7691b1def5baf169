"""How well do processes without a queue share a limit, and what does each grant cost?

Eight processes ask for permits of one group as fast as they get them. Windows are counted by the
server's clock: the moments for which the permits were granted.
"""

import time
from bisect import bisect_left
from collections.abc import Iterator
from typing import Any

from benchmarks._harness import Bench, Result, Target, run_one
from benchmarks._processes import processes
from dpq import DPQ

RATE, PROCESSES, SECONDS, ROUNDS = 200, 8, 10, 3
WARM_UP_SECONDS = 0.5


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
    queue.drop()
    shape = f"{PROCESSES} processes, {RATE}/s"
    yield Result(f"acquire, share of the limit used, {shape}", "", Target("at least", 0.95), shares)
    yield Result(f"acquire, windows above the bound, {shape}", "", Target("at most", 0), above)
    yield Result(f"acquire, calls for each grant, {shape}", "", Target("at most", 1.1), costs)


if __name__ == "__main__":
    run_one("acquire")
