"""True-up: what a delivery has told of its cost replaces what it was charged."""

import random
from fractions import Fraction
from math import ceil, floor
from typing import Any

import pytest
from kit.limits import LONG, SCOPES, payloads
from kit.refunds import Window

from dpq import DPQ, RateLimit, Task
from dpq.script.keys import key_of

TOKENS = RateLimit(6000, 60, burst=1000, unit="tokens", slack=0)
"""6000 tokens a minute, one each 10 ms."""

MEMBER = "member"
"""The scope of the only member of the group's pool."""


def left(q: DPQ[Any], scope: str | None, window: int = -1) -> float:
    """The units that a window of a scope would grant now."""
    state = q.admin.limits()[0] if scope is None else q.admin.group("g")
    return (state.members[0] if scope == MEMBER else state).units_left[window]


def limit(q: DPQ[Any], scope: str | None) -> None:
    """Set the limit of tokens on a scope."""
    if scope == MEMBER:
        q.set_limit([TOKENS], group="g", members=["a"])
    else:
        q.set_limit([TOKENS], group=scope)


def gate(q: DPQ[Any], redis: Any, scope: str | None) -> str:
    """The stored gate."""
    if scope is None:
        return (redis.hget(key_of(q.queue_name, "conf"), "queue_gate") or b"").decode()
    return (redis.hget(key_of(q.queue_name, "gates"), "g") or b"").decode()


ENDS = {
    "spent": lambda q, task, units: q.spent(task, tokens=units),
    "ack": lambda q, task, units: q.ack(task, {"tokens": units}),
    "ack_many": lambda q, task, units: q.ack_many([task], [{"tokens": units}]),
    "fail": lambda q, task, units: q.fail(task, "no", 9999, cost={"tokens": units}),
    "bury": lambda q, task, units: q.bury(task, "no", cost={"tokens": units}),
    "release": lambda q, task, units: q.release(task, 9999, cost={"tokens": units}),
    "rate_limited": lambda q, task, units: q.rate_limited(task, 5, "task", {"tokens": units}),
}


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("scope", [*SCOPES, MEMBER])
def test_less_is_given_back_and_more_is_owed(q: DPQ[Any], scope: str | None, end: str) -> None:
    """Every end of a delivery may tell it; what is told replaces what was reserved."""
    limit(q, scope)
    q.push("a", group="g", cost={"tokens": 700}, max_attempts=2)
    task = q.pop(visibility=LONG).task
    assert left(q, scope) == 300
    ENDS[end](q, task, 200)
    assert left(q, scope) == 800
    q.push("b", 9, group="g", cost={"tokens": 100})
    task = q.pop(visibility=LONG).task
    assert left(q, scope) == 700
    ENDS[end](q, task, 2000)
    assert left(q, scope) == -1200
    assert q.check() == []


@pytest.mark.parametrize("scope", [*SCOPES, MEMBER])
def test_what_is_given_back_lets_the_next_task_run(q: DPQ[Any], scope: str | None) -> None:
    """At once: a closed group opens, a waiting consumer is told."""
    limit(q, scope)
    for name in "abc":
        q.push(name, group="g", cost={"tokens": 600})
    task = q.pop(visibility=LONG).task
    assert payloads(q) == []
    assert q.next_event() is not None
    q.ack(task, cost={"tokens": 100})
    assert payloads(q) == ["b"]
    assert q.check() == []


def test_once_for_each_unit_and_delivery(q: DPQ[Any], clock: Any) -> None:
    """The first told value counts, in any verb; another unit may follow; another delivery too."""
    q.set_limit([RateLimit(60, 60, 50, slack=0), TOKENS], group="g")
    q.push("a", group="g", cost={"": 10, "tokens": 700})
    task = q.pop(visibility=LONG).task
    assert q.spent(task, tokens=200) is True
    assert q.spent(task, tokens=200) is False
    assert q.spent(task, tokens=100) is False
    assert q.admin.group("g").units_left == (40, 800)
    assert q.spent(task, {"tokens": 1, "other": 5}) is True  # the other unit was new
    assert q.spent(task, 20) is True
    assert q.admin.group("g").units_left == (30, 800)
    q.release(task, cost={"tokens": 0, "": 0})
    assert q.admin.group("g").units_left == (30, 800)
    clock.advance(1)
    task = q.pop(visibility=LONG).task
    assert q.spent(task, tokens=500) is True
    assert q.ack(task, cost={"tokens": 0}) is True
    assert q.ack(task, cost={"tokens": 0}) is False
    assert q.admin.group("g").units_left == (21, 400)
    assert q.check() == []


def test_a_lease_that_ran_out_gives_nothing_back(q: DPQ[Any], clock: Any) -> None:
    """Nobody knows what a dead consumer has spent."""
    q.set_limit([TOKENS], group="g")
    q.push("a", group="g", cost={"tokens": 900})
    q.pop(visibility=1)
    clock.advance(1)
    q.promote()
    assert left(q, "g") == 200


def test_a_429_gives_all_but_the_request_back(q: DPQ[Any]) -> None:
    """Unless it is told otherwise; a second call changes nothing more."""
    q.set_limit([RateLimit(60, 60, 50, slack=0), TOKENS], group="*")
    q.push("a", group="g", cost={"tokens": 700})
    q.push("b", group="h", cost={"tokens": 700})
    a, b = q.pop_many(2, visibility=LONG)
    q.rate_limited(a, 0, "task")
    assert q.admin.group("g").units_left == (49, 1000)
    q.rate_limited(a, 0, "task", {"tokens": 500})
    assert q.admin.group("g").units_left == (49, 1000)
    q.rate_limited(b, 0, "task", {"tokens": 500, "": 3})
    assert q.admin.group("h").units_left == (47, 500)
    assert q.check() == []


