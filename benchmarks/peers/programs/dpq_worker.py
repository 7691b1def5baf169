"""DPQ: `Worker` with leases, retries and acks as it is by default; `prefetch` if it is given."""

import sys

from common import AT_ONCE, BODIES, BULKS, QUEUE, URL, WHAT, measured, seen

from dpq import DPQ, Push, Worker

PREFETCH = int(sys.argv[5]) if len(sys.argv) > 5 else 0
queue = DPQ[str].from_url(URL, QUEUE)
queue.stats()  # opens it

if WHAT == "push":
    with measured():
        for body in BODIES:
            queue.push(body)
elif WHAT == "push_many":
    with measured():
        for some in BULKS:
            queue.push_many(Push(body) for body in some)
else:
    Worker(queue, seen, concurrency=AT_ONCE, prefetch=PREFETCH).run()
