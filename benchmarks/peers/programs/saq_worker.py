"""SAQ: `Worker` with so many coroutines; finished jobs are removed."""

import asyncio
import logging

from common import AT_ONCE, BODIES, QUEUE, URL, WHAT, measured, seen
from saq import Queue, Worker

queue = Queue.from_url(URL, name=QUEUE)


async def handle(_: object, *, body: str) -> None:
    seen()


async def push() -> None:
    await queue.connect()
    await queue.count("queued")
    with measured():
        for body in BODIES:
            await queue.enqueue("handle", body=body, ttl=-1)


async def consume() -> None:
    await queue.connect()
    await Worker(queue, [("handle", handle)], concurrency=AT_ONCE).start()


logging.disable(logging.CRITICAL)
asyncio.run(push() if WHAT == "push" else consume())
