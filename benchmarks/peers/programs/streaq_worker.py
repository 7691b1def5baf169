"""streaq: `Worker` with so many coroutines; results are not kept."""

import asyncio
import logging

from common import AT_ONCE, BODIES, BULKS, QUEUE, URL, WHAT, measured, seen
from streaq import Worker

worker = Worker(redis_url=URL, queue_name=QUEUE, concurrency=AT_ONCE)


@worker.task(ttl=0)
async def handle(body: str) -> None:
    seen()


async def push() -> None:
    async with worker:
        await worker.queue_size()
        if WHAT == "push":
            with measured():
                for body in BODIES:
                    await handle.enqueue(body)
        else:
            with measured():
                for some in BULKS:
                    await worker.enqueue_many([handle.enqueue(body) for body in some])


logging.disable(logging.CRITICAL)
if WHAT == "consume":
    worker.run_sync()
else:
    asyncio.run(push())
