"""Everything that works on one server works on a cluster, for clients of each kind."""

import json
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from queue import SimpleQueue
from typing import Any

import pytest
from kit.awaited import AwaitedOfOneClient, loop_in_a_thread
from kit.faces import FACES, face_of
from kit.schedulers import running
from kit.threads import in_a_thread
from redis import RedisCluster
from redis.asyncio import RedisCluster as AsyncRedisCluster
from redis.cluster import LoadBalancingStrategy
from support import PATIENCE_S, wait_for
from topology import Cluster
from typer.testing import CliRunner

from dpq import DPQ, LeaseLostError, Push, RateLimited, Scheduler, TaskState
from dpq.cli import app
from dpq.link import blocks
from dpq.registry.all_queues import known_queues

KINDS: dict[str, Callable[[Cluster], RedisCluster]] = {
    "own": lambda cluster: cluster.client(),
    "from-replicas": lambda cluster: cluster.client(
        load_balancing_strategy=LoadBalancingStrategy.RANDOM_REPLICA
    ),
}


def awaited(cluster: Cluster, names: list[str], *, own: bool) -> list[Any]:
    """Queues over one asyncio client: a caller's own one, or that of a URL."""
    first = AwaitedOfOneClient.from_url(cluster.url, names[0])
    port = cluster.nodes[0].port
    client = AsyncRedisCluster(host="127.0.0.1", port=port) if own else first.redis
    AwaitedOfOneClient.clients[id(client)] = client
    return [AwaitedOfOneClient(client, name) for name in names]


@pytest.fixture(params=[*KINDS, "url", "asyncio"])
def q(request: pytest.FixtureRequest, cluster: Cluster, names: list[str]) -> Iterator[Any]:
    """A queue for a client of each kind."""
    with ExitStack() as stack:
        if request.param in KINDS:
            client = stack.enter_context(KINDS[request.param](cluster))
            queue: Any = stack.enter_context(DPQ(client, names[1]))
        elif request.param == "url":
            queue = stack.enter_context(DPQ.from_url(cluster.url, names[1]))
        else:
            stack.enter_context(loop_in_a_thread())
            queue = awaited(cluster, names, own=request.param == "asyncio")[1]
        yield queue
        queue.admin.drop()


@pytest.fixture(params=FACES)
def of_each_face(
    request: pytest.FixtureRequest, cluster: Cluster, names: list[str], queues: list[DPQ]
) -> Iterator[tuple[Any, list[Any]]]:
    """A kind of worker, and its queue on each of the masters."""
    with face_of(request.param) as face:
        asyncio = request.param == "asyncio"
        yield face.worker, awaited(cluster, names, own=False) if asyncio else queues


def scripts_run(cluster: Cluster) -> int:
    """Calls of scripts, on all nodes."""
    return sum(
        int(row["calls"])
        for node in cluster.nodes
        for name, row in node.redis.info("commandstats").items()
        if "eval" in name
    )


def blocked(cluster: Cluster) -> int:
    return sum(node.redis.info("clients")["blocked_clients"] for node in cluster.nodes)


def test_the_life_of_tasks(q: DPQ) -> None:
    """Every operation does on a cluster what it does elsewhere."""
    first = q.push({"n": 1}, priority=5, key="k")
    assert q.push({"n": 2}, priority=9, key="k", on_duplicate="raise_priority") == first
    others = q.push_many(Push(payload=n, group="g", priority=n) for n in range(5))
    task, done, _ = q.pop()
    assert (task.id, task.priority) == (first, 9)
    assert done()
    assert not q.ack(task)
    q.set_limit(1, 60, group="g")
    task, _, set_visibility = q.pop()
    assert task.id == others[4]
    assert q.pop() == (None, None, None)
    assert "g" in q.why(others[3])
    assert q.why().because
    set_visibility(30)
    q.update(task.id, delay=0)
    q.clear_limit("g")
    with q.lease() as task:
        raise RateLimited(30, scope="task")
    q.update(task.id, delay=0)
    with pytest.raises(ZeroDivisionError), q.lease() as task:
        raise ZeroDivisionError
    q.update(task.id, priority=100, delay=0)
    task = q.pop().task
    q.bury(task, "enough")
    with pytest.raises(LeaseLostError):
        q.extend(task, 10)
    assert [dead.id for dead in q.dead.list()] == [task.id]
    assert q.dead.replay() == 1
    assert q.peek(1)[0].id == task.id
    q.push("again", every=3600, priority=1000)
    q.ack(q.pop().task)
    assert q.stats().delayed == 1
    q.pause()
    assert q.pop() == (None, None, None)
    q.resume()
    assert len(q.pop_many(10)) == 5
    assert q.next_event() > 0
    assert q.promote() == 0
    assert q.check() == []
    assert q.size() == 6
    assert q.purge(TaskState.INVISIBLE) == 5


