"""docket: its `RateLimit`, which both workers share; a `Retry` after a 429."""

import asyncio
import logging
from datetime import timedelta

from asking import AT_ONCE, QUEUE, RATE, REDIS, REQUESTS, RETRY_AFTER, WHAT, ask_async, filled
from docket import Docket, Retry, Worker
from docket.dependencies import RateLimit


async def handle(
    number: int,
    rate: RateLimit = RateLimit(RATE, per=timedelta(seconds=1)),  # noqa: B008 - docket's way
    retry: Retry = Retry(attempts=None, delay=timedelta(seconds=RETRY_AFTER)),  # noqa: B008
) -> None:
    if not await ask_async(number):
        retry.after(timedelta(seconds=RETRY_AFTER))


async def main() -> None:
    async with Docket(name=QUEUE, url=REDIS) as docket:
        docket.register(handle)
        if WHAT == "fill":
            await docket.add_many([docket.call(handle)(number) for number in range(REQUESTS)])
            filled()
        else:
            lease = timedelta(seconds=30)
            async with Worker(docket, concurrency=AT_ONCE, redelivery_timeout=lease) as worker:
                await worker.run_forever()


logging.disable(logging.CRITICAL)
asyncio.run(main())
