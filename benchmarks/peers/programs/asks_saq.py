"""SAQ: it has no rate, so aiolimiter in each worker; a 429 is a failure that is tried again."""

import asyncio
import logging

from aiolimiter import AsyncLimiter
from asking import (
    AT_ONCE,
    QUEUE,
    REDIS,
    REQUESTS,
    RETRY_AFTER,
    SHARE,
    WHAT,
    ask_async,
    filled,
)
from saq import Queue, Worker

FOR_EVER = 10_000  # retries
queue = Queue.from_url(REDIS, name=QUEUE)
limiter = AsyncLimiter(1, 1 / SHARE)


async def handle(_: object, *, number: int) -> None:
    async with limiter:
        pass
    if not await ask_async(number):
        raise ConnectionAbortedError("429")


async def main() -> None:
    await queue.connect()
    if WHAT == "fill":
        for number in range(REQUESTS):
            await queue.enqueue(
                "handle", number=number, retries=FOR_EVER, retry_delay=RETRY_AFTER, ttl=-1
            )
        filled()
    else:
        await Worker(queue, [("handle", handle)], concurrency=AT_ONCE).start()


logging.disable(logging.CRITICAL)
asyncio.run(main())
