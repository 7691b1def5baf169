"""RQ: `SimpleWorker`, which runs jobs in its own process; `Worker` forks for each job."""

import logging

import redis
import rq
from _measured import QUEUE, SOCKET, TASKS, Seen, bulks, payload, rate, tell

seen = Seen(2 * TASKS)


def handle(body: str) -> None:
    seen(body)


if __name__ == "__main__":
    import rq_worker  # as the worker imports it, by name

    client = redis.Redis(unix_socket_path=SOCKET)
    queue = rq.Queue(QUEUE, connection=client)
    used = client.info("memory")["used_memory"]

    def push() -> None:
        for number in range(TASKS):
            queue.enqueue(rq_worker.handle, payload(number), result_ttl=0)

    def push_many() -> None:
        for some in bulks():
            queue.enqueue_many(
                [rq.Queue.prepare_data(rq_worker.handle, (body,), result_ttl=0) for body in some]
            )

    pushed = rate(push)
    memory = (client.info("memory")["used_memory"] - used) / TASKS
    many = rate(push_many)
    logging.disable(logging.CRITICAL)
    rq.SimpleWorker([queue], connection=client).work(burst=True, logging_level="CRITICAL")
    consumed = rq_worker.seen.rate()
    assert rq_worker.seen.count == 2 * TASKS
    tell(version=rq.VERSION, push=pushed, push_many=many, consume=consumed, bytes=memory)
