"""set_visibility: nobody sees the task for a while; this delivery does not count as a failure."""

import pytest
from kit.moments import task_after


def test_hides(q, clock, probe):
    """The task is delayed for so long, its attempt is not counted, its deferral is."""
    q.push("x")
    task = probe.pop()
    q.set_visibility(task, 45)
    assert probe.state(task.id) == "delayed"
    again = task_after(q, clock, 45)
    assert (again.attempt, again.deliveries, again.deferrals) == (1, 2, 1)
    assert q.stats().deferred == 1


def test_at_once(q, probe):
    """0 makes it visible at once, in its old place, and wakes."""
    q.push("x")
    q.push("y")
    task = probe.pop()
    probe.woken()
    q.set_visibility(task, 0)
    assert probe.woken()
    assert probe.drain() == ["x", "y"]


def test_counted_once(q, clock, probe):
    """Any number of calls in one delivery is one deferral, and the last time counts."""
    q.push("x")
    task = probe.pop()
    for seconds in (45, 0, 10, 20):
        q.set_visibility(task, seconds)
        clock.advance(1)
    assert q.next_event() == 19
    assert (q.get(task.id).deferrals, q.stats().deferred) == (1, 1)


def test_once_in_each_delivery(q, probe):
    """Each delivery counts a deferral of its own."""
    q.push("x")
    for _ in range(3):
        q.set_visibility(probe.pop(), 0)
    assert (q.peek()[0].deferrals, q.peek()[0].attempt) == (3, 1)


def test_then_ack(q, probe):
    """The holder of a hidden task may still finish it."""
    q.push("x")
    task = probe.pop()
    q.set_visibility(task, 45)
    assert q.ack(task) is True
    assert q.size() == 0


@pytest.mark.parametrize("state", ["ready", "waiting"])
def test_after_the_lease_ran_out(q, clock, probe, state):
    """After the lease ran out it still hides the task; the attempt stays counted."""
    q.push("x", group="g")
    task = probe.pop()
    if state == "waiting":
        q.push("better", priority=1, group="g")
    clock.advance(30)
    q.promote()
    assert probe.state(task.id) == state
    q.set_visibility(task, 45)
    again = q.get(task.id)
    assert (again.state, again.attempt, again.deferrals) == ("delayed", 2, 1)
    q.set_visibility(task, 45)
    assert q.get(task.id) == again


def test_after_the_lease_ran_out_then_fail(q, clock, probe):
    """A delivery whose lease ran out, which then deferred and failed, costs one attempt."""
    q.push("x")
    task = probe.pop()
    clock.advance(30)
    q.promote()
    q.set_visibility(task, 45)
    q.fail(task, delay=0)
    again = q.get(task.id)
    assert (again.attempt, again.deferrals) == (2, 1)


def test_head(q, probe):
    """When the head of a group hides late, the next one becomes ready and wakes."""
    q.push("head", group="g", priority=1)
    task = probe.pop()
    q.set_visibility(task, 0)
    q.push("next", group="g")
    probe.woken()
    q.set_visibility(task, 45)
    assert [ready.payload for ready in q.peek()] == ["next"]
    assert probe.woken()


@pytest.mark.parametrize(("seconds", "notice"), [(4.999, True), (5, False)])
def test_notice(q, probe, seconds, notice):
    """A task that is due again within 5 s is told to a waiting consumer and a daemon."""
    q.push("x")
    task = probe.pop()
    probe.redis.delete(probe.key("wake"), probe.key("tick"))
    q.set_visibility(task, seconds)
    assert ({"wake", "tick"} <= set(probe.stored())) is notice
