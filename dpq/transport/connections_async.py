"""The asyncio connections: one to each server, on which the calls of all asyncio tasks travel.

The asyncio session calls it. DPQ opens one connection beside the pool of a plain
`redis.asyncio.Redis`, with the same settings, and one to each node of a `RedisCluster`. Calls that
are made at the same time are sent together, and their replies come back in order. If a connection
fails, calls without a reply are sent again over a new connection. If that fails too, they are sent
through the client itself, with the client's own retries. For a client without retries nothing is
sent again. Of any other client only `execute_command` is used. Must not know what a command means.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Any, Generic, TypeVar

from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import MovedError, NoScriptError, RedisError, ResponseError
from redis.exceptions import TimeoutError as RedisTimeoutError

from dpq.model.interrupts import expected, interruption, raise_interruption
from dpq.protocol.command import Command
from dpq.transport.cluster import (
    AsyncNodes,
    Node,
    ask_async,
    own_connection,
    passed_on,
    raise_if_demoted,
    refused,
)
from dpq.transport.connections import Packer, bulk_strings
from dpq.transport.script_loading import load_instead_async, may_not_eval

T = TypeVar("T")

CUT = (RedisConnectionError, RedisTimeoutError)
"""The errors that may stand for a reply: the server may have run the command, or not."""

_NOT_SENT = RedisConnectionError("not sent yet")


class Shared(Generic[T]):
    """A coroutine that runs once for all callers that ask meanwhile; cancelling one is harmless."""

    def __init__(self, start: Callable[[], Awaitable[T]]) -> None:
        self._start = start
        self._running: asyncio.Task[T] | None = None

    async def get(self) -> T:
        """Wait for the running coroutine, or start it."""
        loop = asyncio.get_running_loop()
        running = self._running
        if running is None or running.done() or running.get_loop() is not loop:
            self._running = running = loop.create_task(self._run())
        return await asyncio.shield(running)

    async def _run(self) -> T:
        return await self._start()

    async def ended(self) -> None:
        """Wait until the coroutine has ended."""
        running, self._running = self._running, None
        if running is not None and running.get_loop() is asyncio.get_running_loop():
            await asyncio.wait((running,))


class AsyncConnections:
    """Sends commands to the servers behind one client, for any number of tasks of one event loop.

    Attributes:
        nodes: The servers.
    """

    def __init__(self, client: Any) -> None:
        self.nodes = AsyncNodes(client)
        self._client = client
        self._packer = Packer()
        self._endpoints: dict[str, _Endpoint] = {}

    async def call_all(self, commands: Sequence[Command[Any]]) -> list[Any]:
        """Async `Connections.call_all`."""
        if not commands:
            return []
        if not self.nodes.direct:
            replies: list[Any] = [_NOT_SENT] * len(commands)
        elif not self.nodes.clustered:
            replies = await self._exchange(self.nodes.only, commands)
        else:
            try:
                replies = await self._by_node(commands)
            except RedisError as error:
                raise_interruption(error)
                return [error] * len(commands)
        for i, command in enumerate(commands):
            if isinstance(replies[i], Exception):
                replies[i] = await self._settle(command, replies[i])
        return replies

    async def _by_node(self, commands: Sequence[Command[Any]]) -> list[Any]:
        """Send commands to all nodes that hold their keys, at the same time."""
        await self.nodes.ready()
        parts = self.nodes.split(command.keys[0] for command in commands)
        if len(parts) == 1 and (node := next(iter(parts))):
            return await self._exchange(node, commands)
        replies: list[Any] = [_NOT_SENT] * len(commands)

        async def exchange(node: Node, where: list[int]) -> None:
            received = await self._exchange(node, [commands[place] for place in where])
            for place, reply in zip(where, received, strict=True):
                replies[place] = reply

        await asyncio.gather(*(exchange(node, where) for node, where in parts.items() if node))
        return replies

    async def _exchange(self, node: Node, commands: Sequence[Command[Any]]) -> list[Any]:
        return await self._endpoint(node).exchange(self._packer.pack_all(commands), len(commands))

    async def _settle(self, command: Command[Any], refusal: Any) -> Any:
        """Get the reply of a command that was not sent or was refused, whose connection was cut, or
        whose script the server does not know."""
        script, tail = command.script, (len(command.keys), *command.keys, *command.args)
        try:
            if isinstance(refusal, CUT):
                if refusal is not _NOT_SENT and self._sends_once():
                    return refusal
                with suppress(NoScriptError):
                    return await self.execute(command.keys[0], "EVALSHA", script.sha, *tail)
            elif refused(refusal):
                with suppress(NoScriptError):
                    return await ask_async(self._client, "EVALSHA", script.sha, *tail)
            elif not isinstance(refusal, NoScriptError):
                return refusal
            try:
                return await self.execute(command.keys[0], "EVAL", script.text, *tail)
            except ResponseError as told_so:
                if not may_not_eval(told_so):
                    raise
            await load_instead_async(self._client)
            return await self.execute(command.keys[0], "EVALSHA", script.sha, *tail)
        except RedisError as error:
            return error

    async def execute(self, place: Node | str, name: str, *args: Any) -> Any:
        """Send any command, and return its raw reply.

        Args:
            place: The node, or a key that the node holds.
            name: The command.
            args: Its arguments.

        Raises:
            RedisError: As the client raises it, after the client's own retries.
        """
        await self.nodes.ready()
        node = self.nodes.of(place) if isinstance(place, str) else place
        if self.nodes.direct and node:
            words = (*name.split(), *args)
            packed = b"*%d\r\n%b" % (len(words), bulk_strings(words))
            (reply,) = await self._endpoint(node).exchange(packed, 1)
            if not isinstance(reply, Exception):
                return reply
            if not refused(reply) and (not isinstance(reply, CUT) or self._sends_once()):
                raise reply
        client = place.client if isinstance(place, Node) else self._client
        return await ask_async(client, name, *args)

    def _sends_once(self) -> bool:
        return self.nodes.direct and self.nodes.sends_once

    def _endpoint(self, node: Node) -> "_Endpoint":
        endpoint = self._endpoints.get(node.name)
        if endpoint is None:
            endpoint = self._endpoints[node.name] = _Endpoint(self.nodes, node)
        return endpoint

    async def aclose(self) -> None:
        """Close the connections."""
        for endpoint in self._endpoints.values():
            await endpoint.aclose()


class _Endpoint:
    """The connection to one node."""

    def __init__(self, nodes: AsyncNodes, node: Node) -> None:
        self._nodes = nodes
        self._node = node
        self.connection: _SharedConnection | None = None
        self._losses = 0
        self._opening = Shared(self._open)

    async def exchange(self, packed: bytes, count: int) -> list[Any]:
        """Send packed commands together; return a reply for each, which may be an error."""
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
        for reply in replies if self._nodes.clustered else ():
            if isinstance(reply, MovedError):
                await self._nodes.learn_async(reply)
        return replies

    async def _open(self) -> "_SharedConnection":
        connection = own_connection(self._node, health_check_interval=0)
        try:
            await connection.connect()
        except Exception as error:  # also the fault of an interrupted redis-py
            raise_interruption(error)
            raise
        timeout = connection.socket_timeout
        connection.socket_timeout = None  # _SharedConnection measures it
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
        if self._fault:  # it may have come just after the last reply
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
                wanted = [exchange for exchange in self._unsent if not exchange.future.done()]
                idle = not self._awaited
                self._awaited += wanted
                self._unsent = []
                if idle:
                    self._be_patient()
                if packed := [exchange.packed for exchange in wanted]:
                    await self._connection.send_packed_command(packed, check_health=False)
        except (RedisError, OSError) as error:  # the reader meets the same end of the connection
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
        if not self.future.done():  # its caller may have been cancelled
            self.future.set_result(self.replies)
