"""RQ: a cap of four at once, since its `RateLimit` has no rate; `Retry` after a 429."""

import os
import sys

import redis
import rq
from asking import QUEUE, REDIS, REQUESTS, RETRY_AFTER, WHAT, ask, filled
from rq.rate_limit import RateLimit
from rq.worker import SimpleWorker
from rq.worker_pool import WorkerPool

FOR_EVER = 10_000  # retries
PROCESSES = 5  # of each of the two workers: each runs one job at a time


def handle(number: int) -> object:
    if not ask(number):
        return rq.Retry(max=FOR_EVER, interval=int(RETRY_AFTER))
    return None


if __name__ == "__main__":
    import asks_rq

    client = redis.Redis.from_url(REDIS)
    queue = rq.Queue(QUEUE, connection=client)
    if WHAT == "fill":
        limit = RateLimit("host", concurrency=4)
        crash = rq.Retry(max=3)
        for number in range(REQUESTS):
            queue.enqueue(asks_rq.handle, number, result_ttl=0, rate_limit=limit, retry=crash)
        filled()
    else:
        os.environ["PYTHONPATH"] = os.pathsep.join(sys.path)
        pool = WorkerPool([queue], client, num_workers=PROCESSES, worker_class=SimpleWorker)
        pool.start(burst=False, logging_level="CRITICAL")
