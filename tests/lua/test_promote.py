"""promote: one bounded step of upkeep."""

import pytest

from dpq import DPQ


def test_nothing(q, clock, probe):
    """Without anything due it changes but the history, and says when to come again."""
    q.push("x", delay=8)
    before = probe.stored()
    assert probe.call("promote", clock(), 100) == [0, 8000]
    assert probe.stored().keys() - before.keys() == {"history"}
    assert before.items() <= probe.stored().items()
    q.purge()
    assert probe.call("promote", clock(), 100) == [0, -1]


@pytest.mark.parametrize("left", ["meta", "dead", "limits", "stats", "workers", "wake"])
def test_gone(q, clock, probe, left):
    """It says that nothing is stored, but not while any data of the queue is."""
    assert probe.call("promote", clock(), 100) == [0, -2]
    if left in ("dead", "wake"):
        probe.redis.zadd(probe.key(left), {"id": 9e15})
    else:
        probe.redis.hset(probe.key(left), "field", "1")
    assert probe.call("promote", clock(), 100) != [0, -2]
    probe.redis.delete(probe.key(left))


def test_each_kind(q, clock, probe):
    """It makes ready what is due: ended leases, delayed tasks, and the best of an opening group."""
    ids = [q.push("lease")]
    probe.pop(visibility=3)
    ids.append(q.push("delayed", delay=2))
    q.delay_group("g", 1)
    ids.append(q.push("group", group="g"))
    q.push("behind", group="g")
    clock.advance(3)
    assert q.promote() == 3
    assert {task.id for task in q.peek()} == set(ids)
    assert q.promote() == 0


def test_in_steps(q, clock, probe):
    """A step moves at most a batch, the longest overdue first."""
    for i in range(5):
        q.push(i, delay=5 - i)
    clock.advance(5)
    assert probe.call("promote", clock(), 2) == [2, 0]
    assert [task.payload for task in q.peek()] == [3, 4]
    assert probe.call("promote", clock(), 2) == [2, 0]
    assert probe.call("promote", clock(), 2) == [1, -1]


def test_wakes_for_ready_tasks_only(q, clock, probe):
    """A consumer is woken when something became ready, not when it went to wait or died."""
    q.push("head", group="g", priority=1)
    q.push("behind", group="g", delay=1)
    q.push("late", delay=1, expires_in=1)
    clock.advance(1)
    probe.woken()
    assert q.promote() == 2
    assert not probe.woken()
    q.push("x", delay=1)
    clock.advance(1)
    probe.woken()
    q.promote()
    assert probe.woken()


def test_trims_old_dead_letters(q, clock, probe):
    """Dead letters over the cap of age go, in steps, without any burial."""
    queue = DPQ(q.redis, q.queue_name, dead_max_age=60, clock=clock)
    for i in range(5):
        queue.push(i, key=f"key {i}")
    for task in queue.pop_many(5):
        queue.bury(task, "r")
    clock.advance(59.999)
    assert probe.call("promote", clock(), 3) == [0, -1]
    clock.advance(0.001)
    assert probe.call("promote", clock(), 3) == [3, -1]
    assert probe.call("promote", clock(), 3) == [2, -1]
    assert not {"dead", "meta", "payload", "keys"} & set(probe.stored())
    assert queue.stats().dropped == 5
