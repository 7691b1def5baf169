"""The asyncio connections: one to each server, shared by the calls of all asyncio tasks.

The asyncio session calls it. DPQ opens one connection beside the pool of a plain
`redis.asyncio.Redis`, with the same settings, and one to each node of a `RedisCluster`
(`endpoint_async`). If a connection fails, calls without a reply are sent again over a new
connection. If that fails too, they are sent through the client itself, with the client's own
retries. For a client without retries nothing is sent again. Of any other client only
`execute_command` is used.

With a `Confirmation`, changes travel in batches over connections of their own (`batches_async`).
Must not know what a command means.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from redis.exceptions import RedisError

from dpq.model.interrupts import raise_interruption
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
    refused,
)
from dpq.transport.endpoint_async import AsyncEndpoint
from dpq.transport.resending import FAILED, Resending, Try, resendable
from dpq.transport.script_loading import load_instead_async


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
        self._endpoints: dict[str, AsyncEndpoint] = {}
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

    async def aimed(self, key: str) -> dict[str, Any]:
        """Async `Connections.aimed`."""
        await self.nodes.ready()
        return self.nodes.aimed(key)

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
            batches = self._batches[node.name] = Batches(self._confirmation, self.nodes, node)
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
            await self.nodes.lost_async(node)  # another node has the slot
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

    def _endpoint(self, node: Node) -> AsyncEndpoint:
        endpoint = self._endpoints.get(node.name)
        if endpoint is None:
            endpoint = self._endpoints[node.name] = AsyncEndpoint(self.nodes, node)
        return endpoint

    async def aclose(self) -> None:
        """Close the connections; calls that lose theirs are sent again, or get an error."""
        for batches in self._batches.values():
            await batches.aclose()
        for endpoint in self._endpoints.values():
            await endpoint.aclose()
