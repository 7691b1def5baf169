"""Clients that ask Sentinels for the master work, and find the next one by themselves.

On the first server of the run (`--server`).
"""

import asyncio
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing
from functools import partial
from typing import Any

import hypothesis
import pytest
from kit.awaited import Awaited
from kit.faces import FACES, Face, face_of
from kit.threads import in_a_thread
from pressure import Pressure
from redis import Redis
from redis.asyncio import sentinel as aio_sentinel
from redis.exceptions import RedisError, ResponseError
from redis.sentinel import Sentinel
from support import PATIENCE_S, SERVERS, wait_for
from topology import SERVICE, Node, Sentinels

from dpq import DPQ, AsyncDPQ, Scheduler, Task
from dpq.link import blocks, watches
from dpq.link.connect import open_url
from dpq.link.waiter import Waiter
from dpq.link.waiter_async import AsyncWaiter
from dpq.link.watches import Marker
from dpq.server import Binary, Server, find_binary

LONGEST_S = 5.0
"""From when the Sentinels name another master until everybody goes on."""

STALLED_S = 7.0
"""More for a machine that does other things meanwhile; not in the soak's settings."""


def long() -> bool:
    return hypothesis.settings.get_current_profile_name() == "soak"


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "group" in metafunc.fixturenames:
        binary = find_binary()
        name = f"{binary.family}-{binary.version}"
        metafunc.parametrize("group", [binary], ids=[name], indirect=True, scope="module")


@pytest.fixture(scope="module")
def group(request: pytest.FixtureRequest) -> Iterator[Sentinels]:
    with closing(Sentinels(request.param)) as group:
        yield group


@pytest.fixture
def healed(group: Sentinels) -> Iterator[Sentinels]:
    """The group; what a test has broken is mended after it."""
    yield group
    group.heal()


@pytest.fixture(params=FACES)
def face(request: pytest.FixtureRequest) -> Iterator[Face]:
    with face_of(request.param) as face:
        yield face


def life_of_a_task(q: Any) -> None:
    q.push("first", priority=1)
    q.push("later", delay=0.1)
    task, done, _ = q.pop()
    assert task.payload == "first"
    assert done()
    assert q.pop(timeout=PATIENCE_S).on_success()
    assert q.check() == []
    assert q.size() == 0
    q.admin.drop()


def test_by_url(face: Face, group: Sentinels, queue_name: str) -> None:
    """A URL names Sentinels and a service, for both faces."""
    with face.queue.from_url(group.url, queue_name) as q:
        life_of_a_task(q)


