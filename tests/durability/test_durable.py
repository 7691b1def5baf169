"""`durability`: calls return when what they have changed is confirmed, or say that it is not."""

import asyncio
import logging
import re
import signal
import tempfile
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from kit.faces import FACES, Face, face_of
from kit.nodes import alone
from redis import Redis
from redis import asyncio as aio
from redis.backoff import NoBackoff
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import RedisError
from redis.retry import Retry as Retries
from soak.servers import Node, Pair
from support import PATIENCE_S, find_all_binaries, has_waitaof, wait_for

import dpq
from dpq import DPQ, AsyncDPQ, ConfigurationError, NotConfirmedError, Push, Retry
from dpq.link.cluster import Node as ServerNode
from dpq.script import durability as durability_module
from dpq.script.assembly import script, script_names
from dpq.server import find_binary
from dpq.worker import runner, runner_async

pytestmark = pytest.mark.filterwarnings("ignore:.*keeps nothing on disk")

GUIDES = Path(__file__).parents[2] / "docs"

SHORT_S = 0.03
"""How long an unconfirmed call waits here."""

PATIENT = "?socket_timeout=1000"
"""For a client that waits for a confirmation until the test is over."""


@pytest.fixture(scope="module")
def place() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="dpq-durable-", dir="/tmp") as directory:
        yield Path(directory)


@pytest.fixture(scope="module")
def pair(place: Path) -> Iterator[Pair]:
    """A master and its replica."""
    (place / "pair").mkdir()
    with closing(Pair(place / "pair", find_binary(), hz=100)) as pair:  # waits end to 10 ms
        pair.start()
        load_all_scripts(pair)
        yield pair


def load_all_scripts(pair: Pair) -> None:
    """Let each call find its script, since a first call would wait twice."""
    for name in script_names():
        pair.master.client.script_load(script(name).text)


@pytest.fixture
def durable(pair: Pair, queue_name: str) -> Iterator[DPQ[Any]]:
    load_all_scripts(pair)  # a test before this one may have restarted the server
    with DPQ.from_url(pair.url, queue_name, durability="replica") as q:
        yield q
        q.admin.drop()


@pytest.fixture(params=FACES)
def face(request: pytest.FixtureRequest) -> Iterator[Face]:
    with face_of(request.param) as face:
        yield face


@pytest.fixture
def either(face: Face, pair: Pair, queue_name: str) -> Iterator[Any]:
    """A durable queue of each face, whose client is patient."""
    with face.queue.from_url(pair.url + PATIENT, queue_name, durability="replica") as q:
        yield q
        q.admin.drop()


@pytest.fixture
def producer(pair: Pair, queue_name: str) -> Iterator[DPQ[Any]]:
    """The same queue for one who waits for nobody."""
    with DPQ.from_url(pair.url, queue_name) as q:
        yield q
        q.admin.drop()


@contextmanager
def still(node: Node) -> Iterator[None]:
    """A server that stands still."""
    node.signal(signal.SIGSTOP)
    try:
        yield
    finally:
        node.signal(signal.SIGCONT)


