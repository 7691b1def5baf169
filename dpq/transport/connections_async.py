"""The asyncio connections: one to each server, shared by the calls of all asyncio tasks.

As `connections`, but all calls of an event loop travel over one connection to each node, and one
asyncio task reads the replies. Must not know what a command means.
"""

import asyncio
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import MovedError, NoScriptError, RedisError, ResponseError
from redis.exceptions import TimeoutError as RedisTimeoutError

from dpq.protocol.command import Command
from dpq.protocol.confirmation import Confirmation, judged
from dpq.protocol.durability import require_direct
from dpq.protocol.packing import Packer, pack_plain, script_call
from dpq.transport.cluster import MISSING, AsyncNodes, Node, ask_async, raise_if_demoted, refused
from dpq.transport.connections import CUT
from dpq.transport.script_loading import load_instead_async, may_not_eval
from dpq.transport.shared_async import Shared


class AsyncConnections:
    """Sends commands to the servers behind one client, for any number of tasks of one event loop.

    Attributes:
        nodes: The servers.
    """

    def __init__(self, client: Any, confirmation: Confirmation | None = None) -> None:
        """Make connections, as `Connections` does."""
        self.nodes = AsyncNodes(client)
        self._client, self._confirmation = client, confirmation
        self._packer = Packer()
        self._links: dict[str, _Link] = {}
        if confirmation is not None:
            require_direct(confirmation.durability, self.nodes.direct, client)

    async def call_all(self, commands: Sequence[Command[Any]]) -> list[Any]:
        """Async `Connections.call_all`."""
        replies: list[Any] = [MISSING] * len(commands)
        try:
            if self.nodes.direct and not self.nodes.clustered:
                replies = await self._exchange(self.nodes.only, commands)
            elif self.nodes.direct:
                await self._by_node(commands, replies)
        except RedisError as error:
            replies = [error] * len(commands)
        for position, reply in enumerate(replies):
            if reply is MISSING or isinstance(reply, NoScriptError) or refused(reply):
                replies[position] = await self._again(commands[position], reply)
        return replies

    async def aimed(self, key: str) -> dict[str, Any]:
        """Async `Connections.aimed`."""
        await self.nodes.ready()
        return self.nodes.aimed(key)

    async def _by_node(self, commands: Sequence[Command[Any]], replies: list[Any]) -> None:
        """Send commands to all nodes that hold their keys, at the same time."""
        await self.nodes.ready()

        async def exchange(node: Node | None, positions: list[int]) -> None:
            some = [commands[position] for position in positions]
            for position, reply in zip(
                positions, await self._exchange(node, some) if node else (), strict=node is not None
            ):
                replies[position] = reply

        parts = self.nodes.split(command.keys[0] for command in commands)
        await asyncio.gather(*(exchange(*part) for part in parts.items()))

    async def _exchange(self, node: Node, commands: Sequence[Command[Any]]) -> list[Any]:
        packed, confirmation = self._packer.pack_all(commands), self._confirmation
        if confirmation is None or not (behind := confirmation.behind(commands, node.settings)):
            return await self._link(node.name, node).exchange(packed, len(commands))
        # WAIT would hold up all calls of the shared connection.
        link = _Link(self.nodes, node)
        try:
            count = len(commands) + len(behind)
            found = await link.exchange(packed + pack_plain(behind), count)
        finally:
            await link.aclose()
        return judged(confirmation.durability, commands, found)

    async def _again(self, command: Command[Any], error: Any) -> Any:
        """Async `Connections._again`."""
        if isinstance(error, NoScriptError) and self.nodes.direct:
            node = self.nodes.of(command.keys[0])
            packed = pack_plain([script_call(command, as_text=True)])
            (error,) = await self._link(node.name, node).exchange(packed, 1) if node else (MISSING,)
            if not isinstance(error, Exception):
                return error
            if not may_not_eval(error) and error is not MISSING and not refused(error):
                return error
        confirms = self._confirmation and self._confirmation.mark_of_client(command)
        for as_text in (False, True):
            try:
                reply = await ask_async(self._client, *script_call(command, as_text=as_text))
                return confirms.mark(reply) if confirms else reply
            except RedisError as refusal:
                error = refusal
            if may_not_eval(error):
                try:
                    await load_instead_async(self._client)
                    return await ask_async(self._client, *script_call(command, as_text=False))
                except RedisError as refusal:
                    return refusal
            if not isinstance(error, NoScriptError):
                break
        return error

    async def execute(self, target: Node | str, *command: Any) -> Any:
        """Send any command to a node, or to that of a key; return its raw reply.

        Raises:
            RedisError: As the client raises it, after the client's own retries.
        """
        await self.nodes.ready()
        node = self.nodes.of(target) if isinstance(target, str) else target
        if self.nodes.direct and node:
            name, *args = command
            packed = pack_plain([(*name.split(), *args)])
            (reply,) = await self._link(node.name, node).exchange(packed, 1)
            if not isinstance(reply, Exception):
                return reply
            if reply is not MISSING and not refused(reply):
                raise reply
        client = target.client if isinstance(target, Node) else self._client
        return await ask_async(client, *command)

    def _link(self, name: str, node: Node) -> "_Link":
        if name not in self._links:
            self._links[name] = _Link(self.nodes, node)
        return self._links[name]

    async def aclose(self) -> None:
        """Close the connections; calls that lose theirs are sent again, or get an error."""
        for link in self._links.values():
            await link.aclose()


