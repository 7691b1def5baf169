"""register: make a queue known to daemons and to the CLI."""

from dpq import DPQ
from dpq.script.keys import REGISTRY, REGISTRY_TICK


def test_new(q, probe):
    """A new name is known afterwards, and one daemon is told."""
    probe.redis.delete(REGISTRY_TICK)
    name = q.queue_name + "-2"
    assert probe.call("register", name) == 1
    assert probe.redis.sismember(REGISTRY, name)
    assert probe.redis.zrange(REGISTRY_TICK, 0, -1) == [b"w"]
    probe.call("unregister", name)


def test_first_setting_registers(q, probe):
    """A queue is known when a client names one of its settings."""
    DPQ(q.redis, q.queue_name, order="fifo")
    assert probe.redis.sismember(REGISTRY, q.queue_name)
