"""Sends scripts over DPQ's own connections to the servers of the caller's client.

Beside the client's pool, links carry the packed commands of an exchange and bring the replies. A
command without a reply, or at the wrong server, is sent once more through the client itself, with
the client's retries and redirections. Of any other client (a subclass, a double) only
`execute_command` is used. Must not know what a command means.
"""

from collections.abc import Sequence
from typing import Any

from redis.exceptions import MovedError, NoScriptError, RedisError

from dpq.link.asking_async import ask_async, ask_by_script_async
from dpq.link.cluster import MISSING, AsyncNodes, Node, is_undone, may_not_eval
from dpq.link.links_async import AsyncLink, Exchange
from dpq.link.shared_async import together
from dpq.script.command import Command, Packer, pack_plain, script_call
from dpq.script.durability import (
    BY_CLIENT,
    Durability,
    confirming,
    judged,
    require_direct,
    unconfirmed,
)


class AsyncConnections:
    """Sends commands to the servers (`nodes`) behind one client, for tasks of one event loop."""

    def __init__(self, client: Any, durability: Durability = "async") -> None:
        """Make connections; nothing is sent yet."""
        self.nodes = nodes = AsyncNodes(client)
        self._client, self._durability = client, durability
        self._packer = Packer()
        self._links: dict[str, AsyncLink] = {}
        single = nodes.direct and not nodes.clustered and durability == "async"
        self._single = self._link(nodes.only) if single else None
        if durability != "async":
            require_direct(durability, nodes.direct, client)

    async def call_all(self, commands: Sequence[Command[Any]]) -> list[Any]:
        """Run commands in one round trip; one by one, if the client is not a direct one."""
        if link := self._single:
            packed = self._packer.pack(commands)
            replies = await link.receive(await link.send(packed, len(commands)))
        else:
            try:
                replies = await self._spread(commands)
            except RedisError as error:
                return [error] * len(commands)
        for position, reply in enumerate(replies):
            if isinstance(reply, Exception) and is_undone(reply):
                replies[position] = await self._again(commands[position], reply)
        return replies

    async def _spread(self, commands: Sequence[Command[Any]]) -> list[Any]:
        """Run commands on the nodes that hold their keys, on all at once."""
        replies: list[Any] = [MISSING] * len(commands)  # of a node that nobody knows
        if self.nodes.direct:
            await self.nodes.ready()
            parts = self.nodes.split(each.keys[0] for each in commands)
            sent = [(node, at, [commands[i] for i in at]) for node, at in parts.items() if node]
            exchanges = await together(self._send(node, some) for node, _, some in sent)
            for (node, positions, some), exchange in zip(sent, exchanges, strict=True):
                received = await self._receive(node, some, exchange)
                for position, reply in zip(positions, received, strict=True):
                    replies[position] = reply
        return replies

    async def tell(self, target: Node | str, *command: Any) -> Any:
        """Send any command to a node, or to that of a key; return its raw reply."""
        await self.nodes.ready()
        node = self.nodes.of(target) if isinstance(target, str) else target
        if self.nodes.direct and node:
            link = self._link(node)
            (reply,) = await link.receive(await link.send(pack_plain([command]), 1))
            if not (isinstance(reply, Exception) and is_undone(reply)):
                if isinstance(reply, Exception):
                    raise reply
                return reply
        client = self._client if isinstance(target, str) else target.client
        return await ask_async(client, *command)

    async def _send(
        self, node: Node, commands: Sequence[Command[Any]], *, as_text: bool = False
    ) -> Exchange:
        """Write commands, and behind them those that confirm them, to a node."""
        if as_text:
            packed = pack_plain(script_call(command, as_text=True) for command in commands)
        else:
            packed = self._packer.pack(commands)
        behind: Sequence[Any] = ()
        if self._durability != "async":
            timeout = node.settings.get("socket_timeout")
            behind = confirming(commands, self._durability, timeout)
        packed, count = packed + pack_plain(behind), len(commands) + len(behind)
        return await self._link(node).send(packed, count, alone=bool(behind))

    async def _receive(
        self, node: Node, commands: Sequence[Command[Any]], exchange: Exchange
    ) -> list[Any]:
        replies = await self._link(node).receive(exchange)
        if len(replies) > len(commands):
            replies = judged(commands, self._durability, replies)
        return replies

    async def _again(self, command: Command[Any], error: Any) -> Any:
        """Send a command once more: over an own connection, if the server does not know the script,
        the keys have moved, or the connection was cut; else, or then, through the client."""
        cut = error is MISSING and not self.nodes.fails_over
        try:
            if (cut or isinstance(error, NoScriptError | MovedError)) and self.nodes.direct:
                if isinstance(error, MovedError):
                    await self.nodes.learn_async()
                if node := self.nodes.of(command.keys[0]):
                    exchange = await self._send(node, (command,), as_text=not cut)
                    (reply,) = await self._receive(node, (command,), exchange)
                    if not is_undone(reply) and not may_not_eval(reply):
                        return reply
            reply = await ask_by_script_async(self._client, command)
        except RedisError as refusal:
            return refusal
        if self._durability != "async":
            reply = unconfirmed(command, self._durability, reply, BY_CLIENT)
        return reply

    def _link(self, node: Node) -> AsyncLink:
        link = self._links.get(node.name)
        return link or self._links.setdefault(node.name, AsyncLink(self.nodes, node))

    async def aclose(self) -> None:
        """Close the connections; calls that lose theirs are sent again, or get an error."""
        for link in list(self._links.values()):
            await link.aclose()
