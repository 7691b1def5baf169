"""peek: look at the first tasks of one state, in its own order."""

from dpq import TaskState


def test_ready(q, probe):
    """Ready tasks come in the order in which they would be popped, and stay."""
    for priority in (1, 3, 2, 3):
        q.push(priority, priority=priority)
    before = probe.stored()
    assert [task.payload for task in q.peek()] == [3, 3, 2, 1]
    assert [task.payload for task in q.peek(2)] == [3, 3]
    assert q.peek(0) == []
    assert probe.stored() == before


def test_delayed(q, clock):
    """Delayed tasks come by their due times, and say them."""
    q.push("later", delay=9)
    q.push("soon", delay=3, priority=-5)
    tasks = q.peek(state="delayed")
    assert [task.payload for task in tasks] == ["soon", "later"]
    assert tasks[0].visible_until.timestamp() * 1000 == clock.ms + 3000


def test_invisible(q, probe):
    """Running tasks come by the ends of their leases."""
    for seconds in (20, 10):
        q.push(seconds)
        probe.pop(visibility=seconds)
    assert [task.payload for task in q.peek(state=TaskState.INVISIBLE)] == [10, 20]


def test_waiting(q):
    """Waiting tasks come by group, and in a group the best first."""
    for group, priority in (("b", 1), ("a", 1), ("a", 3), ("a", 2), ("b", 2)):
        q.push(f"{group}{priority}", priority=priority, group=group)
    assert [task.payload for task in q.peek(state="waiting")] == ["a2", "a1", "b1"]


def test_dead(q, clock):
    """Dead tasks come by the time of their death."""
    for payload in ("first", "second"):
        q.push(payload)
        q.bury(q.pop().task, payload)
        clock.advance(1)
    assert [task.reason for task in q.peek(state="dead")] == ["first", "second"]


def test_bytes_bound(q, probe):
    """One call answers at most so many bytes of payloads, but the first task in any case."""
    for _ in range(3):
        q.push("x" * 98)  # 100 bytes of JSON
    assert len(probe.call("peek", "ready", 0, 10, 250)) == 2 * 4
    assert len(probe.call("peek", "ready", 0, 10, 1)) == 1 * 4
    assert len(probe.call("peek", "ready", 1, 10, 1000)) == 2 * 4
