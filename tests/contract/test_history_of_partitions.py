"""History and events of a queue in partitions: sums, and one stream."""

from typing import Any

from redis import Redis

from dpq import DPQ, Push
from dpq.testing import Clock


def test_partitions(redis: Redis, queue_name: str) -> None:
    """Slots and times are sums; a partition without a slot counts as it stood."""
    clock = Clock()
    q: DPQ[Any] = DPQ(redis, queue_name, clock=clock, partitions=3)
    q.push_many([Push(n, group=f"g{n}") for n in range(12)])
    q.ack_many(q.pop_many(12))
    q._session.run(q._operations.remember)
    clock.advance(60)
    q.push("late", group="g1")
    first_part = q._operations.partitions[0]
    q._session.run(lambda: first_part.report("remember", [], int))
    before, after = q.history()
    assert (before.pushed, before.deliveries, before.acked) == (12, 12, 12)
    assert after.deliveries == 12
    assert after.wait
    assert after.wait.count == 12
    assert [point.pushed for point in q._session.run(q._operations.recent)] == [12]
    stats = q.stats()
    assert stats.run
    assert stats.run.count == 12
    q.pause(5)
    clock.advance(0.001)
    q.resume()
    for n in range(12):
        clock.advance(0.001)
        q.delay_group(f"g{n}", n + 1)
    found = q.events()
    assert [event.kind for event in found] == ["paused", "resumed", *["closed"] * 12]
    assert [event.group for event in found[2:]] == [f"g{n}" for n in range(12)]
    for i, event in enumerate(found):
        assert [e.group for e in q.events(after=event.id)] == [e.group for e in found[i + 1 :]]
    assert q.events(limit=3)[0].group == "g9"
    q.delay_group("new", 9)
    assert [event.group for event in q.events(after=q.events(limit=3)[0].id)][-1] == "new"
    here = q.events()[-1].id
    q.pause(5)
    q.resume()
    clock.advance(0.001)
    for n in range(12):
        q.delay_group(f"g{n}", 50)
    read = []
    while found := q.events(after=here, limit=1):  # what all partitions tell holds up none
        read.append(found[0].group)
        here = found[0].id
    assert sorted(read) == sorted(["", "", *(f"g{n}" for n in range(12))])
    q.drop()
