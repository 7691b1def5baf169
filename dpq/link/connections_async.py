"""The asyncio connections: one to each server, shared by the calls of all asyncio tasks.

As `connections`, but all calls of an event loop travel over one connection to each node, and one
asyncio task reads the replies. Calls that are to be confirmed have others: WAIT would hold up all
calls of a shared connection. Must not know what a command means.
"""

import asyncio
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import MovedError, NoScriptError, RedisError, ResponseError
from redis.exceptions import TimeoutError as RedisTimeoutError

from dpq.link.cluster import CUT, MISSING, AsyncNodes, Node, ask_async, raise_if_demoted
from dpq.link.connections import is_undone
from dpq.link.internals import write
from dpq.link.script_loading import load_instead_async, may_not_eval
from dpq.link.shared_async import Shared
from dpq.script.command import Command, Packer, pack_plain, script_call
from dpq.script.durability import (
    BY_CLIENT,
    Durability,
    confirming,
    judged,
    needs_confirmation,
    require_direct,
    unconfirmed,
)

LONGEST_ALONE = 0.1
"""Seconds after which a batch of confirmed calls does not wait for the one before: its tasks have
leases, which run out."""


class AsyncConnections:
    """Sends commands to the servers behind one client, for any number of tasks of one event loop.

    Attributes:
        nodes: The servers.
    """

    def __init__(self, client: Any, durability: Durability = "async") -> None:
        """Make connections, as `Connections` does."""
        self.nodes = AsyncNodes(client)
        self._client, self._durability = client, durability
        self._packer = Packer()
        self._links: dict[str, _Link] = {}
        self._batches: dict[str, _Batches] = {}
        if durability != "async":
            require_direct(durability, self.nodes.direct, client)

    async def call_all(self, commands: Sequence[Command[Any]]) -> list[Any]:
        """Async `Connections.call_all`."""
        if self.nodes.direct and not self.nodes.clustered:
            return await self._exchange(self.nodes.only, commands)
        replies: list[Any] = [MISSING] * len(commands)
        if self.nodes.direct:
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
            if reply is MISSING:  # no node of the cluster has the keys, or it is another client
                replies[position] = await self._again(commands[position], reply)
        return replies

    async def aimed(self, key: str) -> dict[str, Any]:
        """Async `Connections.aimed`."""
        await self.nodes.ready()
        return self.nodes.aimed(key)

    async def _exchange(
        self, node: Node, commands: Sequence[Command[Any]], *, last: bool = False
    ) -> list[Any]:
        """Send commands to a node; with their texts, if this is the last try."""
        if last:
            packed = pack_plain(script_call(command, as_text=True) for command in commands)
        else:
            packed = self._packer.pack(commands)
        if self._durability != "async" and any(map(needs_confirmation, commands)):
            if node.name not in self._batches:
                self._batches[node.name] = _Batches(self.nodes, node, self._durability)
            replies = await self._batches[node.name].exchange(packed, commands)
        else:
            replies = await self._link(node).exchange(packed, len(commands))
        for position, reply in enumerate(replies):
            if isinstance(reply, Exception) and not last and is_undone(reply):
                replies[position] = await self._again(commands[position], reply)
        return replies

    async def _again(self, command: Command[Any], error: Any) -> Any:
        """Async `Connections._again`."""
        try:
            if isinstance(error, NoScriptError | MovedError) and self.nodes.direct:
                if isinstance(error, MovedError):
                    await self.nodes.learn_async()
                if node := self.nodes.of(command.keys[0]):
                    (reply,) = await self._exchange(node, (command,), last=True)
                    if not is_undone(reply) and not may_not_eval(reply):
                        return reply
            try:
                reply = await ask_async(self._client, *script_call(command, as_text=False))
            except NoScriptError:
                reply = await self._ask_with_text(command)
        except RedisError as refusal:
            return refusal
        if self._durability != "async":
            reply = unconfirmed(command, self._durability, reply, BY_CLIENT)
        return reply

    async def _ask_with_text(self, command: Command[Any]) -> Any:
        try:
            return await ask_async(self._client, *script_call(command, as_text=True))
        except ResponseError as refusal:
            if not may_not_eval(refusal):
                raise
        await load_instead_async(self._client)
        return await ask_async(self._client, *script_call(command, as_text=False))

    async def execute(self, target: Node | str, *command: Any) -> Any:
        """Send any command to a node, or to that of a key; return its raw reply."""
        await self.nodes.ready()
        node = self.nodes.of(target) if isinstance(target, str) else target
        if self.nodes.direct and node:
            name, *args = command
            packed = pack_plain([(*name.split(), *args)])
            (reply,) = await self._link(node).exchange(packed, 1)
            if not isinstance(reply, Exception):
                return reply
            if not is_undone(reply):
                raise reply
        client = target.client if isinstance(target, Node) else self._client
        return await ask_async(client, *command)

    def _link(self, node: Node) -> "_Link":
        link = self._links.get(node.name)
        if link is None:
            link = self._links[node.name] = _Link(self.nodes, node)
        return link

    async def aclose(self) -> None:
        """Close the connections; calls that lose theirs are sent again, or get an error."""
        for link in self._links.values():
            await link.aclose()
        for batches in self._batches.values():
            await batches.aclose()


