"""Waiters: block on the wake-up markers of queues, for a time that the client measures.

    BZPOPMIN {q}:wake 30.000   no marker within the wait: the block stays for the next wait
    CLIENT UNBLOCK 17          the caller stops waiting

`pop`, workers and the scheduler use them. Must not decide anything about tasks.
"""

import math
import time
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any

from redis.exceptions import RedisError, ResponseError
from redis.exceptions import TimeoutError as RedisTimeoutError

from dpq.link import blocks
from dpq.link.blocks import handing_on, markers_maybe_lost, read_marker
from dpq.link.cluster import CUT, AsyncNodes, forbidden
from dpq.link.connections_async import AsyncConnections
from dpq.link.endpoint_async import AsyncEndpoint, first_answered
from dpq.link.shared_async import here, pause
from dpq.link.watches import Marker, Watch, time_left

MOST_KEPT = 16
"""Waiters that a queue object keeps beside those on the markers of the last call, each with its
connection: `pop_first` may wait on many sets of queues."""

Tell = Callable[..., Awaitable[Any]]


class AsyncWaiter:
    """Blocks on one or more markers (sorted sets with one member).

    On a single server one connection is enough. In a cluster there is one for each slot of the
    markers, up to 64; a marker of another slot wakes no waiter. The client's pool is not used.
    A block through a client that DPQ cannot watch lasts `at_most` seconds.
    """

    def __init__(
        self, connections: AsyncConnections, markers: Sequence[str], at_most: float = math.inf
    ) -> None:
        self._tell = connections.tell
        self._nodes = nodes = connections.nodes
        self._at_most = at_most
        self.markers = tuple(markers)
        slots = nodes.by_slot(markers)
        self.hears_all = len(slots) <= blocks.MOST_BLOCKS
        self._blocks = [_Block(nodes, some) for some in slots[: blocks.MOST_BLOCKS]]
        self._asked = self._blocks[0]  # the block whose answer is read next

    async def wait(self, seconds: float, stop: Any = None) -> Marker | None:
        """Wait for a marker, at most so long, or until `stop`, a future of an event loop."""
        until = time.monotonic() + seconds
        try:
            while (left := until - time.monotonic()) > 0:
                seconds = blocks.block_seconds(self._nodes, min(left, self._at_most))
                for block in self._blocks:
                    self._asked = block
                    await block.begin(seconds)
                at_most = blocks.patience(self._nodes, self._blocks, left)
                if answered := await first_answered(self._blocks, at_most, stop):
                    self._asked = answered
                    if (reply := await answered.end_of_block()) is not None:
                        return read_marker(self.markers, reply)
                if stop and stop.done():
                    return None
        except CUT:
            await self._asked.lost()
            await pause(max(0.0, min(blocks.PAUSE_AFTER_FAULT, until - time.monotonic())))
        return None

    async def withdraw(self, owned: Iterable[Marker] = ()) -> None:
        """Stop waiting; put markers that came too late back for another waiter."""
        try:
            ended = [block for block in self._blocks if await block.end(self._tell)]
            replies = [await block.end_of_block() for block in ended]
            late = [read_marker(self.markers, reply) for reply in replies if reply is not None]
            lost = markers_maybe_lost(self.markers, self._blocks)
            # The first of two may still go into a connection whose end the server has not seen.
            for some in ([*owned, *late, *lost], lost):
                for command in handing_on(self.markers, some):
                    await self._tell(command[1], *command)
        except RedisError:  # no error here may cost a task that was popped
            await self.aclose()

    async def aclose(self) -> None:
        """Close the connections; the next wait opens them again."""
        for block in self._blocks:
            await block.aclose()


