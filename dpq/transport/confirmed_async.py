"""Asyncio connections for `durability`: a call returns once its changes are confirmed.

`AsyncDPQ` uses it. WAIT holds up its connection. So commands that need a confirmation have
connections of their own. They are sent in batches: the calls that come while one batch waits go
together in the next batch, with one WAIT behind them. The longer a confirmation takes, the more
calls share it. If a batch takes more than `LONGEST_ALONE`, the next one begins beside it, over
another connection.
"""

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import NoScriptError, RedisError

from dpq.model.interrupts import expected
from dpq.protocol.command import Command
from dpq.protocol.durability import Durability, Unconfirmed, promises, require_direct
from dpq.transport.cluster import Node, passed_on, refused
from dpq.transport.confirmed import (
    BY_CLIENT,
    TRIES,
    ConfirmedCommands,
    MixedPacker,
    SettingsWatch,
    WaitedInVainError,
    as_unconfirmed,
    by_text,
    timeout_of,
)
from dpq.transport.connections_async import CUT, AsyncConnections, _Endpoint
from dpq.transport.script_loading import load_instead_async, may_not_eval

MOST_TOGETHER = 1000
"""Calls in a batch: more would hold up the server's other clients."""

LONGEST_ALONE = 0.1
"""Seconds after which the next batch does not wait for the one before: its tasks have leases, which
run out. So if nothing is confirmed, there are 30 batches at once, each with a connection."""


class AsyncConfirmedConnections(AsyncConnections):
    """Async `ConfirmedConnections`."""

    def __init__(self, client: Any, durability: Durability) -> None:
        super().__init__(client)
        require_direct(durability, self.nodes.direct, client)
        self._durability = durability
        self._settings = SettingsWatch(durability)
        self._turns: dict[str, _Turns] = {}

    async def call_all(self, commands: Sequence[Command[Any]]) -> list[Any]:
        """Run commands, as `AsyncConnections.call_all` does."""
        asks = self._settings.asks(commands)
        replies = await super().call_all([*commands, *asks.values()])
        return self._settings.settle(commands, replies, asks)

    async def _exchange(self, node: Node, commands: Sequence[Command[Any]]) -> list[Any]:
        if not promises(commands):
            return await super()._exchange(node, commands)
        return await self._turns_of(node).exchange(commands, known=True)

    def _turns_of(self, node: Node) -> "_Turns":
        turns = self._turns.get(node.name)
        if turns is None:
            make_endpoint = partial(_Endpoint, self.nodes, node)
            turns = self._turns[node.name] = _Turns(
                make_endpoint, self._durability, timeout_of(node)
            )
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
            last = refusal
            for _ in range(TRIES):
                node = self.nodes.of(command.keys[0])
                if node is None or isinstance(last, WaitedInVainError):
                    break
                (last,) = await self._turns_of(node).exchange((command,), known=known)
                known = known and not isinstance(last, NoScriptError)
                if may_not_eval(last):
                    await load_instead_async(self._client)
                    known = True
                elif refused(last):
                    await self.nodes.lost_async(node)  # the slot is elsewhere
                elif not isinstance(last, (*CUT, NoScriptError)):
                    return last
        except RedisError as error:
            return error
        reply = await super()._settle(command, refusal)
        if isinstance(last, WaitedInVainError):
            return as_unconfirmed(last.unconfirmed, reply)
        return as_unconfirmed(Unconfirmed(None, self._durability, reason=BY_CLIENT), reply)

    async def aclose(self) -> None:
        """Close the connections."""
        for turns in self._turns.values():
            await turns.aclose()
        await super().aclose()


