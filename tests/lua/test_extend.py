"""extend: a lease now ends later, or earlier."""

import pytest
from kit.deliveries import put_back
from kit.moments import task_after


@pytest.mark.parametrize("seconds", [0.001, 5, 300, 315_360_000])
def test_running(q, clock, probe, seconds):
    """The lease ends so many seconds from now, later or earlier than before."""
    q.push("x")
    task = probe.pop(visibility=60)
    clock.advance(7)
    end = q.extend(task, seconds)
    assert end.timestamp() * 1000 == pytest.approx(clock.ms + seconds * 1000, abs=0.1)
    assert q.get(task.id).visible_until == end
    assert task_after(q, clock, seconds).attempt == 2


@pytest.mark.parametrize("state", ["ready", "waiting", "delayed"])
def test_taken_back_in_a_group_of_one_at_a_time(q, clock, probe, state):
    """A lease that is taken back from any state counts in its group until it ends."""
    q.set_limit(concurrency=1, group="g")
    q.push("x", group="g")
    task = probe.pop()
    put_back(q, clock, task, state)
    q.extend(task, 45)
    q.push("next", group="g", priority=10)
    assert q.pop().task is None
    q.ack(task)
    assert probe.pop().payload == "next"


def test_one_delivery_counts_once(q, clock, probe):
    """However often a delivery's lease runs out, it costs one attempt."""
    q.push("x", max_attempts=2)
    task = probe.pop()
    for _ in range(3):
        clock.advance(45)
        q.promote()
        assert q.get(task.id).attempt == 2
        q.extend(task, 45)
    clock.advance(45)
    again = probe.pop()
    assert (again.attempt, again.deliveries) == (2, 2)
    assert q.stats().expired_leases == 4
