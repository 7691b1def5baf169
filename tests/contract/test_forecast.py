"""`forecast` against what then really runs: the same tasks, at the same moments, in the same order.

The tests move the clock themselves, so moments are whole milliseconds.
"""

import asyncio
import heapq
import itertools
import uuid
from datetime import datetime
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from kit.awaited import asyncio_client
from redis import Redis

from dpq import (
    DPQ,
    Adaptive,
    AsyncDPQ,
    ConfigurationError,
    Drain,
    Forecast,
    Push,
    Quota,
    RateLimit,
    Reserve,
)
from dpq.model.drain import DrainLook, Scope
from dpq.model.draining import drain_of, point_of
from dpq.model.gates import Gate
from dpq.model.pace import pace_of
from dpq.protocol.keys import key_of
from dpq.testing import Clock, QueueFactory

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
    [RateLimit(2, 1, 2, slack=0), Quota(5, "hour")],
    [Quota(4, "hour", spread=True)],
    [Quota(6, "hour", unit="t", reserve=Reserve(2, 1)), RateLimit(3, 5, 3, slack=0)],
    [RateLimit(3, 1, moving=True)],
    [
        RateLimit(2, 1, slack=0.125, moving=True),
        RateLimit(6, 3, reserve=Reserve(2, 1), moving=True),
    ],
    [RateLimit(100, 1, moving=True, unit="t"), RateLimit(4, 1, 2, slack=0)],
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
        "member": st.sampled_from([None, None, None, "x", "y"]),
    }
).map(lambda push: Push(**push | {"member": push["member"] if push["group"] else None}))
queues = st.fixed_dictionaries(
    {
        "pushes": st.lists(pushes, min_size=1, max_size=14),
        "limits": st.dictionaries(st.sampled_from([None, "*", "a", "b"]), limits, max_size=3),
        "pools": st.dictionaries(
            st.sampled_from(["a", "b"]), st.sampled_from([["x"], ["x", "y"], ["z", "y", "x"]])
        ),
        "settings": st.sampled_from(
            [
                *({}, {}, {"fairness": "round_robin"}, {"aging": 0.5}, {"order": "lifo"}),
                {"order": "min", "aging": 0.5},
            ]
        ),
        "before": st.lists(
            st.tuples(
                st.sampled_from(
                    [
                        *("pop", "429", "429 queue", "close", "wait", "release", "lapse"),
                        *("told", "told far", "told evenly"),
                    ]
                ),
                st.sampled_from(["a", "b", "c"]),
                st.sampled_from([0.25, 1, 3.5]),
            ),
            max_size=6,
        ),
        "in_order": st.booleans(),
        "pause": st.sampled_from([None, None, None, 0.7]),
        "run": st.sampled_from([0, 0.4, 2, None]),
    }
)


TOLD = {"told": ("2", ""), "told far": ("2", "00000000"), "told evenly": ("3", "s")}
"""What hosts say of their limits: its units, and what stands behind the seconds of its reset."""


def ms(moment: datetime) -> int:
    return round(moment.timestamp() * 1000)


class Future:
    """A queue that is run as its forecast says, and that must not run otherwise."""

    def __init__(self, q: DPQ[Any], clock: Clock, run: float | None) -> None:
        self.q, self.clock, self.run = q, clock, run
        self.running: list[tuple[int, str, Any]] = []
        self.expiries: set[int] = set()

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
                for expiry in sorted(e for e in self.expiries if self.clock.ms < e < moment):
                    self.move_to(expiry)  # a consumer asks then, and a task is buried
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
        pool = how["pools"].get(scope)
        held = how["in_order"] and scope is not None and not pool and concurrency == 1
        more = {"concurrency": concurrency, "members": pool, "in_order": held}
        q.set_limit(windows or None, group=scope, **more)
    q.push_many(how["pushes"])
    for push in how["pushes"]:
        future.expiries.add(clock.ms + round(((push.expires_in or 0) + push.delay) * 1000))
    for action, group, seconds in how["before"]:
        future.move_to(clock.ms)
        if action == "wait":
            future.move_to(clock.ms + round(seconds * 1000))
        elif action == "close":
            q.delay_group(group, seconds)
        elif action in TOLD:
            limit, more = TOLD[action]
            headers = {
                "X-RateLimit-Limit": limit,
                "X-RateLimit-Remaining": f"{seconds // 1 % 3:.0f}",
            }
            q.observe(group, headers={**headers, "X-RateLimit-Reset": f"{seconds}{more}"})
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
        q.close()


