"""extend: a lease now ends later, or earlier."""

import pytest
from kit.deliveries import put_back


@pytest.mark.parametrize("state", ["ready", "waiting", "delayed"])
def test_taken_back_in_a_group_of_one_at_a_time(q, clock, probe, state):
    """A lease that is taken back from any state counts in its group until it ends."""
    q.set_limit(concurrency=1, group="g")
    q.push("x", group="g")
    task = probe.pop()
    put_back(q, clock, task, state)
    q.extend(task, 45)
    q.push("next", group="g", priority=10)
    assert q.pop().task is None
    q.ack(task)
    assert probe.pop().payload == "next"


def test_one_delivery_counts_once(q, clock, probe):
    """However often a delivery's lease runs out, it costs one attempt."""
    q.push("x", max_attempts=2)
    task = probe.pop()
    for _ in range(3):
        clock.advance(45)
        q.promote()
        assert q.get(task.id).attempt == 2
        q.extend(task, 45)
    clock.advance(45)
    again = probe.pop()
    assert (again.attempt, again.deliveries) == (2, 2)
    assert q.stats().expired_leases == 4
