# Made from wakeups_async.py by `make twins`: change that file, not this one.
"""The wake-ups of a worker that finds no task: it waits for them at the server.

The fetcher calls it. It must not decide when the worker waits.
"""

import math
import time
from collections.abc import Iterable, Sequence
from typing import Any

from dpq.link.blocks import block_seconds
from dpq.link.waiter import Waiter, sleep
from dpq.link.watches import Marker, Watch, owned_markers, time_left
from dpq.worker.change import Change

LOOK_SECONDS = 0.1
"""Seconds of a block of a client that is not Redis's own: perhaps no change ends it."""


class _Patient(Waiter):
    """A waiter whose block outlasts its wait. So an idle worker sends nothing."""

    def _block_seconds(self, left: float) -> float:
        if self._nodes.direct:
            return block_seconds(self._nodes, math.inf)
        return min(left, LOOK_SECONDS)


class WakeUps:
    """The wake-ups of a worker: one waiter on the markers of all its queues.

    `watches` are those of all queues; there are none while the worker does not wait.
    """

    def __init__(self, connections: Any, markers: Sequence[str], change: Change) -> None:
        self.watches: list[Watch] = []
        self._connections = connections
        self._waiter = _Patient(connections, markers)
        self._change = change

    def wait(self, until: float) -> bool:
        """Wait for a wake-up or a change; return True if it is time to ask the server."""
        with self._change.heard() as change:
            look = sleep(self._waiter, self.watches, until, change)
        return look and (time.monotonic() < until or time_left(self.watches, math.inf) <= 0)

    def stop(self, owed: Iterable[Marker] | None = None) -> None:
        """Stop waiting; pass on wake-ups, by default all that this worker has not looked for."""
        with self._change.others():
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
