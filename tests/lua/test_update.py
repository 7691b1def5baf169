"""update: change a live task in place. Of a running one only the priority can change."""

import pytest

from dpq import ConfigurationError, TaskNotFoundError


def test_priority_when_ready(q, probe):
    """A ready task moves to its new priority, and stands there by its old sequence."""
    for i in range(3):
        q.push(i, priority=i)
    first = q.peek(state="ready")[-1]
    q.update(first.id, priority=2)
    assert probe.drain() == [0, 2, 1]


def test_priority_when_running(q, clock, probe):
    """The new priority of a running task applies when it returns; the lease stays."""
    task_id = q.push("x")
    task = probe.pop()
    q.update(task_id, priority=5)
    assert q.get(task_id).visible_until == task.visible_until
    q.push("y", priority=4)
    q.release(task)
    assert probe.drain() == ["x", "y"]


def test_delay_when_running(q, probe):
    """A delay for a running task is refused, with a priority beside it or not."""
    task_id = q.push("x")
    probe.pop()
    before = probe.stored()
    with pytest.raises(ConfigurationError, match=f"task {task_id} is running"):
        q.update(task_id, delay=3)
    with pytest.raises(ConfigurationError, match="only the priority"):
        q.update(task_id, priority=3, delay=0)
    assert probe.stored() == before


@pytest.mark.parametrize("state", ["ready", "delayed", "waiting"])
def test_delay(q, clock, probe, state):
    """A delay hides a task that is not running for so long; 0 makes it ready."""
    if state == "waiting":
        q.push("head", priority=5, group="g")
    task_id = q.push("x", delay=60 if state == "delayed" else 0, group="g")
    assert probe.state(task_id) == state
    q.update(task_id, delay=7)
    assert (probe.state(task_id), q.next_event()) == ("delayed", 7)
    probe.woken()
    q.update(task_id, delay=0)
    assert probe.state(task_id) == ("waiting" if state == "waiting" else "ready")
    assert probe.woken() is (state != "waiting")


@pytest.mark.parametrize("way", ["unknown", "dead", "acked", "cancelled"])
def test_not_found(q, probe, way):
    """What is not live is not found, and nothing changes."""
    task_id = q.push("x")
    task = probe.pop()
    if way == "dead":
        q.bury(task, "r")
    elif way == "acked":
        q.ack(task)
    elif way == "cancelled":
        q.cancel(task_id)
    else:
        task_id = "nobody"
    before = probe.stored()
    for change in ({"priority": 1}, {"delay": 1}, {"priority": 1, "delay": 0}):
        with pytest.raises(TaskNotFoundError, match=f"update task '{task_id}'.*{q.queue_name}"):
            q.update(task_id, **change)
    assert probe.stored() == before
