"""What a queue's first call says about a server on which tasks may get lost."""

import asyncio
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from redis import Redis
from redis.asyncio import Redis as AsyncRedis

from dpq import DPQ, AsyncDPQ, ServerWarning
from dpq.link import server_check
from dpq.registry.all_queues import inspect_server
from dpq.server import Server

Told = list[str]
First = Callable[..., Told]


@pytest.fixture(autouse=True)
def a_new_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """No server has been looked at yet."""
    monkeypatch.setattr(server_check, "_looked_at", set())


@pytest.fixture
def elsewhere(server: Server, tmp_path: Path) -> str:
    """The server's socket at a place that does not say that it is a private server."""
    link = tmp_path / "s.sock"
    link.symlink_to(Path(server.directory) / "server.sock")
    return str(link)


@pytest.fixture(params=["blocking", "asyncio"])
def first_call(request: pytest.FixtureRequest, queue_name: str) -> First:
    """Calls a method of a new queue object: what is warned of."""

    async def in_loop(path: str, settings: dict[str, Any]) -> None:
        client = AsyncRedis(unix_socket_path=path, **settings)
        async with AsyncDPQ(client, queue_name) as q:
            assert await q.size() == 0
        await client.aclose()

    def call(path: str, **settings: Any) -> Told:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            if request.param == "asyncio":
                asyncio.run(in_loop(path, settings))
            else:
                client = Redis(unix_socket_path=path, **settings)
                with client, DPQ(client, queue_name) as q:
                    assert q.size() == 0
        assert all(warning.category is ServerWarning for warning in caught)
        return [str(warning.message) for warning in caught]

    return call


@pytest.fixture
def policy(redis: Redis) -> Iterator[Callable[[str], Any]]:
    yield lambda name: redis.config_set("maxmemory-policy", name)
    redis.config_set("maxmemory-policy", "noeviction")


def test_no_persistence(elsewhere: str, first_call: First) -> None:
    """Neither AOF nor RDB is a warning with its fix, once for each process and server."""
    [told] = first_call(elsewhere)
    assert told.startswith(f"{elsewhere}: The server keeps nothing on disk")
    assert "appendonly yes" in told
    assert first_call(elsewhere) == []


def test_eviction(redis: Redis, server: Server, policy: Any, first_call: First) -> None:
    """A policy other than noeviction is a warning with its fix, on a private server too."""
    policy("allkeys-lru")
    [told] = first_call(str(server.directory / "server.sock"))
    assert "maxmemory-policy is allkeys-lru" in told
    assert "noeviction" in told


def test_a_private_server_is_meant_to_be_so(
    redis: Redis, server: Server, first_call: First
) -> None:
    """A throw-away server is not warned of, and is asked for nothing but INFO."""
    redis.config_resetstat()
    assert first_call(str(server.directory / "server.sock")) == []
    asked = redis.info("commandstats")
    assert not [name for name in asked if name.startswith("cmdstat_config|get")]
    assert asked["cmdstat_info"]["calls"] == 1


def test_a_server_with_aof(tmp_path: Path, first_call: First) -> None:
    """An append-only file is persistence."""
    with Server.join(tmp_path / "data"):
        link = tmp_path / "s.sock"
        link.symlink_to(tmp_path / "data" / "server.sock")
        assert first_call(str(link)) == []


def test_inspect(redis: Redis, elsewhere: str, policy: Any, queue_name: str) -> None:
    """The doctor's look names everything at each look, and the rights that it misses."""
    policy("volatile-ttl")
    with Redis(unix_socket_path=elsewhere) as client, DPQ(client, queue_name) as q:
        for _ in range(2):
            problems, missing = inspect_server(q)
            assert {problem.kind for problem in problems} == {"eviction", "no persistence"}
            assert missing == []
    redis.execute_command("ACL SETUSER", "shy", "on", ">pw", "~*", "+@all", "-info")
    shy = {"username": "shy", "password": "pw"}
    with Redis(unix_socket_path=elsewhere, **shy) as client, DPQ(client, queue_name) as q:
        assert inspect_server(q) == ([], ["+info", "+config|get"])
        assert redis.info("clients")["connected_clients"] == 2  # a queue object has one
    redis.execute_command("ACL DELUSER", "shy")
