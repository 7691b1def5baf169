"""Listeners for asyncio: the twin of listener.py. An asyncio task reads for all callers."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import chain
from typing import Any

from redis.asyncio.retry import Retry
from redis.exceptions import RedisError, ResponseError

from dpq.link.cluster import reachable
from dpq.link.connections_async import AsyncConnections
from dpq.link.listener import PREFIX, Subscription
from dpq.link.waiter import REPLY_TIMEOUT, connection_to


class AsyncListener:
    """Receives the calls for the callers of one queue object.

    Args:
        connections: The shared connections of the queue.
        key: As for `Listener`.
        name: As for `Listener`.
    """

    def __init__(self, connections: AsyncConnections, key: str, name: str = "") -> None:
        self._nodes, self._key = connections.nodes, key
        self._subscription = Subscription(name)
        self._ears: dict[str, set[asyncio.Event]] = {}
        self._beginning: asyncio.Lock | None = None
        self._reading: asyncio.Task[None] | None = None
        self._connection: Any = None

    @property
    def channel(self) -> str:
        """The channel that callers name to the server; "" without a subscription."""
        if self._reading and self._reading.get_loop() is not asyncio.get_running_loop():
            self._subscription.lost()  # the event loop of the connection has ended
        return self._subscription.channel

    @property
    def direct(self) -> bool:
        """True if there is a server to subscribe to, and not a double such as fakeredis."""
        return bool(self._nodes.direct)

    @contextmanager
    def ear(self, caller: str) -> Iterator[asyncio.Event]:
        """Receive the calls of one caller, or with "" of all, as `Listener.ear` does."""
        ear = asyncio.Event()
        ears = self._ears.setdefault(caller, set())
        ears.add(ear)
        try:
            yield ear
        finally:
            ears.discard(ear)
            if not ears:
                self._ears.pop(caller, None)

    async def subscribe(self) -> bool:
        """Async `Listener.subscribe`."""
        if not (self._nodes.direct and self._subscription.due):
            return False
        self._beginning = self._beginning or asyncio.Lock()
        async with self._beginning:
            if not self._subscription.due:
                return bool(self.channel)
            try:
                async with asyncio.timeout(REPLY_TIMEOUT):
                    await self._begin()
            except (RedisError, OSError) as error:
                await self._lost(refused=isinstance(error, ResponseError))
                return False
            except asyncio.CancelledError:  # the next caller opens another connection
                await self._hang_up()
                raise
            self._subscription.begun()
            self._reading = asyncio.create_task(self._read(self._connection))
        return True

    async def _begin(self) -> None:
        await self._nodes.ready()
        _, self._connection = connection_to(self._nodes, self._key, Retry)
        await self._connection.connect()
        self._connection.socket_timeout = None  # see `_SharedConnection._read_one`
        with reachable():
            await self._connection.send_command("SUBSCRIBE", PREFIX + self._subscription.name)
        await self._connection.read_response(disable_decoding=True)

    async def wait(self, ear: asyncio.Event, seconds: float) -> None:
        """Wait until a caller is called, at most so long."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await ear.wait()
        ear.clear()

    async def _read(self, connection: Any) -> None:
        try:
            while True:
                reply = await connection.read_response(disable_decoding=True)
                called = reply[2].decode()
                for ear in (*self._ears.get(called, ()), *self._ears.get("", ())):
                    ear.set()
        except (RedisError, OSError):
            await self._lost()

    async def _lost(self, *, refused: bool = False) -> None:
        self._subscription.lost(refused=refused)
        await self._hang_up()
        for ear in chain(*self._ears.values()):
            ear.set()

    async def _hang_up(self) -> None:
        if self._connection is not None:
            with suppress(RedisError, OSError):
                await self._connection.disconnect(nowait=True)

    async def aclose(self) -> None:
        """Close the connection; the next caller that waits opens it again."""
        reading, self._reading = self._reading, None
        if reading is not None and reading.get_loop() is asyncio.get_running_loop():
            reading.cancel()
            with suppress(asyncio.CancelledError):
                await reading
        await self._lost()
