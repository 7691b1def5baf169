"""The markers that wake a daemon: it blocks on many of them."""

from collections.abc import Sequence

from dpq.link.blocks import MOST_BLOCKS, longest_block
from dpq.link.connections import Connections
from dpq.link.waiter import Waiter
from dpq.link.watches import Marker

MOST_MARKERS = 4096
"""Markers that a daemon blocks on; it glances at the other queues every 5 s."""

MARKERS_OF_A_BLOCK = 256
"""Markers on one connection to a single server, which reads all of them for each block. So there
are at most 16 connections."""


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

    def _block_seconds(self, left: float) -> float:
        return longest_block(self._nodes)
