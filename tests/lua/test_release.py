"""release: give a task back, not counted; it keeps its place among equals."""

import pytest


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


def test_in_a_group(q, probe):
    """A released task that is better than its group's head becomes the head again."""
    for i in range(3):
        q.push(i, group="g")
    task = probe.pop()
    assert [ready.payload for ready in q.peek()] == [1]
    q.release(task)
    assert [ready.payload for ready in q.peek()] == [0]
    assert probe.drain() == [0, 1, 2]
