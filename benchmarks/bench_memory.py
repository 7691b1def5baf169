"""How much of the server's memory does a queued task take?"""

from collections.abc import Iterator

from benchmarks._harness import ROUNDS, Bench, Result, Target, payload, run_one
from dpq import Push

TASKS = 50_000
GROUPS = 5_000


def measure(bench: Bench) -> Iterator[Result]:
    def used() -> int:
        bench.wait_until_freed()
        return int(bench.redis.info("memory")["used_memory"])

    def per_task(groups: int) -> float:
        queue = bench.queue()
        queue.stats()  # opens it
        before = used()
        queue.push_many(
            Push(
                payload=payload(n),
                priority=priority,
                group=f"host-{n % groups}.example.com" if groups else None,
            )
            for n, priority in enumerate(bench.priorities(TASKS))
        )
        taken = used() - before
        queue.admin.drop()
        queue.close()
        return taken / TASKS

    detail = f"{TASKS} tasks"
    plain = [per_task(0) for _ in range(ROUNDS)]
    yield Result("memory per queued task", "bytes", Target("at most", 350), plain, detail)
    grouped = [per_task(GROUPS) for _ in range(ROUNDS)]
    name, detail = "memory per queued task in groups", f"{detail}, {GROUPS} groups"
    yield Result(name, "bytes", Target("at most", 420), grouped, detail)


if __name__ == "__main__":
    run_one("memory")
