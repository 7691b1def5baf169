"""The asyncio connection to one server, on which the calls of all asyncio tasks travel.

`connections_async` and `batches_async` call it. Calls that are made at the same time are sent
together, and their replies come back in order. It must not know what a command means, nor send one
again.
"""

import asyncio
from collections import deque
from contextlib import suppress
from typing import Any

from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import MovedError, RedisError, ResponseError
from redis.exceptions import TimeoutError as RedisTimeoutError

from dpq.model.interrupts import expected, interruption, raise_interruption
from dpq.transport.cluster import (
    MISSING,
    AsyncNodes,
    Node,
    own_connection,
    passed_on,
    raise_if_demoted,
    writing,
)
from dpq.transport.shared_async import Shared

CUT = (RedisConnectionError, RedisTimeoutError)
"""The errors that stand for a missing reply: the server may have run the command, or not."""


class AsyncEndpoint:
    """The connection to one node."""

    def __init__(self, nodes: AsyncNodes, node: Node) -> None:
        self._nodes = nodes
        self._node = node
        self.connection: _SharedConnection | None = None
        self._losses = 0
        self._opening = Shared(self._open)

    async def exchange(self, packed: bytes, count: int) -> list[Any]:
        """Send packed commands together; return a reply for each, which may be an error.

        A missing reply is `MISSING`. If the client has no retries, it is the error instead.
        """
        try:
            if self._losses != self._nodes.losses:
                self._losses = self._nodes.losses
                await self.aclose()
            connection = self.connection
            if connection is None or not connection.usable():
                connection = await self._opening.get()
            replies = await connection.exchange(packed, count)
        except CUT as error:
            raise_interruption(error)
            replies = [error] * count
        if isinstance(replies[-1], CUT):
            await self._nodes.lost_async(self._node)
            if not self._nodes.sends_once:
                replies = [MISSING if isinstance(reply, CUT) else reply for reply in replies]
        for reply in replies if self._nodes.clustered else ():
            if isinstance(reply, MovedError):
                await self._nodes.learn_async(reply)
        return replies

    async def _open(self) -> "_SharedConnection":
        connection = own_connection(self._node, health_check_interval=0)
        try:
            with writing():
                await connection.connect()
        except Exception as error:  # also errors of redis-py itself after an interrupt
            raise_interruption(error)
            raise
        timeout = connection.socket_timeout
        connection.socket_timeout = None  # `_SharedConnection` measures the timeout
        self.connection = _SharedConnection(connection, timeout)
        return self.connection

    async def aclose(self) -> None:
        await self._opening.ended()
        connection, self.connection = self.connection, None
        if connection is not None:
            await connection.aclose()


