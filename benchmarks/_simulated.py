"""A host with a strict limit and consumers that ask it, in simulated time: the queue is real.

Used by bench_adaptive and bench_jitter. Time goes by hand, from event to event, so that minutes of
a crawl take seconds, and what else the machine does changes nothing.
"""

import heapq
from collections import deque
from collections.abc import Callable
from itertools import count
from math import ceil
from typing import Any

from dpq import DPQ, Push, Task

START_MS = 1_700_000_000_000
BATCH = 2000  # tasks in one push


class Host:
    """Never more than its limit in any second; counts what it allowed and refused."""

    def __init__(self) -> None:
        self.recent: deque[float] = deque()
        self.refused = 0
        self.served: list[float] = []  # when

    def ask(self, ms: float, limit: int) -> bool:
        while self.recent and self.recent[0] <= ms - 1000:
            self.recent.popleft()
        if len(self.recent) >= limit:
            self.refused += 1
            return False
        self.recent.append(ms)
        self.served.append(ms)
        return True


def crawl(
    queue: DPQ[Any],
    clock: list[int],
    host: Host,
    limit: Callable[[float], int],
    *,
    ends: Callable[[], bool],
    consumers: int,
    way_ms: Callable[[], float] = lambda: 0.0,
    answer_ms: float,
) -> None:
    """Ask the host for one task after another; a 429 says Retry-After: 1.

    Args:
        queue: Its clock reads `clock`.
        clock: The time in ms, moved on here.
        host: Whom all consumers ask.
        limit: What the host allows in any second, by the time in ms.
        ends: Whether the crawl is over.
        consumers: Tasks under way at once.
        way_ms: The time from a pop to the host, drawn anew for each request.
        answer_ms: The time from the host back to the queue.
    """
    order = count()  # between equal moments, the first that was due
    events: list[tuple[float, int, Task[Any], bool | None]] = []  # None: it reaches the host
    running = 0
    while not ends():
        while running < consumers and (task := queue.pop().task):
            heapq.heappush(events, (clock[0] + way_ms(), next(order), task, None))
            running += 1
        event = queue.next_event() if running < consumers else None
        moments = [events[0][0]] if events else []
        if event is not None:
            moments.append(clock[0] + max(1, round(event * 1000)))
        clock[0] = max(clock[0], ceil(min(moments)))
        while events and events[0][0] <= clock[0]:
            at, _, task, answer = heapq.heappop(events)
            if answer is None:
                allowed = host.ask(at, limit(at))
                heapq.heappush(events, (at + answer_ms, next(order), task, allowed))
                continue
            running -= 1
            if answer:
                queue.ack(task)
            else:
                queue.rate_limited(task, 1)
        if len(queue) < BATCH // 2:
            fill(queue)


def fill(queue: DPQ[Any]) -> None:
    """Push more tasks of the one group."""
    queue.push_many(Push(n, group="api") for n in range(BATCH))
