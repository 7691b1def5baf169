"""Endpoints for asyncio, on which waiters and listeners wait.

endpoint.py has the same names for threads.
"""

import asyncio
from asyncio import Event, Lock
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import suppress
from typing import Any, TypeVar

from redis.asyncio.retry import Retry
from redis.exceptions import RedisError
from redis.exceptions import TimeoutError as RedisTimeoutError

from dpq.link import blocks
from dpq.link.cluster import AsyncNodes, Node, reachable
from dpq.link.shared_async import here

__all__ = ["AsyncEndpoint", "Background", "Event", "Lock", "first_answered", "heard"]

E = TypeVar("E", bound="AsyncEndpoint")


class AsyncEndpoint:
    """A connection to the server that holds a key. A reply may be read long after its command."""

    def __init__(self, nodes: AsyncNodes, key: str) -> None:
        self.nodes, self.key = nodes, key
        self.node: Node | None = None
        self._connection: Any = None
        self._reading: asyncio.Task[Any] | None = None

    async def connect(self) -> None:
        """Connect to the node that holds the key now."""
        with reachable():
            await self.nodes.ready()
            self.node, self._connection = blocks.connection_to(self.nodes, self.key, Retry)
            await self._connection.connect()
        self._connection.socket_timeout = None  # `read` watches the time

    async def send(self, *command: Any) -> None:
        """Send a command whose reply is read later."""
        with reachable():
            await self._connection.send_command(*command)
        reading = self._connection.read_response(disable_decoding=True)
        self._reading = asyncio.create_task(reading)

    async def read(self) -> Any:
        """Read the raw reply, which comes at once."""
        reading, self._reading = self._reading, None
        try:
            async with asyncio.timeout(blocks.REPLY_TIMEOUT):
                return reading and await reading
        except TimeoutError:
            raise RedisTimeoutError("no reply in time") from None

    async def has_reply(self, seconds: float) -> bool:
        """Wait for a reply, or for the end of the connection, at most so long."""
        reading = self._reading
        return reading is None or bool((await asyncio.wait([reading], timeout=seconds))[0])

    async def messages(self) -> AsyncIterator[Any]:
        """Yield what the server sends by itself, until the connection ends."""
        while True:
            yield await self._connection.read_response(disable_decoding=True)

    async def aclose(self) -> None:
        """Drop the connection."""
        reading, self._reading = self._reading, None
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(RedisError, OSError):
                await connection.disconnect(nowait=True)
        if reading is not None:
            reading.cancel()
            with suppress(asyncio.CancelledError, RedisError, OSError):
                await reading


async def first_answered(endpoints: Sequence[E], seconds: float, stop: Any) -> E | None:
    """Wait until an endpoint has a reply, or `stop` is done, at most so long."""
    if (task := asyncio.current_task()) and task.cancelling():
        raise asyncio.CancelledError  # `wait_for` of Python 3.11 may have lost it
    readings = {endpoint._reading: endpoint for endpoint in endpoints if endpoint._reading}
    waited = [*readings, *([] if stop is None else [stop])]
    done, _ = await asyncio.wait(waited, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
    return next((readings[each] for each in done if each is not stop), None)


async def heard(ear: Event, seconds: float) -> None:
    """Wait until an ear is called, at most so long."""
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await ear.wait()
    ear.clear()


class Background:
    """An asyncio task that reads from an endpoint, until the endpoint or the program ends."""

    def __init__(
        self, run: Callable[[AsyncEndpoint], Coroutine[Any, Any, None]], endpoint: AsyncEndpoint
    ):
        self._task = asyncio.create_task(run(endpoint))

    async def end(self) -> None:
        """End it."""
        if self._task.get_loop() is here():
            await asyncio.sleep(0)  # a task that is cancelled before its start would tell no ear
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task