class _SharedConnection:
    """One connection, with one asyncio task that writes and one that reads replies.

    Callers do not write or read themselves. If a write or a read is cancelled, redis-py closes the
    connection, and the replies of all other callers are lost.
    """

    def __init__(self, connection: Any, timeout: float | None) -> None:
        self._loop = asyncio.get_running_loop()
        self._connection = connection
        self._timeout = timeout
        self._closed = False
        self._unsent: list[_Exchange] = []
        self._fault: BaseException | None = None  # the error that interrupted the writer or reader
        self._calls = 0
        self._news = asyncio.Event()
        self._awaited: deque[_Exchange] = deque()
        self._patience: asyncio.Timeout | None = None  # the timeout of the reader, once it runs
        self._writer = self._loop.create_task(self._write(), name="dpq-calls")
        self._reader = self._loop.create_task(self._read(), name="dpq-replies")

    def usable(self) -> bool:
        ended = self._closed or self._reader.done() or self._writer.done()
        return not ended and self._loop is asyncio.get_running_loop()

    async def exchange(self, packed: bytes, count: int) -> list[Any]:
        """Send packed commands together; return a reply for each, which may be an error.

        If the caller is cancelled, the reader reads the replies and drops them. Commands that are
        not written by then are not sent.
        """
        if self._closed:
            raise RedisConnectionError("the connection was closed")
        exchange = _Exchange(packed, count, self._loop.create_future())
        self._calls += 1
        try:
            self._unsent.append(exchange)
            self._news.set()
            replies = await exchange.future
        except BaseException:
            exchange.future.cancel()
            raise
        finally:
            self._calls -= 1
        if self._fault:  # the fault may come just after the last reply
            raise self._fault
        return replies

    def _be_patient(self) -> None:
        """Restart the timeout for the first awaited reply, if there is one."""
        if self._timeout is not None and self._patience is not None:
            self._patience.reschedule(self._loop.time() + self._timeout if self._awaited else None)

    async def _write(self) -> None:
        try:
            while True:
                await self._news.wait()
                self._news.clear()
                to_send = [exchange for exchange in self._unsent if not exchange.future.done()]
                idle = not self._awaited
                self._awaited += to_send
                self._unsent = []
                if idle:
                    self._be_patient()
                if packed := [exchange.packed for exchange in to_send]:
                    with writing():
                        await self._connection.send_packed_command(packed, check_health=False)
        except (RedisError, OSError) as error:  # the reader gets the same error
            if found := interruption(error):
                self._reader.cancel()
                self._interrupted(found)
        except asyncio.CancelledError:
            raise
        except BaseException as error:
            self._reader.cancel()
            self._interrupted(error)

    def _interrupted(self, error: BaseException) -> None:
        """Let the running calls raise the error of a signal handler."""
        if not (self._calls and passed_on(error)):
            raise error
        self._fault = error

    async def _read(self) -> None:
        error: BaseException = RedisConnectionError("the connection was closed")
        try:
            async with asyncio.timeout(None) as self._patience:
                self._be_patient()
                while True:
                    await self._read_one()
        except (RedisError, OSError) as fault:
            if found := interruption(fault):
                self._interrupted(found)
            elif isinstance(fault, TimeoutError):
                error = RedisTimeoutError("no reply within the client's socket_timeout")
            else:
                error = fault
        except BaseException as fault:
            found = interruption(fault)
            if not found and isinstance(fault, Exception) and expected(fault):
                raise  # a fault of redis-py: the calls are sent again
            self._interrupted(found or fault)
        finally:
            self._closed = True
            self._writer.cancel()
            self._awaited += self._unsent
            while self._awaited:
                self._awaited[0].end(error)
                self._awaited.popleft()
            with suppress(RedisError, OSError):
                await self._connection.disconnect(nowait=True)

    async def _read_one(self) -> None:
        reply: Any
        try:
            # No `timeout=math.inf`: with it redis-py returns None for a network's TimeoutError.
            reply = await self._connection.read_response(disable_decoding=True)
        except ResponseError as refusal:
            reply = raise_if_demoted(refusal)
        if not self._awaited:
            raise RedisConnectionError(f"nobody has asked for the reply {reply!r:.100}")
        exchange = self._awaited[0]
        exchange.replies.append(reply)
        if len(exchange.replies) == exchange.count:
            exchange.end()
            self._awaited.popleft()
            self._be_patient()

    async def aclose(self) -> None:
        """Close the connection; running calls get an error."""
        if self.usable():
            await asyncio.sleep(0)  # a reader that is cancelled before its start would end no call
            self._reader.cancel()
            await asyncio.wait((self._reader, self._writer))


class _Exchange:
    """Commands that are sent together, and their replies as they come."""

    __slots__ = ("count", "future", "packed", "replies")

    def __init__(self, packed: bytes, count: int, future: "asyncio.Future[list[Any]]") -> None:
        self.packed = packed
        self.count = count
        self.future = future
        self.replies: list[Any] = []

    def end(self, error: BaseException | None = None) -> None:
        """Give the replies to the caller, with the error for each missing one."""
        self.replies += [error] * (self.count - len(self.replies))
        if not self.future.done():  # the caller may have been cancelled
            self.future.set_result(self.replies)
