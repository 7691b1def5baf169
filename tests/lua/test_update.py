"""update: change a live task in place. Of a running one only the priority can change."""

import pytest

from dpq import ConfigurationError, TaskNotFoundError


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
