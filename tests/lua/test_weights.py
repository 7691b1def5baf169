"""Weights: with round robin a group of weight 3 gets three turns where others get one."""

from typing import Any

import pytest
from kit.limits import LONG, take

from dpq import DPQ, ConfigurationError, Push


@pytest.fixture
def fair(q, clock) -> DPQ[Any]:
    return DPQ(q.redis, q.queue_name, fairness="round_robin", clock=clock)


def fill(q: DPQ[Any], groups: str, count: int = 50, **more: Any) -> None:
    """So many tasks of each group, whose name is a letter."""
    for group in groups:
        q.push_many(Push(n, group=group, **more) for n in range(count))


def order(q: DPQ[Any], most: int, one_by_one: bool = False) -> str:
    """The groups of the next tasks, in their order."""
    if not one_by_one:
        return "".join(str(task.group) for task in q.pop_many(most, visibility=LONG))
    return "".join(str(take(q).group) for _ in range(most))


@pytest.mark.parametrize("one_by_one", [True, False])
def test_three_turns_where_others_get_one(fair, one_by_one):
    """Whatever the size of the pops; the others keep their places."""
    fair.set_limit(group="a", weight=3)
    fill(fair, "abc")
    assert order(fair, 15, one_by_one) == "aaabc" * 3
    assert fair.check() == []


def test_less_than_one(fair):
    """A group of weight 0.5 lets every second turn pass; one of 2.5 has two, then three."""
    fair.set_limit(group="a", weight=0.5)
    fair.set_limit(group="b", weight=2.5)
    fill(fair, "abc")
    rounds = "bbc" + "abbbc"
    assert order(fair, 24) == rounds * 3
    assert fair.check() == []


WEIGHTS = [(3, 1, 1), (2.5, 1, 1.4), (100, 1, 7)]
SMALL = [(0.01, 1, 0.3), (0.07, 0.02, 0.05), (1.1, 1, 0.9)]


def are_of_the_past(q: DPQ[Any]) -> bool:
    """The turns of all partitions are: a push of many tasks draws numbers ahead of the clock."""
    seconds, us = q.redis.time()
    turns = [q.redis.hget(conf, "turns") or 0 for conf in q._operations.confs]
    return all(int(turn) < seconds * 100_000 + us // 10 for turn in turns)


def test_a_group_that_was_idle_gains_no_credit(fair):
    """It comes back with the turns of its weight, and at the end of the line."""
    fair.set_limit(group="a", weight=3)
    fill(fair, "bc")
    assert order(fair, 10) == "bc" * 5
    fill(fair, "a", 1)
    assert order(fair, 9) == "bcabcbcbc"
    fill(fair, "a", 7)
    assert order(fair, 12) == "bcaaabcaaabc"
    assert order(fair, 4) == "abcb"


def test_what_is_left_of_a_turn_is_no_credit(fair, clock):
    """A group that empties, or that its limit closes in its turn, begins a new one later."""
    fair.set_limit(1, 1, burst=2, group="a", weight=3)
    fill(fair, "ab", 9)
    assert order(fair, 4) == "aabb"
    clock.advance(2)
    assert order(fair, 4) == "baab"


def test_without_round_robin_it_means_nothing(q):
    """The order of the tasks decides."""
    q.set_limit(group="a", weight=3)
    q.push_many(Push(n, group=group) for n in range(3) for group in "ab")
    assert order(q, 6) == "ababab"


def test_every_group(fair):
    """The weight of "*" holds for groups without a limit of their own."""
    fair.set_limit(100, 1, burst=50, group="*", weight=2)
    fair.set_limit(group="c", weight=1)
    fill(fair, "abc")
    assert order(fair, 10) == "aabbcaabbc"
    states = {state.group: state.weight for state in fair.limits()}
    assert states == {None: 1, "*": 2, "c": 1}
    assert (fair.group("a").weight, fair.group("c").default) == (2, False)


def test_priorities_come_first(fair):
    """Turns are taken among equal priorities only."""
    fair.set_limit(group="a", weight=2)
    fill(fair, "a", 3)
    fill(fair, "b", 9)
    fill(fair, "ab", 2, priority=1)
    assert order(fair, 9) == "aabbaabab"


def test_alone_it_waits_for_nobody(fair):
    """A group of the smallest weight runs at once while no other wants to."""
    fair.set_limit(group="a", weight=0.01)
    fill(fair, "a", 5)
    assert order(fair, 5) == "aaaaa"


def test_other_limits_beside_it(fair, clock):
    """A queue that refuses takes no turn; members and weights go together."""
    fair.set_limit(1, 1, burst=2)
    fair.set_limit(100, 1, burst=50, group="a", members=["x", "y"], weight=3)
    fill(fair, "ab")
    seen = ""
    for _ in range(4):
        clock.advance(2)
        seen += order(fair, 9)
    assert seen == "aaabaaab"
    assert fair.group("a").weight == 3
    assert fair.check() == []


def test_a_cleared_weight(fair):
    """The group has one turn again, and nothing is left of it."""
    fair.set_limit(group="a", weight=5)
    fill(fair, "ab")
    assert order(fair, 2) == "aa"
    fair.clear_limit("a")
    assert order(fair, 20).count("a") <= 13
    assert fair.check() == []


@pytest.mark.parametrize("weight", [0, 0.009, 100.1, -1, float("nan"), "3", True])
def test_bounds(q, weight):
    """The error names the value and the bounds."""
    with pytest.raises(ConfigurationError, match=r"weight is .*: it must be .* from 0.01 to 100"):
        q.set_limit(group="g", weight=weight)
    with pytest.raises(ConfigurationError, match="weight is given for the queue"):
        q.set_limit(1, 1, weight=2)
