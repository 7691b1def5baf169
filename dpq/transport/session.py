"""The one object that sends: operations of queues go to the servers behind one client.

The blocking queue, its dead letters, lease loops, workers and the scheduler send through a session,
and through nothing else. It knows how an operation is run, not what it does:

    session.run(operations.ack, task)   the arguments are checked, the queue is opened, all is sent
"""

import logging
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Generic, ParamSpec, Protocol, TypeVar

from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import ResponseError
from redis.exceptions import TimeoutError as RedisTimeoutError

from dpq.model.errors import ConfigurationError
from dpq.protocol.command import Command, Operation, Steps, Together, together
from dpq.protocol.durability import Durability
from dpq.protocol.keys import key_of
from dpq.transport.cluster import reachable, unspoiled
from dpq.transport.connections import Link
from dpq.transport.server_check import asks_for_save, unreachable, warn

log = logging.getLogger(__name__)

T = TypeVar("T")
A = ParamSpec("A")


class Openable(Protocol):
    """The operations of one queue, as far as a session knows them.

    Attributes:
        settings: What is stored of the queue; None until it is opened and there.
    """

    settings: dict[str, str] | None

    @property
    def partitions(self) -> Sequence[object]:
        """What operations go to; another object once the queue is known, or forgotten."""

    def open(self, *, create: bool = False) -> Steps[dict[str, str]]:
        """Read the settings of the queue, and with `create` make it be there."""

    def agree(self, settings: dict[str, str]) -> None:
        """Take over what `open` has read."""


Q = TypeVar("Q", bound=Openable)


class SessionBase:
    """What a blocking and an asyncio session have in common.

    Attributes:
        checked: The server has been looked at, or need not be.
        refusal: Why nothing can be sent any more; "" while it can.
    """

    connections: Any

    def __init__(self, client: Any, durability: Durability, queue_name: str) -> None:
        self.client = client
        self.checked = False
        self.refusal = ""
        self.opened_label = ""  # of a client that DPQ has opened
        self._durability = durability
        self._conf = key_of(queue_name, "conf")

    @property
    def label(self) -> str:
        """The server, as errors name it."""
        return self.opened_label or str(self.connections.nodes.label)

    def require_open(self) -> None:
        """Raise ConfigurationError when the client that was opened for this session is closed."""
        if self.refusal:
            raise ConfigurationError(self.refusal)


class Session(SessionBase):
    """Sends operations of any queues to the servers behind one client."""

    connections: Link

    def __init__(
        self,
        client: Any,
        connections: Link,
        *,
        durability: Durability = "async",
        queue_name: str = "any",
    ) -> None:
        """Begin a session; nothing is sent yet.

        Args:
            client: The client of redis-py.
            connections: To its servers, which may be shared.
            durability: What the server has to be able to confirm.
            queue_name: Of a cluster, the node is looked at which has this queue.
        """
        super().__init__(client, durability, queue_name)
        self.connections = connections

    def send(self, steps: Steps[T]) -> T:
        """Run an operation as it is: its queue is not opened before."""
        operation = Operation(steps)
        return self._finish(operation, operation.begin())

    def _finish(self, operation: Operation[T], commands: Sequence[Command[Any]] | None) -> T:
        while commands is not None:
            commands = operation.go_on(self.connections.call_all(commands))
        return operation.result

    def send_all(self, operations: Sequence[Steps[Any]]) -> list[Any]:
        """Run operations of any queues in step, over one round trip each.

        Returns:
            For each operation its result, or the exception that it ended with.
        """
        driver = together(operations)
        try:
            commands = next(driver)
        except StopIteration as end:
            results: list[Any] = end.value
            return results
        return self._rest(driver, self.connections.begin(commands))

    def _rest(self, driver: Together, receive: Callable[[], list[Any]]) -> list[Any]:
        """Run operations on to their ends, from the replies to what they have sent."""
        try:
            while True:
                receive = self.connections.begin(driver.send(receive()))
        except StopIteration as end:
            results: list[Any] = end.value
            return results

    def check_server(self) -> None:
        """Look at how the server is set up: it may be too old, or endanger tasks.

        Raises:
            ConfigurationError: It is too old.
            RedisError: It cannot be reached.
        """
        try:
            with unspoiled(self.client), reachable():
                here = self.connections.nodes.aimed(self._conf)
                info = self.client.info(**here)
                more = asks_for_save(info, self.client, self._durability, self.label)
                save = save_points(self.client, here) if more else None
            warn(info, save, self.label)
        except (RedisConnectionError, RedisTimeoutError) as error:
            raise type(error)(unreachable(self.label, error)) from error
        except ResponseError:
            log.debug("%s: the server does not say its version", self.label)
        self.checked = True

    def close(self) -> None:
        """Close the connections that nobody uses now."""
        self.connections.close()


