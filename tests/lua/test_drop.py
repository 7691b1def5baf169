"""drop: remove the whole queue."""

import pytest

from dpq import DPQ, TaskState
from dpq.protocol.keys import REGISTRY, STORAGE_FORMAT


def test_nothing_is_left(q, probe):
    """A dropped queue leaves no key and no name in the registry."""
    q.push("x", group="g", key="k")
    q.push("y", group="g")
    q.push("z", delay=3)
    q.delay_group("h", 60)
    q.bury(probe.pop(), "r")
    q.pause(1)
    q._session.run(q._operations.beat, "w", "name", "host", 1, 2, 3, 4.0)
    q.drop()
    assert probe.stored() == {}
    assert not probe.redis.sismember(REGISTRY, q.queue_name)


def test_used_again(q, clock, probe):
    """A dropped queue starts anew at its next use, by any of its clients."""
    other = DPQ(q.redis, q.queue_name, clock=clock)
    other.push("x")
    q.stats()
    q.drop()
    other.push("y")
    assert probe.redis.sismember(REGISTRY, q.queue_name)
    assert probe.stored()["conf"][b"format"] == STORAGE_FORMAT.encode()
    assert probe.record(q.peek()[0].id)["order"].endswith("1")


def test_settings_go_too(q):
    """After a drop another setting may be named."""
    DPQ(q.redis, q.queue_name, order="lifo")
    q.drop()
    assert DPQ(q.redis, q.queue_name, order="fifo").order == "fifo"


@pytest.mark.parametrize("settings", [{"order": "lifo"}, {"aging": 1.0}])
def test_named_settings_hold_on(q, clock, probe, settings):
    """After a drop the settings that a client named hold from its very first task on."""
    client = DPQ(q.redis, q.queue_name, clock=clock, **settings)
    client.push("x")
    q.drop()
    client.push("first", group="g")
    clock.advance(1)
    client.push("second", group="g")
    assert q.check() == []
    order = ["second", "first"] if "order" in settings else ["first", "second"]
    assert probe.drain() == order


def test_twice(q, probe):
    """Dropping what is not there is harmless."""
    q.push("x")
    assert probe.call("drop") > 0
    assert probe.call("drop") == 0
    assert [q.peek(state=state) for state in TaskState] == [[]] * 5
