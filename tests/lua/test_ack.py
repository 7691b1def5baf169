"""ack: finished work leaves the queue, from whatever state it is in while its token is live."""

import pytest
from kit.deliveries import STATES, put_back

from dpq import LeaseLostError


@pytest.mark.parametrize("state", STATES)
def test_from_every_state(q, clock, probe, state):
    """While its token is live, an ack removes a task whole, wherever it is."""
    task_id = q.push("done", group="g", key="k")
    task = probe.pop()
    put_back(q, clock, task, state)

    assert q.ack(task) is True

    stored = probe.stored()
    assert all(task_id.encode() not in stored.get(part, {}) for part in ("meta", "payload"))
    assert "keys" not in stored
    assert "invisible" not in stored
    assert "dead" not in stored
    assert q.stats().acked == 1


def test_of_an_expired_last_attempt(q, clock, probe):
    """An ack after the lease of the last attempt ran out takes the task out of the dead letters."""
    q.push("x", max_attempts=1)
    task = probe.pop()
    clock.advance(30)
    q.promote()
    assert q.stats().dead == 1
    assert q.ack(task) is True
    assert q.stats().dead == 0


@pytest.mark.parametrize("state", ["invisible", "delayed", "ready", "waiting"])
def test_of_a_task_that_runs_again(q, clock, probe, state):
    """After a `rerun` the ack brings the task back as a new one, behind its equals."""
    task_id = q.push("old", group="g", key="k", max_attempts=3)
    task = probe.pop()
    q.fail(task, "broken", delay=0)
    task = probe.pop()
    q.push("new", group="g", key="k", on_duplicate="rerun", max_attempts=5)
    q.push("equal", group="other")
    put_back(q, clock, task, state)
    clock.advance(1)
    probe.woken()

    assert q.ack(task) is True

    again = q.get(task_id)
    assert (again.payload, again.attempt, again.deliveries, again.max_attempts) == ("new", 1, 0, 5)
    assert (again.token, again.last_error, again.key) == (0, None, "k")
    assert again.enqueued_at.timestamp() * 1000 == clock.ms
    assert q.stats().acked == 1
    assert probe.woken() is (state != "waiting")  # there a better task was ready before
    assert q.stats().pushed == 3 + (state == "waiting")
    better = ["better"] if state == "waiting" else []
    assert probe.drain() == [*better, "equal", "new"]
    with pytest.raises(LeaseLostError):  # nobody's token, the first holder's included
        q.extend(task, 1)