class QueueSession(Session, Generic[Q]):
    """A session of one queue: opens it before its first operation.

    Attributes:
        operations: Those of the queue.
    """

    def __init__(
        self,
        client: Any,
        connections: Link,
        operations: Q,
        *,
        durability: Durability,
        queue_name: str,
        agreed: Callable[[], None],
    ) -> None:
        """Begin a session; `agreed` is called whenever the queue has been opened."""
        super().__init__(client, connections, durability=durability, queue_name=queue_name)
        self.operations = operations
        self._agreed = agreed

    def run(self, verb: Callable[A, Steps[T]], *args: A.args, **named: A.kwargs) -> T:
        """Run an operation of the queue, which is opened before; arguments are checked first."""
        return self.run_after(None, verb, *args, **named)

    def run_after(
        self,
        first: Callable[[], object] | None,
        verb: Callable[A, Steps[T]],
        *args: A.args,
        **named: A.kwargs,
    ) -> T:
        """Run an operation as `run`; `first` is called once its arguments are checked."""
        queue = self.operations
        partitions = queue.partitions
        operation = Operation(verb(*args, **named))
        commands = operation.begin()
        if first is not None:
            first()
        if self.refusal:
            self.require_open()
        if queue.settings is None:
            self.ready(create=makes_queue(commands))
        if queue.partitions is not partitions:  # it has turned out to be divided
            operation = Operation(verb(*args, **named))
            commands = operation.begin()
        return self._finish(operation, commands)

    def run_all(self, operations: Sequence[Steps[Any]]) -> list[Any]:
        """Run operations as `send_all`, once the queue is opened."""
        return self.begin_all(operations)()

    def begin_all(self, operations: Sequence[Steps[Any]]) -> Callable[[], list[Any]]:
        """Send the first commands of operations; what is returned does the rest of `run_all`."""
        driver = together(operations)
        try:
            commands = next(driver)
        except StopIteration as end:
            results: list[Any] = end.value
            return lambda: results
        self.ready()
        return partial(self._rest, driver, self.connections.begin(commands))

    def ready(self, *, create: bool = False) -> None:
        """Check the server, once; and agree with the queue on its settings, once it is there."""
        if self.operations.settings is None:
            self.open(create=create)

    def open(self, *, create: bool = False) -> None:
        """Agree with the queue on its settings, also if that was done before."""
        if not self.checked:
            self.check_server()
        self.operations.agree(self.send(self.operations.open(create=create)))
        self._agreed()


def makes_queue(commands: Sequence[Command[Any]] | None) -> bool:
    """Does an operation that begins with these commands make its queue? A push does."""
    return commands is not None and commands[0].script.name == "push"


def save_points(redis: Any, at: Any) -> str | None:
    """Read when the server writes an RDB file: "" for never, None when it does not say."""
    try:
        return str(redis.config_get("save", **at).get("save"))
    except ResponseError:  # forbidden, as by many providers
        return None
