"""Waits for units of a limit, in a thread. permits.py calls it.

`limits/permit` decides how long a caller sleeps. units_async.py is the counterpart for asyncio,
where a caller may be cancelled while its answer is under way.
"""

import time
from contextlib import suppress
from typing import Any

from redis.exceptions import RedisError

from dpq.limits.permit import Caller, PermitRequest
from dpq.model.errors import DPQError


def take_units(queue: Any, request: PermitRequest) -> tuple[Caller, float]:
    """Wait for units of a limit; return the caller that has them, and the seconds it has waited."""
    began = time.monotonic()
    caller = Caller(request, began)
    listener = queue._listener
    try:
        with listener.ear(caller.id) as ear:
            while not caller.granted:
                caller.channel, now = listener.channel, time.monotonic()
                answer = queue._session.run(queue._operations.acquire, caller, now)
                pause = caller.receive(answer, time.monotonic())
                if caller.place and not listener.subscribe():
                    listener.wait(ear, pause)
                elif not caller.place and pause > 0:
                    time.sleep(pause)
    except BaseException:  # a booking is given back; the lease or the place ends
        if caller.held or caller.place or caller.moment:
            with suppress(DPQError, RedisError):
                queue._session.run(queue._operations.give_up, caller)
        raise
    return caller, time.monotonic() - began
