"""Celery: a pool of threads, acks after the task, no results, no events."""

import logging

from celery import Celery
from common import AT_ONCE, BODIES, QUEUE, URL, WHAT, measured, seen

app = Celery("peer", broker=URL)
app.conf.update(
    task_acks_late=True,
    task_ignore_result=True,
    task_default_queue=QUEUE,
    worker_hijack_root_logger=False,
    worker_redirect_stdouts=False,
    broker_connection_retry_on_startup=True,
)


@app.task(name="handle")
def handle(body: str) -> None:
    seen()


if WHAT == "push":
    handle.apply_async(("",), queue="warm-up")  # opens its connection, loads what it loads late
    with measured():
        for body in BODIES:
            handle.delay(body)
else:
    logging.disable(logging.CRITICAL)
    worker = app.Worker(
        pool="threads",
        concurrency=AT_ONCE,
        loglevel="CRITICAL",
        without_gossip=True,
        without_mingle=True,
        quiet=True,
    )
    worker.start()
