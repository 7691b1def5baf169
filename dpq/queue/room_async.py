"""Pushes that wait for room in a full queue, on the server and without polling.

`AsyncDPQ.push` calls it. `model/producer` decides how long a producer sleeps. It stands in a line
on the server: what makes room calls the first producer of the line, which then pushes.
"""

from __future__ import annotations  # the import makes no model for each `Push[P]`

import time
from contextlib import suppress
from typing import Any

from redis.exceptions import RedisError

from dpq.model.errors import DPQError, QueueFullError
from dpq.model.producer import Producer
from dpq.model.task import Push
from dpq.queue.pauses_async import THROWN_AWAY


async def push_in_time_async(queue: Any, push: Push[Any], timeout: float | None) -> str:
    """Push a task, and wait for room at most so long; None waits for ever."""
    producer = Producer(time.monotonic(), timeout)
    session, operations, listener = queue._session, queue._operations, queue._listener
    with listener.ear(producer.id) as ear:
        try:
            while True:
                try:
                    return str(await session.run(operations.push, push))
                except QueueFullError as full:
                    producer.refused(full, time.monotonic())
                await listener.subscribe()
                producer.channel = listener.channel
                if await session.run(operations.await_room, producer):
                    await listener.wait(ear, producer.left(time.monotonic()))
        except THROWN_AWAY:
            producer.place = ""
            raise
        finally:
            if producer.place:  # the next producer gets the room that this one leaves
                with suppress(DPQError, RedisError):
                    await queue._finish(session.run, operations.await_room, producer, leave=True)
