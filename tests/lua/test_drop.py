"""drop: remove the whole queue."""

import pytest

from dpq import DPQ
from dpq.script.keys import REGISTRY


def test_nothing_is_left(q, probe):
    """A dropped queue leaves no key and no name in the registry."""
    q.push("x", group="g", key="k")
    q.push("y", group="g")
    q.push("z", delay=3)
    q.delay_group("h", 60)
    q.bury(probe.pop(), "r")
    q.pause(1)
    q._session.run(q._operations.beat, "w", "name", "host", 1, "0.1", 2, 3, 4.0)
    q.admin.drop()
    assert probe.stored() == {}
    assert not probe.redis.sismember(REGISTRY, q.queue_name)


@pytest.mark.parametrize("settings", [{"order": "lifo"}, {"aging": 1.0}])
def test_named_settings_hold_on(q, clock, probe, settings):
    """After a drop the settings that a client named hold from its very first task on."""
    client = DPQ(q.redis, q.queue_name, clock=clock, **settings)
    client.push("x")
    q.admin.drop()
    client.push("first", group="g")
    clock.advance(1)
    client.push("second", group="g")
    assert q.check() == []
    order = ["second", "first"] if "order" in settings else ["first", "second"]
    assert probe.drain() == order