def test_an_idle_time_is_not_credited_twice(q: DPQ[Any], clock: Any) -> None:
    """A full bucket at a later grant has forgotten what was reserved before: no refund."""
    q.set_limit([TOKENS], group="g")
    q.push("a", group="g", cost={"tokens": 1000})
    q.push("b", group="g", cost={"tokens": 1000})
    task = q.pop(visibility=LONG).task
    clock.advance(10.5)
    assert payloads(q) == ["b"]
    q.ack(task, cost={"tokens": 0})
    assert left(q, "g") == 0
    assert q.check() == []


# Estimates


ESTIMATED = RateLimit(6000, 60, burst=1000, unit="tokens", slack=0, estimate=100)


@pytest.mark.parametrize("scope", SCOPES)
def test_an_estimate_is_reserved(q: DPQ[Any], redis: Any, scope: str | None) -> None:
    """For a task that names no cost in that unit; it is told as if it had been named."""
    q.set_limit([ESTIMATED], group=scope)
    q.push("none", 9, group="g")
    q.push("zero", 8, group="g", cost={"tokens": 0})
    q.push("named", 7, group="g", cost={"tokens": 50, "other": 1})
    none, zero, named = q.pop_many(3, visibility=LONG)
    assert left(q, scope) == 850
    assert (none.costs, zero.costs, named.costs) == (
        None,
        {"tokens": 0},
        {"tokens": 50, "other": 1},
    )
    assert b" 1,tokens~100 " in redis.hget(key_of(q.queue_name, "meta"), none.id)
    assert q.get(none.id).costs is None
    q.ack(none, cost={"tokens": 30})
    assert left(q, scope) == 920
    q.ack(zero, cost={"tokens": 10})
    q.ack(named, cost={"tokens": 70})
    assert left(q, scope) == 890
    assert "Etokens:30 " in gate(q, redis, scope)
    assert q.check() == []


def test_the_estimate_follows_what_was_spent(q: DPQ[Any]) -> None:
    """The 95th percentile of the last twenty values, by nearest rank."""
    q.set_limit([RateLimit(60_000, 60, burst=60_000, unit="t", slack=0, estimate=100)], group="g")
    spent: list[int] = []
    for value in [500, 400, 10, 300, *range(1, 40)]:
        q.push("x", group="g")
        before = left(q, "g")
        task = q.pop(visibility=LONG).task
        reserved = sorted([*spent[-20:], *[100] * (20 - len(spent[-20:]))])[18]
        assert round(before - left(q, "g")) == reserved
        q.ack(task, cost={"t": value})
        spent.append(value)
    assert q.check() == []


# In random runs


@pytest.mark.many_calls
@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("rate", [120, 400_000])
def test_as_the_exact_rule_says(q: DPQ[Any], clock: Any, seed: int, rate: int) -> None:
    """What is left agrees with the rule in exact fractions after each grant and each told cost, of
    a group and of the queue; and by final costs no window holds more than its bound."""
    chance = random.Random(seed)
    burst = chance.choice([5, 40])
    windows = [RateLimit(rate, 60, burst, unit="t", slack=0), RateLimit(600, 60, 99)]
    q.set_limit(windows, group="g")
    q.set_limit([RateLimit(rate, 60, burst + 3, unit="t", slack=0)])
    interval = Fraction(ceil(60_000 / rate * 4096), 4096) if rate < 1000 else Fraction(60_000, rate)
    models = {"g": (burst, Window()), None: (burst + 3, Window())}
    out: list[tuple[Task[Any], int]] = []  # with its number
    grants: list[list[Any]] = []  # the moment, what was reserved, and what was spent
    for step in range(250):
        clock.advance(chance.choice([0, 0.001, 0.25, 1, 4]))
        now = Fraction(clock.ms)
        if len(out) < 6 and chance.random() < 0.6:
            reserved = chance.randint(1, burst)
            task_id = q.push(step, step, group="g", cost={"t": reserved})
            task = q.pop(visibility=LONG).task
            if task is None:
                q.cancel(task_id)
                continue
            grants.append([now, reserved, reserved])
            out.append((task, len(grants)))
            for _, window in models.values():
                window.grant(len(grants), now, grain_up(reserved * interval))
        elif out:
            task, number = out.pop(chance.randrange(len(out)))
            at, reserved, _ = grants[number - 1]
            spent = chance.randint(0, reserved + (3 if chance.random() < 0.2 else 0))
            assert q.spent(task, t=spent)
            grants[number - 1][2] = min(spent, reserved)
            for _, window in models.values():
                if spent < reserved:
                    window.give_back(number, grain_down((reserved - spent) * interval))
                else:
                    window.owe(
                        number,
                        at + grain_up(reserved * interval),
                        grain_up((spent - reserved) * interval),
                    )
            q.ack(task)
        seen = {"g": q.admin.group("g").units_left[-1], None: q.admin.limits()[0].units_left[-1]}
        for scope, (units, window) in models.items():
            owed = max(Fraction(0), window.paid - Fraction(clock.ms)) / interval
            assert abs(seen[scope] - float(units - owed)) < 1e-3, (step, scope)
    for i, (start, _, _) in enumerate(grants):
        used = sum(spent for at, _, spent in grants[i:] if at < start + 60_000)
        assert used <= rate + burst - 1
    assert len(grants) > 40
    assert q.check() == []


def grain_up(ms: Fraction) -> Fraction:
    """To whole grains of 2^-12 ms."""
    return Fraction(ceil(ms * 4096), 4096)


def grain_down(ms: Fraction) -> Fraction:
    return Fraction(floor(ms * 4096), 4096)
