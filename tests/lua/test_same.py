"""_same and _known: a client that knows another number of partitions, or another storage format, is
refused by every script that asks."""

from collections.abc import Callable
from typing import Any

import pytest

from dpq import DPQ, ConfigurationError, Push, Task
from dpq.operations.partition import REPAIRED_PARTS


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
            probe.redis.hset(conf, "partitions", stored)
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


REFUSED: dict[str, Callable[[DPQ[Any]], object]] = {
    "push": lambda q: q.push("y"),
    "push update": lambda q: q.push("y", key="k", on_duplicate="update"),
    "push_many": lambda q: q.push_many([Push("y", group="g"), Push("z", delay=1)]),
    "pop": lambda q: q.pop(),
    "waiting pop": lambda q: q.pop(timeout=1),
    "look": lambda q: q._session.run(q._operations.partitions[0].look, 1, "-"),
    "promote": lambda q: q.promote(),
    "check": lambda q: q.check(),
    "repair": lambda q: q.repair(),
    "upgrade": lambda q: q.upgrade(),
}


@pytest.mark.parametrize("name", REFUSED)
@pytest.mark.damaged
def test_another_format_changes_nothing(name: str, q: DPQ[Any], probe: Any, clock: Any) -> None:
    """A client that was open before a newer DPQ has taken the queue over is told both formats."""
    q.push_many([Push("x", key="k"), Push("due", delay=1)])
    clock.advance(2)
    probe.redis.hset(probe.key("conf"), "format", "5")
    before = probe.stored()
    with pytest.raises(ConfigurationError, match=r"in format 5, and this DPQ knows format 4: run"):
        REFUSED[name](q)
    assert probe.stored() == before


@pytest.mark.damaged
def test_each_step_of_a_repair_compares_the_format(q: DPQ[Any], probe: Any, clock: Any) -> None:
    """Also when the queue is taken over in the middle of a repair."""
    q.push("x")
    probe.redis.hset(probe.key("conf"), "format", "5")
    probe.redis.hset(probe.key("meta"), "new", "a record of another form")
    before = probe.stored()
    for name, part in REPAIRED_PARTS:
        assert probe.call(name, clock(), part, "0", 100)[0] == -8
    assert probe.call("types", clock(), 1, 1)[0] == -8
    assert probe.call("upgrade", "0", 100)[0] == -8
    assert probe.stored() == before


@pytest.mark.damaged
def test_a_holder_may_end_its_work_in_a_newer_queue(q: DPQ[Any], probe: Any, clock: Any) -> None:
    """What was popped before is extended and ended, and the queue can be paused and dropped."""
    q.push_many(map(Push, range(6)))
    held: list[Task[Any]] = q.pop_many(6)
    probe.redis.hset(probe.key("conf"), "format", "5")
    q.extend(held[0], 60)
    q.ack(held[0])
    q.fail(held[1], "error")
    q.bury(held[2], "reason")
    q.release(held[3])
    q.set_visibility(held[4], 5)
    q.rate_limited(held[5], 5, "task")
    q.pause()
    stats = q.stats()
    assert (stats.acked, stats.failed, stats.buried, stats.deferred) == (1, 1, 1, 2)
    q.drop()
    assert probe.stored() == {}
