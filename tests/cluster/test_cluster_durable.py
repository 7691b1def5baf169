"""`durability` on a cluster: who waits asks the replicas of the node that ran the script."""

import asyncio
import uuid

import pytest
from cluster.test_cluster_faults import migrate
from redis import RedisCluster
from topology import Cluster

from dpq import DPQ, AsyncDPQ, NotConfirmedError, Push, Worker
from dpq.protocol import durability as durability_module
from dpq.protocol.placement import home_of, tags_of


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
    before = away.redis.info("commandstats")["cmdstat_wait"]["calls"]
    assert queues[0].push("moved")
    asyncio.run(at_once())
    assert away.redis.info("commandstats")["cmdstat_wait"]["calls"] > before
    migrate(names[0], away, home, busy=False)
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
        q.drop()
        q.close()


def test_the_settings_of_a_new_queue_are_confirmed_too(
    cluster: Cluster, client: RedisCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They lie with the first partition. So a push elsewhere waits for a replica there, too, until
    one has them; then no more. Else a failover could leave a task that nobody finds."""
    name = uuid.uuid4().hex
    tags = tags_of(name, 6)
    first = cluster.master_of(tags[0])
    (replica,) = (n for n in cluster.nodes if n.replication().get("master_port") == first.port)
    groups = (str(number) for number in range(1000))
    group = next(g for g in groups if cluster.master_of(tags[home_of(g, None, 6) or 0]) != first)

    async def push() -> None:
        async with AsyncDPQ.from_url(cluster.url, name, durability="replica") as q:
            await q.push("b", group=group)

    replica.stop()
    try:
        q: DPQ[str] = DPQ(client, name, partitions=6, durability="replica")
        with monkeypatch.context() as patch:
            patch.setattr(durability_module, "CONFIRM_SECONDS", 0.05)
            for _ in range(2):
                with pytest.raises(NotConfirmedError, match="push was done") as told:
                    q.push("a", group=group)
                assert q.get(told.value.result).payload == "a"
            with pytest.raises(NotConfirmedError, match="push was done"):
                asyncio.run(push())
        replica.go_on()
        cluster.settle()
        assert q.push("c", group=group)
        asyncio.run(push())
        replica.stop()
        assert q.push("d", group=group)
    finally:
        replica.go_on()
    cluster.settle()
    assert q.size() == 6
    q.drop()
    q.close()
