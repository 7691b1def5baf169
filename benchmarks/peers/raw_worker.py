"""redis-py alone: ZADD and ZPOPMIN. It has no leases, and loses what a dying consumer took."""

import redis
from _measured import SOCKET, TASKS, bulks, payload, rate, tell

client = redis.Redis(unix_socket_path=SOCKET)
used = client.info("memory")["used_memory"]


def push() -> None:
    for number in range(TASKS):
        client.zadd("raw", {payload(number): 0})


def push_many() -> None:
    for some in bulks():
        pipe = client.pipeline(transaction=False)
        for body in some:
            pipe.zadd("raw", {body: 0})
        pipe.execute()


def consume() -> None:
    while client.zpopmin("raw"):
        pass


pushed = rate(push)
memory = (client.info("memory")["used_memory"] - used) / TASKS
many = rate(push_many)
tell(
    version=redis.__version__,
    push=pushed,
    push_many=many,
    consume=rate(consume, 2 * TASKS),
    bytes=memory,
)
