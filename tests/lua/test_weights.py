"""Weights: with round robin a group of weight 3 gets three turns where others get one."""

from typing import Any

import pytest
from kit.limits import LONG, take

from dpq import DPQ, Push


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
