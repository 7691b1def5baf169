"""The watches of a waiter: the time of its next look at each queue, and the markers it owns.

A fetcher and waits of a queue decide with them; `waiter` blocks at the server. A watch reads the
clock, and does no other I/O.
"""

import math
import time
from collections.abc import Sequence
from typing import Any, NamedTuple

from dpq.script.replies import Batch

RECHECK_SECONDS = 10.0
"""Seconds until a waiter looks again without a marker; the first time half of that. So a lost
wake-up delays a task at most so long. lua/lib/notice.lua has the same in ms."""

REPLY_SECONDS = 0.005
"""Seconds of a reply at most, as a rule: by the reply to its pop a watch is later than the server,
which may appoint it for the next moment already."""


class Marker(NamedTuple):
    """A marker that a waiter owns: its index, and when to look, ms of the server; 0 for now.

    `second`: another waiter is the first to look, and this one looks in case that one is dead.
    """

    number: int
    moment: float
    second: bool = False


class Watch:
    """The state of a waiter for a queue that it found empty at `now_ms`: when it looks again.

    It looks after `wait_ms` (None: another waiter does), `ahead` seconds sooner than at a moment of
    the server; at the latest after `recheck_ms`, or half of the usual time in a first wait.
    """

    def __init__(
        self,
        now_ms: float,
        wait_ms: float | None,
        recheck_ms: float | None = None,
        *,
        first: bool = False,
        ahead: float = 0.0,
        second: bool = False,
    ) -> None:
        self._looked = looked = time.monotonic()
        # The reply took time, so the watch never looks too early.
        self._offset = looked - now_ms / 1000
        self._ahead = ahead
        recheck = RECHECK_SECONDS / 2 if first else RECHECK_SECONDS
        if recheck_ms is not None:
            recheck = min(recheck, recheck_ms / 1000)
        self.look_at = looked + recheck  # without a marker, monotonic seconds
        self.moment: float | None = None  # that it watches for, ms of the server's clock
        self.second = False  # it watches for the moment as the second waiter
        self.called = False  # a marker said "look now"
        if wait_ms is not None and wait_ms < RECHECK_SECONDS * 1000:
            self.marker_received(now_ms + wait_ms, second)

    def hurry(self) -> None:
        """Look as early as in a first wait: the waiter does not block on all markers."""
        self.look_at = min(self.look_at, self._looked + RECHECK_SECONDS / 2)

    def marker_received(self, moment: float, second: bool = False) -> None:
        """Take in a marker: watch for its moment; for 0, look now.

        A first waiter keeps its moment: only an earlier one comes before it. A second waiter takes
        any, since the newest marker may name nobody else.
        """
        if moment == 0:
            self.called, self.look_at = True, -math.inf
            return
        own = self.moment
        earlier = own is None or (moment < own and not second) or self._has_come(own)
        if earlier or self.second:
            self.moment, self.second = moment, second
            self.look_at = min(self.look_at, moment / 1000 + self._offset - self._ahead)

    def _has_come(self, moment: float) -> bool:
        return moment / 1000 + self._offset - REPLY_SECONDS <= time.monotonic()

    @property
    def mine(self) -> str:
        """The moment as the script pop takes it; "0" for none."""
        return f"{self.moment:.3f}" if self.moment else "0"


def time_left(watches: Sequence[Watch], until: float) -> float:
    """Return the seconds until the first watch is to look, or the caller's patience ends."""
    return min(until, *(watch.look_at for watch in watches)) - time.monotonic()


def watches_after(
    batch: Batch[Any], before: Sequence[Watch] = (), ahead: float = 0.0
) -> list[Watch]:
    """Make the watch of a queue after a pop, as a list: empty if it may have more tasks."""
    if batch.tasks and batch.recheck_ms is None:
        return []
    named = (batch.now_ms, batch.next_event_ms, batch.recheck_ms)
    return [Watch(*named, first=not before, ahead=ahead, second=batch.second)]


def owned_markers(watches: Sequence[Watch]) -> list[Marker]:
    """List the markers that the watches took in, and have not looked for."""
    called = [Marker(number, 0) for number, watch in enumerate(watches) if watch.called]
    return called + [
        Marker(number, watch.moment, watch.second)
        for number, watch in enumerate(watches)
        if watch.moment is not None
    ]


def owned_of_queues(by_queue: Sequence[Sequence[Watch]]) -> list[Marker]:
    """List the markers that the watches of several queues own; a queue may have no watch."""
    return [
        marker._replace(number=number)
        for number, watches in enumerate(by_queue)
        for marker in owned_markers(watches)
    ]
