"""The connections of a daemon, which asks many queues at once, and blocks on their markers."""

from collections.abc import Callable, Sequence
from typing import Any

from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import NoScriptError, RedisError
from redis.exceptions import TimeoutError as RedisTimeoutError

from dpq.link.blocks import MOST_BLOCKS
from dpq.link.cluster import MISSING, Node, refused
from dpq.link.connections import Connections
from dpq.link.waiter import Waiter
from dpq.link.watches import Marker
from dpq.script.command import Command

MOST_MARKERS = 4096
"""Markers that a daemon blocks on; it glances at the other queues every 5 s."""

MARKERS_OF_A_BLOCK = 256
"""Markers on one connection to a single server, which reads all of them for each block. So there
are at most 16 connections."""


class DaemonConnections(Connections):
    """Connections for many queues: if a server is away, one call per round trip is sent again.

    `on_noscript` is called when a server does not know a script.
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


class Listener(Waiter):
    """Blocks on markers for as long as a server allows; many markers on several connections.

    `owners` are the queues of the markers; None for the list of names. A marker that has woken the
    daemon goes to the end of the list, so that it cannot hide another one.
    """

    def __init__(
        self, connections: Connections, markers: Sequence[str], owners: Sequence[str | None]
    ) -> None:
        super().__init__(connections, markers)
        self.owners = owners
        nodes = connections.nodes
        if nodes.direct and not nodes.clustered and len(markers) > MARKERS_OF_A_BLOCK:
            size = max(MARKERS_OF_A_BLOCK, -(-len(markers) // MOST_BLOCKS))
            parts = [markers[at : at + size] for at in range(0, len(markers), size)]
            self._blocks = [type(self._asked)(nodes, part) for part in parts]
            self._asked = self._blocks[0]

    def wait(self, seconds: float, stop: object = None) -> Marker | None:
        marker = super().wait(seconds, stop)
        if marker is not None:
            self._asked.served(self.markers[marker.number])
        return marker