@pytest.mark.many_calls
@settings(
    max_examples=60,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(how=queues)
def test_what_is_foreseen_is_what_runs(redis: Redis, queue_name: str, how: dict[str, Any]) -> None:
    """The same ids at the same moments, whatever limits, costs, reserves, delays and closings."""
    rehearse(redis, queue_name + uuid.uuid4().hex[:4], how)


# Single properties, on fakeredis as well

engines = pytest.mark.fakeredis


def starts(q: DPQ[Any], n: int = 50, **more: Any) -> list[tuple[str | None, float]]:
    """The payloads of a forecast, as they are shown, and their seconds."""
    return [(task.payload, task.in_seconds) for task in q.forecast(n, **more)]


@engines
def test_two_units(q: DPQ, clock: Clock) -> None:
    """The tighter window decides; the words name it, and its unit."""
    q.set_limit(
        [RateLimit(60, 60, 60, slack=0), RateLimit(600, 60, 100, slack=0, unit="tokens")],
        group="gpt",
    )
    for i in range(3):
        q.push(i, group="gpt", cost={"tokens": 100})
    first, second, third = q.forecast()
    assert (first.in_seconds, first.reason, first.because, first.exact) == (0, None, "now", True)
    assert (second.in_seconds, third.in_seconds) == (10, 20)
    assert (second.reason, second.because) == ("spent", "group 'gpt': tokens=600/min")
    assert (second.group, second.cost, second.costs) == ("gpt", 1, {"tokens": 100})
    assert ms(third.starts_at) == clock.ms + 20_000


@engines
def test_a_quota_and_a_budget(q: DPQ, clock: Clock) -> None:
    """Starts wait for the next period, or for the reset that the host has told."""
    q.set_limit(Quota(2, "hour"), group="a")
    q.push_many(Push(n, group="a") for n in range(3))
    q.push_many(Push(n, -1, group="b") for n in range(2))
    q.observe("b", headers={"RateLimit": "limit=9, remaining=1, reset=30"})
    hour = 3600 - clock.ms / 1000 % 3600
    assert starts(q) == [("0", 0), ("1", 0), ("0", 0), ("1", 30), ("2", hour)]
    assert [one.exact for one in q.forecast()] == [True, True, True, True, False]
    assert [one.reason for one in q.forecast()][3:] == ["observed", "quota"]
    assert q.drain().seconds == pytest.approx(hour)


def test_a_pool_takes_turns(q: DPQ, clock: Clock) -> None:
    """Three members let three tasks start at once."""
    q.set_limit(1, 10, group="a", members=["x", "y", "z"], slack=0)
    q.push_many(Push(n, group="a") for n in range(7))
    assert [at for _, at in starts(q)] == [0, 0, 0, 10, 10, 10, 20]
    assert all(one.exact for one in q.forecast())
    assert q.drain().seconds == pytest.approx(20, rel=0.4)
    q.delay_group("a", None, member="z")
    assert [at for _, at in starts(q)][:3] == [0, 0, 10]


def test_a_heavy_group_takes_more_turns(redis: Redis, queue_name: str) -> None:
    """With round robin three turns of one group for one of another; that is said to be about."""
    clock = Clock(BEGIN)
    with QueueFactory(redis, clock) as make:
        q = make(queue_name, fairness="round_robin")
        q.set_limit(group="a", weight=3)
        q.push_many(Push(f"{group}{n}", group=group) for n in range(6) for group in "ab")
        foreseen = q.forecast()
        assert [q.pop().task.id for _ in foreseen] == [one.id for one in foreseen]
        assert [one.group for one in foreseen[:8]].count("a") == 6
        assert {one.exact for one in foreseen if one.group == "a"} == {False}


def test_why_then(q: DPQ) -> None:
    """Each start names what held the task back last."""
    q.set_limit(1, 10, group="slow")
    q.push("a", group="slow")
    q.push("b", group="slow")
    q.push("c", group="shut")
    q.push("d", delay=4)
    q.push("e", group="429")
    task = q.pop().task
    while task and task.group != "429":
        task = q.pop().task
    q.rate_limited(task, 6)
    q.push("f", group="shut")
    q.delay_group("shut", 2)
    found = {str(task.payload): (task.reason, task.in_seconds) for task in q.forecast()}
    assert found == {
        '"f"': ("closed by hand", 2),
        '"d"': ("delayed", 4),
        '"e"': ("rate limited", 6),
        '"b"': ("spent", 10),
    }


@engines
@pytest.mark.parametrize("group", [None, "g"])
def test_a_reserve(q: DPQ, clock: Clock, group: str | None) -> None:
    """Tasks below the priority of a reserve wait for the units that it keeps."""
    q.set_limit(1, 1, burst=3, reserve=Reserve(2, 5), slack=0, group=group)
    q.push_many(Push(i, priority=0, group="g") for i in range(3))
    q.push(9, priority=9, group="g", delay=2)
    assert starts(q) == [("0", 0), ("1", 1), ("9", 2), ("2", 3)]
    Future(q, clock, None).follow(q.forecast())


@engines
def test_units_are_saved_for_the_best(q: DPQ, clock: Clock) -> None:
    """A heavy task that is the best holds up lighter ones; one group does not hold up others."""
    q.set_limit(4, 4, burst=2, slack=0)
    q.push("first", cost=2)
    q.pop()
    q.push("heavy", priority=5, cost=4, group="g")
    q.push("light")
    q.push("late", priority=9, delay=1)
    assert starts(q) == [('"late"', 1), ('"heavy"', 5), ('"light"', 8)]
    Future(q, clock, None).follow(q.forecast())


@engines
def test_turns(redis: Redis, queue_name: str, clock: Clock) -> None:
    """With round robin groups of equal priority take turns."""
    with QueueFactory(redis, clock) as make:
        q = make(queue_name, fairness="round_robin")
        q.set_limit(1, 1, slack=0)
        for name in ("a0", "a1", "a2", "b0", "b1", "b2"):
            q.push(name, group=name[0])
        found = [task.payload for task in q.forecast()]
        assert found == [f'"{name}"' for name in ("a0", "b0", "a1", "b1", "a2", "b2")]
        Future(q, clock, None).follow(q.forecast())


@engines
def test_a_run_holds_its_slot(q: DPQ) -> None:
    """With a concurrency, a start waits for the assumed end of the one before: said as inexact."""
    q.set_limit(concurrency=1, group="g")
    for i in range(3):
        q.push(i, group="g")
    assert starts(q, run=2) == [("0", 0), ("1", 2), ("2", 4)]
    assert starts(q) == [("0", 0), ("1", 30), ("2", 60)], "their leases"
    q.pop(visibility=7)
    found = q.forecast(run=1)
    assert [(task.payload, task.in_seconds) for task in found] == [("1", 7), ("2", 8)]
    assert [(task.exact, task.reason) for task in found] == [(False, "concurrency")] * 2


@engines
def test_a_group_in_order(q: DPQ) -> None:
    """Its first task starts when its retry is due, the others behind it, and it says why."""
    q.set_limit(group="g", in_order=True)
    q.push_many([Push(n, group="g") for n in range(3)])
    q.fail(q.pop().task, "busy", delay=30)
    assert q.pop().task is None
    assert starts(q, run=2) == [("0", 30.0), ("1", 32.0), ("2", 34.0)]
    first, second, _ = q.forecast(run=2)
    assert (first.reason, first.because) == ("delayed", "its delay")
    assert second.because == "group 'g': in order, one task at a time"


@engines
def test_a_held_group_opens_when_its_retry_ends(q: DPQ) -> None:
    """A task that comes before the first in rank waits for it, too."""
    q.set_limit(group="g", in_order=True)
    q.push("held", group="g")
    q.fail(q.pop().task, "busy", delay=30)
    q.push("better", 9, group="g")
    assert starts(q, run=2) == [('"better"', 30.0), ('"held"', 32.0)]
    assert q.forecast()[0].reason == "in order"


@engines
def test_a_pause(q: DPQ) -> None:
    """A pause moves everything; one without an end leaves nothing to foresee."""
    q.push(1)
    q.pause(5)
    (task,) = q.forecast()
    assert (task.in_seconds, task.reason) == (5, "paused")
    q.pause()
    assert q.forecast() == []


@engines
def test_unread_tasks_make_it_inexact(q: DPQ) -> None:
    """Where a task that was not read may come before, the forecast says so; before that, not."""
    q.push_many(Push(i, priority=-i) for i in range(30))
    q.push_many(Push(f"due {i}", delay=1 + i / 1000) for i in range(60))
    found = q.forecast(5)
    assert [task.payload for task in found] == ["0", "1", "2", "3", "4"]
    assert all(task.exact for task in found)
    q.set_limit(1, 1)
    q.purge("ready")
    q.push_many(Push(i, priority=-i) for i in range(3))
    found = q.forecast(12)
    assert [task.exact for task in found if task.in_seconds < 1.02] == [True, True]
    assert not any(task.exact for task in found if task.in_seconds > 1.04)


@engines
def test_a_long_group_is_cut(q: DPQ) -> None:
    """Of many groups only the first tasks are read: a start behind those is no promise."""
    q.set_limit(1000, 1, 1000, group="*")
    for name in range(80):
        q.push_many(Push(i, group=f"g{name}", priority=9 if name == 0 else 0) for i in range(40))
    found = q.forecast(40)
    assert [task.group for task in found[:10]] == ["g0"] * 10
    assert found[0].exact
    assert not found[-1].exact


@engines
def test_a_head_far_behind(q: DPQ, clock: Clock) -> None:
    """Tasks that become due lead a group whose head was not read, and nothing behind it was."""
    q.set_limit(2, 1, 1)
    for name in range(40):
        q.push_many(Push(i, group=f"g{name}", priority=-name) for i in range(2))
    q.push_many(Push("due", group="g39", priority=9, delay=delay) for delay in (0.7, 0.8))
    found = q.forecast(6)
    assert [task.group for task in found] == ["g0", "g0", "g39", "g39", "g1", "g1"]
    assert all(task.exact for task in found)
    Future(q, clock, None).follow(found)


@engines
def test_payloads_are_cut(q: DPQ, queue_name: str) -> None:
    """A payload is shown by its first 200 characters; one that is stored apart is not."""
    q.push("é" * 190)
    q.push("x" * 1000)
    q.push("y" * 400)
    first, second, third = q.forecast()
    assert first.payload == '"' + "é" * 190 + '"'
    assert second.payload is None
    assert third.payload == '"' + "y" * 199


@engines
@pytest.mark.parametrize("n", [0, 201, 1.5, "3"])
def test_bounds(q: DPQ, n: Any) -> None:
    """From 1 to 200 tasks; a run of 0 s to 10 years."""
    with pytest.raises(ConfigurationError, match="from 1 to 200"):
        q.forecast(n)
    with pytest.raises(ConfigurationError, match="run is -1"):
        q.forecast(run=-1)


@engines
def test_partitions(redis: Redis, queue_name: str, clock: Clock) -> None:
    """The forecast of a partitioned queue is that of all partitions, in the order of starts."""
    with QueueFactory(redis, clock) as make:
        q = make(queue_name, partitions=4, ask=4)
        q.set_limit(1, 1, group="*")
        for i in range(40):
            q.push(i, group=f"g{i % 10}", priority=i % 3)
        found = q.forecast(30)
        assert len(found) == 30
        assert [task.starts_at for task in found] == sorted(task.starts_at for task in found)
        future = Future(q, clock, None)
        for moment in sorted({ms(task.starts_at) for task in found}):
            future.move_to(moment)
            expected = {task.id for task in found if ms(task.starts_at) == moment}
            started = set()
            while task := future.pop():
                started.add(task.id)
            assert expected <= started


@engines
def test_damage(q: DPQ, redis: Redis) -> None:
    """A record that cannot be read is left out; the others are foreseen."""
    broken, sound = q.push(1), q.push(2)
    redis.hset(key_of(q.queue_name, "meta"), broken, "no record")
    assert [task.id for task in q.forecast()] == [sound]
    q.purge()


def test_the_servers_own_clock(live: DPQ) -> None:
    """A task that starts at a moment of the forecast is popped then, and not before."""
    live.set_limit(5, 1)
    live.push_many(Push(i) for i in range(4))
    found = live.forecast()
    gaps = [later.in_seconds - task.in_seconds for task, later in itertools.pairwise(found)]
    assert gaps == pytest.approx([0.2] * 3, abs=1e-5)
    for expected in found:
        task = live.pop(timeout=30).task
        assert task
        assert task.id == expected.id


@engines
def test_asyncio(redis: Redis, q: DPQ, clock: Clock) -> None:
    """AsyncDPQ says the same."""
    q.set_limit(1, 1)
    q.push_many(Push(i) for i in range(3))

    async def look() -> tuple[Any, Any]:
        client = asyncio_client(redis)
        async with AsyncDPQ[Any](client, q.queue_name, clock=clock) as queue:
            found = await queue.forecast(9, run=1), await queue.drain()
        await client.aclose()
        return found

    assert asyncio.run(look()) == (q.forecast(9, run=1), q.drain())


# Drain

DRAINED = [
    st.builds(RateLimit, st.sampled_from([1, 5, 20]), st.sampled_from([1, 60]), slack=st.just(0)),
    st.just(RateLimit(20, 10, 5, Reserve(4, 1), slack=0)),
    st.just(RateLimit(200, 61, 20, slack=0, unit="t")),
    st.builds(RateLimit, st.sampled_from([5, 20]), st.sampled_from([2, 600]), moving=st.just(True)),
    st.just(RateLimit(20, 100, reserve=Reserve(4, 1), moving=True)),
    st.just(RateLimit(250, 900, moving=True, unit="t")),
    st.just(Quota(10, "hour", reserve=Reserve(2, 1))),
    st.builds(Quota, st.sampled_from([5, 40]), st.just("hour"), spread=st.just(True)),
    st.builds(Quota, st.sampled_from([20, 70]), st.just("day"), spread=st.booleans()),
    st.builds(Quota, st.just(500), st.just("hour"), unit=st.just("t"), spread=st.booleans()),
]
HEAVY = st.sampled_from([[1], [1, 7], [2, {"t": 60}], [{"t": 3}, {"t": 40}, {"t": 200}]])


@pytest.mark.many_calls
@settings(
    max_examples=80,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(
    limits=st.dictionaries(
        st.sampled_from([None, "*", "a", "b"]),
        st.lists(st.one_of(DRAINED), min_size=1, max_size=3, unique_by=repr),
        max_size=2,
    ).map(lambda limits: {None: [Quota(9, "hour", spread=True)]} | limits),
    tasks=st.lists(st.tuples(groups, st.sampled_from([0, 0, 1, -1])), min_size=1, max_size=40),
    costs=HEAVY,
    before=st.sampled_from([(0, 0), (3, 0), (9, 1000), (9, 1_800_000)]),
)
def test_drain_is_the_last_start_that_is_foreseen(
    redis: Redis, queue_name: str, limits: Any, tasks: Any, costs: list[Any], before: Any
) -> None:
    """To the step of the clock, where limits alone decide: windows, quotas, units, heavy tasks."""
    clock = Clock(BEGIN)
    with QueueFactory(redis, clock) as make:
        q = make(queue_name + uuid.uuid4().hex[:4])
        for scope, limit in limits.items():
            kinds = {(type(one), getattr(one, "period", one), one.unit): one for one in limit}
            q.set_limit([*kinds.values()], group=scope)
        q.push_many(
            Push(i, priority, group=group, cost=costs[i % len(costs)])
            for i, (group, priority) in enumerate(tasks)
        )
        for _ in range(before[0]):
            if task := q.pop().task:
                q.ack(task)
        clock.ms += before[1]
        while q.promote():
            pass
        drain, found = q.drain(), q.forecast(200)
        assert drain.backlog == len(found)
        if found:
            assert drain.seconds is not None
            assert drain.seconds == pytest.approx(found[-1].in_seconds, abs=0.002), drain
        q.drop()


@engines
def test_drain_counts_spread_quotas_and_whole_tasks(q: DPQ, clock: Clock) -> None:
    """A spread quota paces its units; of tasks that take most of a quota, one fits a period."""
    hour = 3600 - clock.ms / 1000 % 3600
    q.set_limit(Quota(10, "hour", spread=True), group="g")
    q.push_many(Push(i, group="g") for i in range(11))
    assert q.drain().seconds == q.forecast()[-1].in_seconds == pytest.approx(hour)
    assert q.drain().because == "group 'g': 10/hour@UTC,spread"
    q.set_limit(Quota(100, "hour"), group="g")
    q.purge()
    q.push_many(Push(i, group="g", cost=60) for i in range(300))
    assert q.drain().seconds == pytest.approx(hour + 298 * 3600)


@engines
def test_drain_without_a_task_that_is_due(q: DPQ, clock: Clock) -> None:
    """A queue is empty only if no task is left; else it says what is, and when the next is due."""
    said = "there is no such queue: the first push makes it"
    assert q.drain() == Drain(seconds=0, state="empty", because=said, backlog=0)
    q.register()
    assert q.drain() == Drain(seconds=0, state="empty", because="no live task is left", backlog=0)
    q.push(1)
    for delay in (9.5, 20):
        q.push(1, delay=delay)
    task = q.pop().task
    assert task
    said = "no task is due: 1 invisible, 2 delayed, the first of them due in 9.5 s"
    assert q.drain() == Drain(seconds=0, state="none due", because=said, backlog=0)
    q.ack(task)
    clock.advance(9.5)
    assert (q.drain().state, q.drain().seconds) == ("unknown", None)
    assert q.drain().because == "delayed tasks are due: the next pop or a scheduler moves them"
    q.promote()
    assert q.drain().backlog == 1
    q.pop()
    q.purge()
    q.push(1, delay=7300)
    assert "due in 2 h 1 m" in q.drain().because


@engines
@pytest.mark.parametrize("scope", [None, "g", "*"])
def test_drain_by_a_limit(q: DPQ, scope: str | None) -> None:
    """The last task starts when the units of all others are paid: what the forecast says, too."""
    q.set_limit([RateLimit(2, 1, 3, slack=0), RateLimit(10, 60, 10, slack=0)], group=scope)
    q.push_many(Push(i, group="g") for i in range(14))
    drain = q.drain()
    assert (drain.state, drain.backlog) == ("clears", 14)
    assert drain.because == ("the queue: 10/min" if scope is None else "group 'g': 10/min")
    assert drain.seconds == q.forecast()[-1].in_seconds == 24


@engines
def test_drain_waits_for_the_end_of_a_pause(q: DPQ) -> None:
    """And then for the limit."""
    q.set_limit(1, 2, slack=0)
    q.push_many(Push(i) for i in range(3))
    q.pause(100)
    assert q.drain().seconds == q.forecast()[-1].in_seconds == 104


@engines
@pytest.mark.parametrize("number", [3, 300])
def test_drain_of_a_moving_window(q: DPQ, clock: Clock, number: int) -> None:
    """What was granted leaves when it leaves, for few tasks and for many."""
    q.set_limit([RateLimit(100, 60, moving=True, slack=0)], group="g")
    q.push_many(Push(i, group="g") for i in range(100 + number))
    for _ in range(2):
        q.pop_many(50)
        clock.advance(10)
    assert q.drain().seconds == pytest.approx({3: 40, 300: 170}[number], abs=0.01)


@engines
def test_slack_makes_a_moving_window_longer(q: DPQ, clock: Clock) -> None:
    """Units leave it that much later, also in what is foreseen: to the millisecond."""
    q.set_limit([RateLimit(2, 10, moving=True, slack=0.5)], group="g")
    q.push_many(Push(i, group="g") for i in range(3))
    assert len(q.pop_many(3)) == 2
    said = q.forecast(run=0)[0].in_seconds
    assert said == pytest.approx(10.5, abs=0.002)
    assert q.drain().seconds == pytest.approx(said, abs=0.002)
    clock.advance(said)
    assert len(q.pop_many(3)) == 1


@engines
def test_drain_counts_units(q: DPQ) -> None:
    """Tokens are counted by what some of the tasks cost."""
    q.set_limit(
        [RateLimit(60, 60, 60, slack=0), RateLimit(600, 60, 100, slack=0, unit="tokens")],
        group="gpt",
    )
    q.push_many(Push(i, group="gpt", cost={"tokens": 100}) for i in range(13))
    drain = q.drain()
    assert (drain.seconds, drain.because) == (120, "group 'gpt': tokens=600/min")
    assert q.forecast()[-1].in_seconds == 120


@engines
def test_drain_without_a_limit(q: DPQ) -> None:
    """Nothing says how fast consumers are: unknown, until it is measured."""
    q.push_many(Push(i, group="g") for i in range(5))
    assert (q.drain().state, q.drain().seconds) == ("unknown", None)
    q.set_limit(concurrency=1, group="g")
    assert q.drain().state == "unknown"


@engines
def test_drain_with_few_limited_tasks(q: DPQ) -> None:
    """A limit of one small group says nothing about all the others."""
    q.set_limit(1, 1, group="g")
    q.push_many(Push(i, group="g") for i in range(5))
    q.push_many(Push(i) for i in range(95))
    assert q.drain().state == "unknown"


@engines
def test_drain_of_a_paused_queue(q: DPQ) -> None:
    """Paused until somebody resumes it: stalled."""
    q.push(1)
    q.pause()
    assert (q.drain().state, q.drain().because) == ("stalled", "the queue is paused")


@engines
def test_drain_of_a_group_that_is_closed_until_it_is_opened(q: DPQ) -> None:
    """It is stalled until somebody opens the group; a group without tasks holds nothing up."""
    q.push(1, group="g")
    q.delay_group("empty", None)
    assert q.drain().state != "stalled"
    q.delay_group("g", None)
    found = q.drain()
    assert (found.state, found.because) == ("stalled", "group 'g': closed until it is opened")
    q.delay_group("g", 0)
    assert q.drain().state != "stalled"


def look(now: float, came: int, ended: int, backlog: int = 100, **more: Any) -> DrainLook:
    return DrainLook(now, 0.0, backlog, came, ended, more.get("scopes", []))


def measured(before: DrainLook, after: DrainLook) -> Drain:
    return drain_of([after], pace_of([point_of([before]), point_of([after])], patience=0))


@pytest.mark.parametrize(
    ("came", "ended", "state", "seconds"),
    [
        (0, 50, "clears", 20),
        (25, 50, "clears", 40),
        (50, 50, "even", None),
        (60, 50, "even", None),
        (150, 50, "will not drain", None),
        (0, 0, "stalled", None),
        (3, 0, "will not drain", None),
    ],
)
def test_drain_as_measured(came: int, ended: int, state: str, seconds: float | None) -> None:
    """Without limits the tasks that come and end in 10 s decide."""
    drain = measured(look(1000, 7, 9), look(11_000, 7 + came, 9 + ended))
    assert (drain.state, drain.seconds) == (state, seconds)


def test_drain_is_stalled_below_a_hundredth_in_an_hour() -> None:
    """One of 100 tasks in an hour still clears; one of 101 is stalled."""
    hour = 3_600_000
    assert measured(look(0, 0, 0), look(hour, 0, 1)).state == "clears"
    assert measured(look(0, 0, 0), look(hour, 0, 1, 101)).state == "stalled"


def test_a_limit_is_slower_than_what_was_measured() -> None:
    """The later of both is the drain time."""
    gate = Gate([RateLimit(1, 1)], paid=[0.0])
    scopes = [Scope("", 100, gate, [])]
    drain = measured(look(0, 0, 0), look(10_000, 0, 50, scopes=scopes))
    assert (drain.seconds, drain.because) == (99, "the queue: 1/s")
    assert (drain.low, drain.high, drain.about) == (None, None, "1 m 39 s")


def test_a_measured_drain_is_a_range() -> None:
    """50 ends in 10 s are about 5 a second, so 100 tasks take 12 to 30 s; 5 ends have no bound."""
    drain = measured(look(0, 0, 0), look(10_000, 0, 50))
    assert drain.low < 20 < drain.high
    assert drain.about == "12 to 30 s"
    wide = measured(look(0, 0, 0), look(10_000, 0, 5))
    assert (wide.seconds, wide.high, wide.about) == (200, None, "90 s or more")


def test_the_history_says_how_many_come_and_end(q: DPQ, clock: Clock) -> None:
    """Without `over`, slots of the last minutes and the tasks ended since are the pace."""
    remember = q._operations.remember
    q.push_many(Push(i) for i in range(400))
    assert q.drain().state == "unknown"
    for _ in range(4):
        q._session.run(remember)
        clock.advance(60)
        q.ack_many(q.pop_many(60))
    drain = q.drain()
    assert (drain.state, drain.seconds) == ("clears", 160)
    assert drain.because == "0 tasks come and 1 end a second"
    assert drain.low < 160 < drain.high


@engines
def test_drain_is_measured(live: DPQ) -> None:
    """`over` looks twice, and counts what has ended meanwhile."""
    live.push_many(Push(i) for i in range(10))
    assert live.drain(over=0.01).state == "stalled"
    with pytest.raises(ConfigurationError, match="over is 0: it must be seconds"):
        live.drain(over=0)
