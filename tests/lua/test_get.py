"""get: look at tasks by their ids."""

import pytest

from dpq import TaskNotFoundError
from dpq.types import DeadTask


def at(clock, seconds):
    return pytest.approx((clock.ms / 1000) + seconds, abs=0.001)


def test_ready(q, clock):
    """A task that was never popped is seen as it was pushed."""
    task = q.get(q.push({"a": 1}, priority=2.5, group="g", key="k", max_attempts=4))
    assert (task.payload, task.priority, task.group, task.key) == ({"a": 1}, 2.5, "g", "k")
    assert (task.attempt, task.max_attempts, task.deliveries, task.deferrals) == (1, 4, 0, 0)
    assert (task.state, task.visible_until, task.last_error, task.token) == ("ready", None, None, 0)
    assert task.enqueued_at.timestamp() == at(clock, 0)


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
