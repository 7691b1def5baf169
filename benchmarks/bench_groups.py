"""What does it cost to consume when the tasks are spread over 10 000 groups?"""

from benchmarks._harness import Bench, Result, Target, payload, run_one
from benchmarks.bench_pop import TASKS, in_hundreds
from dpq import Push

GROUPS = 10_000


def measure(bench: Bench) -> list[Result]:
    queue = bench.queue()
    priorities = bench.priorities(TASKS)
    queue.push_many(
        Push(payload=payload(n), priority=p, group=f"host-{bench.random.randrange(GROUPS)}.com")
        for n, p in enumerate(priorities)
    )
    name = f"the same with {GROUPS} groups"
    return [Result(name, "x", Target("at least", 0.38), *in_hundreds(bench, queue))]


if __name__ == "__main__":
    run_one("groups")
