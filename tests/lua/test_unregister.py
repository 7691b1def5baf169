"""unregister: a queue is gone."""

from dpq.script.keys import REGISTRY


def test_known_and_unknown(q, probe):
    """It says whether the name was known, and forgets that one only."""
    other = q.queue_name + "-2"
    probe.call("register", q.queue_name)
    probe.call("register", other)
    assert probe.call("unregister", other) == 1
    assert probe.call("unregister", other) == 0
    assert probe.redis.smembers(REGISTRY) == {q.queue_name.encode()}
