"""bury: give a task up now. And _bury: the dead letters are capped by number and age."""

from dpq import DPQ


def capped(q, clock, **caps):
    return DPQ(q.redis, q.queue_name, clock=clock, **caps)


def bury_each(queue, payloads):
    for payload in payloads:
        queue.push(payload, key=f"key of {payload}")
        queue.bury(queue.pop().task, "r")


def test_cap_on_number(q, clock, probe):
    """With `dead_max_tasks` the longest dead letters go first, with their keys and payloads."""
    queue = capped(q, clock, dead_max_tasks=3)
    for payload in range(5):
        bury_each(queue, [payload])
        clock.advance(1)
    assert [letter.payload for letter in q.dead.list()] == [2, 3, 4]
    assert q.stats().dropped == 2
    assert set(probe.stored()["keys"]) == {b"key of 2", b"key of 3", b"key of 4"}
    assert len(probe.bodies()) == len(probe.stored()["meta"]) == 3


def test_cap_on_age(q, clock, probe):
    """A letter older than `dead_max_age` is dropped by the next burial; a younger one stays."""
    queue = capped(q, clock, dead_max_age=60)
    bury_each(queue, ["old"])
    clock.advance(30)
    bury_each(queue, ["young"])
    clock.advance(29.999)
    bury_each(queue, ["new"])
    assert [letter.payload for letter in q.dead.list()] == ["old", "young", "new"]
    clock.advance(0.001)
    bury_each(queue, ["last"])
    assert [letter.payload for letter in q.dead.list()] == ["young", "new", "last"]
