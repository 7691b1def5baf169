"""Huey: `PriorityRedisHuey` and its consumer with threads. At most once: it has no acks."""

import logging

from common import AT_ONCE, BODIES, QUEUE, URL, WHAT, measured, seen
from huey import PriorityRedisHuey

huey = PriorityRedisHuey(QUEUE, url=URL, results=False)


@huey.task()
def handle(body: str) -> None:
    seen()


if WHAT == "push":
    huey.pending_count()
    with measured():
        for body in BODIES:
            handle(body)
else:
    logging.disable(logging.CRITICAL)
    huey.create_consumer(workers=AT_ONCE, worker_type="thread").run()
