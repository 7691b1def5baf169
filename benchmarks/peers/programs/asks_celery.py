"""Celery: `rate_limit` in each worker, acks late, and a retry after a 429."""

from asking import AT_ONCE, QUEUE, REDIS, REQUESTS, RETRY_AFTER, SHARE, WHAT, ask, filled
from celery import Celery

app = Celery("asks", broker=REDIS)
app.conf.update(
    task_acks_late=True,
    task_reject_on_worker_lost=True,
    task_ignore_result=True,
    task_default_queue=QUEUE,
    worker_prefetch_multiplier=1,
    worker_hijack_root_logger=False,
    worker_redirect_stdouts=False,
    broker_connection_retry_on_startup=True,
    broker_transport_options={"visibility_timeout": 30},
)


@app.task(name="handle", bind=True, max_retries=None, rate_limit=f"{SHARE:g}/s")
def handle(self: object, number: int) -> None:
    if not ask(number):
        raise self.retry(countdown=RETRY_AFTER)


if WHAT == "fill":
    for number in range(REQUESTS):
        handle.delay(number)
    filled()
else:
    name = f"worker{WHAT}@localhost"
    app.Worker(pool="threads", concurrency=AT_ONCE, loglevel="ERROR", hostname=name).start()
