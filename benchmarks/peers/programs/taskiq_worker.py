"""taskiq-redis: a stream broker, which acks; its receiver with so many tasks at once."""

import asyncio
import logging

from common import AT_ONCE, BODIES, QUEUE, URL, WHAT, measured, seen
from taskiq.api import run_receiver_task
from taskiq_redis import RedisStreamBroker

broker = RedisStreamBroker(URL, queue_name=QUEUE)


@broker.task(task_name="handle")
async def handle(body: str) -> None:
    seen()


async def push() -> None:
    await broker.startup()
    with measured():
        for body in BODIES:
            await handle.kiq(body)
    await broker.shutdown()


async def consume() -> None:
    await run_receiver_task(broker, max_async_tasks=AT_ONCE, run_startup=True)


logging.disable(logging.CRITICAL)
asyncio.run(push() if WHAT == "push" else consume())
