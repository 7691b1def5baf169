"""What all parts of a soak agree on: queues, limits, rates and times."""

import mmap
import struct
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dpq import RateLimit

STRICT, LIMITED, STEPPED = "soak-strict", "soak-limited", "soak-stepped"
"""The order is judged in the first queue, limits in the second; the third has a clock that steps,
and a limit."""

SHARES = {STRICT: 0.5, LIMITED: 0.2, STEPPED: 0.3}
"""Of all pushes."""

BACKLOG = {STRICT: 150, LIMITED: 60, STEPPED: 100}
"""Producers wait while so many tasks are live: deep enough for an order, soon drained."""

PRODUCERS = 2
CONFIRMED = "producer-1"
"""The one whose pushes wait for the replica: those that returned survive any failover."""

THREADS, TASKS = 2, 5
"""Handlers that run at once in a `Worker` and in an `AsyncWorker`; a plain loop is one more."""

QUEUE_LIMIT = RateLimit(80, 1, burst=10)
STEPPED_LIMIT = RateLimit(150, 1, burst=15)
GROUP_LIMITS = {
    "fast": [RateLimit(20, 1, burst=5)],
    "slow": [RateLimit(4, 1), RateLimit(20, 10, burst=2)],
}
CREW, CREW_SIZE = "crew", 2
"""A group with a concurrency."""

GROUPS = {"fast": 0.3, "slow": 0.03, CREW: 0.3, "": 0.37}
"""Groups of the limited queue, and their share of the pushes."""


@dataclass(frozen=True)
class Plan:
    """What one run does.

    Attributes:
        url: Leads to the master.
        directory: Ledgers, logs and the stepping clock.
        rate: Pushes a second, of all producers.
        visibility: Seconds of a lease.
        seed: Of all that is drawn by chance; what the machine does in which order, nobody can seed.
    """

    url: str
    directory: Path
    rate: float
    visibility: float
    seed: int

    @property
    def ledgers(self) -> Path:
        """The directory of the ledgers."""
        return self.directory / "ledgers"

    def work_seconds(self, queue: str) -> float:
        """What a handler takes on average: a little too long for the pushes to be kept up with."""
        return 1.1 * (THREADS + TASKS + 1) / (self.rate * SHARES[queue])

    def clock(self) -> "SteppingClock":
        """The clock of the third queue."""
        return SteppingClock(self.directory / "clock")

    def settings(self, queue: str) -> dict[str, Any]:
        """The arguments of a queue object: nothing dies of faults."""
        clock = {"clock": self.clock()} if queue == STEPPED else {}
        return {
            "default_visibility": self.visibility,
            "default_max_attempts": 1_000_000,
            **clock,
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
