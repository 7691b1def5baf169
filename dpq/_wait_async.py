"""Blocking on a wake-up marker without blocking the event loop: the twin of `_wait.Waiter`.

Must not decide anything about tasks.
"""

import asyncio
import math
import time
from asyncio import FIRST_COMPLETED
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import Any

from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import RedisError
from redis.exceptions import TimeoutError as RedisTimeoutError

from dpq._link import own_connection
from dpq._wait import (
    PAUSE_AFTER_FAULT,
    RECHECK_SECONDS,
    REPLY_TIMEOUT,
    Marker,
    Watch,
    block_command,
    handing_on,
    read_marker,
    time_left,
)

Send = Callable[..., Awaitable[Any]]
"""Sends one command on another connection: a client's `execute_command`, or a link's `execute`."""


class AsyncWaiter:
    """One connection that blocks on one or more markers.

    Args:
        client: As for `Waiter`.
        markers: As for `Waiter`.
        send: The way for what cannot be sent over a blocked connection. The client's own would take
            a connection of its pool for each of the waits that end together.
    """

    def __init__(self, client: Any, markers: Sequence[str], send: Send) -> None:
        self._send = send
        self.markers = tuple(markers)
        self._connection: Any = own_connection(
            client,
            retry=Retry(NoBackoff(), 0),  # nothing may be sent again over a blocked connection
            health_check_interval=0,
            socket_timeout=REPLY_TIMEOUT,
        )
        self._client_id = 0
        self._reading: asyncio.Task[Any] | None = None  # the block that is outstanding

    async def wait(self, seconds: float, stop: "asyncio.Future[None]") -> Marker | None:
        """Async `Waiter.wait`; it ends early, too, when `stop` is done.

        So nobody needs to cancel it, which might lose a marker.
        """
        until = time.monotonic() + seconds
        try:
            while (left := until - time.monotonic()) > 0:
                reading = self._reading or await self._block(min(left, RECHECK_SECONDS))
                await asyncio.wait((reading, stop), timeout=left, return_when=FIRST_COMPLETED)
                if not reading.done():
                    return None
                if (marker := await self._read(reading)) is not None:
                    return marker
        except (RedisConnectionError, RedisTimeoutError, OSError):
            await self.aclose()
            await asyncio.sleep(max(0.0, min(PAUSE_AFTER_FAULT, until - time.monotonic())))
        return None

    async def withdraw(self, watched: Iterable[Marker] = ()) -> None:
        """Async `Waiter.withdraw`."""
        try:
            late = None
            if self._reading is not None:
                await self._send("CLIENT UNBLOCK", self._client_id)
                async with asyncio.timeout(REPLY_TIMEOUT):
                    late = await self._read(self._reading)
            for command in handing_on(self.markers, watched, late):
                await self._send(*command)
        except (RedisError, OSError):  # never at the cost of a task that was popped
            await self.aclose()

    async def aclose(self) -> None:
        """Drop the connection; the next wait opens it again."""
        reading, self._reading, self._client_id = self._reading, None, 0
        if reading is not None:
            reading.cancel()
            with suppress(asyncio.CancelledError, RedisError, OSError):
                await reading
        with suppress(RedisError, OSError):
            await self._connection.disconnect(nowait=True)

    async def _block(self, seconds: float) -> "asyncio.Task[Any]":
        if not self._client_id:
            await self._connection.send_command("CLIENT", "ID")
            self._client_id = int(await self._connection.read_response())
        await self._connection.send_command(*block_command(self.markers, seconds))
        reading = self._connection.read_response(disable_decoding=True, timeout=math.inf)
        self._reading = asyncio.create_task(reading)
        return self._reading

    async def _read(self, reading: "asyncio.Task[Any]") -> Marker | None:
        self._reading = None
        return read_marker(self.markers, await reading)


class AsyncWaiters:
    """The waiters of one queue object: one for each task that waits, kept for the next wait."""

    def __init__(self, client: Any, markers: Sequence[str], send: Send) -> None:
        self.markers = tuple(markers)
        self._make = partial(AsyncWaiter, client, self.markers, send)
        self._kept: list[tuple[asyncio.AbstractEventLoop, AsyncWaiter]] = []

    @asynccontextmanager
    async def take(self) -> AsyncIterator[AsyncWaiter]:
        """Use a waiter for one wait; one that was left by an error is not used again."""
        loop = asyncio.get_running_loop()
        waiter = None
        while self._kept and waiter is None:
            owner, kept = self._kept.pop()
            waiter = kept if owner is loop else None
        if waiter is None:
            waiter = self._make()
        try:
            yield waiter
        except BaseException:
            await asyncio.shield(waiter.aclose())
            raise
        self._kept.append((loop, waiter))

    async def aclose(self) -> None:
        """Close the connections that nobody is waiting on."""
        while self._kept:
            await self._kept.pop()[1].aclose()


async def sleep(
    waiter: AsyncWaiter, watches: Sequence[Watch], until: float, stop: "asyncio.Future[None]"
) -> bool:
    """Async `_wait.sleep`; False, too, when `stop` is done."""
    if until <= time.monotonic():
        return False
    while (wait := time_left(watches, until)) > 0:
        marker = await waiter.wait(wait, stop)
        if marker:  # taken also when it is too late: whoever withdraws hands it on
            watches[marker.number].told(marker.moment)
        if stop.done():
            return False
        if not marker:
            break
    return True
