"""How long do the largest calls hold the server?"""

from collections.abc import Callable, Iterator

from benchmarks._harness import ROUNDS, Bench, Result, Target, payload, run_one
from dpq import Push
from dpq.verbs.queue import PUSH_BATCH, UPKEEP_BATCH

LARGEST = 1000  # pop_many and one round trip of ack_many take no more
TIMES = 10  # in each round
GROUPS = 10_000
WIDE = 1_000_000  # units a second, and leases: never reached here


def measure(bench: Bench) -> Iterator[Result]:
    """Each sample is the longest call of its round."""
    now_ms = [1_700_000_000_000]
    queue, client = bench.watched(clock=lambda: now_ms[0])

    def longest(name: str, bound: float, call: Callable[[], object]) -> Result:
        samples = []
        for _ in range(ROUNDS + 1):
            client.take()
            for _ in range(TIMES):
                call()
            samples.append(client.take())
        detail = "the longest call of each round"
        return Result(name, "ms", Target("at most", bound), samples[1:], detail)

    def push(groups: int, delay: float = 0) -> None:
        queue.push_many(
            Push(
                payload=payload(n),
                priority=priority,
                delay=delay,
                group=f"host-{bench.random.randrange(groups)}.example.com" if groups else None,
            )
            for n, priority in enumerate(bench.priorities(PUSH_BATCH))
        )

    tasks = (ROUNDS + 1) * TIMES * UPKEEP_BATCH
    yield longest(f"push_many of {PUSH_BATCH}", 5, lambda: push(0))
    queue.purge()
    yield longest(f"push_many of {PUSH_BATCH} into {GROUPS} groups", 5, lambda: push(GROUPS))
    queue.purge()

    for _ in range(tasks // PUSH_BATCH):
        push(0, 60)
    now_ms[0] += 120_000
    yield longest(f"a step of upkeep: {UPKEEP_BATCH} come due", 5, queue.promote)

    bench.fill(queue, (ROUNDS + 1) * TIMES * LARGEST - tasks)
    yield longest(
        f"pop_many of {LARGEST}, ack_many of {LARGEST}",
        10,
        lambda: queue.ack_many(queue.pop_many(LARGEST)),
    )
    for _ in range((ROUNDS + 1) * TIMES * LARGEST // PUSH_BATCH):
        push(GROUPS)
    yield longest(
        f"the same with {GROUPS} groups", 10, lambda: queue.ack_many(queue.pop_many(LARGEST))
    )
    queue.set_limit(WIDE, 1, WIDE, concurrency=WIDE)
    queue.set_limit(100, 1, 100, group="*", concurrency=100)
    for _ in range((ROUNDS + 1) * TIMES * LARGEST // PUSH_BATCH):
        push(GROUPS)
    name = "the same, the queue and every group under a limit"
    yield longest(name, 10, lambda: queue.ack_many(queue.pop_many(LARGEST)))


if __name__ == "__main__":
    run_one("batches")
