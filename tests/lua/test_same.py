"""_same: a client that knows another number of partitions is refused by every script that asks."""

from typing import Any

import pytest

from dpq import DPQ, Push


def test_another_number_changes_nothing(q: DPQ[Any], probe: Any, clock: Any) -> None:
    """push, pop (also as a look) and promote answer both numbers; 0, and the right one, pass."""
    q.push("x")
    q.push("due", delay=1)
    clock.advance(2)
    push = next(q._operations.push_many([Push("y")])).args
    conf = probe.key("conf").encode()
    calls = {
        "push": lambda count: probe.call("push", *push, *([count] if count > 1 else [])),
        "pop": lambda count: probe.call("pop", clock(), 1, 1000, 10**6, 100, "", count),
        "look": lambda count: probe.call("pop", clock(), -1, 0, 0, 100, "", count),
        "promote": lambda count: probe.call("promote", clock(), 100, count),
    }
    for stored, wrong in ((None, 4), ("1", 4), ("4", 1), ("4", 6)):
        if stored:
            probe.redis.hset(conf, "partition_count", stored)
        before = probe.stored()
        for call in calls.values():
            refusal = [-7, (stored or "1").encode(), str(wrong).encode(), conf]
            assert call(wrong) == refusal
        assert probe.stored() == before
    assert [calls[name](4)[0] for name in ("promote", "push")] == [1, 0]
    assert len(calls["look"](0)) == len(calls["look"](4)) == 2
    assert len(calls["pop"](0)) == len(calls["pop"](4)) == 3


@pytest.mark.damaged
def test_who_has_lost_its_settings_refuses_nobody(q: DPQ[Any], probe: Any, clock: Any) -> None:
    """A partition without settings asks whoever knows of it to restore them, and hands out then."""
    q.push("x")
    probe.redis.delete(probe.key("conf"))
    assert probe.call("pop", clock(), 1, 1000, 10**6, 100, "", 4) == [-9]
    assert probe.pop().payload == "x"
