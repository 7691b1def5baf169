"""Callers of `acquire`, and a host that says what is left, in simulated time. The queue is real.

bench_budgets calls it. Time goes by hand, from event to event, as in `_simulated`.
"""

import heapq
from collections import Counter
from collections.abc import Callable
from itertools import count
from math import ceil
from typing import Any

from dpq import DPQ
from dpq.limits.permit import DEFAULT_LEASE, Caller, PermitRequest
from dpq.types import Permit


class WindowHost:
    """A host of fixed windows of one second, which says in each answer what is left."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.used: Counter[int] = Counter()
        self.answers: list[int] = []  # the statuses

    def ask(self, ms: float) -> tuple[int, dict[str, str]]:
        second = int(ms // 1000)
        status = 429 if self.used[second] >= self.limit else 200
        self.used[second] += status == 200
        self.answers.append(status)
        left = self.limit - self.used[second]
        headers = {
            "RateLimit-Policy": f'"second";q={self.limit};w=1',
            "RateLimit": f'"second";r={left};t=1',
        }
        return status, headers | ({"Retry-After": "1"} if status == 429 else {})


class Callers:
    """Callers of `acquire` that ask a host again and again, and report each answer."""

    def __init__(
        self, queue: DPQ[Any], clock: list[int], host: WindowHost, way_ms: Callable[[], float]
    ) -> None:
        self._queue, self._clock, self._host, self._way_ms = queue, clock, host, way_ms
        self._session, self._order = queue._session, count()
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._waiting: dict[str, tuple[Caller, int]] = {}
        self._calls = queue.redis.pubsub()  # type: ignore[no-untyped-call]
        self._calls.subscribe("dpq:calls:simulated")

    def run(self, callers: int, seconds: float) -> None:
        """Let so many go on, the first one a tenth of a second before the others."""
        end = self._clock[0] + seconds * 1000
        for n in range(callers):
            self._after(0.0 if n == 0 else 100.0 + n, self._begin)
        while self._events and self._events[0][0] <= end:
            at, _, happens = heapq.heappop(self._events)
            self._clock[0] = max(self._clock[0], ceil(at))
            happens()
            while message := self._calls.get_message():
                name = message["data"].decode() if message["type"] == "message" else ""
                if name in self._waiting:
                    self._wake(*self._waiting[name])
        self._calls.close()  # type: ignore[no-untyped-call]

    def _after(self, ms: float, happens: Callable[[], None]) -> None:
        heapq.heappush(self._events, (self._clock[0] + ms, next(self._order), happens))

    def _begin(self) -> None:
        request = PermitRequest.checked("api", 1, None, 0, DEFAULT_LEASE)
        caller = Caller(request, self._clock[0] / 1000)
        caller.channel = "simulated"
        self._ask(caller)

    def _ask(self, caller: Caller) -> None:
        now = self._clock[0] / 1000
        answer = self._session.run(self._queue._operations.acquire, caller, now)
        pause, turn = caller.receive(answer, now), next(self._order)
        self._waiting[caller.id] = caller, turn
        self._after(pause * 1000, lambda: self._wake(caller, turn))

    def _wake(self, caller: Caller, turn: int) -> None:
        if self._waiting.get(caller.id) != (caller, turn):
            return  # it was called before
        del self._waiting[caller.id]
        if caller.granted:
            permit = Permit(self._queue, caller, 0.0)
            self._after(self._way_ms(), lambda: self._arrive(permit))
        else:
            self._ask(caller)

    def _arrive(self, permit: Permit) -> None:
        answer = self._host.ask(self._clock[0])
        self._after(self._way_ms(), lambda: self._answered(permit, *answer))

    def _answered(self, permit: Permit, status: int, headers: dict[str, str]) -> None:
        permit.report(status, headers)
        permit.close()
        self._begin()
