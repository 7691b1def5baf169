"""The rows that a measurement returns: of throughput, of latency, and of memory."""

from collections.abc import Sequence
from statistics import median
from typing import NamedTuple

from dpq.bench.distance import percentile


class Throughput(NamedTuple):
    """Tasks per second, beside the raw commands that do the least of the same.

    Attributes:
        measure: The calls of DPQ.
        per_second: Tasks per second, the median of all rounds.
        least: The slowest round.
        most: The fastest round.
        raw: The raw commands.
        raw_per_second: Tasks per second with the raw commands, the median of all rounds.
        ratio: The median ratio of a round: 0.5 is half as fast as the raw commands.
        rounds: How many rounds there were.
    """

    measure: str
    per_second: float
    least: float
    most: float
    raw: str
    raw_per_second: float
    ratio: float
    rounds: int


class Latency(NamedTuple):
    """The time that a call takes, in ms.

    Attributes:
        measure: The call.
        p50: Milliseconds that half of the calls took at most.
        p95: Milliseconds that 95 of 100 calls took at most.
        p99: Milliseconds that 99 of 100 calls took at most.
        ratio: Its p50, in times of the p50 of a PING in the same run.
        calls: How many calls were measured.
    """

    measure: str
    p50: float
    p95: float
    p99: float
    ratio: float
    calls: int


class Memory(NamedTuple):
    """The bytes of the server's memory that a stored task takes.

    Attributes:
        measure: What is stored.
        bytes_per_task: Bytes, with the payload and all that the server keeps for it.
        raw: What the raw commands store: a member of a sorted set, and the payload in a hash.
        raw_bytes_per_task: Bytes of that.
        ratio: How many times as much a task takes.
        tasks: How many tasks were stored.
    """

    measure: str
    bytes_per_task: float
    raw: str
    raw_bytes_per_task: float
    ratio: float
    tasks: int


class Round(NamedTuple):
    """One round of two sides: the seconds that each took, and the tasks that each handled."""

    ours: float
    tasks: int
    raw: float
    raw_tasks: int

    @property
    def per_second(self) -> float:
        """Tasks per second of DPQ's side."""
        return self.tasks / self.ours

    @property
    def raw_per_second(self) -> float:
        """Tasks per second of the raw side."""
        return self.raw_tasks / self.raw


def throughput(measure: str, raw: str, rounds: Sequence[Round]) -> Throughput:
    """Sum up rounds. The first one warms up, so it does not count if there are others."""
    counted = rounds[1:] or rounds
    speeds = [each.per_second for each in counted]
    return Throughput(
        measure=measure,
        per_second=median(speeds),
        least=min(speeds),
        most=max(speeds),
        raw=raw,
        raw_per_second=median(each.raw_per_second for each in counted),
        ratio=median(each.per_second / each.raw_per_second for each in counted),
        rounds=len(counted),
    )


def latency(measure: str, seconds: Sequence[float], ping_p50_ms: float) -> Latency:
    """Sum up the times of calls."""
    taken = [1000 * each for each in seconds]
    p50, p95, p99 = (percentile(taken, share) for share in (0.5, 0.95, 0.99))
    return Latency(measure, p50, p95, p99, p50 / ping_p50_ms, len(taken))
