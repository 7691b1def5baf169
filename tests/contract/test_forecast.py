"""`forecast` against what then really runs: the same tasks, at the same moments, in the same order.

The tests move the clock themselves, so moments are whole milliseconds.
"""

import heapq
import uuid
from datetime import datetime
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from redis import Redis

from dpq import DPQ, Adaptive, Forecast, Push, RateLimit, Reserve
from dpq.testing import Clock

BEGIN = 1_700_000_000_000
LONG = 100_000.0

LEARNS = Adaptive(floor=1, ceiling=6, step=0.5)
WINDOWS = [
    [RateLimit(1, 1, slack=0)],
    [RateLimit(3, 1, 3, slack=0)],  # thirds of a second
    [RateLimit(2, 1, 2), RateLimit(3, 5, 3, slack=0)],
    [RateLimit(2, 1, 2, slack=0.125), RateLimit(6, 1, 9, slack=0, unit="t")],
    [RateLimit(4, 1, 5, Reserve(2, 1), slack=0, unit="t"), RateLimit(3, 5, 3, slack=0)],
    [RateLimit(1, 1, 3, Reserve(1, 1), slack=0)],
    [RateLimit(2, 1, 2, adaptive=LEARNS)],
    [RateLimit(30_000_000, 60, 1000, unit="t")],  # many units: sums are rounded
]
limits = st.one_of(
    st.tuples(st.sampled_from(WINDOWS), st.none()),
    st.tuples(st.sampled_from(WINDOWS), st.sampled_from([1, 2])),
    st.tuples(st.just([]), st.sampled_from([1, 2])),
)
groups = st.sampled_from([None, "a", "b", "c", "d"])
costs = st.sampled_from([1, 1, 1, 2, 5, {"t": 3}, {"t": 40, "": 0}, {"t": 2000}])
pushes = st.fixed_dictionaries(
    {
        "payload": st.integers(0, 99),
        "priority": st.sampled_from([0, 0, 1, 2, -1, 0.5, 2**60, 2**60 + 1]),
        "delay": st.sampled_from([0, 0, 0, 0.3, 1, 2.5]),
        "group": groups,
        "cost": costs,
        "expires_in": st.sampled_from([None, None, None, 1.2, 4]),
    }
).map(lambda push: Push(**push))
queues = st.fixed_dictionaries(
    {
        "pushes": st.lists(pushes, min_size=1, max_size=14),
        "limits": st.dictionaries(st.sampled_from([None, "*", "a", "b"]), limits, max_size=3),
        "settings": st.sampled_from(
            [{}, {}, {"fairness": "round_robin"}, {"aging": 0.5}, {"order": "lifo"}]
        ),
        "before": st.lists(
            st.tuples(
                st.sampled_from(["pop", "429", "429 queue", "close", "wait", "release", "lapse"]),
                st.sampled_from(["a", "b", "c"]),
                st.sampled_from([0.25, 1, 3.5]),
            ),
            max_size=6,
        ),
        "pause": st.sampled_from([None, None, None, 0.7]),
        "run": st.sampled_from([0, 0.4, 2, None]),
    }
)


def ms(moment: datetime) -> int:
    return round(moment.timestamp() * 1000)


class Future:
    """A queue that is run as its forecast says, and that must not run otherwise."""

    def __init__(self, q: DPQ[Any], clock: Clock, run: float | None) -> None:
        self.q, self.clock, self.run = q, clock, run
        self.running: list[tuple[int, str, Any]] = []

    def pop(self) -> Any:
        task = self.q.pop(visibility=LONG).task
        if task:
            self.hold(task, self.run if self.run is not None else self.q.default_visibility)
        return task

    def hold(self, task: Any, seconds: float) -> None:
        entry = (self.clock.ms + round(seconds * 1000), task.id, task)
        heapq.heappush(self.running, entry)

    def move_to(self, moment: int) -> None:
        """Go on in time; tasks that run end as they were assumed to."""
        while self.running and self.running[0][0] <= moment:
            end, _, task = heapq.heappop(self.running)
            self.clock.ms = max(self.clock.ms, end)
            self.q.ack(task)
        self.clock.ms = moment

    def follow(self, forecast: list[Forecast]) -> None:
        """Each task starts at its moment, and nothing does a millisecond before."""
        self.move_to(self.clock.ms)
        for expected in forecast:
            moment = ms(expected.starts_at)
            if moment > self.clock.ms:
                assert self.pop() is None, f"something starts before {expected}"
                self.move_to(moment - 1)
                assert self.pop() is None, f"something starts before {expected}"
            self.move_to(moment)
            task = self.pop()
            assert task, f"nothing starts where {expected} should"
            assert (task.id, ms(expected.starts_at)) == (expected.id, self.clock.ms)
            assert (task.group, task.priority) == (expected.group, expected.priority)


def prepare(q: DPQ[Any], clock: Clock, how: dict[str, Any], future: Future) -> None:
    """Limits, tasks, and some history."""
    for scope, (windows, concurrency) in how["limits"].items():
        q.set_limit(windows or None, group=scope, concurrency=concurrency)
    q.push_many(how["pushes"])
    for action, group, seconds in how["before"]:
        future.move_to(clock.ms)
        if action == "wait":
            future.move_to(clock.ms + round(seconds * 1000))
        elif action == "close":
            q.delay_group(group, seconds)
        elif task := q.pop(visibility=0.8 if action == "lapse" else seconds).task:
            if action == "pop":
                future.hold(task, seconds)
            elif action == "429":
                q.rate_limited(task, seconds)
            elif action == "429 queue":
                q.rate_limited(task, seconds, "queue")
            elif action == "release":
                q.release(task, delay=seconds)
    if how["pause"]:
        q.pause(how["pause"])


def rehearse(redis: Redis, name: str, how: dict[str, Any]) -> None:
    clock = Clock(BEGIN)
    q: DPQ[Any] = DPQ(redis, name, clock=clock, default_visibility=3.0, **how["settings"])
    try:
        future = Future(q, clock, how["run"])
        prepare(q, clock, how, future)
        ends = {task.id for _, _, task in future.running}
        leases = q.peek(50, "invisible")
        if any(task.id not in ends and ms(task.visible_until) > clock.ms for task in leases):
            return  # a lease that runs out later: the forecast takes it for done
        before = {state: q.peek(99, state) for state in ("ready", "waiting", "delayed")}
        forecast = q.forecast(50, run=how["run"])
        assert before == {state: q.peek(99, state) for state in before}
        began = clock.ms
        future.follow(forecast)
        assert [f.in_seconds for f in forecast] == [
            pytest.approx((ms(f.starts_at) - began) / 1000) for f in forecast
        ]
        if not q.limits()[0].concurrency:
            future.move_to(clock.ms + 1_000_000_000)
            assert future.pop() is None, "there is more than was foreseen"
        assert q.check() == []
    finally:
        q.drop()


@pytest.mark.many_calls
@settings(
    max_examples=3000,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(how=queues)
def test_what_is_foreseen_is_what_runs(redis: Redis, queue_name: str, how: dict[str, Any]) -> None:
    """The same ids at the same moments, whatever limits, costs, reserves, delays and closings."""
    rehearse(redis, queue_name + uuid.uuid4().hex[:4], how)
