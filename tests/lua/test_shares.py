"""fairness="units": groups of equal priority take turns by the units that they spend."""

from collections import Counter
from typing import Any

import pytest
from kit.limits import LONG, take

from dpq import DPQ, ConfigurationError, Push


@pytest.fixture
def fair(q, clock) -> DPQ[Any]:
    return DPQ(q.redis, q.queue_name, fairness="units:tokens", clock=clock)


def fill(q: DPQ[Any], group: str, count: int, tokens: int, **more: Any) -> None:
    """So many tasks of a group, of so many tokens each."""
    cost = {"tokens": tokens}
    q.push_many(Push(n, group=group, cost=cost, **more) for n in range(count))


def order(q: DPQ[Any], most: int, one_by_one: bool = False) -> str:
    """The groups of the next tasks, in their order."""
    if not one_by_one:
        return "".join(str(task.group) for task in q.pop_many(most, visibility=LONG))
    return "".join(str(take(q).group) for _ in range(most))


@pytest.mark.parametrize("one_by_one", [True, False])
def test_costs_of_one_and_ten(fair, one_by_one):
    """Two groups spend the same: one task of 10 units for ten of 1 unit."""
    fill(fair, "a", 20, 10)
    fill(fair, "b", 100, 1)
    assert order(fair, 44, one_by_one) == ("a" + "b" * 10) * 4
    assert fair.check() == []
