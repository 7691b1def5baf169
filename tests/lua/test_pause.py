"""pause: stop handing out tasks, for a time or until resume; or go on."""


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
