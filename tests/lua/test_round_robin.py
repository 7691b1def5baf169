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


def test_by_default_in_the_order_of_the_tasks(q, probe):
    """Without it the order among groups is that of all tasks."""
    fill(q, {"a": 3, "b": 2})
    assert probe.drain() == ["a0", "a1", "a2", "b0", "b1"]


def test_a_newcomer(fair, probe):
    """A group that comes later has its turn after those that wait, not after their backlog."""
    fill(fair, {"a": 50, "b": 50})
    assert payloads(fair, 3) == ["a0", "b0", "a1"]
    fill(fair, {"c": 2})
    assert payloads(fair, 6) == ["b1", "a2", "c0", "b2", "a3", "c1"]


def test_priorities_come_first(fair, probe):
    """Turns are taken among equal priorities only."""
    fill(fair, {"a": 3}, priority=1)
    fill(fair, {"b": 2, "c": 2})
    fill(fair, {"d": 2}, priority=1)
    assert probe.drain() == ["a0", "d0", "a1", "d1", "a2", "b0", "c0", "b1", "c1"]


@pytest.mark.parametrize("priority", [2**53 + 1, 2**62 + 1, -(2**53) - 1, 0.1])
def test_priorities_that_no_double_holds(fair, probe, priority):
    """Turns keep priorities beyond 2^53 exact."""
    fill(fair, {"a": 3, "b": 2}, priority=priority)
    fair.push("better", priority=priority + 1, group="c")
    fair.push("worse", priority=priority - 1, group="c")
    assert probe.drain() == ["better", "a0", "b0", "a1", "b1", "a2", "worse"]


def test_order_inside_a_group(fair, probe):
    """Inside a group the order is as ever: priority, then first in, first out."""
    for i, priority in enumerate([0, 2, 1, 2, 0]):
        fair.push(i, priority=priority, group="a")
    assert probe.drain() == [1, 3, 2, 0, 4]


def test_tasks_without_a_group(fair, probe):
    """A task without a group stands where its push came, between the turns of groups."""
    fill(fair, {"a": 3})
    fair.push("one")
    fill(fair, {"b": 2})
    fair.push("two")
    assert probe.drain() == ["a0", "one", "b0", "two", "a1", "b1", "a2"]


def test_a_better_head_keeps_the_turn(fair, probe):
    """When a better task replaces a group's head, and goes, the group has been served.

    In its priority it comes with the turn that the old head had.
    """
    fill(fair, {"a": 2, "b": 2, "c": 1})
    fair.push("a better", priority=1, group="a")
    fair.push("c better", priority=1, group="c")
    assert payloads(fair, 2) == ["a better", "c better"]
    assert payloads(fair) == ["b0", "a0", "c0", "b1", "a1"]


def test_an_older_task_of_the_group_keeps_the_turn(fair, clock):
    """A task that comes back to its earlier place takes the turn of the head it replaces."""
    fill(fair, {"a": 3, "b": 3})
    first = fair.pop().task
    assert payloads(fair, 1) == ["b0"]
    fair.release(first)
    assert [task.payload for task in fair.peek()] == ["a0", "b1"]
    assert payloads(fair) == ["a0", "b1", "a1", "b2", "a2"]


def test_what_comes_back_takes_no_turn_of_others(fair, clock):
    """A task that comes back into a group without a head has its turn at the end."""
    fill(fair, {"a": 1, "b": 2, "c": 2})
    first = fair.pop().task
    fair.release(first)
    assert payloads(fair) == ["b0", "c0", "a0", "b1", "c1"]


def test_a_closed_group_goes_to_the_end(fair, clock):
    """A group that opens again stands behind those that have waited."""
    fill(fair, {"a": 2, "b": 2, "c": 2})
    fair.delay_group("a", 10)
    clock.advance(10)
    assert payloads(fair) == ["b0", "c0", "a0", "b1", "c1", "a1"]


def test_a_spent_group_goes_to_the_end(fair, clock):
    """So does one that its limit has closed."""
    fair.set_limit(1, 1, group="a")
    fill(fair, {"a": 3, "b": 4})
    assert payloads(fair, 2) == ["a0", "b0"]
    clock.advance(1)
    assert payloads(fair, 2) == ["b1", "a1"]
    clock.advance(1)
    assert payloads(fair) == ["b2", "a2", "b3"]


