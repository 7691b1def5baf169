"""cancel: remove a live task. Its holder, if it runs, finds it gone."""

import pytest

from dpq import TaskNotFoundError

PLACES = {
    "ready": lambda q: q.push("x", key="k", group="g"),
    "delayed": lambda q: q.push("x", key="k", group="g", delay=5),
    "waiting": lambda q: [q.push("head", group="g"), q.push("x", key="k", group="g")][1],
    "invisible": lambda q: [q.push("x", key="k", group="g"), q.pop()][0],
}


@pytest.mark.parametrize("state", PLACES)
def test_from_every_live_state(q, probe, state):
    """A cancelled task is gone with payload, record and key, and the key is free."""
    task_id = PLACES[state](q)
    assert probe.state(task_id) == state
    size = q.size()
    q.cancel(task_id)
    assert q.size() == size - 1
    with pytest.raises(TaskNotFoundError):
        q.get(task_id)
    assert "keys" not in probe.stored()
    assert q.push("y", key="k", on_duplicate="error") != task_id


def test_unknown(q, probe):
    """An id that is not stored is not found, and nothing changes."""
    q.push("x")
    before = probe.stored()
    with pytest.raises(TaskNotFoundError) as caught:
        q.cancel("nobody")
    assert caught.value.task_id == "nobody"
    assert probe.stored() == before


def test_dead(q, probe):
    """A dead task cannot be cancelled and stays."""
    task_id = q.push("x")
    q.bury(probe.pop(), "r")
    before = probe.stored()
    with pytest.raises(TaskNotFoundError):
        q.cancel(task_id)
    assert probe.stored() == before


def test_head(q, probe):
    """When the head of a group is cancelled, the best of the waiting becomes ready and wakes."""
    head = q.push("head", priority=3, group="g")
    q.push("third", priority=1, group="g")
    q.push("second", priority=2, group="g")
    probe.woken()
    q.cancel(head)
    assert probe.woken()
    assert probe.drain() == ["second", "third"]


def test_no_wake_without_news(q, probe):
    """A cancel that makes nothing ready wakes nobody."""
    task_id = q.push("x")
    probe.woken()
    q.cancel(task_id)
    assert not probe.woken()
