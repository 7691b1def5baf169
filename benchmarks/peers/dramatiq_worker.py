"""Dramatiq on Redis: its `Worker` with so many threads, and so many messages fetched ahead."""

import os
import sys
import threading

import redis
from _measured import SOCKET, TASKS, Seen, payload, rate, tell

THREADS, PREFETCH = sys.argv[4:6]  # "0": as Dramatiq has it, twice the threads

if int(PREFETCH):
    os.environ["dramatiq_queue_prefetch"] = PREFETCH  # noqa: SIM112 - its own spelling

import dramatiq  # noqa: E402 - it reads the environment
from dramatiq.brokers.redis import RedisBroker  # noqa: E402

client = redis.Redis(unix_socket_path=SOCKET)
broker = RedisBroker(client=client)
dramatiq.set_broker(broker)
over = threading.Event()
seen = Seen(TASKS, over.set)
lock = threading.Lock()


@dramatiq.actor(queue_name="peer")
def handle(body: str) -> None:
    with lock:
        seen(body)


def push() -> None:
    for number in range(TASKS):
        handle.send(payload(number))


used = client.info("memory")["used_memory"]
pushed = rate(push)
memory = (client.info("memory")["used_memory"] - used) / TASKS
worker = dramatiq.Worker(broker, worker_threads=int(THREADS))
worker.start()
over.wait()
broker.join("peer")
consumed = seen.rate()
worker.stop()
tell(version=dramatiq.__version__, push=pushed, push_many=None, consume=consumed, bytes=memory)
