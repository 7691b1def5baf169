"""DPQ: `Worker` with leases, retries and acks as it is by default; `prefetch` if it is given."""

import sys

from _measured import QUEUE, TASKS, URL, Seen, bulks, payload, rate, tell

import dpq
from dpq import DPQ, Push, Worker

settings = {"prefetch": int(sys.argv[4])} if len(sys.argv) > 4 else {}
queue = DPQ[str].from_url(URL, QUEUE)
queue.stats()  # opens it
client = queue.redis
used = client.info("memory")["used_memory"]


def push() -> None:
    for number in range(TASKS):
        queue.push(payload(number))


def push_many() -> None:
    for some in bulks():
        queue.push_many(Push(body) for body in some)


pushed = rate(push)
memory = (client.info("memory")["used_memory"] - used) / TASKS
many = rate(push_many)
seen = Seen(2 * TASKS)
worker = Worker(queue, seen, **settings)
seen.done = worker.stop
worker.run()
consumed = seen.rate()
assert queue.size() == 0
tell(version=dpq.__version__, push=pushed, push_many=many, consume=consumed, bytes=memory)
