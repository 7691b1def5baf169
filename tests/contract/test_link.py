"""How calls reach the server, and what becomes of a lease that is lost on the way."""

from typing import Any

import pytest
from kit.waiting import kill_all
from redis import Redis
from redis.backoff import NoBackoff
from redis.connection import AbstractConnection, Connection
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.retry import Retry

from dpq import DPQ
from dpq.server import Server


def test_a_client_without_retries(server: Server, redis: Redis, queue_name: str) -> None:
    """A drop between two calls is no error even for a client that never sends twice."""
    once = Redis.from_url(server.url, retry=Retry(NoBackoff(), 0))
    with once, DPQ(once, queue_name) as q:
        q.push(1)
        kill_all(redis)
        assert q.pop().task.payload == 1
        q.admin.drop()


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
        q.admin.drop()
        q.close()


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
    assert [task.payload for task in live.peek()] == [1, 2]
    assert live.get(live.push(3)).payload == 3
