"""fairness="units": groups of equal priority take turns by the units that they spend."""

import random
from collections import Counter
from typing import Any

import pytest
from kit.limits import LONG, take

from dpq import DPQ, ConfigurationError, Push


@pytest.fixture
def fair(q, clock) -> DPQ[Any]:
    return DPQ(q.redis, q.queue_name, fairness="units:tokens", clock=clock)


def fill(q: DPQ[Any], group: str | None, count: int, tokens: int, **more: Any) -> None:
    """So many tasks of a group, of so many tokens each."""
    cost = {"tokens": tokens}
    q.push_many(Push(n, group=group, cost=cost, **more) for n in range(count))


def order(q: DPQ[Any], most: int, one_by_one: bool = False) -> str:
    """The groups of the next tasks, in their order; "-" for none."""
    tasks = (take(q) for _ in range(most)) if one_by_one else q.pop_many(most, visibility=LONG)
    return "".join(task.group or "-" for task in tasks)


def shares(q: DPQ[Any]) -> dict[str, str]:
    """What is stored of what groups have spent, by group; "" is the clock of all."""
    stored = q.redis.hgetall(f"dpq:{{{q.queue_name}}}:groups")
    texts = {text(name): text(value) for name, value in stored.items()}
    return {name[1:]: value for name, value in texts.items() if name.startswith("\t")}


def text(value: bytes | str) -> str:
    return value if isinstance(value, str) else value.decode()


@pytest.mark.parametrize("seed", range(2))
def test_shares(fair, clock, seed):
    """Of any two groups that both have tasks, each gets its weight's share, within one task of
    each: over every interval, with random costs, weights and pops, while another group closes.
    """
    chance = random.Random(seed)
    weights = {"a": 1.0, "b": chance.choice([0.25, 3.0]), "c": chance.choice([1.0, 10.0])}
    for group, weight in weights.items():
        if weight != 1:
            fair.set_limit(group=group, weight=weight)
    most = {"a": 1, "b": 40, "c": chance.choice([7, 300])}
    for group in weights:
        costs = [chance.randint(1, most[group]) for _ in range(300)]
        fair.push_many(Push(n, group=group, cost={"tokens": n}) for n in costs)
    fill(fair, "closes", 50, 5)
    spent, seen = Counter[str](), [dict.fromkeys("abc", 0.0)]
    while all(fair.admin.group(group).waiting for group in weights) and len(seen) < 150:
        if chance.random() < 0.1:
            fair.delay_group("closes", chance.choice([0, 5]))
            clock.advance(1)
        for task in fair.pop_many(chance.choice([1, 1, 4]), visibility=LONG):
            spent[task.group or ""] += task.payload
            seen.append({group: spent[group] / weights[group] for group in weights})
            if chance.random() < 0.5:
                fair.ack(task)
    for one, other in ("ab", "bc", "ca"):
        ahead = [at[one] - at[other] for at in seen]
        bound = most[one] / weights[one] + most[other] / weights[other] + 0.01
        assert max(ahead) - min(ahead) <= bound, (one, other, weights)
    assert len(seen) > 50
    assert fair.check() == []


@pytest.mark.parametrize("kept", [True, False])
def test_a_group_that_was_idle(fair, probe, kept):
    """It has neither the credit of the time in which it had no task, nor its old debt; whether
    it was forgotten meanwhile or not.
    """
    fill(fair, "a", 1, 10)
    fill(fair, "b", 40, 10)
    assert order(fair, 12) == "a" + "b" * 11
    if kept:
        probe.redis.hset(probe.key("groups"), "\ta", "10 10 10")
    fill(fair, "a", 9, 10)
    assert Counter(order(fair, 6)) == {"a": 3, "b": 3}


def test_priorities_come_first(fair):
    """A higher priority comes before all turns, and what it spends counts as one task below."""
    fill(fair, "a", 5, 10)
    fill(fair, "b", 9, 10)
    fill(fair, "a", 6, 10, priority=1)
    assert order(fair, 6) == "aaaaaa"
    served = order(fair, 8)
    assert served[0] == "b"
    assert served.count("a") in (3, 4)


def test_nothing_stays_behind(fair):
    """Once no task is ready or waits, nothing is stored of groups; before that, of few."""
    for n in range(200):
        fill(fair, f"g{n}", 1, 10)
    fill(fair, "busy", 250, 10)
    order(fair, 201)
    assert len(shares(fair)) > 200  # all have a debt, as far as anybody is behind it
    order(fair, 240)
    assert len(shares(fair)) < 100
    order(fair, 9)
    assert shares(fair) == {}
    assert fair.check() == []


@pytest.mark.parametrize(
    ("fairness", "message"),
    [
        ("units:", "fairness is 'units:': it must be 'none'"),
        ("units:Tokens", "the unit of fairness is 'Tokens'"),
        ("tokens", "it must be 'none', 'round_robin', 'units', or 'units:'"),
        ("time", "fairness is 'time': it must be 'none', 'round_robin', 'units', or 'units:'"),
        (["units"], "it must be 'none'"),
    ],
)
def test_bounds(q, fairness, message):
    """The error names the value and what it may be."""
    with pytest.raises(ConfigurationError, match=message):
        DPQ(q.redis, q.queue_name, fairness=fairness)
