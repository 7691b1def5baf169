"""fairness="round_robin": groups of equal priority are served in turn, whatever their backlog."""

import pytest
from kit.limits import payloads

from dpq import DPQ, Push


@pytest.fixture
def fair(q, clock) -> DPQ:
    return DPQ(q.redis, q.queue_name, fairness="round_robin", clock=clock)


def fill(q, counts, **more):
    """So many tasks of each group, one group after the other."""
    for group, count in counts.items():
        q.push_many(Push(payload=f"{group}{i}", group=group, **more) for i in range(count))


@pytest.mark.parametrize("one_by_one", [True, False])
def test_in_turn(fair, probe, one_by_one):
    """Groups with 5, 1 and 3 tasks are served one by one, each in its own order."""
    fill(fair, {"a": 5, "b": 1, "c": 3})
    expected = ["a0", "b0", "c0", "a1", "c1", "a2", "c2", "a3", "a4"]
    assert (probe.drain() if one_by_one else payloads(fair)) == expected


def test_named_late(q, clock, probe):
    """Named on a queue in use, turns begin with what is served next, behind the heads as they are.

    Nothing that was pushed before is lost or out of its group's order.
    """
    fill(q, {"a": 3, "b": 2})
    fair = DPQ(q.redis, q.queue_name, fairness="round_robin", clock=clock)
    assert q.check() == []
    fill(fair, {"c": 2})
    assert probe.drain() == ["a0", "b0", "c0", "a1", "b1", "c1", "a2"]
