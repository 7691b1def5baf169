"""The asyncio way to the server: one connection on which the calls of all tasks travel together.

A plain `redis.asyncio.Redis` gets one connection beside its pool, with its own settings. Calls that
are made at the same time are sent without waiting for each other, and their replies come back in
order. A fault there is handled by sending the call again through the client itself, with the
client's own retries. Any other kind of client is used through its `execute_command` alone.
"""

import asyncio
import math
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from redis.asyncio import Redis
from redis.client import NEVER_DECODE
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import NoScriptError, RedisError, ResponseError
from redis.exceptions import TimeoutError as RedisTimeoutError

from dpq._command import Command
from dpq._link import Packer, own_connection


class AsyncLink:
    """Sends commands to one server, for any number of tasks of one event loop."""

    def __init__(self, client: Any) -> None:
        self._client = client
        self._plain = type(client) is Redis and client.connection is None
        self._packer = Packer()
        self._wire: _Wire | None = None
        self._opening: asyncio.Task[_Wire] | None = None

    async def call_all(self, commands: Sequence[Command[Any]]) -> list[Any]:
        """Async `Link.call_all`."""
        replies: list[Any] = []
        if self._plain:
            try:
                wire = self._wire
                if wire is None or not wire.usable():
                    wire = await self._open()
                replies = await wire.exchange(self._packer.pack_all(commands), len(commands))
            except (RedisConnectionError, RedisTimeoutError) as error:
                retry = self._client.connection_pool.connection_kwargs.get("retry")
                if retry is not None and retry.get_retries() == 0:
                    return [error] * len(commands)
        if not replies:
            return [await self._by_client(command) for command in commands]
        for i, reply in enumerate(replies):
            if isinstance(reply, NoScriptError):
                replies[i] = await self._by_client(commands[i], known=False)
            elif isinstance(reply, (RedisConnectionError, RedisTimeoutError)):
                replies[i] = await self._by_client(commands[i])
        return replies

    async def _open(self) -> "_Wire":
        """Connect, once for all who ask meanwhile."""
        loop = asyncio.get_running_loop()
        if self._opening is None or self._opening.get_loop() is not loop:
            self._opening = loop.create_task(_Wire.open(self._client))
            self._opening.add_done_callback(self._opened)
        return await asyncio.shield(self._opening)

    def _opened(self, opening: "asyncio.Task[_Wire]") -> None:
        self._opening = None
        if not opening.cancelled() and opening.exception() is None:
            self._wire = opening.result()

    async def _by_client(self, command: Command[Any], *, known: bool = True) -> Any:
        script, tail = command.script, (len(command.keys), *command.keys, *command.args)
        send = self._client.execute_command
        try:
            if known:
                with suppress(NoScriptError):
                    return await send("EVALSHA", script.sha, *tail, **{NEVER_DECODE: True})
            return await send("EVAL", script.text, *tail, **{NEVER_DECODE: True})
        except RedisError as error:
            return error

    async def aclose(self) -> None:
        """Close the connection."""
        if self._wire:
            await self._wire.aclose()
            self._wire = None


class _Wire:
    """One connection: what is sent, the replies that are awaited, and the task that reads them."""

    def __init__(self, connection: Any, timeout: float | None) -> None:
        self._loop = asyncio.get_running_loop()
        self._connection = connection
        self._timeout = timeout
        self._awaited: deque[_Exchange] = deque()
        self._sent = asyncio.Event()
        self._reader = self._loop.create_task(self._read(), name="dpq-replies")

    @classmethod
    async def open(cls, client: Any) -> "_Wire":
        timeout = client.connection_pool.connection_kwargs.get("socket_timeout")
        connection = own_connection(client, health_check_interval=0)
        await connection.connect()
        return cls(connection, timeout)

    def usable(self) -> bool:
        return (
            self._connection.is_connected
            and not self._reader.done()
            and self._loop is asyncio.get_running_loop()
        )

    async def exchange(self, packed: bytes, count: int) -> list[Any]:
        """Send some commands at once; a reply for each, which may be an error.

        Who is cancelled here leaves the replies to the reader: they are read and thrown away.
        """
        exchange = _Exchange(count, self._loop.create_future())
        self._awaited.append(exchange)
        self._sent.set()
        await self._connection.send_packed_command([packed], check_health=False)
        return await exchange.future

    async def _read(self) -> None:
        error: BaseException = RedisConnectionError("the connection was closed")
        read = self._connection.read_response
        try:
            while True:
                if not self._awaited:
                    self._sent.clear()
                    await self._sent.wait()
                exchange = self._awaited[0]
                async with asyncio.timeout(self._timeout):
                    while len(exchange.replies) < exchange.count:
                        try:
                            reply = await read(disable_decoding=True, timeout=math.inf)
                        except ResponseError as refused:
                            reply = refused
                        exchange.replies.append(reply)
                self._awaited.popleft()
                exchange.end()
        except TimeoutError:
            error = RedisTimeoutError("no reply within the client's socket_timeout")
        except (RedisError, OSError) as fault:
            error = fault
        finally:
            with suppress(Exception):
                await self._connection.disconnect(nowait=True)
            while self._awaited:
                exchange = self._awaited.popleft()
                exchange.replies += [error] * (exchange.count - len(exchange.replies))
                exchange.end()

    async def aclose(self) -> None:
        self._reader.cancel()
        with suppress(asyncio.CancelledError):
            await self._reader


class _Exchange:
    """Some commands that were sent together, and their replies as they come."""

    def __init__(self, count: int, future: "asyncio.Future[list[Any]]") -> None:
        self.count = count
        self.future = future
        self.replies: list[Any] = []

    def end(self) -> None:
        if not self.future.done():  # its caller may have been cancelled
            self.future.set_result(self.replies)