class _Link:
    """The connection to one node; its calls get their replies in the order in which they write."""

    def __init__(self, nodes: AsyncNodes, node: Node) -> None:
        self._nodes, self._node = nodes, node
        self._once = nodes.sends_once
        self._losses = 0
        self._opening = Shared(self._open)
        self._connection: Any = None
        self._reader: asyncio.Task[None] | None = None
        self._awaited: deque[_Exchange] = deque()

    async def exchange(self, packed: bytes, count: int) -> list[Any]:
        """Send packed commands together; return a reply for each, which may be an error."""
        if self._losses != self._nodes.losses:
            self._losses = self._nodes.losses
            await self.aclose()
        try:
            if not self._usable():
                await self._opening.get()
            exchange = _Exchange(count)
            self._awaited.append(exchange)
            self._connection._writer.write(packed)
        except (*CUT, OSError, RuntimeError) as error:
            replies: list[Any] = [error] * count
        else:
            replies = await exchange.future
        if isinstance(replies[-1], CUT):
            await self._nodes.lost_async(self._node)
            if not self._once:
                replies = [MISSING if isinstance(reply, CUT) else reply for reply in replies]
        for reply in replies if self._nodes.clustered else ():
            if isinstance(reply, MovedError):
                with suppress(KeyError):
                    await self._nodes.client.nodes_manager.move_slot(reply)
        return replies

    def _usable(self) -> bool:
        reader = self._reader
        here = reader and reader.get_loop() is asyncio.get_running_loop()
        return bool(here and reader and not reader.done() and self._connection.is_connected)

    async def _open(self) -> None:
        connection = self._node.connection(health_check_interval=0)
        await connection.connect()
        timeout, connection.socket_timeout = connection.socket_timeout, None
        self._connection, self._awaited = connection, deque()
        self._reader = asyncio.create_task(self._read(connection, self._awaited, timeout))

    async def _read(
        self, connection: Any, awaited: "deque[_Exchange]", timeout: float | None
    ) -> None:
        """Read replies until the connection ends; then give all waiting calls the error."""
        fault: Exception = RedisConnectionError("the connection was closed")
        loop = asyncio.get_running_loop()
        watch = loop.call_later(timeout, self._look, awaited, timeout) if timeout else None
        try:
            while True:
                try:
                    reply = await connection.read_response(disable_decoding=True)
                except ResponseError as refusal:
                    reply = raise_if_demoted(refusal)
                if awaited[0].add(reply):
                    awaited.popleft()
        except (RedisError, OSError) as error:
            fault = error if isinstance(error, RedisError) else RedisConnectionError(str(error))
        finally:
            if watch:
                watch.cancel()
            while awaited:
                awaited.popleft().end(fault)
            with suppress(RedisError, OSError):
                await connection.disconnect(nowait=True)

    def _look(self, awaited: "deque[_Exchange]", timeout: float) -> None:
        """Give the server up if it is silent for longer than the client's `socket_timeout`."""
        loop, reader = asyncio.get_running_loop(), self._reader
        if awaited and awaited[0].began + timeout <= loop.time():
            silent = RedisTimeoutError("no reply within the client's socket_timeout")
            while awaited:
                awaited.popleft().end(silent)
            if reader:
                reader.cancel()
        elif reader and not reader.done():
            loop.call_later(timeout / 4, self._look, awaited, timeout)

    async def aclose(self) -> None:
        """Close the connection; running calls get an error."""
        await self._opening.ended()
        reader, self._reader = self._reader, None
        if reader and not reader.done() and reader.get_loop() is asyncio.get_running_loop():
            await asyncio.sleep(0)  # a reader that is cancelled before its start would end no call
            reader.cancel()
            await asyncio.wait((reader,))


class _Exchange:
    """Commands that are sent together, and their replies as they come."""

    __slots__ = ("began", "count", "future", "replies")

    def __init__(self, count: int) -> None:
        loop = asyncio.get_running_loop()
        self.count, self.replies, self.began = count, list[Any](), loop.time()
        self.future: asyncio.Future[list[Any]] = loop.create_future()

    def add(self, reply: Any) -> bool:
        """Add a reply; return True if it was the last one."""
        self.replies.append(reply)
        if len(self.replies) == self.count:
            self.end(None)
        return len(self.replies) == self.count

    def end(self, error: Exception | None) -> None:
        """Give the replies to the caller, with the error for each missing one."""
        self.replies += [error] * (self.count - len(self.replies))
        if not self.future.done():  # the caller may have been cancelled
            self.future.set_result(self.replies)
