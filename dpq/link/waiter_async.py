"""Waiters for asyncio: block on wake-up markers, but not the event loop. The twin of waiter.py.

Must not decide anything about tasks.
"""

import asyncio
import time
from asyncio import FIRST_COMPLETED
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import Any

from redis.asyncio.retry import Retry
from redis.exceptions import RedisError, ResponseError
from redis.exceptions import TimeoutError as RedisTimeoutError

from dpq.link.cluster import CUT, Node, reachable
from dpq.link.connections_async import AsyncConnections
from dpq.link.waiter import (
    ANSWERED_SECONDS,
    MOST_BLOCKS,
    PAUSE_AFTER_FAULT,
    REPLY_TIMEOUT,
    block_command,
    block_seconds,
    connection_to,
    cut,
    handing_on,
    markers_maybe_lost,
    patience,
    read_marker,
)
from dpq.link.watches import Marker, Watch, time_left


class AsyncWaiter:
    """Blocks on one or more markers, as `Waiter` does.

    Args:
        connections: The shared connections, for the commands that a blocked connection cannot send.
            The client itself would take a connection of its pool for each wait that ends.
        markers: As for `Waiter`.
    """

    def __init__(self, connections: AsyncConnections, markers: Sequence[str]) -> None:
        self._connections = connections
        self.markers = tuple(markers)
        slots = connections.nodes.by_slot(markers)
        self.hears_all = len(slots) <= MOST_BLOCKS
        self._blocks = [_Block(connections, some) for some in slots[:MOST_BLOCKS]]
        self._asked = self._blocks[0]  # the block whose answer is read next

    async def wait(self, seconds: float, stop: "asyncio.Future[None]") -> Marker | None:
        """Async `Waiter.wait`; it also ends when `stop` is done."""
        until = time.monotonic() + seconds
        try:
            while (left := until - time.monotonic()) > 0:
                readings: dict[asyncio.Future[Any], _Block] = {}
                for block in self._blocks:
                    self._asked = block
                    reading = await block.begin(self._block_seconds(left))
                    readings[reading] = block
                _still_wanted()
                at_most = patience(self._connections.nodes, self._blocks, left)
                done, _ = await asyncio.wait(
                    (*readings, stop), timeout=at_most, return_when=FIRST_COMPLETED
                )
                answered = [readings[reading] for reading in done if reading is not stop]
                if not answered:
                    if stop.done():
                        return None
                    continue
                self._asked = answered[0]
                if (reply := await self._asked.read()) is not None:
                    return read_marker(self.markers, reply)
        except (*CUT, OSError):
            await self._asked.lost()
            await asyncio.sleep(max(0.0, min(PAUSE_AFTER_FAULT, until - time.monotonic())))
        return None

    def _block_seconds(self, left: float) -> float:
        return block_seconds(self._connections.nodes, left)

    async def withdraw(self, owned: Iterable[Marker] = ()) -> None:
        """Async `Waiter.withdraw`."""
        try:
            ended = [block for block in self._blocks if await block.end()]
            async with asyncio.timeout(REPLY_TIMEOUT):
                replies = [await block.read() for block in ended]
            late = [read_marker(self.markers, reply) for reply in replies if reply is not None]
            lost = markers_maybe_lost(self.markers, self._blocks)
            for some in ([*owned, *late, *lost], lost):  # see `Waiter.withdraw`
                for name, key, *args in handing_on(self.markers, some):
                    await self._connections.execute(key, name, key, *args)
        except (RedisError, OSError):  # no error here may cost a task that was popped
            await self.aclose()

    async def aclose(self) -> None:
        """Close the connections; the next wait opens them again."""
        for block in self._blocks:
            await block.aclose()


def _still_wanted() -> None:
    """Raise CancelledError if this task was cancelled: `wait_for` of Python 3.11 may lose it."""
    task = asyncio.current_task()
    if task and task.cancelling():
        raise asyncio.CancelledError


