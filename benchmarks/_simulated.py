"""Strict hosts and consumers that ask them, in simulated time. The queue is real.

bench_adaptive and bench_jitter call it. Time goes by hand, from event to event, so that minutes of
a crawl take seconds, and what else the machine does changes nothing.
"""

import heapq
from collections import deque
from collections.abc import Callable, Iterable
from itertools import count
from math import ceil, inf
from typing import Any, Protocol

from dpq import DPQ, Push, Task

START_MS = 1_700_000_000_000
BATCH = 2000  # tasks in one push
RETRY_AFTER = 1  # seconds that each 429 names

Limit = Callable[[float], float]
"""A limit of a host, by the time in ms."""


class Host:
    """A host that refuses what is beyond its limit.

    Attributes:
        limit: Its limit.
        served: When it served a request, ms.
        refused: The requests that it refused.
        foreign: When the next request of somebody else comes, ms.
        taken: The requests of somebody else that it served.
    """

    def __init__(self, limit: Limit, others: Iterable[float] = ()) -> None:
        self.limit = limit
        self.served: list[float] = []
        self.refused = self.taken = 0
        self._others = iter(others)
        self.foreign = next(self._others, inf)

    def ask(self, ms: float, answer_ms: float) -> bool:
        """Ask it; True if it serves the request, whose answer takes so long."""
        while self.foreign <= ms:
            self.taken += self._has_room(self.foreign, answer_ms)
            self.foreign = next(self._others, inf)
        if self._has_room(ms, answer_ms):
            self.served.append(ms)
            return True
        self.refused += 1
        return False

    def _has_room(self, ms: float, answer_ms: float) -> bool:
        raise NotImplementedError


class Sliding(Host):
    """Never more than its limit in any second."""

    def __init__(self, limit: Limit, others: Iterable[float] = ()) -> None:
        super().__init__(limit, others)
        self._recent: deque[float] = deque()

    def _has_room(self, ms: float, answer_ms: float) -> bool:
        while self._recent and self._recent[0] <= ms - 1000:
            self._recent.popleft()
        if len(self._recent) >= self.limit(ms):
            return False
        self._recent.append(ms)
        return True


class Fixed(Host):
    """Never more than its limit in a second of its clock."""

    _second, _count = 0.0, 0

    def _has_room(self, ms: float, answer_ms: float) -> bool:
        second = ms // 1000
        self._count = self._count + 1 if second == self._second else 1
        self._second = second
        return self._count <= self.limit(ms)


class Bucket(Host):
    """A bucket that fills at the limit, and holds what comes in a second."""

    _level, _at = inf, 0.0

    def _has_room(self, ms: float, answer_ms: float) -> bool:
        most = self.limit(ms)
        self._level = min(most, self._level + (ms - self._at) * most / 1000)
        self._at = ms
        if self._level < 1:
            return False
        self._level -= 1
        return True


class Concurrent(Host):
    """Never more than its limit at once."""

    def __init__(self, limit: Limit, others: Iterable[float] = ()) -> None:
        super().__init__(limit, others)
        self._ends: list[float] = []

    def _has_room(self, ms: float, answer_ms: float) -> bool:
        while self._ends and self._ends[0] <= ms:
            heapq.heappop(self._ends)
        if len(self._ends) >= self.limit(ms):
            return False
        heapq.heappush(self._ends, ms + answer_ms)
        return True


class Caller(Protocol):
    """What decides when the next request may be sent."""

    def take(self) -> Any:
        """Take the right to one request, or None."""

    def opens_in(self) -> float | None:
        """Return the seconds until the next may be taken; None if an answer must come before."""

    def done(self, taken: Any) -> None:
        """The host has served it."""

    def refused(self, taken: Any, seconds: float) -> None:
        """The host has refused it, and named a time."""


class Queued:
    """The limit of a group of a queue, whose clock the simulation moves."""

    def __init__(self, queue: DPQ[Any]) -> None:
        self._queue = queue
        self._left = 0

    def take(self) -> Task[Any] | None:
        if self._left < BATCH // 2:
            self._queue.push_many(Push(n, group="api") for n in range(BATCH))
            self._left += BATCH
        task = self._queue.pop().task
        self._left -= task is not None
        return task

    def opens_in(self) -> float | None:
        return self._queue.next_event()

    def done(self, taken: Task[Any]) -> None:
        self._queue.ack(taken)

    def refused(self, taken: Task[Any], seconds: float) -> None:
        self._queue.rate_limited(taken, seconds)
        self._left += 1


def crawl(
    caller: Caller,
    clock: list[int],
    host: Host,
    *,
    ends: Callable[[], bool],
    consumers: int,
    way_ms: Callable[[], float],
    answer_ms: Callable[[], float],
) -> None:
    """Send one request after another; a 429 says Retry-After: 1, and comes at once.

    Args:
        caller: Its clock reads `clock`.
        clock: The time in ms, moved on here.
        host: Whom all consumers ask.
        ends: Tells if the crawl is over.
        consumers: Requests under way at once.
        way_ms: Draws the time from the grant to the host.
        answer_ms: Draws the time in the host and back, of a request that it serves.
    """
    order = count()  # between equal moments, the first that was due
    events: list[tuple[float, int, Any, bool | None]] = []  # None: it reaches the host
    running = 0
    while not ends():
        while running < consumers and (taken := caller.take()) is not None:
            heapq.heappush(events, (clock[0] + way_ms(), next(order), taken, None))
            running += 1
        opens_in = caller.opens_in() if running < consumers else None
        moments = [events[0][0]] if events else []
        if opens_in is not None:
            moments.append(clock[0] + max(1, round(opens_in * 1000)))
        clock[0] = max(clock[0], ceil(min(moments)))
        while events and events[0][0] <= clock[0]:
            at, _, taken, answer = heapq.heappop(events)
            if answer is None:
                takes = answer_ms()
                allowed = host.ask(at, takes)
                back = at + (takes if allowed else way_ms())
                heapq.heappush(events, (back, next(order), taken, allowed))
                continue
            running -= 1
            if answer:
                caller.done(taken)
            else:
                caller.refused(taken, RETRY_AFTER)
