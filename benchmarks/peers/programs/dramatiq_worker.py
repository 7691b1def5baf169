"""Dramatiq on Redis: its `Worker` with so many threads; it fetches twice as many ahead."""

import threading

import dramatiq
from common import AT_ONCE, BODIES, QUEUE, URL, WHAT, measured, seen
from dramatiq.brokers.redis import RedisBroker

broker = RedisBroker(url=URL)
dramatiq.set_broker(broker)


@dramatiq.actor(queue_name=QUEUE)
def handle(body: str) -> None:
    seen()


if WHAT == "push":
    broker.client.ping()
    with measured():
        for body in BODIES:
            handle.send(body)
else:
    dramatiq.Worker(broker, worker_threads=AT_ONCE).start()
    threading.Event().wait()
