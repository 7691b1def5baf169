"""Links for asyncio: one connection to a node, which all calls of an event loop share.

links.py has the same names for threads. One asyncio task reads the replies. A call that is to be
confirmed takes another connection: WAIT would hold up all calls of a shared one.
"""

import asyncio
from collections import deque
from contextlib import suppress
from typing import Any

from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import RedisError, ResponseError
from redis.exceptions import TimeoutError as RedisTimeoutError

from dpq.link.cluster import CUT, MISSING, AsyncNodes, Node, raise_if_demoted
from dpq.link.internals import write
from dpq.link.shared_async import Shared


class AsyncLink:
    """A connection to one node; its calls get their replies in the order in which they write."""

    def __init__(self, nodes: AsyncNodes, node: Node) -> None:
        self._nodes, self._node = nodes, node
        self._losses = nodes.losses
        self._opening = Shared(self._open)
        self._connection: Any = None
        self._reader: asyncio.Task[None] | None = None
        self._awaited: deque[Exchange] = deque()
        self._others: list[AsyncLink] = []  # idle ones, for calls that are to be confirmed

    async def send(self, packed: bytes, count: int, *, alone: bool = False) -> "Exchange":
        """Write packed commands; `receive` returns their replies. `alone`: no other call waits."""
        if alone:
            other = self._others.pop() if self._others else AsyncLink(self._nodes, self._node)
            try:
                exchange = await other.send(packed, count)
            except BaseException:
                self._others.append(other)
                raise
            exchange.future.add_done_callback(lambda _: self._others.append(other))
            return exchange
        loop = asyncio.get_running_loop()
        exchange = Exchange(count, loop)
        try:
            if self._losses != self._nodes.losses:
                self._losses = self._nodes.losses
                await self.aclose()
            reader = self._reader
            if not (
                reader
                and not reader.done()
                and reader.get_loop() is loop
                and self._connection.is_connected
            ):
                await self._opening.get()
            exchange.opened = True
            self._awaited.append(exchange)
            write(self._connection, packed)
        except (*CUT, OSError, RuntimeError) as error:
            exchange.end(_as_redis_error(error))
        return exchange

    async def receive(self, exchange: "Exchange") -> list[Any]:
        """Wait for the replies; each may be an error."""
        replies = await exchange.future
        if isinstance(replies[-1], CUT):
            await self._nodes.lost_async()
            hopeless = not exchange.opened and isinstance(replies[-1], RedisTimeoutError)
            if not (self._nodes.sends_once or (hopeless and not self._nodes.fails_over)):
                replies = [MISSING if isinstance(reply, CUT) else reply for reply in replies]
        return replies

    async def _open(self) -> None:
        connection = self._node.connection(health_check_interval=0)
        await connection.connect()
        timeout, connection.socket_timeout = connection.socket_timeout, None
        self._connection, self._awaited = connection, deque()
        self._reader = asyncio.create_task(self._read(connection, self._awaited, timeout or 0))

    async def _read(self, connection: Any, awaited: "deque[Exchange]", timeout: float) -> None:
        """Read replies until the connection ends; then give all waiting calls the error."""
        fault: Exception = RedisConnectionError("the connection was closed")
        loop, watch = asyncio.get_running_loop(), None

        def look(reader: Any) -> None:
            """Give the server up if it is silent for longer than the client's `socket_timeout`."""
            nonlocal watch
            if awaited and awaited[0].began + timeout <= loop.time():
                silent = RedisTimeoutError("no reply within the client's socket_timeout")
                while awaited:
                    awaited.popleft().end(silent)
                reader.cancel()
            else:
                watch = loop.call_later(timeout / 4, look, reader)

        if timeout:
            watch = loop.call_later(timeout, look, asyncio.current_task())
        try:
            while True:
                try:
                    reply = await connection.read_response(disable_decoding=True)
                except ResponseError as refusal:
                    reply = raise_if_demoted(refusal)
                if awaited[0].add(reply):
                    awaited.popleft()
        except (RedisError, OSError) as error:
            fault = _as_redis_error(error)
        finally:
            if watch:
                watch.cancel()
            while awaited:
                awaited.popleft().end(fault)
            with suppress(RedisError, OSError):
                await connection.disconnect(nowait=True)

    async def aclose(self) -> None:
        """Close the connections; running calls get an error."""
        for other in self._others:
            await other.aclose()
        await self._opening.ended()
        reader, self._reader = self._reader, None
        if reader and not reader.done() and reader.get_loop() is asyncio.get_running_loop():
            await asyncio.sleep(0)  # a reader that is cancelled before its start would end no call
            reader.cancel()
            await asyncio.wait((reader,))


class Exchange:
    """Commands that are sent together, and their replies as they come."""

    __slots__ = ("began", "count", "future", "opened", "replies")

    def __init__(self, count: int, loop: asyncio.AbstractEventLoop) -> None:
        self.count, self.replies, self.began = count, list[Any](), loop.time()
        self.future: asyncio.Future[list[Any]] = loop.create_future()
        self.opened = False

    def add(self, reply: Any) -> bool:
        """Add a reply; return True if it was the last one."""
        self.replies.append(reply)
        if len(self.replies) == self.count:
            self.end(None)
            return True
        return False

    def end(self, error: Exception | None) -> None:
        """Give the replies to the caller, with the error for each missing one."""
        self.replies += [error] * (self.count - len(self.replies))
        if not self.future.done():  # the caller may have been cancelled
            self.future.set_result(self.replies)


def _as_redis_error(error: Exception) -> RedisError:
    return error if isinstance(error, RedisError) else RedisConnectionError(str(error))
