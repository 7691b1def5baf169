"""The sessions: when a queue is opened, what is sent for an operation, and in which order."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from dpq import ConfigurationError, Push
from dpq.operations.description import Description
from dpq.operations.queue import QueueOperations
from dpq.protocol.command import Command
from dpq.protocol.keys import STORAGE_FORMAT
from dpq.transport.session import QueueSession
from dpq.transport.session_async import AsyncQueueSession


class Server:
    """Replies as a server does without this queue; notes what it is asked.

    Attributes:
        sent: The scripts of each exchange.
        stored: The settings of the queue.
    """

    def __init__(self) -> None:
        self.sent: list[list[str]] = []
        self.stored: list[bytes] = []

    def reply(self, command: Command[Any]) -> Any:
        if command.script.name == "configure":
            if command.args[2] and not self.stored:
                self.stored = [b"format", STORAGE_FORMAT.encode()]
            return self.stored
        return {"push_plain": [0], "stats": [0] * 100, "extend": [7]}.get(command.script.name, 1)

    def call_all(self, commands: Sequence[Command[Any]]) -> list[Any]:
        self.sent.append([command.script.name for command in commands])
        return [self.reply(command) for command in commands]


class AsyncServer(Server):
    async def call_all(self, commands: Sequence[Command[Any]]) -> list[Any]:  # type: ignore[override]
        return super().call_all(commands)


Run = Callable[..., Any]


@pytest.fixture(params=["blocking", "asyncio"])
def session_of(request: pytest.FixtureRequest) -> Callable[..., tuple[Run, list[str], Any]]:
    """Make a session of an unknown queue on a server: how it runs, what happens, and itself."""

    def make(server: Server, operations: QueueOperations[Any]) -> tuple[Run, Any]:
        names: dict[str, Any] = {"durability": "async", "queue_name": "name"}
        if request.param == "blocking":
            fake: Any = server
            blocking = QueueSession(None, fake, operations, **names)
            blocking.checked = True
            return blocking.run, blocking

        server.__class__ = AsyncServer
        fake = server
        session = AsyncQueueSession(None, fake, operations, **names)
        session.checked = True
        return lambda *args: asyncio.run(session.run(*args)), session

    return make


def test_a_first_push_takes_three_exchanges(
    operations: QueueOperations[Any], session_of: Any
) -> None:
    """The settings, the name in the registry, the task; and from then on one."""
    server = Server()
    run, _ = session_of(server, operations)
    run(operations.push, Push(1))
    assert server.sent == [["configure"], ["register"], ["push_plain"]]
    run(operations.push, Push(2))
    assert server.sent[3:] == [["push_plain"]]


def test_a_lease_is_let_go_once_the_arguments_are_checked(
    description: Description[Any], operations: QueueOperations[Any]
) -> None:
    """Not when they are wrong; and before anything is sent."""
    server, events = Server(), list[str]()
    fake: Any = server
    session = QueueSession(None, fake, operations, durability="async", queue_name="name")
    session.checked = True

    def let_go() -> None:
        events.append(f"let go after {len(server.sent)} exchanges")

    with pytest.raises(ConfigurationError):
        session.run_after(let_go, operations.pause, -1)
    assert events == []
    session.run_after(let_go, operations.pause, 1)
    assert events == ["let go after 0 exchanges"]
