"""release: give a task back, not counted; it keeps its place among equals."""

import pytest
from kit.moments import task_after

from dpq import LeaseLostError


def test_uncounted(q, probe):
    """A released task is ready at once, its attempt not counted, its delivery counted."""
    q.push("x")
    task = probe.pop()
    probe.woken()
    q.release(task)
    assert probe.woken()
    again = probe.pop()
    assert (again.attempt, again.deliveries, again.deferrals) == (1, 2, 0)
    assert again.token > task.token


def test_keeps_its_place(q, probe):
    """However often a task is given back, it stays before its later equals."""
    for i in range(3):
        q.push(i)
    for _ in range(3):
        q.release(probe.pop())
    assert probe.drain() == [0, 1, 2]


def test_delay(q, clock, probe):
    """With a delay it is delayed for so long."""
    q.push("x")
    q.release(probe.pop(), 7)
    assert task_after(q, clock, 7).attempt == 1


@pytest.mark.parametrize("priority", [9, -2, 2**53 + 1, 2**62 + 1, -(2**63), 2**63 - 2])
def test_priority(q, probe, priority):
    """With a priority it comes back at exactly that one, in its old place among the equals."""
    q.push("x")
    task = probe.pop()
    q.push("equal", priority=priority)
    q.push("higher", priority=priority + 1)
    q.release(task, priority=priority)
    again = q.get(task.id)
    assert (again.priority, type(again.priority)) == (priority, int)
    assert probe.drain() == ["higher", "x", "equal"]


def test_twice(q, probe):
    """The same release again succeeds and changes nothing."""
    q.push("x")
    task = probe.pop()
    q.release(task, 5)
    before = probe.stored()
    q.release(task, 50, priority=3)
    assert probe.stored() == before


def test_in_a_group(q, probe):
    """A released task that is better than its group's head becomes the head again."""
    for i in range(3):
        q.push(i, group="g")
    task = probe.pop()
    assert [ready.payload for ready in q.peek()] == [1]
    q.release(task)
    assert [ready.payload for ready in q.peek()] == [0]
    assert probe.drain() == [0, 1, 2]


@pytest.mark.parametrize("state", ["ready", "waiting", "delayed"])
def test_late(q, clock, probe, state):
    """A release after the lease ended, or a deferral, works until somebody pops the task."""
    q.push("x", group="g")
    task = probe.pop()
    if state == "waiting":
        q.push("better", priority=1, group="g")
    if state == "delayed":
        q.set_visibility(task, 50)
    else:
        clock.advance(30)
        q.promote()
    assert probe.state(task.id) == state
    q.release(task, 10)
    again = q.get(task.id)
    assert (again.state, q.next_event()) == ("delayed", 10)
    assert again.attempt == (1 if state == "delayed" else 2)  # the end of the lease counts
    with pytest.raises(LeaseLostError):
        q.fail(task)
