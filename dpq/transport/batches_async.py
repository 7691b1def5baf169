"""Batches of asyncio calls that are to be confirmed: one WAIT behind all of them.

`connections_async` calls it. WAIT holds up its connection. So calls that need a confirmation have
connections of their own. The calls that come while one batch waits go together in the next batch.
The longer a confirmation takes, the more calls share it. If a batch takes longer than
`LONGEST_ALONE`, the next one begins beside it, over another connection.
"""

import asyncio
from collections.abc import Sequence
from typing import Any

from redis.exceptions import ConnectionError as RedisConnectionError

from dpq.model.interrupts import expected
from dpq.protocol.command import Command
from dpq.protocol.confirmation import Confirmation
from dpq.protocol.packing import pack_plain
from dpq.transport.cluster import MISSING, AsyncNodes, Node, passed_on
from dpq.transport.endpoint_async import AsyncEndpoint

MOST_TOGETHER = 1000
"""Calls in a batch: more would hold up the server's other clients."""

LONGEST_ALONE = 0.1
"""Seconds after which the next batch does not wait for the one before: its tasks have leases, which
run out. So if nothing is confirmed, there are 30 batches at once, each with a connection."""


class Batches:
    """The batches of one node.

    Args:
        confirmation: The confirmation that the calls wait for.
        nodes: The servers behind the client.
        node: The server that the batches go to.
    """

    def __init__(self, confirmation: Confirmation, nodes: AsyncNodes, node: Node) -> None:
        self._confirmation = confirmation
        self._nodes = nodes
        self._node = node
        self._idle: list[AsyncEndpoint] = []
        self._waiting: list[_Call] = []
        self._beginning: asyncio.Task[None] | None = None
        self._under_way: dict[asyncio.Task[None], AsyncEndpoint] = {}

    async def exchange(self, packed: bytes, commands: Sequence[Command[Any]]) -> list[Any]:
        """Send packed commands in the next batch; return their replies.

        If the caller is cancelled, the other calls of the batch go on.
        """
        loop = asyncio.get_running_loop()
        call = _Call(packed, commands, loop.create_future())
        beginning = self._beginning
        if beginning is None or beginning.done() or beginning.get_loop() is not loop:
            self._waiting = []
            self._beginning = loop.create_task(self._begin_batches(), name="dpq-confirmed")
        self._waiting.append(call)
        replies = await call.future
        if call.interrupt:
            raise call.interrupt
        return replies

    async def _begin_batches(self) -> None:
        """Begin one batch after another, as long as calls wait."""
        batch: list[_Call] = []
        try:
            while self._waiting:
                batch, self._waiting = (
                    self._waiting[:MOST_TOGETHER],
                    self._waiting[MOST_TOGETHER:],
                )
                endpoint = (
                    self._idle.pop() if self._idle else AsyncEndpoint(self._nodes, self._node)
                )
                running = asyncio.create_task(self._run(batch, endpoint), name="dpq-confirmed")
                self._under_way[running] = endpoint
                running.add_done_callback(self._end)
                batch = []  # from here on the task `running` ends these calls
                await asyncio.wait((running,), timeout=LONGEST_ALONE)
        except BaseException as error:
            if not _pass_on([*batch, *self._waiting], error):
                raise
        finally:
            self._end_without_replies([*batch, *self._waiting])

    def _end(self, batch: "asyncio.Task[None]") -> None:
        self._idle.append(self._under_way.pop(batch))

    async def _run(self, batch: "list[_Call]", endpoint: AsyncEndpoint) -> None:
        """Send the calls of a batch, and give each its replies."""
        try:
            commands = [command for call in batch for command in call.commands]
            exchange = self._confirmation.exchange(commands, self._node.timeout)
            scripts = b"".join([call.packed for call in batch])
            packed = pack_plain(exchange.before) + scripts + pack_plain(exchange.behind)
            replies = iter(exchange.read(await endpoint.exchange(packed, exchange.size)))
            for call in batch:
                call.end([next(replies) for _ in call.commands])
        except BaseException as error:
            if not _pass_on(batch, error):
                raise
        finally:
            self._end_without_replies(batch)

    def _end_without_replies(self, calls: "list[_Call]") -> None:
        """End the calls that have no replies yet, so that none waits for ever."""
        for call in calls:
            if not call.future.done():
                closed = RedisConnectionError("the connection was closed")
                call.end([closed if self._nodes.sends_once else MISSING] * len(call.commands))

    async def aclose(self) -> None:
        """Close the connections; calls that wait are sent again, or get an error."""
        self._end_without_replies(self._waiting)
        self._waiting = []
        endpoints = [*self._idle, *self._under_way.values()]
        tasks = [task for task in (self._beginning, *self._under_way) if task]
        for endpoint in endpoints:
            await endpoint.aclose()
        loop = asyncio.get_running_loop()
        if ours := [task for task in tasks if task.get_loop() is loop]:
            await asyncio.wait(ours)


class _Call:
    """The commands of one caller, and the future for their replies."""

    __slots__ = ("commands", "future", "interrupt", "packed")

    def __init__(
        self, packed: bytes, commands: Sequence[Command[Any]], future: "asyncio.Future[list[Any]]"
    ) -> None:
        self.packed = packed
        self.commands = commands
        self.future = future
        self.interrupt: BaseException | None = None  # the error that interrupted its batch

    def end(self, replies: list[Any]) -> None:
        """Give the replies to the caller, unless it was cancelled."""
        if not self.future.done():
            self.future.set_result(replies)


def _pass_on(calls: list[_Call], error: BaseException) -> bool:
    """Let calls raise the error of a signal handler; return False if it is another error."""
    if not passed_on(error) or (isinstance(error, Exception) and expected(error)):
        return False
    for call in calls:
        call.interrupt = error
    return bool(calls)
