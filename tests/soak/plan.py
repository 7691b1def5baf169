"""What all parts of a soak agree on: queues, limits, rates and times."""

import mmap
import struct
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dpq import Backoff, RateLimit

STRICT, LIMITED, STEPPED = "soak-strict", "soak-limited", "soak-stepped"
"""The order is judged in the first queue, limits in the second; the third has a clock that steps,
and a limit."""

GROUPED = "soak-grouped"
"""A queue with groups: order is judged, and limits within each group."""

QUIET = "soak-quiet"
"""A queue with few tasks, whose consumers wait for each: wake-ups and lateness are judged here."""

SHARES = {STRICT: 0.4, LIMITED: 0.2, STEPPED: 0.25, GROUPED: 0.15}
"""Of the pushes of the busy queues."""

QUEUES = (*SHARES, QUIET)

QUIET_GAP_S = 2.2
"""Seconds after most pushes into the quiet queue: nothing else wakes its consumers meanwhile."""

QUIET_DELAY_S = 0.7
"""Of a delayed push that is alone, too."""

POISON = 8
"""Of so many tasks of the quiet queue one fails whoever has it: its attempts are counted out."""

QUIET_ATTEMPTS = 3
"""Failures after which a task of the quiet queue is dead. In the other queues none dies of them."""

QUIET_TIMEOUT_S = 3.5
"""Seconds that the plain loop of the quiet queue waits in a pop. A lost wake-up costs up to that,
and in workers 5 s; far more than what is too late (judge.py)."""

BACKOFF = Backoff(base=0.3, factor=2, cap=2, jitter=0)
"""Without jitter, so that it is known when a failed task is due."""

BACKLOG = {STRICT: 150, LIMITED: 60, STEPPED: 100, GROUPED: 60}
"""Producers wait while so many tasks are live: deep enough for an order, soon drained."""

PRODUCERS = 2
CONFIRMED = "producer-1"
"""The one whose pushes wait for the replica: those that returned survive any failover."""

THREADS, TASKS = 2, 5
"""Handlers that run at once in a `Worker` and in an `AsyncWorker`; a plain loop is one more."""

QUEUE_LIMIT = RateLimit(30, 1, burst=4)
STEPPED_LIMIT = RateLimit(44, 1, burst=4)
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
        directory: Ledgers, logs and the stepping clock.
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
        if queue == QUIET:
            return 0.005
        too_long = 1.1 * (THREADS + TASKS + 1) / (self.rate * SHARES[queue])
        return too_long / 2 if queue != STRICT and self._tide() % 2 else too_long

    def groups(self, queue: str) -> dict[str, float]:
        """The groups of a queue, and their share of its pushes now."""
        if queue == LIMITED:
            return TIDES[self._tide() % len(TIDES)]
        return GROUP_SHARES if queue == GROUPED else {"": 1.0}

    def _tide(self) -> int:
        return int((time.time() - self.began) / TIDE_S)

    def clock(self) -> "SteppingClock":
        """The clock of the third queue."""
        return SteppingClock(self.directory / "clock")

    def settings(self, queue: str) -> dict[str, Any]:
        """The arguments of a queue object: nothing dies of faults, but in the quiet queue."""
        special: dict[str, dict[str, Any]] = {
            STEPPED: {"clock": self.clock()},
            QUIET: {"default_max_attempts": QUIET_ATTEMPTS},
        }
        return {
            "default_visibility": self.visibility,
            "default_max_attempts": 1_000_000,
            "backoff": BACKOFF,
            **special.get(queue, {}),
        }


class SteppingClock:
    """This machine's time and an offset, which all processes share through a file."""

    def __init__(self, path: Path) -> None:
        if not path.exists():
            path.write_bytes(bytes(8))
        with path.open("r+b") as file:
            self._offset = mmap.mmap(file.fileno(), 8)

    def __call__(self) -> int:
        return time.time_ns() // 1_000_000 + self.offset

    @property
    def offset(self) -> int:
        """ms that it is ahead."""
        return int(struct.unpack_from("<q", self._offset)[0])

    def step(self, ms: int) -> None:
        """Jump."""
        struct.pack_into("<q", self._offset, 0, self.offset + ms)
