"""What does it cost to wait for a replica or the disk, push by push, and many at once?

The replica runs on the same machine: there is no network in between. The disk is that of the
server's temporary directory.
"""

import asyncio
import socket
from collections.abc import Callable, Iterator
from itertools import count
from typing import Any

from redis.exceptions import ResponseError

from benchmarks._harness import Bench, Result, Target, payload, ratio, run_one, wait_until
from dpq import DPQ, AsyncDPQ
from dpq.server import Server

ONE_BY_ONE = 100  # in each slice
SLOW = 5  # with `everysec`, where each waits for the server's next tick
AT_ONCE = 100


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def pusher(queue: DPQ[Any], numbers: "count[int]", times: int) -> Callable[[], None]:
    def push() -> None:
        for _ in range(times):
            queue.push(payload(next(numbers)))

    return push


def crowd(url: str, name: str, durability: str, loop: asyncio.AbstractEventLoop) -> Any:
    """Pushes of many tasks at once: what to call, and the queue to close."""
    queue: AsyncDPQ[Any] = AsyncDPQ.from_url(url, name, durability=durability)

    def push() -> None:
        async def all_at_once() -> None:
            await asyncio.gather(*(queue.push(payload(n)) for n in range(AT_ONCE)))

        loop.run_until_complete(all_at_once())

    return push, queue


def measure(bench: Bench) -> Iterator[Result]:
    name, numbers, loop = bench.queue().queue_name, count(), asyncio.new_event_loop()
    client, url = bench.redis, bench.server.url
    loose = DPQ(client, name)

    def result(measure: str, least: float | None, ours: Any, raw: Any, times: int) -> Result:
        target = None if least is None else Target("at least", least)
        return Result(measure, "x", target, *ratio(bench, ours, raw, loose.purge, times))

    def compare(measure: str, least: float | None, durability: Any, times: int) -> Result:
        queue = DPQ(client, name, durability=durability)
        push, raw = pusher(queue, numbers, times), pusher(loose, numbers, times)
        compared = result(f"push, {measure}", least, push, raw, times)
        queue.close()
        return compared

    def compare_crowd(measure: str, least: float | None, durability: str) -> Result:
        ours, queue = crowd(url, name, durability, loop)
        raw, other = crowd(url, name, "async", loop)
        compared = result(f"{AT_ONCE} pushes at once, {measure}", least, ours, raw, AT_ONCE)
        for each in (queue, other):
            loop.run_until_complete(each.close())
        return compared

    client.config_set("port", port := free_port())
    with Server.start(bench.server.binary, extra_args=["--replicaof", "127.0.0.1", str(port)]):
        wait_until(lambda: client.info("replication")["connected_slaves"] == 1, "a replica")
        wait_until(lambda: bool(client.wait(1, 100)), "a replica that follows")
        yield compare("'replica' / 'async'", 0.2, "replica", ONE_BY_ONE)
        yield compare_crowd("'replica' / 'async'", 0.5, "replica")
    client.config_set("appendonly", "yes")
    wait_until(lambda: not client.info("persistence")["aof_rewrite_in_progress"], "an AOF")
    for policy, least, times in (("always", 0.3, ONE_BY_ONE), ("everysec", None, SLOW)):
        client.config_set("appendfsync", policy)
        try:
            client.execute_command("WAITAOF", 1, 0, 1000)
        except ResponseError:
            continue  # Redis before 7.2
        name = f"'fsync' / 'async', appendfsync {policy}"
        yield compare(name, least, "fsync", times)
        yield compare_crowd(name, None, "fsync")
    client.config_set("appendonly", "no")
    loop.close()
    loose.admin.drop()
    loose.close()


if __name__ == "__main__":
    run_one("durability")
