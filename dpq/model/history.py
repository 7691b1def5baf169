"""The memory of a queue: times of tasks, slots of its history, events. No I/O."""

from bisect import bisect_left
from collections.abc import Iterable
from datetime import datetime
from itertools import accumulate, pairwise
from typing import NamedTuple

from pydantic import Field, computed_field

from dpq.model.task_data import Frozen

BOUNDS: tuple[float, ...] = tuple(
    lead * 10**decade / 1000 for decade in range(9) for lead in (1, 2.5, 5)
)
"""Upper bounds of the buckets of times, seconds, 1 ms to 5.8 days; one more bucket has the rest.
Source: lua/lib/times.lua."""

OTHER_NAMES = {"invisible": "held", "popped": "deliveries", "expired_leases": "lease_expired"}
"""The names that a `Slot` and metrics have for what `QueueStats` calls otherwise."""


class Times(Frozen):
    """The time that tasks have waited, or run: counts in buckets, and percentiles.

    A percentile is read off its bucket: it is exact to a factor of 2.5. `sums` has how many of the
    `count` tasks were at or below each of `BOUNDS`.
    """

    count: int
    sums: tuple[int, ...] = Field(exclude=True, repr=False)

    @computed_field  # type: ignore[prop-decorator]
    @property
    def p50(self) -> float:
        """Seconds that half of the tasks did not exceed."""
        return self._percentile(0.5)

    @computed_field  # type: ignore[prop-decorator]
    @property
    def p95(self) -> float:
        """Seconds that 95 of 100 tasks did not exceed."""
        return self._percentile(0.95)

    @computed_field  # type: ignore[prop-decorator]
    @property
    def p99(self) -> float:
        """Seconds that 99 of 100 tasks did not exceed."""
        return self._percentile(0.99)

    @computed_field(repr=False)  # type: ignore[prop-decorator]
    @property
    def buckets(self) -> tuple[tuple[float, int], ...]:
        """For each upper bound, in seconds, how many tasks were at or below it."""
        return tuple(zip(BOUNDS, self.sums, strict=True))

    def _percentile(self, share: float) -> float:
        rank = self.count * share
        number = bisect_left(self.sums, rank)
        if number == len(BOUNDS):
            return BOUNDS[-1]
        lower, below = (BOUNDS[number - 1], self.sums[number - 1]) if number else (0.0, 0)
        return lower + (BOUNDS[number] - lower) * (rank - below) / (self.sums[number] - below)

    @classmethod
    def of(cls, counts: Iterable[int]) -> "Times | None":
        """Make it of the counts of single buckets, one more than `BOUNDS`; None if all are 0."""
        sums = list(accumulate(counts))
        count = sums.pop()
        if not count:
            return None
        return cls(count=count, sums=tuple(sums))

    def counts(self) -> list[int]:
        """Return the counts of single buckets."""
        return [upper - lower for lower, upper in pairwise((0, *self.sums, self.count))]

    def since(self, earlier: "Times | None") -> "Times | None":
        """Return the times that were added after an earlier look; None if there are none."""
        if earlier is None:
            return self
        pairs = zip(self.counts(), earlier.counts(), strict=True)
        added = [count - before for count, before in pairs]
        return Times.of(added) if min(added) >= 0 else self  # else the ring was made anew


class Counts(Frozen):
    """The counts that `QueueStats`, which describes them, and `Slot` share."""

    ready: int = 0
    delayed: int = 0
    waiting: int = 0
    dead: int = 0
    pushed: int = 0
    acked: int = 0
    failed: int = 0
    deferred: int = 0
    rate_limited: int = 0
    rate_limited_403: int = 0
    rate_limited_503: int = 0
    rate_limited_529: int = 0
    rate_limited_other: int = 0
    buried: int = 0
    buried_attempts_spent: int = 0
    buried_lease_expired: int = 0
    buried_lapses_spent: int = 0
    buried_expired: int = 0
    buried_payload_missing: int = 0
    replayed: int = 0
    dropped: int = 0
    wait: Times | None = None
    run: Times | None = None

    @property
    def due(self) -> int:
        """The tasks that a consumer could have now, if nothing held them."""
        return self.ready + self.waiting


class Slot(Counts):
    """The counts of a queue at one moment of its history; totals are those since the queue began.

    Attributes:
        at: The moment.
        seconds: The length of its slot: 60, or 900.
        deliveries: `popped` of `QueueStats`; it describes the other totals, too.
        lease_expired: `expired_leases` of `QueueStats`.
        held: Tasks under a lease.
        oldest_due_seconds: Seconds since the oldest ready task became due, or None.
        closed_groups: Groups that were closed.
        workers: Workers that had sent a heartbeat in the last minute.
        wait: How long tasks had waited for their first delivery, since the queue began.
        run: How long deliveries had run until their ack, fail or bury, since the queue began.
    """

    at: datetime
    seconds: int
    deliveries: int = 0
    lease_expired: int = 0
    held: int = 0
    oldest_due_seconds: float | None = None
    closed_groups: int = 0
    workers: int = 0


class Granted(NamedTuple):
    """The units that limits had granted at one moment.

    `totals` has for each scope ("", a group, or a group TAB a member) the 429s of its tasks and the
    units by window. They only grow, and begin at 0 when a limit is set or forgotten.
    """

    at_ms: int
    totals: dict[str, tuple[int, dict[str, int]]]


CHANGES = ("paused", "resumed", "quieted", "unquieted", "limit_set", "by_hand", "deployed")
"""The kinds of events of what operators have done, and of deploys. Source: lua/lib/event.lua."""

FAILED_KINDS = ("failed", "lease_expired")
"""The kinds of events of attempts that have failed."""


class Event(Frozen):
    """Something that people want to see: a 429, a failed attempt, a death, a limit that was set.

    Attributes:
        id: Its place in the stream; `q.admin.events(after=...)` goes on behind it.
        at: When it happened.
        kind: Of tasks `failed`, `lease_expired` (the consumer died or hung), `dead` and
            `rate_limited`; of the queue `rate_limited`, `learned`, `closed`, `opened`, `paused`,
            `resumed`, `quieted`, `unquieted`, `limit_set`, and `by_hand` (a purge, a replay, a bulk
            bury or cancel).
        group: The group; "" for the whole queue, or none.
        member: The member of the group's pool, or "".
        task_id: The task, or "".
        detail: More about it, in a few words; of an error the first 500 bytes of its text.
        before: Of `limit_set`, the rules that stood before, "" for no limit; else None.
        by: Of `limit_set` and `by_hand`, the name of who has done it, as far as it is known.
        attempt: Of an attempt that has ended, its number, from 1; else None.
        worker: The worker whose handler has failed, or "".
        frames: Where it failed, the last call first, as `file:line in function`; last the handler.
    """

    id: str
    at: datetime
    kind: str
    group: str
    member: str
    task_id: str
    detail: str
    before: str | None = None
    by: str = ""
    attempt: int | None = None
    worker: str = ""
    frames: tuple[str, ...] = ()