def test_of_groups_under_limits(fair, clock):
    """Those that may run take turns, those that may not give way."""
    fair.set_limit(1, 10, burst=2, group="*")
    fill(fair, {"a": 3, "b": 1, "c": 3})
    assert payloads(fair) == ["a0", "b0", "c0", "a1", "c1"]
    clock.advance(10)
    assert payloads(fair) == ["a2", "c2"]


def test_the_queues_limit_keeps_the_turns(fair, clock):
    """Whom the queue's limit puts back keeps its turn."""
    fair.set_limit(1, 1)
    fill(fair, {"a": 2, "b": 2})
    order = []
    for _ in range(4):
        order += payloads(fair)
        assert payloads(fair) == []
        clock.advance(1)
    assert order == ["a0", "b0", "a1", "b1"]


def test_a_429_goes_to_the_end(fair, clock):
    """A group that was closed by a 429 stands behind the others when it opens."""
    fill(fair, {"a": 2, "b": 2, "c": 1})
    fair.rate_limited(fair.pop().task, 5)
    clock.advance(5)
    probe = fair.pop_many(3)
    assert [task.payload for task in probe] == ["b0", "c0", "a0"]
    fair.ack(probe[2])
    assert payloads(fair) == ["b1", "a1"]


def test_rerun(fair, probe):
    """A task that runs again is a new one of its group: behind what the group holds."""
    fair.push("old", group="a", key="k")
    task = fair.pop().task
    fill(fair, {"a": 2, "b": 2})
    fair.push("new", group="a", key="k", on_duplicate="rerun")
    fair.ack(task)
    assert probe.drain() == ["a0", "b0", "a1", "b1", "new"]


def test_rerun_without_a_group(fair, probe):
    """Without a group it stands where its ack came."""
    fair.push("old", key="k")
    task = fair.pop().task
    fill(fair, {"a": 2})
    fair.push("new", key="k", on_duplicate="rerun")
    fair.ack(task)
    fill(fair, {"b": 2})
    assert probe.drain() == ["a0", "new", "b0", "a1", "b1"]


def test_due_tasks(fair, clock, probe):
    """Groups whose tasks come due together take turns from then on."""
    fill(fair, {"a": 3, "b": 2}, delay=1)
    clock.advance(1)
    served = [payload[0] for payload in probe.drain()]
    assert served[:4] in (["a", "b", "a", "b"], ["b", "a", "b", "a"])


def test_a_bytes_bound_keeps_the_turns(fair, clock, probe):
    """A head that is put back because a batch is full keeps its turn."""
    for group in "ab":
        fair.push_many(Push(payload=f"{group}{i}" * 49, group=group) for i in range(2))
    before = probe.stored()["ready"]
    reply = probe.call("pop", clock(), 10, 30_000, 110, 100, "")
    assert len(reply) == 3
    assert probe.stored()["ready"][0] == before[1]
    assert [payload[:2] for payload in payloads(fair)] == ["b0", "a1", "b1"]


def test_named_late(q, clock, probe):
    """Named on a queue in use, turns begin with what is served next, behind the heads as they are.

    Nothing that was pushed before is lost or out of its group's order.
    """
    fill(q, {"a": 3, "b": 2})
    fair = DPQ(q.redis, q.queue_name, fairness="round_robin", clock=clock)
    assert q.check() == []
    fill(fair, {"c": 2})
    assert probe.drain() == ["a0", "b0", "c0", "a1", "b1", "c1", "a2"]


def test_looks(fair, probe):
    """Peek, why, cancel and update know a head whose member has its turn."""
    fill(fair, {"a": 2, "b": 2})
    ids = {task.payload: task.id for task in fair.peek(9) + fair.peek(9, "waiting")}
    assert [task.payload for task in fair.peek()] == ["a0", "b0"]
    assert fair.why(ids["b0"]).startswith("it is ready behind at least 1 ready task, but nobody")
    assert fair.check() == []
    fair.update(ids["a0"], priority=-1)
    assert [task.payload for task in fair.peek()] == ["b0", "a1"]
    fair.cancel(ids["b0"])
    assert probe.drain() == ["a1", "b1", "a0"]


def test_purge(fair, probe):
    """Purging leaves nothing of heads with turns behind."""
    fill(fair, {"a": 3, "b": 2})
    fair.pop()
    assert fair.purge() == 5
    assert not {"ready", "waiting", "groups", "meta"} & set(probe.stored())
