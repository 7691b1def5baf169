"""purge: remove tasks of one state, or the named ones of the dead."""

import pytest

STATES = ["ready", "delayed", "invisible", "waiting", "dead"]


def fill(q, count=3):
    """So many tasks with keys in each state; those of the groups that wait have heads, too."""
    for state in ("dead", "invisible"):
        for i in range(count):
            q.push(state, key=f"{state} {i}")
    tasks = q.pop_many(2 * count)
    for task in tasks[:count]:
        q.bury(task, "r")
    q.delay_group("closed", 60)
    for i in range(count):
        q.push("waiting", key=f"waiting {i}", group="closed")
        q.push("delayed", key=f"delayed {i}", delay=60)
        q.push("ready", key=f"ready {i}")
    return tasks[count:]


def test_everything(q, probe):
    """Without a state all tasks go; settings, totals and closed groups stay."""
    fill(q)
    assert q.purge() == 15
    assert set(probe.stored()) <= {
        "conf",
        "stats",
        "closed",
        "gates",
        "wake",
        "tick",
        "events",
        "changes",
        "cancelled",
    }
    assert q.stats().pushed == 15


@pytest.mark.many_calls
def test_in_steps(q, probe):
    """One call removes at most so many; any number goes in the end."""
    for i in range(250):
        q.push(i)
    assert probe.call("purge", "", "ready", 30) == 30
    assert q.purge("ready") == 220
