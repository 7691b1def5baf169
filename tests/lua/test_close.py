"""close: a partition closes because its queue met a limit in another one."""

from kit.moments import task_after


def close(q, seconds):
    q._session.run(q._operations.partitions[0].close, seconds)


def test_until_then(q, clock, probe):
    """Nothing is handed out until the closing is over, and a waiter is told when that is."""
    q.push("x")
    close(q, 5)
    assert q.limits()[0].reason == "rate limited"
    assert q.pop().task is None
    assert probe.call("pop", clock(), 1, 1000, 10**6, 100, "")[:2] == [0, 5_000_000]
    clock.advance(5)
    assert probe.pop().payload == "x"


def test_one_probe(q, clock, probe):
    """After it the first task is a probe: the others follow when it is acked."""
    q.push("x")
    q.push("y")
    close(q, 5)
    clock.advance(5)
    task = probe.pop()
    assert q.pop().task is None
    q.ack(task)
    assert probe.pop().payload == "y"


def test_never_shortened(q, clock, probe):
    """A longer closing stays as it is, and one whose probe is out keeps that."""
    q.push("x")
    close(q, 5)
    close(q, 1)
    task = task_after(q, clock, 5)
    q.push("y")
    close(q, 3)
    q.ack(task)
    assert task_after(q, clock, 3).payload == "y"


def test_resume(q, probe):
    """Resume opens it."""
    q.push("x")
    close(q, 5)
    q.resume()
    assert probe.pop().payload == "x"