def test_a_pop_waits_for_a_push_and_for_a_moment(q: DPQ, cluster: Cluster) -> None:
    """A waiting pop is woken by a push, and by the clock at the exact time."""
    begun = time.monotonic()
    q.push("later", delay=0.2)
    task = q.pop(timeout=PATIENCE_S).task
    assert task.payload == "later"
    assert time.monotonic() - begun >= 0.2
    found: list[Any] = []
    with in_a_thread(lambda: found.append(q.pop(timeout=PATIENCE_S).task)):
        wait_for(lambda: blocked(cluster) == 1, q.stats)
        q.push("now")
    assert [task.payload for task in found] == ["now"]


def test_workers_over_several_nodes(of_each_face: Any, cluster: Cluster) -> None:
    """One worker waits on all nodes at once, is woken from each, and asks nothing when idle."""
    kind, queues = of_each_face
    done: SimpleQueue[Any] = SimpleQueue()
    worker = kind(queues, lambda task: done.put(task.payload), concurrency=2)
    with in_a_thread(partial(worker.run, signals=False), worker.stop):
        for _ in range(3):
            wait_for(lambda: blocked(cluster) == 3, lambda: blocked(cluster))
            for number, q in enumerate(queues):
                q.push(number)
            assert sorted(done.get(timeout=PATIENCE_S) for _ in queues) == [0, 1, 2]
        wait_for(lambda: blocked(cluster) == 3, lambda: blocked(cluster))
        before = scripts_run(cluster)
        time.sleep(0.5)
        assert scripts_run(cluster) - before <= 2


@pytest.mark.parametrize("most", [64, 2])
def test_a_scheduler(
    queues: list[DPQ], cluster: Cluster, monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    """One daemon does the upkeep of all queues; of those beyond its connections when it looks."""
    monkeypatch.setattr(blocks, "MOST_BLOCKS", most)
    for module in ("daemon", "upkeep"):
        seconds = 5.0 if most > 3 else 0.5
        monkeypatch.setattr(f"dpq.scheduler.{module}.RECHECK_SECONDS", seconds)
    for q in queues:
        q.push("known")
    with running(Scheduler(queues[0].redis, [q.queue_name for q in queues])):
        wait_for(lambda: blocked(cluster) == min(most, 4), lambda: blocked(cluster))
        for q in queues:
            q.push("due", delay=0.1)
        wait_for(lambda: all(q.stats().ready == 2 for q in queues), lambda: queues[2].stats())


def test_the_registry_and_the_command_line(cluster: Cluster, queues: list[DPQ]) -> None:
    """The CLI works by URL; all queues are known, and the doctor asks the queue's own server."""
    near = queues[0]
    near.push("x")
    with DPQ(near.redis, f"{near.queue_name}x") as unknown:
        assert "there is no queue" in unknown.why().because

    def dpq(*words: str, code: int = 0) -> str:
        result = CliRunner().invoke(app, [*words, "--url", cluster.url])
        assert result.exit_code == code, result.output
        return result.stdout

    for q in queues:
        dpq("push", '"x"', "--queue", q.queue_name)
    mine = {q.queue_name for q in queues}
    assert mine <= set(known_queues(queues[0].redis))
    listed = [json.loads(line) for line in dpq("queues", "--json").splitlines()]
    assert mine <= {entry["queue"] for entry in listed}
    assert int(dpq("doctor", "--load-scripts")) > 30
    node = cluster.master_of(queues[1].queue_name)
    for setting in ("allkeys-lru", "noeviction"):
        node.redis.config_set("maxmemory-policy", setting)
        for q in queues:
            told = dpq("doctor", "--queue", q.queue_name, code=1)  # nothing is kept on disk
            assert ("evict" in told) == (q is queues[1] and setting == "allkeys-lru")
