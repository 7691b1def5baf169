"""DPQ: one limit on the server, which both workers share; a 429 closes the group."""

from asking import AT_ONCE, HOST, QUEUE, RATE, REDIS, REQUESTS, RETRY_AFTER, WHAT, ask, filled

from dpq import DPQ, Push, RateLimited, Task, Worker

queue = DPQ[int].from_url(REDIS, QUEUE)


def handle(task: Task[int]) -> None:
    if not ask(task.payload):
        raise RateLimited(RETRY_AFTER)


if WHAT == "fill":
    queue.set_limit(f"{RATE}/s,moving", group=HOST)
    queue.push_many(Push(number, group=HOST) for number in range(REQUESTS))
    filled()
else:
    Worker(queue, handle, concurrency=AT_ONCE).run()
