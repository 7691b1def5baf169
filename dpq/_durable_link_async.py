"""`AsyncLink` for a queue whose calls return when what they have changed is confirmed.

WAIT holds up its connection. So what is to be confirmed has a connection of its own, beside the one
for everything else, and goes over it in turns: what all tasks have to send while one turn waits
goes together in the next, with one WAIT behind it. The longer a confirmation takes, the more share
it.
"""

import asyncio
from collections.abc import Sequence
from typing import Any

from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import NoScriptError, RedisError

from dpq._command import Command
from dpq._durable import Durability, Unconfirmed, confirmation, promises, require_direct
from dpq._durable_link import BY_CLIENT, TRIES, MixedPacker, by_text, judged, timeout_of
from dpq._link_async import CUT, AsyncLink, _Way
from dpq._nodes import Node, refused

MOST_TOGETHER = 1000
"""Operations of a turn: a longer one would hold up the server's other clients."""


class AsyncDurableLink(AsyncLink):
    """Async `DurableLink`."""

    def __init__(self, client: Any, durability: Durability) -> None:
        super().__init__(client)
        require_direct(durability, self.nodes.direct, client)
        self._durability = durability
        self._turns: dict[str, _Turns] = {}

    async def _exchange(self, node: Node, commands: Sequence[Command[Any]]) -> list[Any]:
        if not promises(commands):
            return await super()._exchange(node, commands)
        return await self._turns_of(node).exchange(commands, known=True)

    def _turns_of(self, node: Node) -> "_Turns":
        turns = self._turns.get(node.name)
        if turns is None:
            way = _Way(self.nodes, node)
            turns = self._turns[node.name] = _Turns(way, self._durability, timeout_of(node))
        return turns

    async def _settle(self, command: Command[Any], refusal: Any) -> Any:
        again = isinstance(refusal, (*CUT, NoScriptError)) or refused(refusal)
        if not (again and promises((command,))):
            return await super()._settle(command, refusal)
        if isinstance(refusal, CUT) and self._sends_once():
            return refusal
        try:
            await self.nodes.ready()
            known = not isinstance(refusal, NoScriptError)
            for _ in range(TRIES):
                node = self.nodes.of(command.keys[0])
                if node is None:
                    break
                (reply,) = await self._turns_of(node).exchange((command,), known=known)
                known = known and not isinstance(reply, NoScriptError)
                if refused(reply):
                    await self.nodes.lost_async(node)  # the slot is elsewhere
                elif not isinstance(reply, (*CUT, NoScriptError)):
                    return reply
        except RedisError as error:
            return error
        reply = await super()._settle(command, refusal)
        if isinstance(reply, Exception):
            return reply
        return Unconfirmed(reply, self._durability, reason=BY_CLIENT)

    async def aclose(self) -> None:
        """Close the connections."""
        for turns in self._turns.values():
            await turns.aclose()
        await super().aclose()


class _Turns:
    """What is to be confirmed by one node."""

    def __init__(self, way: _Way, durability: Durability, timeout: float | None) -> None:
        self._way = way
        self._durability = durability
        self._timeout = timeout
        self._packer = MixedPacker()
        self._waiting: list[_Waiting] = []
        self._running: asyncio.Task[None] | None = None

    async def exchange(self, commands: Sequence[Command[Any]], *, known: bool) -> list[Any]:
        """Send commands in the next turn; replies, some of which may be `Unconfirmed`.

        Who is cancelled here leaves the others alone: what is sent is sent.
        """
        loop = asyncio.get_running_loop()
        waiting = _Waiting(commands, known, loop.create_future())
        running = self._running
        if running is None or running.done() or running.get_loop() is not loop:
            self._waiting = []
            self._running = loop.create_task(self._take_turns(), name="dpq-confirmed")
        self._waiting.append(waiting)
        return await waiting.future

    async def _take_turns(self) -> None:
        waiting: list[_Waiting] = []
        try:
            while self._waiting:
                waiting, self._waiting = (
                    self._waiting[:MOST_TOGETHER],
                    self._waiting[MOST_TOGETHER:],
                )
                await self._take_turn(waiting)
        finally:  # nobody waits for ever for what has failed here
            for each in waiting + self._waiting:
                if not each.future.done():
                    cut = RedisConnectionError("the connection was closed")
                    each.future.set_result([cut] * len(each.commands))

    async def _take_turn(self, waiting: "list[_Waiting]") -> None:
        commands = [command for each in waiting for command in each.commands]
        words: list[Any] = [
            command if each.known else by_text(command)
            for each in waiting
            for command in each.commands
        ]
        words += confirmation(self._durability, commands, self._timeout)
        replies = await self._way.exchange(self._packer.pack_all(words), len(words))
        settled = iter(judged(self._durability, commands, replies))
        for each in waiting:
            mine = [next(settled) for _ in each.commands]
            if not each.future.done():  # its caller may have been cancelled
                each.future.set_result(mine)

    async def aclose(self) -> None:
        """Close the connection; calls that are under way are told so."""
        running, self._running = self._running, None
        await self._way.aclose()
        if running is not None and running.get_loop() is asyncio.get_running_loop():
            await asyncio.wait((running,))


class _Waiting:
    """Commands of one caller, and where their replies go."""

    __slots__ = ("commands", "future", "known")

    def __init__(
        self, commands: Sequence[Command[Any]], known: bool, future: "asyncio.Future[list[Any]]"
    ) -> None:
        self.commands = commands
        self.known = known
        self.future = future


def link_for(client: Any, durability: Durability) -> AsyncLink:
    """The way to the servers behind an asyncio client."""
    return AsyncLink(client) if durability == "async" else AsyncDurableLink(client, durability)
