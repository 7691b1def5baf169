"""pause: stop handing out tasks, for a time or until resume; or go on."""

from kit.moments import task_after


def test_for_a_time(q, clock, probe):
    """A pause ends at its time by itself, and pop says when."""
    q.push("x")
    q.pause(10)
    clock.advance(4)
    assert probe.call("pop", clock(), 1, 1000, 10**6, 100, "")[:2] == [0, 6_000_000]
    assert task_after(q, clock, 6).payload == "x"


def test_touches_no_task(q, clock, probe):
    """While the queue is paused a pop does no upkeep, and other calls work."""
    q.push("late", delay=1)
    q.push("x")
    task = probe.pop()
    q.pause()
    clock.advance(1)
    assert q.pop().task is None
    assert probe.redis.zcard(probe.key("delayed")) == 1
    assert q.promote() == 1
    assert q.ack(task) is True


def test_wakes(q, probe):
    """Pausing and resuming tell a waiting consumer and a daemon, so that they look again."""
    for change in (q.pause, lambda: q.pause(3), q.resume):
        probe.redis.delete(probe.key("wake"), probe.key("tick"))
        change()
        assert {"wake", "tick"} <= set(probe.stored())
