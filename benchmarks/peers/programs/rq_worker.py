"""RQ: `SimpleWorker`, which runs jobs in its own process; ten at once are a pool of ten such."""

import logging
import os
import sys
import tempfile
import threading
import time

import redis
import rq
from common import AT_ONCE, BODIES, BULKS, QUEUE, TASKS, URL, WHAT, measured, seen
from rq.worker import SimpleWorker
from rq.worker_pool import WorkerPool

TALLY = "DPQ_PEERS_TALLY"
"""Environment variable: a file that gets one byte for each job, since the pool is processes."""


def handle(body: str) -> None:
    global tally
    if tally is None:
        tally = os.open(os.environ[TALLY], os.O_WRONLY | os.O_APPEND)
    os.write(tally, b".")


def watch(path: str) -> None:
    """Count the bytes of the file."""
    known = 0
    while known < TASKS:
        size = os.path.getsize(path)
        for _ in range(size - known):
            seen()
        known = size
        time.sleep(0.002)


tally: int | None = None

if __name__ == "__main__":
    import rq_worker  # as the worker imports it, by name

    client = redis.Redis.from_url(URL)
    queue = rq.Queue(QUEUE, connection=client)
    if WHAT == "push":
        client.ping()
        with measured():
            for body in BODIES:
                queue.enqueue(rq_worker.handle, body, result_ttl=0)
    elif WHAT == "push_many":
        client.ping()
        with measured():
            for some in BULKS:
                queue.enqueue_many(
                    [
                        rq.Queue.prepare_data(rq_worker.handle, (body,), result_ttl=0)
                        for body in some
                    ]
                )
    else:
        file = tempfile.NamedTemporaryFile()  # noqa: SIM115 - this program ends by `os._exit`
        os.environ[TALLY] = file.name
        os.environ["PYTHONPATH"] = os.pathsep.join(sys.path)
        logging.disable(logging.CRITICAL)
        threading.Thread(target=watch, args=(file.name,), daemon=True).start()
        if AT_ONCE == 1:
            SimpleWorker([queue], connection=client).work(burst=True, logging_level="CRITICAL")
        else:
            pool = WorkerPool([queue], client, num_workers=AT_ONCE, worker_class=SimpleWorker)
            pool.start(burst=True, logging_level="CRITICAL")
        threading.Event().wait()