@contextmanager
def replica_away(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A replica that stands still, and callers who do not wait for it for long."""
    with monkeypatch.context() as patch, still(pair.replica):
        patch.setattr(durability_module, "CONFIRM_SECONDS", SHORT_S)
        yield
    pair.settle()


@pytest.fixture
def wait_long(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who waits for a confirmation does so until the test is over."""
    monkeypatch.setattr(durability_module, "CONFIRM_SECONDS", 2 * PATIENCE_S)


@contextmanager
def user(pair: Pair, queue_name: str, *rules: str) -> Iterator[str]:
    """A user of the master with such rules: the URL to log in with."""
    admin = pair.master.client
    admin.execute_command("ACL", "SETUSER", "p", "reset", "on", ">pw", *rules)
    try:
        yield pair.url.replace("unix://", "unix://p:pw@")
    finally:
        admin.execute_command("ACL", "DELUSER", "p")
        with DPQ.from_url(pair.url, queue_name) as q:
            q.admin.drop()


def unconfirmed(call: Callable[[], Any]) -> Any:
    """The result of a call that says that it was done, and not confirmed."""
    with pytest.raises(NotConfirmedError) as told:
        call()
    assert told.value.confirmed == 0
    return told.value.result


def waits(pair: Pair) -> int:
    stats = pair.master.client.info("commandstats")
    return int(stats.get("cmdstat_wait", {"calls": 0})["calls"])


VERBS: dict[str, Callable[[DPQ[Any], Any], Any]] = {
    "push": lambda q, _: q.push("more"),
    "push of cron": lambda q, _: q.push("tick", cron="* * * * *"),
    "push_many": lambda q, _: q.push_many([Push("x")] * 3),
    "ack": lambda q, task: q.ack(task),
    "ack_many": lambda q, task: q.ack_many([task]),
    "fail": lambda q, task: q.fail(task, "no", delay=9),
    "release": lambda q, task: q.release(task, 9),
    "set_visibility": lambda q, task: q.set_visibility(task, 9),
    "rate_limited": lambda q, task: q.rate_limited(task, 9, "task"),
    "bury": lambda q, task: q.bury(task, "no"),
    "update": lambda q, task: q.update(task.id, priority=3),
    "cancel": lambda q, task: q.cancel(task.id),
    "purge": lambda q, _: q.purge("dead"),
    "replay": lambda q, _: q.dead.replay(),
    "replay of nothing": lambda q, _: q.dead.replay([]),
    "pause": lambda q, _: q.pause(0.001),
    "delay_group": lambda q, _: q.delay_group("g", 0.001),
    "set_limit": lambda q, _: q.set_limit(100, 1, group="g"),
    "clear_limit": lambda q, _: q.clear_limit("g"),
    "drop": lambda q, _: q.admin.drop(),
}
"""Calls that tell of something that has changed."""

OTHERS: dict[str, Callable[[DPQ[Any], Any], Any]] = {
    "pop": lambda q, _: q.pop(),
    "extend": lambda q, task: q.extend(task, 30),
    "get": lambda q, task: q.get(task.id),
    "stats": lambda q, _: q.stats(),
    "promote": lambda q, _: q.promote(),
    "limits": lambda q, _: q.admin.limits(),
    "check": lambda q, _: q.check(),
}


@pytest.mark.parametrize("verb", VERBS | OTHERS)
def test_what_changes_something_waits_for_a_replica(
    pair: Pair, durable: DPQ[Any], verb: str
) -> None:
    """Each verb that tells of a change waits once, in its own round trip, and nothing else does."""
    durable.push("a")
    durable.push("b")
    durable.bury(durable.pop().task, "so that one is dead")
    task = durable.pop().task
    before = waits(pair)
    (VERBS | OTHERS)[verb](durable, task)
    assert waits(pair) == before + (verb in VERBS)


def test_what_is_not_confirmed_says_what_was_done(
    pair: Pair, durable: DPQ[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error has the result, and what has answered; a pop does not wait for anybody."""
    durable.push_many([Push(n) for n in range(3)])
    tasks = durable.pop_many(2)
    with replica_away(pair, monkeypatch):
        with pytest.raises(NotConfirmedError, match="0 of 1 replica has confirmed") as told:
            durable.push_many([Push("x"), Push("y")])
        assert [durable.get(id_).payload for id_ in told.value.result] == ["x", "y"]
        assert (told.value.action, told.value.durability, told.value.confirmed) == (
            *("push", "replica"),
            0,
        )
        before = waits(pair)
        assert durable.pop().task.payload == 2
        assert waits(pair) == before
        assert unconfirmed(lambda: durable.ack_many(tasks)) == [True, True]
    assert durable.stats().acked == 2


def test_what_finds_nothing_to_do_asks_all_the_same(
    pair: Pair, durable: DPQ[Any], queue_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A repeated purge, replay or drop is not confirmed either, over whichever connection, before
    the replica has what the first has done; and it leaves nothing of a queue that is gone."""
    durable.push("a")
    for call, done in (
        (lambda q: q.dead.replay(), 1),
        (lambda q: q.dead.purge(), 1),
        (lambda q: q.purge(), 3),
        (lambda q: q.admin.drop(), None),
    ):
        if done:
            durable.push("more")
            durable.bury(durable.pop().task, "so that one is dead")
            assert durable.dead.purge(reason="another") == durable.dead.purge([]) == 0
        with DPQ.from_url(pair.url, queue_name, durability="replica") as other:
            other.pause(0.001)  # so that its connection has nothing left to wait for
            with replica_away(pair, monkeypatch):
                for q, result in ((durable, done), (other, done and 0)):
                    assert unconfirmed(partial(call, q)) == result
            assert call(other) == result
    assert pair.master.client.keys(f"*{queue_name}*") == []


def test_the_same_call_again_asks_once_more(
    pair: Pair, durable: DPQ[Any], queue_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Repeated over any connection, a call is confirmed when the replica has what the first did."""
    with DPQ.from_url(pair.url, queue_name, durability="replica") as other:
        other.push("first")
        task = other.pop().task
        other.pause(0.001)  # so that its connection has nothing left to wait for
        with replica_away(pair, monkeypatch):
            ids = unconfirmed(lambda: durable.push("a", key="k"))
            assert durable.get(ids).payload == "a"
            for q in (durable, other):  # nothing is left to do, and nothing is confirmed
                assert unconfirmed(partial(q.push, "a", key="k")) == ids
            assert unconfirmed(lambda: durable.ack(task)) is True
            assert unconfirmed(lambda: other.ack(task)) is False
        assert other.push("a", key="k") == ids
        assert durable.ack(task) is False
        assert pair.replica.client.hget(f"dpq:{{{queue_name}}}:keys", "k") == ids.encode()


def test_lease_and_worker_go_on(
    pair: Pair,
    face: Face,
    either: Any,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A worker logs what is not confirmed, and does not do it again; a lease's end tells it, and
    so does the end of a popped task."""
    ids = either.push_many([Push(n) for n in range(5)])
    done = []
    with replica_away(pair, monkeypatch):
        popped = either.pop()
        done.append(popped.task.id)
        assert unconfirmed(popped.on_success) is True
        with pytest.raises(NotConfirmedError), either.lease() as task:
            done.append(task.id)
        with either.lease() as task:
            raise Retry(0)
        with caplog.at_level(logging.WARNING):
            face.worker(either, lambda task: done.append(task.id), concurrency=2).drain()
    assert sorted(done) == sorted(ids)
    assert "was done, and returned" in caplog.text
    assert either.stats().acked == 5


# asyncio


@pytest.mark.usefixtures("wait_long")
@pytest.mark.parametrize(
    ("face", "in_time"),
    [("blocking", True), ("asyncio", True), ("asyncio", False)],
    indirect=["face"],
)
def test_a_worker_that_ends_lets_acks_wait(
    pair: Pair,
    face: Face,
    either: Any,
    producer: DPQ[Any],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    in_time: bool,
) -> None:
    """Handlers that have ended are not given back, also without any grace, and their acks made
    once: what only waits to be confirmed is waited for, for a while."""
    monkeypatch.setattr(runner, "CONFIRM_SECONDS", 2 * PATIENCE_S)
    if not in_time:
        monkeypatch.setattr(runner_async, "CONFIRM_SECONDS", 0)
        monkeypatch.setattr(runner_async, "LEAVE_SECONDS", SHORT_S)
    caplog.set_level(logging.WARNING, logger="dpq")
    producer.push_many([Push(n) for n in range(3)])
    worker = face.worker(either, lambda task: None, concurrency=3, grace=0)
    with ThreadPoolExecutor() as threads, still(pair.replica):
        running = threads.submit(worker.run, signals=False)
        wait_for(lambda: producer.stats().acked == 3, producer.stats)
        worker.stop()
        if in_time:
            with pytest.raises(TimeoutError):
                running.result(10 * SHORT_S)
        else:
            running.result(PATIENCE_S)
    assert (running.result(), worker.given_back) == (3, 0)
    told = [record.getMessage().partition(": ")[2] for record in caplog.records]
    assert told == (
        [] if in_time else ["ends before the server has confirmed the end of 3 deliveries"]
    )


# What goes wrong on the way


def cut(pair: Pair) -> None:
    pair.master.client.execute_command("CLIENT", "KILL", "TYPE", "normal")


def test_a_cut_connection(pair: Pair, either: Any) -> None:
    """A call whose connection was cut goes over another one, which then waits."""
    either.push("first")
    cut(pair)
    before = waits(pair)
    either.push("second")
    assert waits(pair) > before


def test_a_demoted_master_confirms_nothing(
    pair: Pair, queue_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server that becomes a replica while a call waits for its own: the call is not confirmed."""
    monkeypatch.setattr(durability_module, "CONFIRM_SECONDS", 20)
    client = Redis.from_url(pair.url, retry=Retries(NoBackoff(), 0))
    admin = pair.master.client
    with (
        client,
        DPQ(client, queue_name, durability="replica") as q,
        ThreadPoolExecutor() as threads,
    ):
        q.push("first")
        with still(pair.replica):
            push = threads.submit(q.push, "a")
            wait_for(lambda: admin.info("clients")["blocked_clients"], admin.client_list)
            try:
                admin.execute_command("REPLICAOF", "127.0.0.1", pair.replica.port)
                assert isinstance(push.exception(20), NotConfirmedError | RedisError)
            finally:
                admin.execute_command("REPLICAOF", "NO", "ONE")
    pair.settle()


def test_what_the_client_sends_is_not_confirmed(
    pair: Pair, queue_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """When no connection of our own can be had, the client does it, and the caller is told."""

    def away(kind: Any, path: str = str(pair.front.with_name("nowhere"))) -> Callable[[str], Any]:
        node = ServerNode("nowhere", kind(unix_socket_path=path, retry=None), {})
        return lambda key: node

    async def push(client: Any) -> None:
        async with client, AsyncDPQ(client, queue_name, durability="replica") as q:
            await q.push("first")
            nodes = q._session.connections.nodes
            assert nodes.sends_once == (client.get_retry() is None)  # read while it is the client's
            with monkeypatch.context() as patch:
                patch.setattr(nodes, "only", away(aio.Redis)(""))
                await q.push("second")

    with DPQ(Redis(unix_socket_path=str(pair.front)), queue_name, durability="replica") as q:
        q.push("first")
        with monkeypatch.context() as patch:
            patch.setattr(q._session.connections.nodes, "only", away(Redis)(""))
            patch.setattr(q._session.connections.nodes, "of", away(Redis))
            with pytest.raises(NotConfirmedError, match="the client has sent it again") as told:
                q.push("second")
        assert q.get(told.value.result).payload == "second"
        with pytest.raises(NotConfirmedError, match="the client has sent it again"):
            asyncio.run(push(aio.Redis(unix_socket_path=str(pair.front))))
        with pytest.raises(RedisConnectionError, match="nowhere"):  # without retries: once only
            asyncio.run(push(aio.Redis.from_url(pair.url)))
        assert q.size() == 5
        q.admin.drop()
        q.redis.close()


# Who is refused


def test_a_server_without_waitaof_is_refused(place: Path, face: Face, queue_name: str) -> None:
    """`fsync` needs Redis 7.2 or Valkey, and an AOF: the first call says so, and what to do."""
    old = [each for each in find_all_binaries() if not has_waitaof(each)]
    for binary in [*old[:1], find_binary()]:
        wanted = "has no WAITAOF.*appendfsync always" if binary in old else "appendonly yes"
        with (
            alone(place / uuid.uuid4().hex, binary, appendonly="no") as node,
            face.queue.from_url(f"unix://{node.socket}", queue_name, durability="fsync") as q,
            pytest.raises(ConfigurationError, match=wanted),
        ):
            q.push("a")


def test_the_guide_shows_how_to_repeat(
    pair: Pair, durable: DPQ[Any], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """What docs/durability.md shows runs as it stands: it ends when the replica is back, and when
    it stays away, after as many runs of the task at the most as it has tries."""
    guide = GUIDES.joinpath("durability.md").read_text()
    (shown,) = re.findall(r"```python\n(for _ in .*?)```", guide, re.DOTALL)
    log = logging.getLogger("guide")
    log.addHandler(logging.Handler())
    names = {"q": durable, "payload": 1, "order_id": "o", "dpq": dpq, "log": log}
    loose: DPQ[Any] = DPQ(durable.redis, durable.queue_name)
    runs: list[int] = []

    def come_back(_: logging.LogRecord) -> None:
        monkeypatch.setattr(durability_module, "CONFIRM_SECONDS", PATIENCE_S)
        pair.replica.signal(signal.SIGCONT)

    def consume(record: logging.LogRecord) -> None:
        if record.levelno == logging.WARNING:
            popped = loose.pop()
            runs.append(popped.task.payload)
            popped.on_success()

    try:
        for heard, left in ((come_back, 1), (consume, 0)):
            loose.purge()
            monkeypatch.setattr(log.handlers[-1], "emit", heard)
            monkeypatch.setattr(durability_module, "CONFIRM_SECONDS", SHORT_S)
            pair.replica.signal(signal.SIGSTOP)
            exec(shown, names)  # noqa: S102
            assert loose.size() == left
    finally:
        pair.replica.signal(signal.SIGCONT)
        log.handlers.clear()
        loose.close()
    assert runs == [1, 1, 1]


def test_without_its_write_nothing_is_confirmed(pair: Pair, queue_name: str) -> None:
    """A server that refuses the write that goes before WAIT has not been asked for all."""
    with (
        user(pair, queue_name, "~*", "+@all", "-hincrby") as url,
        DPQ.from_url(url, queue_name, durability="replica") as q,
        pytest.raises(NotConfirmedError, match=r"(?i)hincrby|permissions"),
    ):
        q.push("a")


def test_without_a_replica_nothing_is_confirmed(
    place: Path, queue_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A master alone answers 0; a user who may not WAIT is told what the server said."""
    monkeypatch.setattr(durability_module, "CONFIRM_SECONDS", SHORT_S)
    with (
        alone(place / "alone") as node,
        DPQ.from_url(f"unix://{node.socket}", queue_name, durability="replica") as q,
    ):
        with pytest.raises(NotConfirmedError, match="0 of 1 replica"):
            q.push("a")
        node.client.execute_command("ACL", "SETUSER", "default", "-wait")
        with pytest.raises(NotConfirmedError, match=r"(?i)no permissions.*wait"):
            q.push("b")
        assert q.size() == 2
