"""Does a million tasks make the server slower, or hold it up in one long call?"""

from collections.abc import Iterator
from typing import Any

from benchmarks._harness import ROUNDS, Bench, Result, Target, Watched, run_one
from dpq import DPQ

MANY, FEW = 1_000_000, 10_000
POPS = 1000  # in each round
CALLS = 200  # in each round of those that a longest one is looked for in
START_MS = 1_700_000_000_000
DAY_MS = 86_400_000


class _Clock:
    def __init__(self) -> None:
        self.now_ms = START_MS

    def __call__(self) -> int:
        return self.now_ms


def _longest(name: str, samples: list[float]) -> Result:
    detail = "by phase: " + ", ".join(f"{ms:.1f}" for ms in samples)
    return Result(name, "ms", Target("at most", 5), samples, detail, by="most")


def _pop_time(bench: Bench, queue: DPQ[Any]) -> float:
    """Microseconds of the server's for each pop; what was popped goes."""
    calls, microseconds = bench.script_time()
    tasks = [queue.pop().task for _ in range(POPS)]
    calls_after, microseconds_after = bench.script_time()
    queue.ack_many([task for task in tasks if task])
    return (microseconds_after - microseconds) / (calls_after - calls)


def _due_at_once(bench: Bench, queue: DPQ[Any], client: Watched, clock: _Clock) -> Result:
    """Leaves the million tasks ready."""
    bench.fill(queue, MANY, delay=3600)
    clock.now_ms += DAY_MS
    samples = [client.take()]
    for _ in range(ROUNDS - 2):
        for _ in range(CALLS):
            queue.promote()
            queue.push("meanwhile")
        samples.append(client.take())
    assert queue.pop().task  # it promotes all the others before it chooses
    samples.append(client.take())
    return _longest("longest call while a million tasks come due", samples)


def _pop_of_a_million(bench: Bench, many: DPQ[Any], few: DPQ[Any], clock: _Clock) -> Result:
    bench.fill(few, FEW + (ROUNDS + 1) * POPS // 2, delay=3600)  # on average FEW, as the many were
    clock.now_ms += DAY_MS
    while few.promote():
        pass
    times = [(_pop_time(bench, few), _pop_time(bench, many)) for _ in range(ROUNDS + 1)][1:]
    samples = [of_many / of_few for of_few, of_many in times]
    detail = f"last: {times[-1][0]:.1f} -> {times[-1][1]:.1f} us"
    name = "server time per pop at 1 000 000 tasks / at 10 000"
    return Result(name, "x", Target("at most", 1.5), samples, detail)


def _in_closed_group(bench: Bench, queue: DPQ[Any], client: Watched) -> Result:
    queue.delay_group("closed", 3600)
    bench.fill(queue, MANY, group="closed")
    samples = [client.take()]
    bench.fill(queue, CALLS * 100)
    for _ in range(CALLS):
        queue.ack_many(queue.pop_many(100))
    samples.append(client.take())
    for number in range(CALLS):
        queue.push(number, priority=number, group="closed")
        queue.push(number, group="other")
        assert queue.pop().task
    samples.append(client.take())
    for seconds in [3600, 0] * (CALLS // 2):
        queue.delay_group("closed", seconds)
    samples.append(client.take())
    for _ in range(CALLS):
        queue.ack_many(queue.pop_many(100))
    samples.append(client.take())
    return _longest("longest call beside a million tasks in a closed group", samples)


def measure(bench: Bench) -> Iterator[Result]:
    clock = _Clock()
    queue, client = bench.watched(clock=clock)
    yield _due_at_once(bench, queue, client, clock)
    yield _pop_of_a_million(bench, queue, bench.queue(clock=clock), clock)
    queue.admin.drop()
    bench.wait_until_freed()
    yield _in_closed_group(bench, *bench.watched(clock=clock))


if __name__ == "__main__":
    run_one("million")