class _Link:
    """A connection to one node; its calls get their replies in the order in which they write."""

    def __init__(self, nodes: AsyncNodes, node: Node) -> None:
        self._nodes, self._node = nodes, node
        self._losses = nodes.losses
        self._usable_again = False  # the connection that was lost last had been open
        self._opening = Shared(self._open)
        self._connection: Any = None
        self._reader: asyncio.Task[None] | None = None
        self._awaited: deque[_Exchange] = deque()

    @property
    def timeout(self) -> float | None:
        """The client's own seconds for a reply."""
        timeout: float | None = self._node.settings.get("socket_timeout")
        return timeout

    async def exchange(self, packed: bytes, count: int) -> list[Any]:
        """Send packed commands together; return a reply for each, which may be an error."""
        replies = await self._exchange(packed, count)
        if replies[0] is MISSING and self._usable_again:
            replies = await self._exchange(packed, count)
        return replies

    async def _exchange(self, packed: bytes, count: int) -> list[Any]:
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
            self._usable_again = opened and not self._nodes.fails_over
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


class _Batches:
    """Confirmed calls to one node: those that come while others wait go together, with one WAIT."""

    def __init__(self, nodes: AsyncNodes, node: Node, durability: Durability) -> None:
        self._nodes, self._node, self._durability = nodes, node, durability
        self._idle: list[_Link] = []
        self._busy: dict[asyncio.Task[None], _Link] = {}
        self._waiting: list[tuple[bytes, Sequence[Command[Any]], asyncio.Future[list[Any]]]] = []
        self._sending: asyncio.Task[None] | None = None

    async def exchange(self, packed: bytes, commands: Sequence[Command[Any]]) -> list[Any]:
        """Send packed commands with the next batch; return a judged reply for each."""
        loop, sending = asyncio.get_running_loop(), self._sending
        if sending is None or sending.done() or sending.get_loop() is not loop:
            self._waiting = []
            if sending and sending.get_loop() is not loop:
                self._idle, self._busy = [], {}
            self._sending = loop.create_task(self._send())
        future: asyncio.Future[list[Any]] = loop.create_future()
        self._waiting.append((packed, commands, future))
        return await future

    async def _send(self) -> None:
        while self._waiting:
            batch, self._waiting = self._waiting, []
            link = self._idle.pop() if self._idle else _Link(self._nodes, self._node)
            running = asyncio.create_task(self._run(batch, link))
            self._busy[running] = link
            running.add_done_callback(self._end)
            await asyncio.wait((running,), timeout=LONGEST_ALONE)

    def _end(self, batch: asyncio.Task[None]) -> None:
        if link := self._busy.pop(batch, None):
            self._idle.append(link)

    async def _run(
        self,
        batch: list[tuple[bytes, Sequence[Command[Any]], "asyncio.Future[list[Any]]"]],
        link: _Link,
    ) -> None:
        commands = [command for _, some, _ in batch for command in some]
        behind = confirming(commands, self._durability, link.timeout)
        packed = b"".join(each for each, _, _ in batch) + pack_plain(behind)
        replies = await link.exchange(packed, len(commands) + len(behind))
        replies = judged(commands, self._durability, replies)
        for _, some, future in batch:
            if not future.done():  # the caller may have been cancelled
                future.set_result(replies[: len(some)])
            replies = replies[len(some) :]

    async def aclose(self) -> None:
        """Close the connections; running calls get an error."""
        for link in [*self._idle, *self._busy.values()]:
            await link.aclose()


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
