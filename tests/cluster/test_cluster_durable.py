"""`durability` on a cluster: who waits asks the replicas of the node that ran the script."""

import asyncio

import pytest
from cluster.test_cluster_faults import migrate
from redis import RedisCluster
from topology import Cluster

from dpq import DPQ, AsyncDPQ, NotConfirmedError, Push, Worker
from dpq.script import durability as durability_module


def test_replicas_confirm(
    cluster: Cluster, client: RedisCluster, names: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each queue waits for a replica of its own master, also after its slot has moved."""

    def waits() -> list[int]:
        stats = (node.redis.info("commandstats").get("cmdstat_wait") for node in cluster.masters())
        return [told["calls"] if told else 0 for told in stats]

    async def at_once() -> None:
        async with AsyncDPQ.from_url(cluster.url, names[0], durability="replica") as q:
            assert len(set(await asyncio.gather(*(q.push(n) for n in range(20))))) == 20

    queues = [DPQ(client, name, durability="replica") for name in names]
    for q in queues:
        before = waits()
        q.push_many([Push(1), Push(2)])
        assert q.ack(q.pop().task) is True
        assert sum(now > then for now, then in zip(waits(), before, strict=True)) == 1
    asyncio.run(at_once())
    home, away = (cluster.master_of(name) for name in names[:2])
    migrate(names[0], home, away, busy=False)
    cluster.settle()  # a node that has not heard of it sends the client in a circle
    before = away.redis.info("commandstats")["cmdstat_wait"]["calls"]
    assert queues[0].push("moved")
    asyncio.run(at_once())
    assert away.redis.info("commandstats")["cmdstat_wait"]["calls"] > before
    migrate(names[0], away, home, busy=False)
    cluster.settle()
    assert queues[0].push("moved back")
    done: list[int] = []
    assert Worker(queues, lambda task: done.append(task.payload), concurrency=2).drain() == 45
    monkeypatch.setattr(durability_module, "CONFIRM_SECONDS", 0.05)
    for replica in cluster.nodes:
        if replica not in cluster.masters():
            replica.stop()
    try:
        for q in queues:
            with pytest.raises(NotConfirmedError, match="0 of 1 replica"):
                q.push("late")
    finally:
        for replica in cluster.nodes:
            replica.go_on()
    cluster.settle()
    for q in queues:
        q.admin.drop()
        q.close()
