"""The wake-ups of a worker that finds no task: it waits for them at the server.

`Fetcher` calls it, from one thread at a time. It must not decide when the worker waits.
"""

import math
import time
from collections.abc import Iterable, Sequence
from typing import Any

from dpq.link.blocks import block_seconds
from dpq.link.waiter import Waiter, sleep
from dpq.link.watches import Marker, Watch, owned_markers, time_left


class _Patient(Waiter):
    """A waiter whose block outlasts each look of its thread. So an idle worker sends nothing."""

    def _block_seconds(self, left: float) -> float:
        return block_seconds(self._nodes, math.inf if self._nodes.direct else left)

    @property
    def waiting(self) -> bool:
        """True while all blocks are open: not after a marker or a failed connection."""
        return self._nodes.direct and all(block.until is not None for block in self._blocks)


class WakeUps:
    """The wake-ups of a worker: one waiter on the markers of all its queues.

    Attributes:
        watches: The watches of all queues; empty while the worker does not wait.
    """

    def __init__(self, connections: Any, markers: Sequence[str]) -> None:
        self.watches: list[Watch] = []
        self._connections = connections
        self._waiter = _Patient(connections, markers)

    def wait(self, seconds: float) -> bool:
        """Wait for a wake-up, at most so long; return True if it is time to ask the server."""
        sleep(self._waiter, self.watches, time.monotonic() + seconds)
        return not self._waiter.waiting or time_left(self.watches, math.inf) <= 0

    def stop(self, owed: Iterable[Marker] | None = None) -> None:
        """Stop waiting; pass on wake-ups, by default all that this worker has not looked for."""
        self._waiter.withdraw(owned_markers(self.watches) if owed is None else owed)
        self.watches = []

    def follow(self, markers: Sequence[str]) -> None:
        """Wait on these markers from now on, which may be the same."""
        if tuple(markers) != self._waiter.markers:
            self.close()
            self._waiter = _Patient(self._connections, markers)

    def close(self) -> None:
        """Stop waiting, and close the connections."""
        self.stop()
        self._waiter.close()
