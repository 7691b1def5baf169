"""arq: `Worker` that polls each 10 ms, which is its quick setting, and keeps no results."""

import asyncio
import logging

from arq import create_pool
from arq.connections import RedisSettings
from arq.worker import Worker, func
from common import AT_ONCE, BODIES, PORT, WHAT, measured, seen

settings = RedisSettings(host="127.0.0.1", port=PORT)


async def handle(_: object, body: str) -> None:
    seen()


async def push() -> None:
    redis = await create_pool(settings)
    await redis.ping()
    with measured():
        for body in BODIES:
            await redis.enqueue_job("handle", body)


if WHAT == "push":
    asyncio.run(push())
else:
    logging.disable(logging.CRITICAL)
    asyncio.set_event_loop(asyncio.new_event_loop())
    Worker(
        [func(handle, name="handle", keep_result=0)],
        redis_settings=settings,
        max_jobs=AT_ONCE,
        poll_delay=0.01,
    ).run()
