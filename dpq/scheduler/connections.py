"""The connections of a daemon, which asks many queues in each round trip."""

from collections.abc import Callable, Sequence
from typing import Any

from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import NoScriptError, RedisError
from redis.exceptions import TimeoutError as RedisTimeoutError

from dpq.link.cluster import MISSING, Node, refused
from dpq.link.connections import Connections
from dpq.script.command import Command


class DaemonConnections(Connections):
    """Connections for many queues: if a server is away, one call per round trip is sent again.

    Args:
        client: The client.
        on_noscript: Called when a server does not know a script.
    """

    def __init__(self, client: Any, on_noscript: Callable[[], None]) -> None:
        super().__init__(client)
        self._on_noscript = on_noscript
        self._away: dict[Node | None, Any] = {}

    def call_all(self, commands: Sequence[Command[Any]]) -> list[Any]:
        self._away = {}
        return super().call_all(commands)

    def _again(self, command: Command[Any], reply: Any) -> Any:
        if isinstance(reply, NoScriptError):
            self._on_noscript()
            reply = MISSING  # the server knows the script now
        elif reply is not MISSING and not refused(reply):
            return reply
        try:
            node = self.nodes.of(command.keys[0])
        except RedisError as error:
            return error
        if node in self._away:
            return self._away[node]
        reply = super()._again(command, reply)
        if isinstance(reply, RedisConnectionError | RedisTimeoutError):
            self._away[node] = reply
        return reply
