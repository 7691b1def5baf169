"""The asyncio connections: one to each server, shared by the calls of all asyncio tasks.

As `connections`, but all calls of an event loop travel over one connection to each node, and one
asyncio task reads the replies. A call that is to be confirmed takes another one: WAIT would hold up
all calls of a shared connection. Must not know what a command means.
"""

import asyncio
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from itertools import chain
from typing import Any

from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import RedisError, ResponseError
from redis.exceptions import TimeoutError as RedisTimeoutError

from dpq.link.asking_async import AsyncAsking
from dpq.link.cluster import CUT, MISSING, AsyncNodes, Node, is_undone, raise_if_demoted
from dpq.link.internals import write
from dpq.link.shared_async import Shared
from dpq.script.command import Command, Packer, pack_plain, script_call
from dpq.script.durability import (
    Durability,
    confirming,
    judged,
    needs_confirmation,
    require_direct,
)


class AsyncConnections(AsyncAsking):
    """Sends commands to the servers (`nodes`) behind one client, for tasks of one event loop."""

    def __init__(self, client: Any, durability: Durability = "async") -> None:
        """Make connections, as `Connections` does."""
        self.nodes = AsyncNodes(client)
        self._client, self._durability = client, durability
        self._packer = Packer()
        self._links: dict[str, _Link] = {}
        self._confirming: dict[str, list[_Link]] = {}  # idle ones
        if durability != "async":
            require_direct(durability, self.nodes.direct, client)

    async def call_all(self, commands: Sequence[Command[Any]]) -> list[Any]:
        """Async `Connections.call_all`."""
        replies: list[Any] = [MISSING] * len(commands)  # of a node that nobody knows
        if self.nodes.direct and not self.nodes.clustered:
            replies = await self._exchange(self.nodes.only, commands)
        elif self.nodes.direct:
            try:
                await self.nodes.ready()
                parts = self.nodes.split(command.keys[0] for command in commands)
            except RedisError as error:
                return [error] * len(commands)

            async def exchange(node: Node, positions: list[int]) -> None:
                some = [commands[position] for position in positions]
                for position, reply in zip(
                    positions, await self._exchange(node, some), strict=True
                ):
                    replies[position] = reply

            await asyncio.gather(*(exchange(node, at) for node, at in parts.items() if node))
        for position, reply in enumerate(replies):
            if isinstance(reply, Exception) and is_undone(reply):
                replies[position] = await self._again(commands[position], reply)
        return replies

    async def aimed(self, key: str) -> dict[str, Any]:
        """Async `Connections.aimed`."""
        await self.nodes.ready()
        return self.nodes.aimed(key)

    async def _exchange(
        self, node: Node, commands: Sequence[Command[Any]], *, as_text: bool = False
    ) -> list[Any]:
        if as_text:
            packed = pack_plain(script_call(command, as_text=True) for command in commands)
        else:
            packed = self._packer.pack(commands)
        if self._durability == "async" or not any(map(needs_confirmation, commands)):
            return await self._link(node).exchange(packed, len(commands))
        idle = self._confirming.setdefault(node.name, [])
        link = idle.pop() if idle else _Link(self.nodes, node)
        behind = confirming(commands, self._durability, node.settings.get("socket_timeout"))
        try:
            replies = await link.exchange(packed + pack_plain(behind), len(commands) + len(behind))
        finally:
            idle.append(link)
        return judged(commands, self._durability, replies)

    async def tell(self, target: Node | str, *command: Any) -> Any:
        """Send any command over a shared connection: a wait that ends takes none of the pool."""
        await self.nodes.ready()
        node = self.nodes.of(target) if isinstance(target, str) else target
        if self.nodes.direct and node:
            (reply,) = await self._link(node).exchange(pack_plain([command]), 1)
            if not is_undone(reply):
                if isinstance(reply, Exception):
                    raise reply
                return reply
        return await super().tell(target, *command)

    def _link(self, node: Node) -> "_Link":
        link = self._links.get(node.name)
        if link is None:
            link = self._links[node.name] = _Link(self.nodes, node)
        return link

    async def aclose(self) -> None:
        """Close the connections; calls that lose theirs are sent again, or get an error."""
        for link in chain(self._links.values(), *self._confirming.values()):
            await link.aclose()


class _Link:
    """A connection to one node; its calls get their replies in the order in which they write."""

    def __init__(self, nodes: AsyncNodes, node: Node) -> None:
        self._nodes, self._node = nodes, node
        self._losses = nodes.losses
        self._opening = Shared(self._open)
        self._connection: Any = None
        self._reader: asyncio.Task[None] | None = None
        self._awaited: deque[_Exchange] = deque()

    async def exchange(self, packed: bytes, count: int) -> list[Any]:
        """Send packed commands together; return a reply for each, which may be an error."""
        opened = False
        try:
            if self._losses != self._nodes.losses:
                self._losses = self._nodes.losses
                await self.aclose()
            loop, reader = asyncio.get_running_loop(), self._reader
            if not (
                reader
                and not reader.done()
                and reader.get_loop() is loop
                and self._connection.is_connected
            ):
                await self._opening.get()
            opened = True
            exchange = _Exchange(count, loop)
            self._awaited.append(exchange)
            write(self._connection, packed)
        except (*CUT, OSError, RuntimeError) as error:
            fault = error if isinstance(error, RedisError) else RedisConnectionError(str(error))
            replies: list[Any] = [fault] * count
        else:
            replies = await exchange.future
        if isinstance(replies[-1], CUT):
            await self._nodes.lost_async()
            hopeless = not opened and isinstance(replies[-1], RedisTimeoutError)
            if not (self._nodes.sends_once or (hopeless and not self._nodes.fails_over)):
                replies = [MISSING if isinstance(reply, CUT) else reply for reply in replies]
        return replies

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

    def __init__(self, count: int, loop: asyncio.AbstractEventLoop) -> None:
        self.count, self.replies, self.began = count, list[Any](), loop.time()
        self.future: asyncio.Future[list[Any]] = loop.create_future()

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
