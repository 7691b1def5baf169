"""pop with a wanted id: that task comes, whatever stands before it, but never against a limit."""

import pytest

from dpq import Quota, RateLimit


def take(q, task_id, **how):
    """The payload of the wanted task, or None."""
    task = q.pop(id=task_id, **how).task
    return task and task.payload


@pytest.mark.parametrize("group", [None, "g"])
@pytest.mark.parametrize("fairness", ["none", "round_robin"])
def test_comes_before_better_tasks(q, probe, group, fairness):
    """A ready or a waiting task comes whatever stands before it; all others keep their order."""
    q = type(q)(q.redis, q.queue_name, clock=q._described.clock, fairness=fairness)
    ids = [q.push(n, priority=-n, group=group) for n in range(5)]
    other = q.push("other", group="h")
    assert take(q, ids[3]) == 3
    assert take(q, ids[0]) == 0
    assert take(q, ids[4]) == 4
    assert take(q, other) == "other"
    assert probe.drain() == [1, 2]


def test_not_ready(q, clock):
    """A running, a dead, an unknown and a delayed task do not come; nothing changes."""
    running, dead = q.push("a"), q.push("b")
    q.pop(id=running)
    q.bury(q.pop(id=dead).task, "no")
    delayed = q.push("c", delay=60, group="g")
    before = q.stats()
    for task_id in (running, dead, delayed, "unknown"):
        assert q.pop(id=task_id) == (None, None, None)
    assert q.pop(id=dead, force=True).task is None
    assert q.stats() == before
    assert q.why(delayed).startswith("it is delayed")
    clock.advance(60)
    assert take(q, delayed) == "c"


@pytest.mark.parametrize("group", [None, "g"])
def test_delayed_by_force(q, group):
    """With force a delayed task comes, and is in no other set."""
    task_id = q.push("x", delay=60, group=group)
    task = q.pop(id=task_id, force=True).task
    assert task.payload == "x"
    q.ack(task)
    assert q.size() == 0


LIMITS = {
    "rate": {"rate": 1, "per": 10},
    "moving": {"rate": [RateLimit(1, 10, moving=True)]},
    "quota": {"rate": Quota(1, "day")},
    "concurrency": {"concurrency": 1},
}


@pytest.mark.parametrize("group", [None, "g", "*"])
@pytest.mark.parametrize("limit", LIMITS.values(), ids=LIMITS)
def test_never_against_a_limit(q, clock, group, limit):
    """The limits of its group and of the queue let it run or not; a task so taken is charged."""
    named = "g" if group == "*" else group
    ids = [q.push(n, group=named) for n in range(3)]
    late = q.push("late", delay=5000, group=named)
    q.set_limit(**limit, group=group)
    assert take(q, ids[1]) == 1  # takes the only unit
    before = q.stats()
    assert take(q, ids[2]) is None
    assert take(q, late, force=True) is None
    assert q.pop().task is None  # as any pop
    assert take(q, ids[2]) is None  # also once the group is closed
    now = q.stats()
    assert (now.ready + now.waiting, now.delayed) == (before.ready + before.waiting, 1)
    clock.advance(200_000)
    assert q.pop().task.payload == 0


def test_a_429_and_a_pause_hold(q, clock):
    """A closed group, a paused queue and a probe that runs let no task come."""
    ids = [q.push(n, group="g") for n in range(4)]
    q.rate_limited(q.pop().task, 30)
    assert take(q, ids[2]) is None
    clock.advance(31)
    probe = q.pop(id=ids[2]).task
    assert probe.payload == 2
    assert take(q, ids[3]) is None
    q.ack(probe)
    q.pause()
    assert take(q, ids[3]) is None
    q.resume()
    assert take(q, ids[3]) == 3
