"""Moving windows: never more than the rate in any `per` seconds, at whatever speed."""

import math
import random
from typing import Any

import pytest
from kit.limits import LONG, SCOPES, fill, payloads, take
from redis import Redis

from dpq import DPQ, RateLimit, Reserve
from dpq.limits.permit import Caller, PermitRequest
from dpq.script.keys import key_of

TEN = RateLimit(10, 60, moving=True, slack=0)
TOKENS = RateLimit(1000, 60, moving=True, slack=0, unit="tokens")


def gate(q: DPQ[Any], redis: Redis, scope: str | None = "g") -> str:
    """The stored gate."""
    if scope is None:
        return (redis.hget(key_of(q.queue_name, "conf"), "queue_gate") or b"").decode()
    return (redis.hget(key_of(q.queue_name, "gates"), scope) or b"").decode()


def slots(text: str) -> int:
    """The slots of the only window in a gate: those behind the bar, and the last one."""
    return text.partition("|")[2].count(":") + 1


def left(q: DPQ[Any], window: int = 0) -> float:
    """The units that a window of g would grant now."""
    return q.admin.group("g").units_left[window]


@pytest.mark.parametrize("scope", SCOPES)
def test_at_whatever_speed(q: DPQ[Any], clock: Any, scope: str | None) -> None:
    """All units at once, or as they come; each comes back when it has left the window."""
    q.set_limit([TEN], group=scope)
    fill(q, 40)
    assert payloads(q, 3) == [0, 1, 2]
    clock.advance(20)
    assert len(payloads(q)) == 7
    clock.advance(39.999)
    assert payloads(q) == []
    clock.advance(0.002)
    assert payloads(q) == [10, 11, 12]
    clock.advance(20)
    assert len(payloads(q)) == 7
    clock.advance(1000)
    assert len(payloads(q)) == 10


@pytest.mark.parametrize("scope", SCOPES)
def test_a_reserve(q: DPQ[Any], clock: Any, scope: str | None) -> None:
    """Tasks of a lower priority leave the reserved units, also when all units come back."""
    q.set_limit([RateLimit(10, 60, reserve=Reserve(4, 5), moving=True)], group=scope)
    fill(q, 10)
    assert len(payloads(q)) == 6
    fill(q, 5, priority=7)
    assert len(payloads(q)) == 4
    clock.advance(60.001)
    assert len(payloads(q)) == 5, "one is important, and leaves 9 to the others but for 4"
    q.set_limit([RateLimit(10, 30, reserve=Reserve(4, 5), moving=True)], group=scope)
    fill(q, 1, priority=1, cost=8)
    assert len(payloads(q)) == 1, "nothing was granted: it need not leave what it cannot"


def test_a_cost_above_the_rate_has_the_window_for_itself(q: DPQ[Any], clock: Any) -> None:
    """It waits until nothing is in the window, and nothing else comes until it has left."""
    q.set_limit([TEN], group="g")
    fill(q, 1)
    assert payloads(q) == [0]
    q.push("heavy", 1, group="g", cost=25)
    fill(q, 2)
    clock.advance(60.001)
    assert payloads(q) == ["heavy"]
    assert left(q) == -15
    clock.advance(60)
    assert payloads(q) == []
    clock.advance(0.001)
    assert payloads(q) == [0, 1]


ENDS = {
    "spent": lambda q, task, units: q.spent(task, tokens=units),
    "ack": lambda q, task, units: q.ack(task, {"tokens": units}),
    "fail": lambda q, task, units: q.fail(task, "no", 9999, cost={"tokens": units}),
    "release": lambda q, task, units: q.release(task, 9999, cost={"tokens": units}),
}


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("scope", SCOPES)
def test_what_was_spent_replaces_what_was_reserved(
    q: DPQ[Any], clock: Any, scope: str | None, end: str
) -> None:
    """In the slot of the grant, exactly, whatever was granted since: so it leaves with it."""
    q.set_limit([TOKENS], group=scope)
    units = (lambda: q.admin.limits()[0].units_left[0]) if scope is None else lambda: left(q)
    tasks = []
    for n in range(4):
        q.push(n, group="g", cost={"tokens": 200})
        tasks.append(take(q))
        clock.advance(10)
    assert units() == 200
    ENDS[end](q, tasks[1], 50)
    assert units() == 350
    ENDS[end](q, tasks[2], 900)
    assert units() == -350
    ENDS[end](q, tasks[0], 0)
    assert units() == -150
    clock.advance(20.001)  # the first one has left: it was no longer there
    assert units() == -150
    clock.advance(10)
    assert units() == -100, "the second one has left, with what it has spent"
    ENDS[end](q, tasks[3], 210)
    assert units() == -110
    clock.advance(10)
    assert units() == 790
    q.push("next", group="g", cost={"tokens": 790})
    assert payloads(q) == ["next"]


@pytest.mark.many_calls
@pytest.mark.parametrize("seed", range(2))
def test_the_bound_and_the_rate_in_saturation(
    q: DPQ[Any], clock: Any, redis: Redis, seed: int
) -> None:
    """No window gets more than the rate; of what an exact log grants at most 1/64 is lost. Nor does
    the memory of it grow with what is granted: a slot holds a 64th of the window."""
    chance = random.Random(seed)
    per = chance.choice([0.9, 7.0, 60.0, 3600.0])
    cost, count = chance.choice([1, 7]), chance.choice([40, 200])
    rate = cost * count
    pause = chance.choice([0.01, 0.2]) * per
    q.set_limit([RateLimit(rate, per, moving=True, slack=0)], group="g")
    fill(q, 6 * count, cost=cost)
    granted: list[tuple[float, int]] = []
    exact: list[float] = []
    begin = clock.ms
    while clock.ms < begin + 4 * per * 1000:
        granted += [(clock.ms, cost)] * len(q.pop_many(1000, visibility=LONG))
        assert slots(gate(q, redis)) <= 65
        assert len(gate(q, redis)) < 700
        room = count - sum(at > clock.ms - per * 1000 for at in exact)
        exact += [clock.ms] * room
        clock.ms += math.ceil(chance.random() * 2 * pause * 1000)
    for start, _ in granted:
        units = sum(each for at, each in granted if start <= at < start + per * 1000)
        assert units <= rate
    assert len(granted) >= (len(exact) - count) * 63 / 64


def test_permits_and_tasks(q: DPQ[Any], clock: Any, redis: Redis) -> None:
    """A permit books the moment when enough has left; the next one comes behind it."""
    q.set_limit([RateLimit(4, 2, moving=True, slack=0)], group="g")
    run, operations = q._session.run, q._operations

    def ask(cost: int) -> float:
        request = PermitRequest("g", cost, None, 0, 60.0)
        return run(operations.acquire, Caller(request, 0.0), 0.0).wait

    fill(q, 2)
    assert len(payloads(q)) == 2
    clock.advance(0.5)
    assert ask(2) == 0
    assert ask(1) == pytest.approx(1.5, abs=0.001)
    assert ask(2) == pytest.approx(2.0, abs=0.001), "one has left by then, and two must"
    fill(q, 3)
    assert payloads(q) == [], "what is booked is gone"
    clock.advance(2.001)
    assert payloads(q) == [0], "three are booked"
    assert slots(gate(q, redis)) <= 3