class _Block(AsyncEndpoint):
    """A connection that blocks on the markers of one slot, and follows the slot if it moves."""

    def __init__(self, nodes: AsyncNodes, markers: Sequence[str]) -> None:
        super().__init__(nodes, markers[0])
        self.markers = markers  # in the order in which a server looks at them
        self.maybe_lost = False  # it was ended without an answer: a marker may be lost with it
        self.until: float | None = None  # when even a slow server has answered; None: no block
        self._client_id = 0  # 0 if the Redis user may not call CLIENT UNBLOCK

    async def begin(self, seconds: float) -> None:
        """Begin a block, unless one is open. If a block did not end in time, give the server up."""
        if self.until is not None:
            overdue = self.nodes.direct and time.monotonic() > self.until
            if overdue and not await self.has_reply(0):
                raise RedisTimeoutError("a block did not end in time")
            return
        if self._connection is None:
            await self.connect()
            self._client_id = await self._own_id() if self.nodes.unblocks else 0
        await self.send(*blocks.block_command(self.markers, seconds))
        self.until = time.monotonic() + seconds + blocks.REPLY_TIMEOUT

    def served(self, marker: str) -> None:
        """Put a marker last: a server looks at the markers in their order."""
        after = self.markers.index(marker) + 1
        self.markers = (*self.markers[after:], *self.markers[:after])

    async def _own_id(self) -> int:
        await self.send("CLIENT", "ID")
        try:
            return int(await self.read())
        except ResponseError as refusal:  # the user may not ask, or a script runs for too long
            self.nodes.unblocks = not forbidden(refusal)
            return 0

    async def end_of_block(self) -> Any:
        """Read the answer; None if the block ended without a marker."""
        try:
            reply = await self.read()
        except ResponseError as refusal:
            raise blocks.cut(refusal) from None
        self.until = None
        return reply

    async def end(self, tell: Tell) -> bool:
        """Make the server end the block; return True if there is an answer to read."""
        self.maybe_lost = False
        if self.until is None or self.node is None:
            return False
        if self.nodes.of(self.key) is self.node:
            blocked = await self._unblock(tell) if self._client_id else None
            if blocked or (blocked is False and await self.has_reply(blocks.ANSWERED_SECONDS)):
                return True
            self.maybe_lost = True
        await self.aclose()
        return False

    async def _unblock(self, tell: Tell) -> bool | None:
        """Ask the server to end the block: False if it has none, None if it refuses."""
        try:
            return bool(await tell(self.node, "CLIENT", "UNBLOCK", self._client_id))
        except ResponseError as refusal:
            self.nodes.unblocks = not forbidden(refusal)
            return None

    async def lost(self) -> None:
        """Close the connection, and look for the node that holds the markers now."""
        await self.aclose()
        if self.node:
            await self.nodes.lost_async()

    async def aclose(self) -> None:
        """Drop the connection, and the block with it."""
        self.until = None
        await super().aclose()


class AsyncWaiters:
    """The waiters of one queue object: one for each wait at a time, kept for the next ones."""

    def __init__(self, connections: AsyncConnections) -> None:
        self._connections = connections
        self._kept: deque[tuple[object, AsyncWaiter]] = deque()

    @asynccontextmanager
    async def take(self, markers: tuple[str, ...]) -> AsyncIterator[AsyncWaiter]:
        """Lend a waiter for one wait; after an error it is closed, and not used again."""
        waiter = self._kept_on(markers)
        if waiter is None:  # all that are kept wait on other markers
            await self.aclose(MOST_KEPT)
            waiter = AsyncWaiter(self._connections, markers)
        try:
            yield waiter
        except BaseException:
            await waiter.aclose()
            raise
        self._kept.append((here(), waiter))

    def _kept_on(self, markers: tuple[str, ...]) -> AsyncWaiter | None:
        """Take out a waiter; drop those of a forked child's parent, or of another event loop."""
        others: list[tuple[object, AsyncWaiter]] = []
        found = None
        with suppress(IndexError):  # none is left
            while found is None:
                owner, waiter = self._kept.pop()
                if owner == here() and waiter.markers == markers:
                    found = waiter
                elif owner == here():
                    others.insert(0, (owner, waiter))
        self._kept.extend(others)
        return found

    async def aclose(self, most: int = 0) -> None:
        """Close the waiters that no call uses now, but for the last `most`."""
        with suppress(IndexError):  # another thread has taken out the rest
            while len(self._kept) > most:
                owner, waiter = self._kept.popleft()
                if owner == here():
                    await waiter.aclose()


async def sleep(
    waiter: AsyncWaiter, watches: Sequence[Watch], until: float, stop: Any = None
) -> bool:
    """Sleep until it is time to look again; False if `until` has passed before, or `stop` is done.

    A marker that came too late is taken in, too: `withdraw` passes it on.
    """
    if until <= time.monotonic():
        return False
    if not waiter.hears_all:
        for watch in watches:
            watch.hurry()
    while (wait := time_left(watches, until)) > 0:
        marker = await waiter.wait(wait, stop)
        if marker:
            watches[marker.number].marker_received(marker.moment, marker.second)
        if stop and stop.done():
            return False
        if not marker:
            break
    return True
