"""Waits for units of a limit; `limits/permit` decides how long a caller sleeps.

A question goes on though its caller is cancelled: what its answer gives is given back.
"""

import time
from contextlib import suppress
from typing import Any

from redis.exceptions import RedisError

from dpq.limits.permit import Caller, PermitRequest
from dpq.model.errors import DPQError
from dpq.queue.pauses_async import THROWN_AWAY, pause


async def take_units_async(queue: Any, request: PermitRequest) -> tuple[Caller, float]:
    """Wait for units of a limit; return the caller that has them, and the seconds it has waited."""
    began = time.monotonic()
    caller, listener = Caller(request, began), queue._listener
    asking = gone = False

    async def ask() -> float:
        nonlocal asking
        asking = True
        try:
            acquire = queue._operations.acquire
            answer = await queue._session.run(acquire, caller, time.monotonic())
            return caller.receive(answer, time.monotonic())
        finally:
            asking = False
            if gone:
                await give_up()

    async def give_up() -> None:
        """Give a booking back; end a lease, or a place in the line."""
        if caller.held or caller.place or caller.moment:
            with suppress(DPQError, RedisError):
                await queue._session.run(queue._operations.give_up, caller)

    try:
        with listener.ear(caller.id) as ear:
            while not caller.granted:
                caller.channel = listener.channel
                seconds = await queue._finish(ask)
                if caller.place and not await listener.subscribe():
                    await listener.wait(ear, seconds)
                elif not caller.place and seconds > 0:
                    await pause(seconds)
    except THROWN_AWAY:
        raise
    except BaseException:
        gone = True
        if not asking:
            queue._finish(give_up)
        raise
    return caller, time.monotonic() - began
