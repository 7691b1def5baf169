"""The memory of a queue: times of tasks, slots of its history, events. No I/O."""

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from datetime import datetime

from pydantic import BaseModel, ConfigDict

__all__ = ["Event", "Slot", "Times"]

BOUNDS: tuple[float, ...] = tuple(
    lead * 10**decade / 1000 for decade in range(9) for lead in (1, 2.5, 5)
)
"""Upper bounds of the buckets of times, seconds, 1 ms to 5.8 days; one more bucket has the rest.
Source: lua/lib/times.lua."""


class Times(BaseModel):
    """The time that tasks have waited, or run: counts in buckets, and percentiles.

    A percentile is read off its bucket, between whose bounds it may be anywhere: it is exact to a
    factor of 2.5. What is beyond the last bound counts as that.

    Attributes:
        count: Tasks.
        p50: Seconds that half of them did not exceed.
        p95: Seconds that 95 of 100 did not exceed.
        p99: Seconds that 99 of 100 did not exceed.
        buckets: For each upper bound, in seconds, how many tasks were at or below it.
    """

    model_config = ConfigDict(frozen=True)

    count: int
    p50: float
    p95: float
    p99: float
    buckets: tuple[tuple[float, int], ...]

    @classmethod
    def of(cls, counts: Mapping[int, int]) -> "Times | None":
        """Make it of the counts of single buckets, by their numbers; None if all are empty."""
        total, sums = 0, []
        for number in range(len(BOUNDS)):
            total += counts.get(number, 0)
            sums.append(total)
        count = total + counts.get(len(BOUNDS), 0)
        if not count:
            return None
        p50, p95, p99 = (_percentile(sums, count * share) for share in (0.5, 0.95, 0.99))
        buckets = tuple(zip(BOUNDS, sums, strict=True))
        return cls(count=count, p50=p50, p95=p95, p99=p99, buckets=buckets)

    def counts(self) -> dict[int, int]:
        """Return the counts of single buckets, by their numbers."""
        sums = [0, *(count for _, count in self.buckets), self.count]
        return {number: sums[number + 1] - sums[number] for number in range(len(sums) - 1)}

    def since(self, earlier: "Times | None") -> "Times | None":
        """Return the times that were added after an earlier look; None if there are none."""
        before = earlier.counts() if earlier else {}
        added = {number: count - before.get(number, 0) for number, count in self.counts().items()}
        return Times.of(added if min(added.values()) >= 0 else self.counts())  # else: made anew


def _percentile(sums: Sequence[int], rank: float) -> float:
    number = bisect_left(sums, rank)
    if number == len(sums):
        return BOUNDS[-1]
    below = sums[number - 1] if number else 0
    lower = BOUNDS[number - 1] if number else 0.0
    return lower + (BOUNDS[number] - lower) * (rank - below) / (sums[number] - below)


def joined(found: Sequence[Times | None]) -> Times | None:
    """Add up the times of several partitions."""
    sums: dict[int, int] = {}
    for times in found:
        for number, count in times.counts().items() if times else ():
            sums[number] = sums.get(number, 0) + count
    return Times.of(sums)


class Slot(BaseModel):
    """The counts of a queue at one moment of its history.

    Totals are those of the queue since it began, so a slot that is missing costs resolution and
    loses no count.

    Attributes:
        at: The moment.
        seconds: The length of its slot: 60, or 900.
        pushed: Total of tasks that were added.
        deliveries: Total of deliveries.
        acked: Total of finished tasks.
        failed: Total of calls of `fail`.
        deferred: Total of deliveries given back by `set_visibility` or `rate_limited`.
        rate_limited: Total of deliveries that met a 429.
        lease_expired: Total of leases that ran out.
        buried: Total of tasks that became dead letters.
        replayed: Total of dead tasks made live again.
        dropped: Total of dead letters removed by the limits on their number and age.
        ready: Tasks that could be popped (of each group, only the first).
        delayed: Tasks that were not due yet.
        waiting: Tasks behind the first of their group, or in a closed group.
        held: Tasks under a lease.
        dead: Dead letters.
        oldest_due_seconds: Seconds since the oldest ready task became due, or None.
        closed_groups: Groups that were closed.
        workers: Workers that had sent a heartbeat in the last minute.
        wait: How long tasks had waited for their first delivery, since the queue began.
        run: How long deliveries had run until their ack, fail or bury, since the queue began.
    """

    model_config = ConfigDict(frozen=True)

    at: datetime
    seconds: int
    pushed: int = 0
    deliveries: int = 0
    acked: int = 0
    failed: int = 0
    deferred: int = 0
    rate_limited: int = 0
    lease_expired: int = 0
    buried: int = 0
    replayed: int = 0
    dropped: int = 0
    ready: int = 0
    delayed: int = 0
    waiting: int = 0
    held: int = 0
    dead: int = 0
    oldest_due_seconds: float | None = None
    closed_groups: int = 0
    workers: int = 0
    wait: Times | None = None
    run: Times | None = None


class Event(BaseModel):
    """Something that people want to see: a 429, a closing, a death, a limit that was set.

    Attributes:
        id: Its place in the stream; `events(after=...)` goes on behind it.
        at: When it happened.
        kind: `rate_limited`, `learned`, `closed`, `opened`, `dead`, `paused`, `resumed`,
            `limit_set`, or `by_hand` (a purge, a replay); of a trail more, see `DPQ.trail`.
        group: The group; "" for the whole queue, or none.
        member: The member of the group's pool, or "".
        task_id: The task, or "".
        detail: More about it, in a few words.
    """

    model_config = ConfigDict(frozen=True)

    id: str
    at: datetime
    kind: str
    group: str
    member: str
    task_id: str
    detail: str
