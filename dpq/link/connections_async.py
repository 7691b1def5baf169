"""Sends scripts over DPQ's own connections to the servers of the caller's client.

Beside the client's pool, links carry the packed commands of an exchange and bring the replies. A
command without a reply, or at the wrong server, is sent once more through the client itself, with
the client's retries and redirections. Of any other client (a subclass, a double) only
`execute_command` is used. Must not know what a command means.

A server forgets its scripts when it starts, and a replica that takes over never had them. Then a
call sends the text (EVAL). If the Redis user may not call EVAL, all scripts are loaded. If it may
not load them either, calls are refused until `dpq doctor --load-scripts` or a scheduler does.
"""

import time
from collections.abc import Sequence
from typing import Any

from redis.exceptions import (
    ClusterError,
    MovedError,
    NoPermissionError,
    NoScriptError,
    RedisError,
    ResponseError,
)

from dpq.link import internals
from dpq.link.cluster import (
    CANNOT_LOAD,
    MISSING,
    AsyncNodes,
    Node,
    NotWrittenError,
    forbidden,
    is_undone,
    may_not_eval,
    reachable,
)
from dpq.link.links_async import AsyncLink, Exchange
from dpq.link.shared_async import pause, together
from dpq.script.assembly import script, script_names
from dpq.script.command import Command, Packer, pack_plain, script_call
from dpq.script.durability import (
    BY_CLIENT,
    Durability,
    confirming,
    judged,
    require_direct,
    unconfirmed,
)

RIDE_OUT_SECONDS = 3.0
"""Seconds for which a call that no server has run is repeated. While a slot moves, its keys are on
two nodes. During a failover a cluster refuses every call. redis-py alone repeats for 0.4 s."""

_PAUSE_SECONDS = 0.1


class AsyncConnections:
    """Sends commands to the servers (`nodes`) behind one client, for tasks of one event loop."""

    def __init__(self, client: Any, durability: Durability = "async") -> None:
        """Make connections; nothing is sent yet."""
        self.nodes = nodes = AsyncNodes(client)
        self.durability = durability
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
        client = self.nodes.client if isinstance(target, str) else target.client
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
        if self.durability != "async":
            timeout = node.settings.get("socket_timeout")
            behind = confirming(commands, self.durability, timeout)
        packed, count = packed + pack_plain(behind), len(commands) + len(behind)
        return await self._link(node).send(packed, count, alone=bool(behind))

    async def _receive(
        self, node: Node, commands: Sequence[Command[Any]], exchange: Exchange
    ) -> list[Any]:
        replies = await self._link(node).receive(exchange)
        if len(replies) > len(commands):
            replies = judged(commands, self.durability, replies)
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
                    if cut and isinstance(reply, NoScriptError):  # the server has restarted
                        return await self._again(command, reply)
                    if not is_undone(reply) and not may_not_eval(reply):
                        return reply
            reply = await ask_by_script_async(self.nodes.client, command)
        except RedisError as refusal:
            return refusal
        if self.durability != "async":
            reply = unconfirmed(command, self.durability, reply, BY_CLIENT)
        return reply

    def _link(self, node: Node) -> AsyncLink:
        link = self._links.get(node.name)
        return link or self._links.setdefault(node.name, AsyncLink(self.nodes, node))

    async def aclose(self) -> None:
        """Close the connections; calls that lose theirs are sent again, or get an error."""
        for link in list(self._links.values()):
            await link.aclose()


async def ask_async(client: Any, *command: Any) -> Any:
    """Send a command through a client, with its retries and redirections; return the raw reply."""
    give_up = time.monotonic() + RIDE_OUT_SECONDS
    while True:
        try:
            with reachable():
                return await client.execute_command(*command, **internals.RAW)
        except MovedError as error:  # a client of a cluster would have followed it
            told = "this server is a node of a cluster: write redis+cluster:// in its URL"
            raise ResponseError(told) from error
        except (ClusterError, NotWrittenError):
            if time.monotonic() > give_up:
                raise
        await pause(_PAUSE_SECONDS)


async def load_scripts_async(client: Any) -> int:
    """Load every script, in a cluster into all masters."""
    names = script_names()
    with reachable():
        for name in names:
            await client.script_load(script(name).text)
    return len(names)


async def ask_by_script_async(client: Any, command: Command[Any]) -> Any:
    """Call a script through a client, by its hash; if the server does not know it, by its text."""
    by_hash = script_call(command, as_text=False)
    try:
        return await ask_async(client, *by_hash)
    except NoScriptError:
        pass
    try:
        return await ask_async(client, *script_call(command, as_text=True))
    except ResponseError as refusal:
        if not may_not_eval(refusal):
            raise
    try:
        await load_scripts_async(client)
    except ResponseError as refusal:
        if not forbidden(refusal):
            raise
        raise NoPermissionError(f"{CANNOT_LOAD}: {refusal}") from None
    return await ask_async(client, *by_hash)
