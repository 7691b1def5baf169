"""What a cluster loses when its masters die, are cut off, or hand over slots: under load.

Nothing that was acknowledged, but for what asynchronous replication loses: that is counted, and
what a replica has confirmed is not among it.
"""

import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from functools import partial
from queue import SimpleQueue
from typing import Any

import pytest
from hypothesis import settings
from kit.faces import face_of
from kit.threads import in_a_thread
from pressure import Pressure
from redis.backoff import NoBackoff
from redis.crc import key_slot
from redis.exceptions import RedisError, ResponseError
from redis.retry import Retry
from support import PATIENCE_S, wait_for
from topology import Cluster, Node

from dpq import DPQ, LeaseLostError, Push, Worker

SOAK = settings.get_current_profile_name() == "soak"

soak = pytest.mark.skipif(not SOAK, reason="make test-all")

IMPATIENT = "?socket_timeout=1"


@pytest.fixture
def healed(cluster: Cluster) -> Iterator[Cluster]:
    """The cluster; what a test has broken is mended after it."""
    yield cluster
    cluster.heal()


@pytest.fixture
def q(healed: Cluster, queue_name: str) -> Iterator[DPQ]:
    with DPQ.from_url(healed.url + IMPATIENT, queue_name) as queue:
        yield queue
        queue.admin.drop()


@pytest.mark.parametrize("times", [1, pytest.param(10, marks=soak)])
def test_a_master_is_killed(
    healed: Cluster, q: DPQ, queues: list[DPQ], capsys: pytest.CaptureFixture[str], times: int
) -> None:
    """SIGKILL of the master under load: the replica goes on with all that it had.

    So does a worker that has queues elsewhere as well, and a client that never sends twice.
    """
    died: list[float] = []
    handled: SimpleQueue[Any] = SimpleQueue()
    worker = Worker(queues, lambda task: handled.put(task.payload))
    with Pressure(healed.url, q.queue_name) as pressure, ExitStack() as stack:
        stack.enter_context(in_a_thread(partial(worker.run, signals=False), worker.stop))
        once = stack.enter_context(healed.client(retry=Retry(NoBackoff(), 0)))
        others = [stack.enter_context(DPQ(once, queue.queue_name)) for queue in queues]
        for other in others:
            other.size()
        for _ in range(times):
            healed.kill(healed.master_of(q.queue_name))
            died.append(time.monotonic())
            pressure.goes_on()
            took = time.monotonic() - died[-1]
            for number, other in enumerate(others):
                wait_for(partial(pushed, other, number), healed.seen)
            assert sorted(handled.get(timeout=PATIENCE_S) for _ in others) == [0, 1, 2]
            if times > 1:
                healed.heal()
                pressure.goes_on()
    told = pressure.account(q, [(at, at) for at in died])
    with capsys.disabled():
        print(f"\nmaster killed {times} times, load goes on after {took:.1f} s: {told}")


def pushed(queue: DPQ, payload: Any) -> bool:
    try:
        return bool(queue.push(payload, key=str(payload)))
    except RedisError:
        return False


def test_a_slot_moves(healed: Cluster, q: DPQ, capsys: pytest.CaptureFixture[str]) -> None:
    """A queue is moved key by key, and back, under load: calls wait, none fails, nothing is lost.

    Its keys are in two places meanwhile, and no server runs a script with keys in both.
    """
    home = healed.master_of(q.queue_name)
    away = next(node for node in healed.masters() if node is not home)
    q.push("later", delay=600)  # so that it has some keys for sure
    with Pressure(healed.url, q.queue_name) as pressure:
        began = time.monotonic()
        keys = migrate(q.queue_name, home, away) + migrate(q.queue_name, away, home)
        took = time.monotonic() - began
        pressure.goes_on()
    assert keys >= 10
    assert not pressure.errors
    with capsys.disabled():
        print(f"\nslot moved twice, {keys} keys in {took:.1f} s: {pressure.account(q, [])}")


def meet_a_client(node: Node) -> None:
    """Wait until a node has refused a call."""
    before = node.refusals()
    wait_for(lambda: node.refusals() > before, node.refusals)


def migrate(queue_name: str, home: Node, away: Node, *, busy: bool = True) -> int:
    """Move a queue as redis-cli does, while clients call: how many keys it had."""
    slot = key_slot(queue_name.encode())
    away.ask("CLUSTER SETSLOT", slot, "IMPORTING", home.ask("CLUSTER MYID"))
    home.ask("CLUSTER SETSLOT", slot, "MIGRATING", away.ask("CLUSTER MYID"))
    keys = home.ask("CLUSTER GETKEYSINSLOT", slot, 100)
    for key in keys:
        home.ask("MIGRATE", "127.0.0.1", away.port, key, 0, 5000)
        if busy:
            meet_a_client(home)
    new = away.ask("CLUSTER MYID")
    away.ask("CLUSTER SETSLOT", slot, "NODE", new)
    with suppress(ResponseError):  # it had no other slot, and is the new one's replica by now
        home.ask("CLUSTER SETSLOT", slot, "NODE", new)
    return len(keys)


def test_waiters_follow_a_slot(healed: Cluster, queues: list[DPQ]) -> None:
    """Who waits for a task while the queue moves gets it from the new node, also with asyncio."""
    q, elsewhere, _ = queues
    home = healed.master_of(q.queue_name)
    away = healed.master_of(elsewhere.queue_name)
    found: SimpleQueue[Any] = SimpleQueue()

    q.size()
    with (
        face_of("asyncio") as face,
        face.queue.from_url(healed.url, q.queue_name) as same,
        in_a_thread(lambda: found.put(q.pop(timeout=PATIENCE_S).task.payload)),
        in_a_thread(lambda: found.put(same.pop(timeout=PATIENCE_S).task.payload)),
    ):
        wait_for(lambda: home.redis.info("clients")["blocked_clients"] == 2, healed.seen)
        migrate(q.queue_name, home, away, busy=False)
        with DPQ(q.redis, q.queue_name) as other:
            other.push_many([Push(payload=1), Push(payload=2)])
        assert sorted(found.get(timeout=PATIENCE_S) for _ in range(2)) == [1, 2]
    migrate(q.queue_name, away, home, busy=False)


def test_a_master_is_cut_off(healed: Cluster, q: DPQ, capsys: pytest.CaptureFixture[str]) -> None:
    """SIGSTOP of the master under load: its replica takes over, it comes back as a replica.

    A consumer whose lease has run out meanwhile is refused, wherever it asks.
    """
    q.push("held", priority=1)
    task = q.pop(visibility=0.5).task
    late = DPQ(q.redis, q.queue_name)
    with Pressure(healed.url + IMPATIENT, q.queue_name) as pressure:
        master = healed.master_of(q.queue_name)
        master.stop()
        stopped = time.monotonic()
        pressure.goes_on()
        took = time.monotonic() - stopped
        master.go_on()
        wait_for(lambda: task.id in pressure.acked, q.stats)
        with pytest.raises(LeaseLostError):
            late.extend(task, 10)
        wait_for(lambda: master.replication()["role"] == "slave", healed.seen)
        demoted = time.monotonic()
        pressure.goes_on()
    told = pressure.account(q, [(stopped, demoted)])
    late.close()
    with capsys.disabled():
        print(f"\nmaster stopped, load goes on after {took:.1f} s: {told}")
