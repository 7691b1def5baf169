"""One logical queue over all masters of a real cluster."""

import threading
import time
import uuid
from collections import Counter
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest
from cluster.test_cluster_faults import migrate
from kit.faces import FACES, face_of
from kit.schedulers import running
from kit.threads import in_a_thread
from redis import RedisCluster
from support import PATIENCE_S, wait_for
from topology import Cluster

from dpq import DPQ, Push, Scheduler
from dpq.protocol.placement import home_of, tags_of
from dpq.testing import assert_conserved

LONG = 150.0
SOON = 0.05


@pytest.fixture
def q(client: RedisCluster) -> Iterator[DPQ[Any]]:
    queue: DPQ[Any] = DPQ(client, uuid.uuid4().hex, partitions=6)
    yield queue
    queue.drop()
    queue.close()


def holders(q: DPQ[Any]) -> Counter[str]:
    """How many partitions each master has."""
    nodes = [q._session.connections.nodes.of(marker) for marker in q._operations.markers]
    return Counter(node.name for node in nodes if node)


def test_all_masters_hold_the_queue(q: DPQ[Any]) -> None:
    """Partitions are spread evenly over the masters; the queue is one, in order."""
    assert list(holders(q).values()) == [2, 2, 2]
    strict: DPQ[Any] = DPQ(q.redis, q.queue_name, ask=6)
    ids = q.push_many(Push(n, n % 50, group=f"g{n % 9}" if n % 4 else None) for n in range(600))
    assert [task.priority for task in strict.peek(30)] == sorted(
        (task.priority for task in strict.peek(30)), reverse=True
    )
    done = []
    for _ in range(50):
        popped = strict.pop()
        done.append((popped.task.id, popped.task.priority))
        popped.on_success()
    assert [priority for _, priority in done] == sorted((p for _, p in done), reverse=True)
    while tasks := q.pop_many(40):
        assert all(q.ack_many(tasks))
        done += [(task.id, 0) for task in tasks]
    assert_conserved(q, ids, [id_ for id_, _ in done])
    strict.close()


def test_a_wait_spans_the_cluster(
    cluster: Cluster, q: DPQ[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A waiting pop is woken from every partition, by pushes and by moments; a daemon looks too."""
    for module in ("transport.watches", "scheduler.upkeep"):  # nobody is saved by looking again
        monkeypatch.setattr(f"dpq.{module}.RECHECK_SECONDS", LONG)
    other: DPQ[Any] = DPQ(q.redis, q.queue_name)
    names = [f"{number}" for number in range(99)]
    keys = [next(n for n in names if home_of(None, n, 6) == place) for place in range(6)]

    def push_soon(number: int) -> threading.Timer:
        options = {"delay": SOON * (number // 6), "key": keys[number % 6]}
        timer = threading.Timer(SOON, other.push, [number], options)
        timer.start()
        return timer

    for kind in FACES:
        with face_of(kind) as face, face.queue.from_url(cluster.url, q.queue_name) as waiting:
            for number in range(12):
                timer = push_soon(number)
                popped = waiting.pop(timeout=PATIENCE_S)
                assert popped.task.payload == number
                popped.on_success()
                timer.join()
    with running(Scheduler(q.redis, [q.queue_name])):
        q.push_many(Push(n, delay=SOON) for n in range(12))
        wait_for(lambda: q.stats().ready == 12, q.stats)
    other.close()


@pytest.mark.parametrize("kind", FACES)
def test_workers_use_all_masters(cluster: Cluster, q: DPQ[Any], kind: str) -> None:
    """Threads and asyncio work off all partitions; each task once, each group's limit kept."""
    q.set_limit(concurrency=2, group="g")
    seen: list[Any] = []
    ids = q.push_many(Push(n, group="g" if n % 3 == 0 else None) for n in range(60))
    with face_of(kind) as face, face.queue.from_url(cluster.url, q.queue_name) as own:
        worker = face.worker(own, lambda task: seen.append(task.payload), concurrency=4)
        assert worker.drain() == 60
        assert own.partitions == 6
    assert_conserved(q, ids, ids)
    assert sorted(seen) == list(range(60))


def test_a_slot_moves_under_load(cluster: Cluster, q: DPQ[Any]) -> None:
    """While the slots of a partition move to another master, nothing is lost or done twice."""
    stop, done = threading.Event(), []
    ids: list[str] = []

    def push() -> None:
        while not stop.is_set():
            ids.append(q.push(len(ids)))
            time.sleep(0.001)

    def pop() -> None:
        other: DPQ[Any] = DPQ(q.redis, q.queue_name)
        while not (stop.is_set() and len(done) == len(ids)):
            popped = other.pop(timeout=0.2)
            if popped.task and popped.on_success():
                done.append(popped.task.id)
        other.close()

    with in_a_thread(pop, stop.set), in_a_thread(push, stop.set):
        wait_for(lambda: len(done) > 50, lambda: len(done))
        tag = tags_of(q.queue_name, 6)[4]
        home = cluster.master_of(tag)
        away = next(node for node in cluster.masters() if node is not home)
        move = partial(migrate, tag, busy=False)
        assert move(home, away) + move(away, home) >= 4  # settings and totals, at least
        seen = len(done)
        wait_for(lambda: len(done) > seen + 50, lambda: (seen, len(done)))
    assert_conserved(q, ids, done)


def test_results_of_all_masters(q: DPQ[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """Callers on one connection hear of ends at every master, and results come in one order."""
    monkeypatch.setattr("dpq.queue.ends.ASK_FOR_END_SECONDS", LONG)
    ids = q.push_many(Push(n) for n in range(12))
    heard: dict[str, Any] = {}

    def hear(task_id: str) -> None:
        heard[task_id] = q.result(task_id, timeout=LONG)

    callers = [threading.Thread(target=hear, args=(task_id,)) for task_id in ids]
    for caller in callers:
        caller.start()
    ears = q._ends._ears
    wait_for(lambda: len(ears) == 12 and q._ends.channel, lambda: ears)
    done: dict[str, Any] = {}
    while len(done) < 12:
        tasks = q.pop_many(5)
        q.ack_many(tasks, results=[task.payload for task in tasks])
        done |= {task.id: task.payload for task in tasks}
    for caller in callers:
        caller.join(PATIENCE_S)
    assert heard == done
    assert sorted(result.value for result in q.results()) == list(range(12))
