"""How calls reach the server, and what becomes of a lease that is lost on the way."""

import logging
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from kit.waiting import kill_all
from redis import Redis
from redis.backoff import NoBackoff
from redis.connection import AbstractConnection, Connection
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import NoPermissionError
from redis.retry import Retry
from support import wait_for

from dpq import DPQ, LeaseLostError, Push
from dpq.operations.queue import POP_BATCH
from dpq.server import Server
from dpq.transport.script_loading import load_scripts


class Counting(Redis):
    """A client that is not plain."""

    calls = 0

    def execute_command(self, *args: Any, **options: Any) -> Any:
        self.calls += 1
        return super().execute_command(*args, **options)


# Several statements stand in some `pytest.raises`: the body of a lease is what fails there.
# ruff: noqa: PT012


@pytest.fixture
def once(server: Server) -> Iterator[Redis]:
    """A client that never sends anything twice."""
    with Redis.from_url(server.url, retry=Retry(NoBackoff(), 0)) as client:
        yield client


def test_a_cut_connection_is_replaced(server: Server, redis: Redis, queue_name: str) -> None:
    """When the server has dropped the connection, the call goes through by the client's retries."""
    q = DPQ(Redis.from_url(server.url), queue_name)
    q.push(1)
    kill_all(redis)
    assert q.pop().task.payload == 1
    q.drop()
    q.close()


def test_a_client_without_retries(once: Redis, redis: Redis, queue_name: str) -> None:
    """A drop between two calls is no error even for a client that never sends twice."""
    q = DPQ(once, queue_name)
    q.push(1)
    kill_all(redis)
    assert q.pop().task.payload == 1
    q.drop()
    q.close()


@pytest.mark.parametrize("retries", [0, 3])
def test_a_fault_in_a_call(
    server: Server, redis: Redis, queue_name: str, monkeypatch: pytest.MonkeyPatch, retries: int
) -> None:
    """A fault in mid-call is told by a client without retries, and sent again by one with them."""
    with Redis.from_url(server.url, retry=Retry(NoBackoff(), retries)) as client:
        q = DPQ(client, queue_name)
        q.push(1)
        send = Connection.send_packed_command

        def cut_and_send(connection: Any, command: Any, **named: Any) -> None:
            """Cut the connection after it was found sound."""
            monkeypatch.undo()
            kill_all(redis)
            send(connection, command, **named)

        monkeypatch.setattr(AbstractConnection, "send_packed_command", cut_and_send)
        if retries:
            assert q.pop().task.payload == 1
        else:
            with pytest.raises(RedisConnectionError):
                q.pop()
        q.drop()
        q.close()


def test_other_clients_are_used_as_they_are(server: Server, redis: Redis, queue_name: str) -> None:
    """A subclass sees every call in its own `execute_command`."""
    with Counting.from_url(server.url) as client:
        q = DPQ(client, queue_name)
        q.push_many([Push(payload=1), Push(payload=2)])
        q.pop()
        load_scripts(redis)  # else a call that the server does not know is sent twice
        before = client.calls
        assert q.pop().task.payload == 2
        assert client.calls == before + 1
        q.drop()


@pytest.mark.parametrize("cancelled", [True, False])
def test_the_heartbeat_stops_when_the_lease_is_lost(
    live: DPQ[Any], caplog: pytest.LogCaptureFixture, cancelled: bool
) -> None:
    """A heartbeat that is refused says so once and ends; it tells a cancelled task apart."""
    live.push(1)
    with (
        caplog.at_level(logging.INFO),
        pytest.raises(LeaseLostError),
        live.lease(visibility=0.3) as task,
    ):
        if cancelled:
            live.cancel(task.id)
        else:
            with DPQ[Any](live.redis, live.queue_name) as other:
                other.fail(task, "no", delay=0)
                other.pop()
        said = f"task {task.id} was cancelled" if cancelled else f"lease of task {task.id} lost: "
        wait_for(lambda: said in caplog.text, lambda: caplog.text)
        raise LeaseLostError("finish", [task.id])
    assert caplog.text.count(said) == 1


def test_the_heartbeat_outlives_a_fault(
    live: DPQ[Any], caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server that is away for one beat does not end the heartbeat."""
    live.push(1)
    extend, refused, kept = live._leases._extend, threading.Event(), threading.Event()

    def flaky(leases: Any) -> Any:
        if not refused.is_set():
            refused.set()
            raise RedisConnectionError("away")
        alive = extend(leases)
        kept.set()
        return alive

    monkeypatch.setattr(live._leases, "_extend", flaky)
    with caplog.at_level(logging.WARNING), live.lease(visibility=1):
        assert kept.wait(20)
    assert "cannot extend 1 leases now" in caplog.text
    assert live.size() == 0


def test_an_interrupted_call_spoils_nothing(
    live: DPQ[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The reply that is under way then is read by no other call."""
    live.push(1)
    read = AbstractConnection.read_response

    def interrupt(connection: Any, *args: Any, **named: Any) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr(AbstractConnection, "read_response", interrupt)
    with pytest.raises(KeyboardInterrupt):
        live.push(2)
    monkeypatch.setattr(AbstractConnection, "read_response", read)
    assert live.size() == 2
    assert [task.payload for task in live.pop_many(3)] == [1, 2]


def test_what_is_leased_reaches_the_caller(live: DPQ[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """When a later round trip of a pop_many fails, the tasks of those before are returned."""
    live.push_many(Push(payload=n) for n in range(POP_BATCH + 50))
    call_all, calls = live._session.connections.call_all, []

    def once(commands: Any) -> Any:
        calls.append(commands)
        return call_all(commands) if len(calls) <= 2 else [RedisConnectionError("away")]

    assert live.next_event() is None  # so that the queue is open
    monkeypatch.setattr(live._session.connections, "call_all", once)
    assert [task.payload for task in live.pop_many(POP_BATCH + 50)] == list(range(POP_BATCH))
    monkeypatch.undo()
    assert live.size() == POP_BATCH + 50


def test_a_refused_unblock_costs_no_task(
    live: DPQ[Any], redis: Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A user who may not CLIENT UNBLOCK gets the task that a wait has brought."""
    execute = redis.execute_command

    def refusing(*args: Any, **options: Any) -> Any:
        if args[0] == "CLIENT UNBLOCK":
            raise NoPermissionError("no permission")
        return execute(*args, **options)

    monkeypatch.setattr(redis, "execute_command", refusing)
    live.push(1, delay=0.1)
    assert live.pop(timeout=20).task.payload == 1
    monkeypatch.undo()
