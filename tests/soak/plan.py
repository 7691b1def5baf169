"""What all parts of a soak agree on: queues, limits, rates and times."""

import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dpq import Backoff, RateLimit

STRICT, LIMITED = "soak-strict", "soak-limited"
"""The order is judged in the first queue, limits in the second."""

GROUPED = "soak-grouped"
"""A queue with groups: order is judged, and limits within each group."""


SHARES = {STRICT: 0.5, LIMITED: 0.3, GROUPED: 0.2}
"""Of the pushes."""

QUEUES = tuple(SHARES)


BACKOFF = Backoff(base=0.3, factor=2, cap=2, jitter=0)
"""Without jitter, so that it is known when a failed task is due."""

BACKLOG = {STRICT: 150, LIMITED: 60, GROUPED: 60}
"""Producers wait while so many tasks are live: deep enough for an order, soon drained."""

PRODUCERS = 2
CONFIRMED = "producer-1"
"""The one whose pushes wait for the replica: those that returned survive any failover."""

THREADS, TASKS = 2, 5
"""Handlers that run at once in a `Worker` and in an `AsyncWorker`; a plain loop is one more."""

QUEUE_LIMIT = RateLimit(30, 1, burst=4)
GROUP_LIMITS = {
    "fast": [RateLimit(8, 1, burst=2)],
    "slow": [RateLimit(2, 1), RateLimit(16, 10, burst=4)],
}
"""Small bursts: a limit that grants a quarter too much is over in every window that it fills."""

CREW, CREW_SIZE = "crew", 2
"""A group with a concurrency."""

LANE, LANE_LIMIT = "lane", RateLimit(5, 1, burst=2)
NARROW, NARROW_SIZE = "narrow", 1
GROUP_SHARES = {"": 0.4, "free": 0.2, LANE: 0.2, NARROW: 0.2}
"""Groups of the queue with groups, and their share of its pushes. Two of them have limits."""

TIDE_S = 5
TIDES = (
    {"fast": 0.2, "slow": 0.01, CREW: 0.3, "": 0.49},
    {"fast": 0.6, "slow": 0.01, CREW: 0.1, "": 0.29},
    {"fast": 0.1, "slow": 0.15, CREW: 0.3, "": 0.45},
    {"fast": 0.1, "slow": 0.01, CREW: 0.1, "": 0.79},
)
"""Groups of the limited queue, and their share of the pushes, for so many seconds each. In every
other tide, handlers of queues with limits are quick: so each limit has to hold tasks back in a part
of each run, and in another part none does."""


def scope_of(queue: str, group: str | None = None) -> str:
    """What a limit is for, in words."""
    return f"group {group}" if group else queue


@dataclass(frozen=True)
class Plan:
    """What one run does.

    Attributes:
        url: Leads to the master.
        directory: Ledgers and logs.
        rate: Pushes a second, of all producers.
        visibility: Seconds of a lease.
        seed: Of all that is drawn by chance; what the machine does in which order, nobody can seed.
        began: When the first tide has begun, seconds of this machine's clock.
    """

    url: str
    directory: Path
    rate: float
    visibility: float
    seed: int
    began: float = field(default_factory=time.time)

    @property
    def ledgers(self) -> Path:
        """The directory of the ledgers."""
        return self.directory / "ledgers"

    def work_seconds(self, queue: str) -> float:
        """What a handler takes on average now.

        That is a little too long for the pushes to be kept up with; or half of it, for a tide.
        """
        too_long = 1.1 * (THREADS + TASKS + 1) / (self.rate * SHARES[queue])
        return too_long / 2 if queue != STRICT and self._tide() % 2 else too_long

    def groups(self, queue: str) -> dict[str, float]:
        """The groups of a queue, and their share of its pushes now."""
        if queue == LIMITED:
            return TIDES[self._tide() % len(TIDES)]
        return GROUP_SHARES if queue == GROUPED else {"": 1.0}

    def _tide(self) -> int:
        return int((time.time() - self.began) / TIDE_S)

    def settings(self, queue: str) -> dict[str, Any]:
        """The arguments of a queue object: nothing dies of faults."""
        return {
            "default_visibility": self.visibility,
            "default_max_attempts": 1_000_000,
            "backoff": BACKOFF,
        }
