"""Asks through the client itself, for what an own connection could not send, or got no reply to.

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
from dpq.link.shared_async import pause
from dpq.script.assembly import script, script_names
from dpq.script.command import Command, script_call
from dpq.script.durability import BY_CLIENT, Durability, unconfirmed

RIDE_OUT_SECONDS = 3.0
"""Seconds for which a call that no server has run is repeated. While a slot moves, its keys are on
two nodes. During a failover a cluster refuses every call. redis-py alone repeats for 0.4 s."""

_PAUSE_SECONDS = 0.1


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


class AsyncAsking:
    """The part of connections that sends a call again."""

    nodes: AsyncNodes
    _client: Any
    _durability: Durability

    async def _exchange(
        self, node: Node, commands: Sequence[Command[Any]], *, as_text: bool = False
    ) -> list[Any]:
        """Send commands to a node over an own connection; return a reply for each."""
        raise NotImplementedError

    async def tell(self, target: Node | str, *command: Any) -> Any:
        """Send any command to a node, or to that of a key; return its raw reply."""
        client = self._client if isinstance(target, str) else target.client
        return await ask_async(client, *command)

    async def _again(self, command: Command[Any], error: Any) -> Any:
        """Send a command once more: over an own connection, if the server does not know the script,
        the keys have moved, or the connection was cut; else, or then, through the client."""
        cut = error is MISSING and not self.nodes.fails_over
        try:
            if (cut or isinstance(error, NoScriptError | MovedError)) and self.nodes.direct:
                if isinstance(error, MovedError):
                    await self.nodes.learn_async()
                if node := self.nodes.of(command.keys[0]):
                    (reply,) = await self._exchange(node, (command,), as_text=not cut)
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
        try:
            await load_scripts_async(self._client)
        except ResponseError as refusal:
            if not forbidden(refusal):
                raise
            raise NoPermissionError(f"{CANNOT_LOAD}: {refusal}") from None
        return await ask_async(self._client, *script_call(command, as_text=False))
