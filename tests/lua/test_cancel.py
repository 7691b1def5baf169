"""cancel: remove a live task. Its holder, if it runs, hears that it was cancelled."""

import pytest

from dpq import LeaseLostError, TaskNotFoundError
from dpq.verbs.workers import Doing

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


def test_dead(q, probe):
    """A dead task cannot be cancelled and stays."""
    task_id = q.push("x")
    q.bury(probe.pop(), "r")
    before = probe.stored()
    with pytest.raises(TaskNotFoundError):
        q.cancel(task_id)
    assert probe.stored() == before


VERBS = {
    "extend": lambda q, task: q.extend(task, 5),
    "set_visibility": lambda q, task: q.set_visibility(task, 45),
    "release": lambda q, task: q.release(task),
    "fail": lambda q, task: q.fail(task),
    "bury": lambda q, task: q.bury(task, "r"),
    "rate_limited": lambda q, task: q.rate_limited(task, 5),
    "spent": lambda q, task: q.spent(task, 5),
}


@pytest.mark.parametrize("how", ["cancel", "purge", "lapsed"])
@pytest.mark.parametrize("verb", VERBS)
def test_its_holder_hears_of_it(q, probe, clock, verb, how):
    """Each call of the holder says that the task was cancelled; an ack finds it gone."""
    q.push("x", group="g")
    task = probe.pop()
    if how == "lapsed":  # its lease ran out, and nobody has it: the holder may still work
        clock.advance(31)
        q.promote()
    if how == "purge":
        q.purge("invisible")
    else:
        q.cancel(task.id)
    with pytest.raises(LeaseLostError, match="was cancelled during this delivery") as caught:
        VERBS[verb](q, task)
    assert caught.value.cancelled
    assert q.ack(task) is False


def test_a_heartbeat_says_so(q, probe):
    """The reply to a heartbeat names the tokens of its leases whose tasks were cancelled."""
    for n in range(3):
        q.push(n)
    tasks = [probe.pop() for _ in range(3)]
    q.cancel(tasks[1].id)
    doing = Doing([(task.id, task.token) for task in tasks])
    told = q._session.run(q._operations.beat, "w", "name", "host", 1, "0.1", 3, 3, 1.0, doing)
    assert list(told.cancelled) == [tasks[1].token]
