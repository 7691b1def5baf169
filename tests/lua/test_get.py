"""get: look at tasks by their ids."""

import pytest

from dpq import DeadTask, TaskNotFoundError


def at(clock, seconds):
    return pytest.approx((clock.ms / 1000) + seconds, abs=0.001)


def test_ready(q, clock):
    """A task that was never popped is seen as it was pushed."""
    task = q.get(q.push({"a": 1}, priority=2.5, group="g", key="k", max_attempts=4))
    assert (task.payload, task.priority, task.group, task.key) == ({"a": 1}, 2.5, "g", "k")
    assert (task.attempt, task.max_attempts, task.deliveries, task.deferrals) == (1, 4, 0, 0)
    assert (task.state, task.visible_until, task.last_error, task.token) == ("ready", None, None, 0)
    assert task.enqueued_at.timestamp() == at(clock, 0)


def test_delayed(q, clock):
    """A delayed task says when it is due."""
    task = q.get(q.push("x", delay=7))
    assert task.state == "delayed"
    assert task.visible_until.timestamp() == at(clock, 7)


def test_invisible(q, clock, probe):
    """A running task says when its lease ends, and looks as its holder sees it."""
    task_id = q.push("x")
    task = probe.pop(visibility=9)
    assert q.get(task_id) == task
    assert task.visible_until.timestamp() == at(clock, 9)


def test_waiting(q):
    """A task behind the head of its group is waiting."""
    q.push("head", group="g")
    task = q.get(q.push("x", group="g"))
    assert (task.state, task.visible_until) == ("waiting", None)


def test_dead(q, clock, probe):
    """A dead task says why, when and after how many attempts."""
    task_id = q.push("x", max_attempts=1)
    q.fail(probe.pop(), "broken")
    letter = q.get(task_id)
    assert isinstance(letter, DeadTask)
    assert (letter.state, letter.reason, letter.last_error) == ("dead", "attempts spent", "broken")
    assert (letter.attempts, letter.visible_until) == (1, None)
    assert letter.died_at.timestamp() == at(clock, 0)


def test_unknown(q):
    """An id that is not stored is not found."""
    with pytest.raises(TaskNotFoundError, match="nobody"):
        q.get("nobody")


def test_several(q, probe):
    """The script answers four values for each id, an empty state for an unknown one."""
    ids = [q.push("a"), "nobody", q.push("b", delay=5)]
    reply = probe.call("get", *ids)
    assert reply[::4] == [b"ready", b"", b"delayed"]
    assert reply[3::4] == [b'"a"', b"", b'"b"']
    assert reply[5:7] == [b"0", b""]
