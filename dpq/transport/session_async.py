"""The asyncio session: the twin of session.py, for the asyncio queue and its workers."""

import logging
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any, Generic, ParamSpec, TypeVar

from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import ResponseError
from redis.exceptions import TimeoutError as RedisTimeoutError

from dpq.model.errors import TaskNotFoundError
from dpq.protocol.command import Command, Operation, Steps, together
from dpq.protocol.durability import Durability
from dpq.transport.cluster import reachable, unspoiled_async
from dpq.transport.connections_async import AsyncConnections
from dpq.transport.endpoint_async import Shared
from dpq.transport.server_check import asks_for_save, unreachable, warn
from dpq.transport.session import NO_QUEUE, Q, SessionBase, makes_queue

log = logging.getLogger(__name__)

T = TypeVar("T")
A = ParamSpec("A")


class AsyncQueueSession(SessionBase, Generic[Q]):
    """Async `QueueSession`."""

    connections: AsyncConnections

    def __init__(
        self,
        client: Any,
        connections: AsyncConnections,
        operations: Q,
        *,
        durability: Durability,
        queue_name: str,
        agreed: Callable[[], Awaitable[None]],
    ) -> None:
        super().__init__(client, durability, queue_name)
        self.connections = connections
        self.operations = operations
        self._agreed = agreed
        self._opening = Shared(self.open)
        self._creating = Shared(partial(self.open, create=True))

    async def send(self, steps: Steps[T]) -> T:
        """Async `Session.send`."""
        operation = Operation(steps)
        return await self._finish(operation, operation.begin())

    async def _finish(self, operation: Operation[T], commands: Sequence[Command[Any]] | None) -> T:
        while commands is not None:
            commands = operation.go_on(await self.connections.call_all(commands))
        return operation.result

    async def run(self, verb: Callable[A, Steps[T]], *args: A.args, **named: A.kwargs) -> T:
        """Async `QueueSession.run`."""
        return await self.run_after(None, verb, *args, **named)

    async def run_after(
        self,
        first: Callable[[], Awaitable[object]] | None,
        verb: Callable[A, Steps[T]],
        *args: A.args,
        **named: A.kwargs,
    ) -> T:
        """Async `QueueSession.run_after`."""
        queue = self.operations
        partitions = queue.partitions
        operation = Operation(verb(*args, **named))
        commands = operation.begin()
        if first is not None:
            await first()
        if self.refusal:
            self.require_open()
        if queue.settings is None:
            await self.ready(create=makes_queue(commands))
        if queue.partitions is not partitions:
            operation = Operation(verb(*args, **named))
            commands = operation.begin()
        try:
            return await self._finish(operation, commands)
        except TaskNotFoundError as error:
            if queue.settings is None:
                error.add_note(NO_QUEUE)
            raise

    async def run_all(self, operations: Sequence[Steps[Any]]) -> list[Any]:
        """Async `QueueSession.run_all`."""
        return await self._run_in_step(operations, opens=True)

    async def send_all(self, operations: Sequence[Steps[Any]]) -> list[Any]:
        """Async `Session.send_all`."""
        return await self._run_in_step(operations, opens=False)

    async def _run_in_step(self, operations: Sequence[Steps[Any]], *, opens: bool) -> list[Any]:
        driver = together(operations)
        try:
            commands = next(driver)
            if opens:
                await self.ready()
            while True:
                commands = driver.send(await self.connections.call_all(commands))
        except StopIteration as end:
            results: list[Any] = end.value
            return results

    async def ready(self, *, create: bool = False) -> None:
        """Async `QueueSession.ready`; calls that ask for it at the same time share one."""
        if self.operations.settings is None:
            await (self._creating if create else self._opening).get()

    async def open(self, *, create: bool = False) -> None:
        """Async `QueueSession.open`."""
        if not self.checked:
            await self.check_server()
        self.operations.agree(await self.send(self.operations.open(create=create)))
        await self._agreed()

    async def check_server(self) -> None:
        """Async `Session.check_server`."""
        try:
            async with unspoiled_async(self.client):
                with reachable():
                    await self.connections.nodes.ready()
                    here = self.connections.nodes.aimed(self._conf)
                    info = await self.client.info(**here)
                    more = asks_for_save(info, self.client, self._durability, self.label)
                    save = await self._save_points(here) if more else None
            warn(info, save, self.label)
        except (RedisConnectionError, RedisTimeoutError) as error:
            raise type(error)(unreachable(self.label, error)) from error
        except ResponseError:
            log.debug("%s: the server does not say its version", self.label)
        self.checked = True

    async def _save_points(self, at: Any) -> str | None:
        try:
            return str((await self.client.config_get("save", **at)).get("save"))
        except ResponseError:  # forbidden, as by many providers
            return None

    async def close(self) -> None:
        """Close the connections."""
        await self.connections.aclose()
