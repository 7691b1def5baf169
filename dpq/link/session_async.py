"""The session: the one object that runs operations of queues on the servers behind one client.

It knows how to run an operation, and must not know what it does. `run` checks the arguments, opens
the queue, and sends the commands: `await session.run(operations.ack, task)`.
"""

import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Any, Generic, ParamSpec, Protocol, TypeVar

from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import ResponseError
from redis.exceptions import TimeoutError as RedisTimeoutError

from dpq.link.connections_async import AsyncConnections
from dpq.link.internals import read_info
from dpq.link.server_check import is_new, needs_save, read_setting, unreachable, warn
from dpq.link.shared_async import Shared
from dpq.model.errors import ConfigurationError, TaskNotFoundError
from dpq.script.command import Operation, Steps, together
from dpq.script.keys import key_of

log = logging.getLogger(__name__)

T = TypeVar("T")
A = ParamSpec("A")

NO_QUEUE = "there is no such queue: the first push makes it"
"""The text added to the error of a missing task, if nothing of its queue is stored."""

MAKERS = ("push", "push_plain", "acquire", "seal_batch")
"""The scripts that make a queue."""


class Openable(Protocol):
    """The operations of a queue, as a session knows them.

    `settings` is None until it is open; `conf` is the key that has them.
    """

    settings: dict[str, str] | None
    conf: str

    def open(self, *, create: bool = False) -> Steps[None]:
        """Read the settings of the queue; with `create`, create it."""


Q = TypeVar("Q", bound=Openable)


class AsyncSession:
    """Sends operations of any queues to the servers behind one client."""

    def __init__(self, connections: AsyncConnections, conf: str = key_of("any", "conf")) -> None:
        """Begin a session; nothing is sent yet. The server that holds `conf` is checked."""
        self.connections = connections
        self.checked = False  # the server was checked, or needs no check
        self.refusal = ""  # why nothing can be sent any more
        self.opened_label = ""  # of a client that DPQ has opened
        self._conf = conf

    @property
    def label(self) -> str:
        """The name of the server in errors."""
        return self.opened_label or str(self.connections.nodes.label)

    def require_open(self) -> None:
        """Raise ConfigurationError when the client that was opened for this session is closed."""
        if self.refusal:
            raise ConfigurationError(self.refusal)

    async def send(self, steps: Steps[T]) -> T:
        """Run an operation without opening its queue before."""
        return await self._finish(Operation(steps))

    async def _finish(self, operation: Operation[T]) -> T:
        while operation.commands is not None:
            operation.go_on(await self.connections.call_all(operation.commands))
        return operation.result

    async def send_all(self, operations: Sequence[Steps[Any]]) -> list[Any]:
        """Run operations of any queues in step: the next commands of all share one round trip."""
        driver = together(operations)
        try:
            commands = next(driver)
            while True:
                commands = driver.send(await self.connections.call_all(commands))
        except StopIteration as end:
            results: list[Any] = end.value
            return results

    async def check_server(self) -> None:
        """Check the server: refuse one that is too old, warn of settings that endanger tasks."""
        try:
            info = await self.info()
            if is_new(info, self.connections.durability, self.label):
                warn(info, await self.save_points(info), self.label)
        except (RedisConnectionError, RedisTimeoutError) as error:
            raise type(error)(unreachable(self.label, error)) from error
        except ResponseError:
            log.debug("%s: the server does not say its version", self.label)
        self.checked = True

    async def info(self) -> dict[str, Any]:
        """Read what the server of the queue says of itself."""
        return read_info(await self._ask_server("INFO"))

    async def save_points(self, info: Mapping[str, Any]) -> str | None:
        """Read `save`, if tasks depend on it: "" is no RDB files, None that it may not be read."""
        if not needs_save(info, self.connections.nodes.client):
            return None
        try:
            return read_setting(await self._ask_server("CONFIG", "GET", "save"))
        except ResponseError:  # many providers forbid CONFIG GET
            return None

    async def _ask_server(self, *command: str) -> Any:
        nodes = self.connections.nodes
        await nodes.ready()
        return await self.connections.tell(nodes.home(self._conf), *command)

    async def close(self) -> None:
        """Close the connections that no call uses now."""
        await self.connections.aclose()


class AsyncQueueSession(AsyncSession, Generic[Q]):
    """A session of one queue: opens the queue before its first operation."""

    def __init__(self, connections: AsyncConnections, operations: Q) -> None:
        """Begin a session; nothing is sent yet."""
        super().__init__(connections, operations.conf)
        self.operations = operations
        self._opening = Shared(self.open)
        self._creating = Shared(partial(self.open, create=True))

    async def run(self, verb: Callable[A, Steps[T]], *args: A.args, **named: A.kwargs) -> T:
        """Run an operation: check its arguments, open the queue, send the commands."""
        operation = Operation(verb(*args, **named))
        if self.operations.settings is None or self.refusal:
            return await self._run_first(operation)
        while operation.commands is not None:
            operation.go_on(await self.connections.call_all(operation.commands))
        return operation.result

    async def run_after(
        self,
        first: Callable[[], Awaitable[object]],
        verb: Callable[A, Steps[T]],
        *args: A.args,
        **named: A.kwargs,
    ) -> T:
        """Run an operation as `run` does; call `first` once its arguments are checked."""
        operation = Operation(verb(*args, **named))
        await first()
        if self.operations.settings is None or self.refusal:
            return await self._run_first(operation)
        return await self._finish(operation)

    async def _run_first(self, operation: Operation[T]) -> T:
        """Run an operation that is perhaps the first one of its queue."""
        self.require_open()
        commands = operation.commands or ()
        await self.ready(create=any(each.script.name in MAKERS for each in commands))
        try:
            return await self._finish(operation)
        except TaskNotFoundError as error:
            if self.operations.settings is None:
                error.add_note(NO_QUEUE)
            raise

    async def run_all(self, operations: Sequence[Steps[Any]]) -> list[Any]:
        """Run operations as `send_all` does, once the queue is opened."""
        await self.ready()
        return await self.send_all(operations)

    async def ready(self, *, create: bool = False) -> None:
        """Open the queue, unless its settings are known."""
        if self.operations.settings is None:
            await (self._creating if create else self._opening).get()

    async def open(self, *, create: bool = False) -> None:
        """Check the server, once; then read the queue's settings, also if they are known."""
        if not self.checked:
            await self.check_server()
        await self.send(self.operations.open(create=create))
