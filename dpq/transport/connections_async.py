"""The asyncio connections: one to each server, on which the calls of all asyncio tasks travel.

The asyncio session calls it. DPQ opens one connection beside the pool of a plain
`redis.asyncio.Redis`, with the same settings, and one to each node of a `RedisCluster`. Calls that
are made at the same time are sent together, and their replies come back in order. If a connection
fails, calls without a reply are sent again over a new connection. If that fails too, they are sent
through the client itself, with the client's own retries. For a client without retries nothing is
sent again. Of any other client only `execute_command` is used.

With a `Confirmation`, changes travel in batches over connections of their own: see `batches_async`.
Must not know what a command means.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, Generic, TypeVar

from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import MovedError, RedisError, ResponseError
from redis.exceptions import TimeoutError as RedisTimeoutError

from dpq.model.interrupts import expected, interruption, raise_interruption
from dpq.protocol.command import Command, same
from dpq.protocol.confirmation import Confirmation, needs_confirmation
from dpq.protocol.durability import error_in, require_direct
from dpq.protocol.packing import Packer, pack_plain, pack_texts, script_call
from dpq.transport.batches_async import Batches
from dpq.transport.cluster import (
    MISSING,
    AsyncNodes,
    Node,
    ask_async,
    own_connection,
    passed_on,
    raise_if_demoted,
    refused,
)
from dpq.transport.resending import FAILED, Resending, Try, resendable
from dpq.transport.script_loading import load_instead_async

T = TypeVar("T")

CUT = (RedisConnectionError, RedisTimeoutError)
"""The errors that stand for a missing reply: the server may have run the command, or not."""


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

    def __init__(self, client: Any, confirmation: Confirmation | None = None) -> None:
        """Make connections, as `Connections` does."""
        self.nodes = AsyncNodes(client)
        self._client = client
        self._confirmation = confirmation
        self._packer = Packer()
        self._endpoints: dict[str, _Endpoint] = {}
        self._batches: dict[str, Batches] = {}
        one = self.nodes.direct and not self.nodes.clustered
        self._only = self._endpoint(self.nodes.only) if one and confirmation is None else None
        if confirmation is not None:
            require_direct(confirmation.durability, self.nodes.direct, client)

    async def call_all(self, commands: Sequence[Command[Any]]) -> list[Any]:
        """Async `Connections.call_all`."""
        if not commands:
            return []
        judge: Callable[[list[Any]], list[Any]] = same
        if self._only:
            replies = await self._only.exchange(self._packer.pack_all(commands), len(commands))
        else:
            if self._confirmation is not None:
                commands, judge = self._confirmation.with_settings(commands)
            try:
                replies = await self._call_by_node(commands)
            except RedisError as error:
                raise_interruption(error)
                replies = [error] * len(commands)
        for position, reply in enumerate(replies):
            if isinstance(reply, FAILED):
                replies[position] = await self._resend(commands[position], reply)
        return judge(replies)

    async def _call_by_node(self, commands: Sequence[Command[Any]]) -> list[Any]:
        """Send commands to all nodes that hold their keys, at the same time."""
        replies: list[Any] = [MISSING] * len(commands)
        if not self.nodes.direct:
            return replies
        await self.nodes.ready()
        parts = self.nodes.split(command.keys[0] for command in commands)
        if len(parts) == 1 and (node := next(iter(parts))):
            return await self._exchange(node, commands)

        async def exchange(node: Node | None, positions: list[int]) -> None:
            if node is None:
                return
            received = await self._exchange(node, [commands[position] for position in positions])
            for position, reply in zip(positions, received, strict=True):
                replies[position] = reply

        await asyncio.gather(*(exchange(*part) for part in parts.items()))
        return replies

    def _exchange(
        self, node: Node, commands: Sequence[Command[Any]], *, as_text: bool = False
    ) -> Awaitable[list[Any]]:
        """Send commands to one node; those that confirm changes go with the next batch."""
        packed = pack_texts(commands) if as_text else self._packer.pack_all(commands)
        if self._confirmation is None or not needs_confirmation(commands):
            return self._endpoint(node).exchange(packed, len(commands))
        batches = self._batches.get(node.name)
        if batches is None:
            make_endpoint = partial(_Endpoint, self.nodes, node)
            batches = Batches(self._confirmation, self.nodes, node, make_endpoint)
            self._batches[node.name] = batches
        return batches.exchange(packed, commands)

    async def _resend(self, command: Command[Any], reply: Any) -> Any:
        """Async `Connections.resend`."""
        confirmation = self._confirmation
        again = Resending(reply, confirmation.mark_of_client(command) if confirmation else None)
        while (attempt := again.next_try()) is not None:
            try:
                again.reply = await self._send_again(command, attempt)
            except RedisError as error:
                raise_interruption(error)
                again.reply = error
        return again.result

    async def _send_again(self, command: Command[Any], attempt: Try) -> Any:
        if attempt.load:
            await load_instead_async(self._client)
        if not attempt.own:
            return await self.execute(
                command.keys[0], *script_call(command, as_text=attempt.as_text)
            )
        await self.nodes.ready()
        node = self.nodes.of(command.keys[0])
        if node is None:
            return MISSING
        (reply,) = await self._exchange(node, (command,), as_text=attempt.as_text)
        if refused(error_in(reply)):
            await self.nodes.lost_async(node)  # the slot is elsewhere
        return reply

    async def execute(self, target: Node | str, *command: Any) -> Any:
        """Send any command, and return its raw reply.

        Calls that are made at the same time share DPQ's own connection. If that does not give a
        reply, the client sends the command.

        Args:
            target: The node, or a key that the node holds.
            command: The words of the command; a name of two words is one of them.

        Raises:
            RedisError: As the client raises it, after the client's own retries.
        """
        await self.nodes.ready()
        node = self.nodes.of(target) if isinstance(target, str) else target
        if self.nodes.direct and node:
            name, *args = command
            packed = pack_plain([(*name.split(), *args)])
            (reply,) = await self._endpoint(node).exchange(packed, 1)
            if not isinstance(reply, Exception):
                return reply
            if not resendable(reply):
                raise reply
        client = target.client if isinstance(target, Node) else self._client
        return await ask_async(client, *command)

    def _endpoint(self, node: Node) -> "_Endpoint":
        endpoint = self._endpoints.get(node.name)
        if endpoint is None:
            endpoint = self._endpoints[node.name] = _Endpoint(self.nodes, node)
        return endpoint

    async def aclose(self) -> None:
        """Close the connections; running calls that are to be confirmed get an error."""
        for batches in self._batches.values():
            await batches.aclose()
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
                to_send = [exchange for exchange in self._unsent if not exchange.future.done()]
                idle = not self._awaited
                self._awaited += to_send
                self._unsent = []
                if idle:
                    self._be_patient()
                if packed := [exchange.packed for exchange in to_send]:
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
