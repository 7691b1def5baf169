"""docket (pydocket): `Worker` with so many coroutines; what has ended is not kept."""

import asyncio
import logging
from datetime import timedelta

from common import AT_ONCE, BODIES, BULKS, QUEUE, URL, WHAT, measured, seen
from docket import Docket, Worker

OFTEN = timedelta(milliseconds=10)
"""Its default of 250 ms would bring four tasks a second, one at a time."""


async def handle(body: str) -> None:
    seen()


async def main() -> None:
    async with Docket(name=QUEUE, url=URL, execution_ttl=timedelta(0)) as docket:
        docket.register(handle)
        if WHAT == "push":
            with measured():
                for body in BODIES:
                    await docket.add(handle)(body)  # each `add(handle)` makes a new key
        elif WHAT == "push_many":
            with measured():
                for some in BULKS:
                    await docket.add_many([docket.call(handle)(body) for body in some])
        else:
            async with Worker(docket, concurrency=AT_ONCE, minimum_check_interval=OFTEN) as worker:
                await worker.run_forever()


logging.disable(logging.CRITICAL)
asyncio.run(main())