class _Turns:
    """The batches of calls that one node is to confirm."""

    def __init__(
        self, make_endpoint: Callable[[], _Endpoint], durability: Durability, timeout: float | None
    ) -> None:
        self._make_endpoint = make_endpoint
        self._durability = durability
        self._timeout = timeout
        self._packer = MixedPacker()
        self._idle: list[_Endpoint] = []
        self._waiting: list[_Waiting] = []
        self._beginning: asyncio.Task[None] | None = None
        self._under_way: dict[asyncio.Task[None], _Endpoint] = {}

    async def exchange(self, commands: Sequence[Command[Any]], *, known: bool) -> list[Any]:
        """Send commands in the next batch; return replies, some of which may be `Unconfirmed`.

        If the caller is cancelled, the other calls of the batch go on.
        """
        loop = asyncio.get_running_loop()
        waiting = _Waiting(commands, known, loop.create_future())
        beginning = self._beginning
        if beginning is None or beginning.done() or beginning.get_loop() is not loop:
            self._waiting = []
            self._beginning = loop.create_task(self._begin_turns(), name="dpq-confirmed")
        self._waiting.append(waiting)
        replies = await waiting.future
        if waiting.fault:
            raise waiting.fault
        return replies

    async def _begin_turns(self) -> None:
        waiting: list[_Waiting] = []
        try:
            while self._waiting:
                waiting, self._waiting = (
                    self._waiting[:MOST_TOGETHER],
                    self._waiting[MOST_TOGETHER:],
                )
                endpoint = self._idle.pop() if self._idle else self._make_endpoint()
                turn = asyncio.create_task(self._take_turn(endpoint, waiting), name="dpq-confirmed")
                self._under_way[turn] = endpoint
                turn.add_done_callback(self._end_turn)
                waiting = []  # they belong to the batch now
                await asyncio.wait((turn,), timeout=LONGEST_ALONE)
        except BaseException as error:
            if not _interrupted([*waiting, *self._waiting], error):
                raise
        finally:
            _tell_cut([*waiting, *self._waiting])

    def _end_turn(self, turn: "asyncio.Task[None]") -> None:
        self._idle.append(self._under_way.pop(turn))

    async def _take_turn(self, endpoint: _Endpoint, waiting: "list[_Waiting]") -> None:
        try:
            commands = [command for each in waiting for command in each.commands]
            words: list[Any] = [
                command if each.known else by_text(command)
                for each in waiting
                for command in each.commands
            ]
            confirmed = ConfirmedCommands(self._durability, commands, words, self._timeout)
            packed = self._packer.pack_all(confirmed.words)
            settled = iter(confirmed.results(await endpoint.exchange(packed, len(confirmed.words))))
            for each in waiting:
                mine = [next(settled) for _ in each.commands]
                if not each.future.done():  # its caller may have been cancelled
                    each.future.set_result(mine)
        except BaseException as error:
            if not _interrupted(waiting, error):
                raise
        finally:
            _tell_cut(waiting)

    async def aclose(self) -> None:
        """Close the connections; running calls get an error."""
        _tell_cut(self._waiting)
        self._waiting = []
        endpoints = [*self._idle, *self._under_way.values()]
        tasks = [task for task in (self._beginning, *self._under_way) if task]
        for endpoint in endpoints:
            await endpoint.aclose()
        loop = asyncio.get_running_loop()
        if mine := [task for task in tasks if task.get_loop() is loop]:
            await asyncio.wait(mine)


def _tell_cut(waiting: "list[_Waiting]") -> None:
    """Give an error to the calls that have no replies yet, so that none waits for ever."""
    for each in waiting:
        if not each.future.done():
            cut = RedisConnectionError("the connection was closed")
            each.future.set_result([cut] * len(each.commands))


def _interrupted(waiting: "list[_Waiting]", error: BaseException) -> bool:
    """Let interrupted calls raise the error of a signal handler; False if it is another error."""
    if not passed_on(error) or (isinstance(error, Exception) and expected(error)):
        return False
    for each in waiting:
        each.fault = error
    return bool(waiting)


class _Waiting:
    """The commands of one caller, and the future for their replies."""

    __slots__ = ("commands", "fault", "future", "known")

    def __init__(
        self, commands: Sequence[Command[Any]], known: bool, future: "asyncio.Future[list[Any]]"
    ) -> None:
        self.commands = commands
        self.known = known
        self.future = future
        self.fault: BaseException | None = None  # the error that interrupted its batch


def connections_for(client: Any, durability: Durability) -> AsyncConnections:
    """Make the connections to the servers behind an asyncio client."""
    return (
        AsyncConnections(client)
        if durability == "async"
        else AsyncConfirmedConnections(client, durability)
    )