def test_a_callers_own_client(
    face: Face, group: Sentinels, queue_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What redis-py's `Sentinel` makes for a master works as it is."""
    addresses = [("127.0.0.1", sentinel.port) for sentinel in group.sentinels]
    if face is FACES["blocking"]:
        blocking = Sentinel(addresses)
        with blocking.master_for(SERVICE) as client, DPQ(client, queue_name) as q:
            life_of_a_task(q)
        for each in blocking.sentinels:
            each.close()
        return
    sentinel = aio_sentinel.Sentinel(addresses)
    monkeypatch.setattr(Awaited, "_client_of", staticmethod(lambda client: client))
    with Awaited(sentinel.master_for(SERVICE), queue_name) as q:
        life_of_a_task(q)
    for asked in sentinel.sentinels:
        Awaited.wait(asked.aclose())


def test_another_service(group: Sentinels, queue_name: str) -> None:
    """A service that no Sentinel knows is an error that says so."""
    with DPQ.from_url(f"{group.url}-not", queue_name) as q, pytest.raises(RedisError) as caught:
        q.size()
    assert f"{SERVICE}-not" in str(caught.value)


@pytest.mark.parametrize("how", ["killed", "silent"])
def test_workers_and_scheduler_go_on(
    healed: Sentinels,
    queue_name: str,
    how: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """When the master dies or is cut off, all that wait there go on; a ledger is kept.

    These are workers, a scheduler, and callers that wait for a result.
    """
    handled: dict[str, float] = {}
    url = healed.url
    if how == "silent" and not long():  # the same, with less patience
        url += "?socket_timeout=1"
        monkeypatch.setattr(blocks, "FAILOVER_RECHECK_SECONDS", 0.5)
        monkeypatch.setattr(blocks, "REPLY_TIMEOUT", 1.0)

    def handle(task: Task[Any]) -> None:
        handled[task.payload] = time.monotonic()

    names = {kind: f"{queue_name}-{kind}" for kind in (*FACES, "upkeep")}
    with ExitStack() as stack:
        queues = {kind: stack.enter_context(DPQ.from_url(url, names[kind])) for kind in names}
        own = open_url(url)
        stack.callback(own.close)
        scheduler = Scheduler(own.client, [names["upkeep"]])
        for kind in FACES:
            face = stack.enter_context(face_of(kind))
            worker = face.worker(stack.enter_context(face.queue.from_url(url, names[kind])), handle)
            run = partial(worker.run, signals=False)
            stack.enter_context(in_a_thread(run, worker.stop))
        stack.enter_context(in_a_thread(scheduler.run, scheduler.stop))
        master = healed.master()
        wait_for(lambda: master.redis.info("clients")["blocked_clients"] == 3, healed.seen)
        due = queues["upkeep"].push("due", delay=1.0)
        asked = queues["upkeep"].push("asked", delay=PATIENCE_S)
        answers: list[Any] = []
        for kind in FACES:
            asking = stack.enter_context(FACES[kind].queue.from_url(url, names["upkeep"]))
            answer = partial(asking.result, asked, timeout=None)
            stack.enter_context(in_a_thread(lambda answer=answer: answers.append(answer())))
        channel = f"dpq:calls:{{{names['upkeep']}}}"
        wait_for(lambda: master.redis.pubsub_numsub(channel)[0][1] == 2, healed.seen)
        pressure = stack.enter_context(Pressure(url, queue_name, replicas=2))
        replicated(master.redis)
        if how == "killed":
            healed.kill(master)
        else:
            master.stop()
        died = time.monotonic()
        wait_for(lambda: healed.master_port() != master.port, healed.seen)
        replaced, failovers = time.monotonic(), healed.failovers()
        for kind in FACES:
            push_at_last(queues[kind], kind)
        wait_for(lambda: len(handled) == 2, lambda: handled)
        wait_for(lambda: queues["upkeep"].get(due).state == "ready", healed.seen)
        handled["scheduler"] = time.monotonic()
        queues["upkeep"].ack(queues["upkeep"].pop(id=asked, force=True).task, result="an answer")
        wait_for(lambda: answers == ["an answer"] * 2, lambda: answers)
        handled["results"] = time.monotonic()
        pressure.goes_on()
        pressure.stop()
        # On a busy machine Sentinels may also replace a master that lives.
        again = healed.failovers() != failovers
        faults = [(died, time.monotonic() if again else died)]
        told = pressure.account(stack.enter_context(DPQ.from_url(url, queue_name)), faults)
        for q in queues.values():
            assert q.check() == []
    took = {kind: round(moment - died, 1) for kind, moment in handled.items()}
    with capsys.disabled():
        print(f"\nmaster of the Sentinels {how}; seconds until each goes on: {took}; {told}")
    late = max(handled.values()) - replaced
    assert late < LONGEST_S + STALLED_S


def replicated(redis: Redis) -> None:
    """Wait until the replicas have all that there is."""
    redis.set("written", 1)  # WAIT knows of its own connection's writes only
    with redis.client() as one:
        one.set("written", 2)
        assert one.execute_command("WAIT", 2, PATIENCE_S * 1000) == 2


def push_at_last(q: DPQ, payload: str) -> None:
    def pushed() -> bool:
        try:
            return bool(q.push(payload, key=payload))
        except RedisError:
            return False

    wait_for(pushed, lambda: "no master")


@pytest.mark.parametrize("binary", [*SERVERS.values()][:1], ids=lambda one: one.version)
def test_a_demoted_master(binary: Binary, queue_name: str) -> None:
    """READONLY ends a connection: the next call looks anew for the server, as does a waiter."""
    found: list[Any] = []
    with ExitStack() as stack:
        server = stack.enter_context(Server.start(binary))
        root = stack.enter_context(Redis.from_url(server.url))
        waiting, other = (
            stack.enter_context(DPQ.from_url(server.url, queue_name)) for _ in range(2)
        )
        other.size()
        with in_a_thread(lambda: found.append(waiting.pop(timeout=PATIENCE_S))):
            wait_for(lambda: root.info("clients")["blocked_clients"] == 1, other.stats)
            root.execute_command("REPLICAOF", "127.0.0.1", 1)  # of nobody
            with pytest.raises(ResponseError, match="read-only"):
                other.push("never")
            assert not other._session.connections._links[""]._idle
            root.execute_command("REPLICAOF", "NO", "ONE")
            other.push("second")
    assert found[0].task.payload == "second"


def test_a_waiter_leaves_a_silent_server(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that does not even end a block in time is given up, and found again later."""
    monkeypatch.setattr(watches, "RECHECK_SECONDS", 0.1)
    monkeypatch.setattr(blocks, "REPLY_TIMEOUT", 0.1)
    node = Node(find_binary())
    url = f"redis://127.0.0.1:{node.port}?socket_connect_timeout=0.05"

    async def wait() -> Any:
        async with AsyncDPQ.from_url(url, "q") as q:
            waiter = AsyncWaiter(q._session.connections, ["m"])
            never = asyncio.get_running_loop().create_future()
            found = [await waiter.wait(0.05, never)]
            node.stop()
            found += [await waiter.wait(0.1, never) for _ in range(6)]
            assert waiter._blocks[0]._reading is None
            node.go_on()
            node.ask("ZADD", "m", 0, "w")
            found.append(await waiter.wait(PATIENCE_S, never))
            await waiter.aclose()
            return found

    try:
        with DPQ.from_url(url, "q") as q:
            waiter = Waiter(q._session.connections, ["m"])
            assert waiter.wait(0.05) is None
            node.stop()
            assert [waiter.wait(0.1) for _ in range(6)] == [None] * 6
            assert waiter._blocks[0].until is None
            node.go_on()
            node.ask("ZADD", "m", 0, "w")
            assert waiter.wait(PATIENCE_S) == Marker(0, 0)
            waiter.close()
        assert asyncio.run(wait()) == [None] * 7 + [Marker(0, 0)]
    finally:
        node.kill()
