"""What does a partitioned queue cost: in order, and in processor time of masters and of clients?

The order: a backlog of random priorities, a push for each pop, some consumers in turn. The rank
error of a pop is how many ready tasks were better than the one it brought.

The throughput: clusters of 1, 3 and 6 masters on this machine. What is counted is the processor
time of each master and of the client for each task, since the masters share two cores here.
"""

import random
import time
import warnings
from bisect import bisect_right, insort
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from statistics import mean
from typing import Any

from redis import Redis, RedisCluster
from redis.exceptions import RedisError

from benchmarks._harness import (
    SEED,
    Bench,
    Result,
    Target,
    payload,
    percentile,
    run_one,
    server_clock,
    wait_until,
)
from dpq import DPQ, ConfigurationError, Push, ServerWarning
from dpq.server import Server, find_binary

BACKLOG = 2000
POPS = 2000
CONSUMERS = (1, 4, 16)
PARTITIONS = 12
"""In the measures of throughput: 12, 4 or 2 on each master."""

TASKS = 2000
SLOTS = 16384
BATCH = 100


# The order


def rank_errors(bench: Bench, partitions: int, ask: int, consumers: int) -> list[int]:
    """How many ready tasks were better than each one that was popped."""
    producer = bench.queue(partitions=partitions, ask=ask)
    queues = [
        DPQ[Any](bench.client(), producer.queue_name, ask=ask, default_visibility=3600)
        for _ in range(consumers)
    ]
    fate = random.Random(SEED)
    live = sorted(fate.sample(range(10**9), BACKLOG))
    producer.push_many(Push(n, n) for n in live)
    errors = []
    for turn in range(POPS):
        queue = queues[turn % consumers]
        task = queue.pop_many(1)[0]
        place = bisect_right(live, task.payload)
        errors.append(len(live) - place)
        del live[place - 1]
        queue.ack(task)
        insort(live, new := fate.randrange(10**9))
        producer.push(new, new)
    producer.drop()
    for queue in (producer, *queues):
        queue.close()
    return errors


def order(bench: Bench) -> Iterator[Result]:
    for partitions in (4, 16, 64):
        for ask in sorted({1, 2, 4, partitions}):
            for consumers in CONSUMERS:
                errors = rank_errors(bench, partitions, ask, consumers)
                p50, p99 = percentile(errors, 0.5), percentile(errors, 0.99)
                strict = ask == partitions and consumers == 1
                name = f"rank error, {partitions} partitions, ask={ask}, {consumers} consumers"
                # in turn, whoever has good tasks waits for its turn: no bound but the backlog
                bound = BACKLOG / 2 if ask == 1 else 0 if strict else 8 * partitions / ask
                yield Result(
                    f"{name}, p99",
                    "tasks",
                    Target("at most", bound),
                    [p99],
                    f"p50 {p50}, mean {mean(errors):.1f}, most {max(errors)}",
                )


# The throughput


class Masters:
    """A cluster without replicas on this machine."""

    def __init__(self, stack: ExitStack, count: int) -> None:
        self.nodes = [self._start(stack) for _ in range(count)]
        links = [Redis(port=port, decode_responses=True) for _, port in self.nodes]
        for number, link in enumerate(links):
            first, end = SLOTS * number // count, SLOTS * (number + 1) // count
            link.execute_command("CLUSTER ADDSLOTS", *range(first, end))
            link.execute_command("CLUSTER SET-CONFIG-EPOCH", number + 1)
            link.execute_command("CLUSTER MEET", "127.0.0.1", self.nodes[0][1])
        wait_until(lambda: all(map(self._whole, links)), "the cluster is whole", 60)
        for link in links:
            link.close()
        self.clocks = [server_clock(server.pid) for server, _ in self.nodes]

    def _whole(self, link: Any) -> bool:
        told = link.execute_command("CLUSTER INFO")
        known = int(told["cluster_known_nodes"]) == len(self.nodes)
        return known and told["cluster_state"] == "ok"

    @staticmethod
    def _start(stack: ExitStack) -> tuple[Server, int]:
        for _ in range(20):
            port = random.randrange(10_100, 22_000)
            options = ("--port", str(port), "--bind", "127.0.0.1", "--cluster-enabled", "yes")
            with suppress(ConfigurationError, RedisError):  # somebody has that port
                server = Server.start(find_binary(None), extra_args=options)
                return stack.enter_context(server), port
        raise RuntimeError("no port is free")

    def client(self) -> Any:
        return RedisCluster(host="127.0.0.1", port=self.nodes[0][1])


def one_by_one(queue: DPQ[Any]) -> None:
    for number in range(TASKS):
        queue.push(payload(number), number % 1000)
    for _ in range(TASKS):
        queue.pop().on_success()


def in_hundreds(queue: DPQ[Any]) -> None:
    for first in range(0, TASKS, BATCH):
        queue.push_many(Push(payload(n), n % 1000) for n in range(first, first + BATCH))
    left = TASKS
    while left:
        tasks = queue.pop_many(BATCH)
        left -= len(tasks)
        queue.ack_many(tasks)


def spent(
    work: Callable[[DPQ[Any]], None], queue: DPQ[Any], clocks: Sequence[Callable[[], float]]
) -> list[float]:
    """Processor time for each task, us: of the client, then of each master."""
    work(queue)
    before = [time.process_time(), *(clock() for clock in clocks)]
    work(queue)
    after = [time.process_time(), *(clock() for clock in clocks)]
    return [(b - a) / TASKS * 1e6 for a, b in zip(before, after, strict=True)]


def throughput(bench: Bench) -> Iterator[Result]:
    shapes: list[tuple[int, int, int]] = [(1, 1, 1)]
    shapes += [(masters, PARTITIONS, ask) for masters in (1, 3, 6) for ask in (1, 2, 4, PARTITIONS)]
    for masters, group in _by_masters(shapes):
        with _cluster(masters) as cluster:
            for partitions, ask in group:
                client = cluster.client()
                queue = DPQ[Any](
                    client, "bench", partitions=partitions, ask=ask, default_visibility=3600
                )
                for name, work in (("one by one", one_by_one), ("by hundreds", in_hundreds)):
                    own, *each = spent(work, queue, cluster.clocks)
                    yield Result(
                        f"{masters} masters, {partitions} partitions, ask={ask}, {name}: "
                        "tasks a second that the busiest master could do",
                        "/s",
                        None,
                        [1e6 / max(each)],
                        f"us a task: busiest master {max(each):.1f}, all {sum(each):.1f}, "
                        f"client {own:.1f}",
                    )
                queue.drop()
                queue.close()
                client.close()


def _by_masters(
    shapes: Sequence[tuple[int, int, int]],
) -> Iterator[tuple[int, list[tuple[int, int]]]]:
    for masters in dict.fromkeys(shape[0] for shape in shapes):
        yield masters, [shape[1:] for shape in shapes if shape[0] == masters]


@contextmanager
def _cluster(masters: int) -> Iterator[Masters]:
    with ExitStack() as stack:
        yield Masters(stack, masters)


def measure(bench: Bench) -> Iterator[Result]:
    warnings.simplefilter("ignore", ServerWarning)  # the masters keep nothing on disk
    yield from order(bench)
    yield from throughput(bench)


if __name__ == "__main__":
    run_one("partitions")
