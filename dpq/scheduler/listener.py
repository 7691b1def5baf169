"""The markers that wake a daemon: it blocks on many of them, but not too often."""

from collections.abc import Sequence

from redis.exceptions import ResponseError

from dpq.link.asking import ask
from dpq.link.blocks import MOST_BLOCKS, longest_block
from dpq.link.connections import Connections
from dpq.link.waiter import Waiter
from dpq.link.watches import Marker

MOST_MARKERS = 4096
"""Markers that a daemon blocks on; it glances at the other queues every 5 s."""

MARKERS_OF_A_BLOCK = 256
"""Markers on one connection to a single server, which reads all of them for each block. So there
are at most 16 connections."""

WAKES_PER_SECOND = 100
"""Wake-ups by markers per second, in the long run; after a quiet second, as many at once."""

FLOOD_SECONDS = 0.1
"""Seconds; if a marker comes twice within this time, the daemon empties its key."""


class Listener(Waiter):
    """Blocks on markers for as long as a server allows; many markers on several connections.

    A marker that has woken it goes to the end of the list, so that it cannot hide another one.

    Attributes:
        owners: The queue of each marker; None for the list of names.
    """

    owners: list[str | None]

    def __init__(self, connections: Connections, markers: Sequence[str]) -> None:
        super().__init__(connections, markers)
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

    def broken(self) -> list[str]:
        """Find the keys of another type among the keys of the refused block."""
        found = []
        for key in self._asked.markers:
            try:
                ask(self._nodes.client, "ZCARD", key)
            except ResponseError:
                found.append(key)
        return found

    def _block_seconds(self, left: float) -> float:
        return longest_block(self._nodes)


class Pace:
    """The limit of wake-ups by markers: for each marker, and for all together."""

    def __init__(self) -> None:
        self._last: dict[str, float] = {}
        self._credit = float(WAKES_PER_SECOND)
        self._at = 0.0

    def again(self, key: str, now: float) -> bool:
        """Return True if this marker has come within `FLOOD_SECONDS` before."""
        last = self._last.get(key, 0.0)
        if len(self._last) > MOST_MARKERS:
            self._last.clear()
        self._last[key] = now
        return now < last + FLOOD_SECONDS

    def wait_seconds(self, now: float) -> float:
        """Take one wake-up; return the seconds until the next is allowed."""
        grown = (now - self._at) * WAKES_PER_SECOND
        self._credit = min(WAKES_PER_SECOND, self._credit + grown) - 1
        self._at = now
        return max(0.0, -self._credit / WAKES_PER_SECOND)