class _Block:
    """Async `waiter._Block`; `begin` returns the asyncio task that reads the answer."""

    def __init__(self, connections: AsyncConnections, markers: Sequence[str]) -> None:
        self._connections = connections
        self._nodes = connections.nodes
        self.markers = markers
        self._node: Node | None = None
        self._connection: Any = None
        self._client_id = 0
        self.maybe_lost = False
        self.until = 0.0
        self._reading: asyncio.Task[Any] | None = None

    async def begin(self, seconds: float) -> "asyncio.Task[Any]":
        if self._reading is not None:
            if time.monotonic() > self.until and self._nodes.direct and not self._reading.done():
                raise RedisTimeoutError("a block did not end in time")
            return self._reading
        if self._connection is None:
            await self._nodes.ready()
            self._node, self._connection = connection_to(self._nodes, self.markers[0], Retry)
            with reachable():
                await self._connection.connect()
                self._client_id = await self._own_id() if self._nodes.unblocks else 0
            self._connection.socket_timeout = None  # `asyncio.wait` watches the time
        with reachable():
            await self._connection.send_command(*block_command(self.markers, seconds))
        reading = self._connection.read_response(disable_decoding=True)
        self._reading = asyncio.create_task(reading)
        self.until = time.monotonic() + seconds + REPLY_TIMEOUT
        return self._reading

    async def _own_id(self) -> int:
        await self._connection.send_command("CLIENT", "ID")
        try:
            return int(await self._connection.read_response())
        except ResponseError as refusal:
            self._nodes.unblocks_no_more(refusal)
            return 0

    async def read(self) -> Any:
        reading, self._reading = self._reading, None
        try:
            return reading and await reading
        except ResponseError as refusal:
            raise cut(refusal) from None

    async def end(self) -> bool:
        self.maybe_lost = False
        if self._reading is None or self._node is None:
            return False
        if self._nodes.of(self.markers[0]) is self._node:
            blocked = await self._unblock(self._node) if self._client_id else None
            if blocked or (blocked is not None and not self._nodes.fails_over):
                return True
            if (
                blocked is not None
                and (await asyncio.wait([self._reading], timeout=ANSWERED_SECONDS))[0]
            ):
                return True
            self.maybe_lost = blocked is None
        await self.aclose()
        return False

    async def _unblock(self, node: Node) -> bool | None:
        try:
            return bool(await self._connections.execute(node, "CLIENT UNBLOCK", self._client_id))
        except ResponseError as refusal:
            self._nodes.unblocks_no_more(refusal)
            return None

    async def lost(self) -> None:
        await self.aclose()
        if self._node:
            await self._nodes.lost_async()

    async def aclose(self) -> None:
        reading, self._reading = self._reading, None
        connection, self._connection = self._connection, None
        if reading is not None:
            reading.cancel()
            with suppress(asyncio.CancelledError, RedisError, OSError):
                await reading
        if connection is not None:
            with suppress(RedisError, OSError):
                await connection.disconnect(nowait=True)


class AsyncWaiters:
    """The waiters of one queue object: one for each wait at a time, kept for the next one."""

    def __init__(self, connections: AsyncConnections, markers: Sequence[str]) -> None:
        self.markers = tuple(markers)
        self._make = partial(AsyncWaiter, connections, self.markers)
        self._kept: list[tuple[asyncio.AbstractEventLoop, AsyncWaiter]] = []

    @asynccontextmanager
    async def take(self) -> AsyncIterator[AsyncWaiter]:
        """Lend a waiter for one wait; after an error it is closed, and not used again."""
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
        """Close the waiters that no asyncio task uses now."""
        while self._kept:
            await self._kept.pop()[1].aclose()


async def sleep(
    waiter: AsyncWaiter, watches: Sequence[Watch], until: float, stop: "asyncio.Future[None]"
) -> bool:
    """Async `waiter.sleep`; False also when `stop` is done."""
    if until <= time.monotonic():
        return False
    if not waiter.hears_all:
        for watch in watches:
            watch.hurry()
    while (wait := time_left(watches, until)) > 0:
        marker = await waiter.wait(wait, stop)
        if marker:  # also a marker that came too late: `withdraw` passes it on
            watches[marker.number].marker_received(marker.moment)
        if stop.done():
            return False
        if not marker:
            break
    return True
