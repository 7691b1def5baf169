"""Waits for units of a limit, in an event loop. permits_async.py calls it. See units.py."""

import asyncio
import time
from contextlib import suppress
from typing import Any

from redis.exceptions import RedisError

from dpq.limits.permit import Caller, PermitAnswer, PermitRequest
from dpq.model.errors import DPQError
from dpq.queue.pauses_async import THROWN_AWAY


async def take_units_async(queue: Any, request: PermitRequest) -> tuple[Caller, float]:
    """Async `take_units`. A cancelled caller gives back its booking, lease or place."""
    began = time.monotonic()
    caller = Caller(request, began)
    asking: asyncio.Task[PermitAnswer] | None = None
    listener = queue._listener
    try:
        with listener.ear(caller.id) as ear:
            while not caller.granted:
                caller.channel, now = listener.channel, time.monotonic()
                operation = queue._session.run(queue._operations.acquire, caller, now)
                asking = asyncio.create_task(operation)
                pause = caller.receive(await asyncio.shield(asking), time.monotonic())
                asking = None
                if caller.place and not await listener.subscribe():
                    await listener.wait(ear, pause)
                elif not caller.place and pause > 0:
                    await asyncio.sleep(pause)
    except THROWN_AWAY:
        raise
    except BaseException:
        if asking or caller.held or caller.place or caller.moment:
            queue._finish(_give_back, queue, caller, asking)
        raise
    return caller, time.monotonic() - began


async def _give_back(queue: Any, caller: Caller, asking: asyncio.Task[PermitAnswer] | None) -> None:
    """End what a cancelled caller has, also if its answer is under way."""
    with suppress(DPQError, RedisError):
        if asking:
            caller.receive(await asking, time.monotonic())
        await queue._session.run(queue._operations.give_up, caller)
