"""`--url`: the suite as a guest on a server that somebody else runs."""

from collections.abc import Callable, Iterator
from contextlib import closing
from types import SimpleNamespace
from typing import Any

import pytest
from given_server import Given
from redis import Redis

from dpq.server import Server


@pytest.fixture
def client(private: Server) -> Iterator[Redis]:
    with Redis.from_url(private.url) as client:
        yield client
        client.flushall()


def options(**given: Any) -> Any:
    return SimpleNamespace(getoption=lambda name, *_: given.get(name.strip("-").replace("-", "_")))


@pytest.fixture
def given(private: Server) -> Iterator[Given]:
    with closing(Given.open(options(), private.url)) as given:
        yield given


def test_a_server_with_keys_is_refused(private: Server, client: Redis) -> None:
    """Keys are named in the refusal, and are left alone by who insists."""
    client.set("orders", 1)
    with pytest.raises(pytest.UsageError, match=r"1 keys are there, such as b'orders'"):
        Given.open(options(), private.url)
    given = Given.open(options(beside_keys=True), private.url)
    assert given.there == {b"orders"}
    given.close()
    assert client.keys("*") == [b"orders"]


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("unix:///nonexistent/s.sock", "/nonexistent/s.sock"),
        ("nonsense", "redis://"),
        ("unix://:SECRET@/nonexistent/s.sock", r"--url .*\*\*\*"),
        ("redis://user:SECRET", r"--url .*\*\*\*"),
    ],
)
def test_a_server_that_does_not_answer_is_told(url: str, why: str) -> None:
    """A URL that leads nowhere, or is none, ends the run before any test; no password is shown."""
    with pytest.raises(pytest.UsageError, match=why) as refused:
        Given.open(options(), url)
    assert "SECRET" not in str(refused.value)


@pytest.mark.parametrize(
    ("command", "call"),
    [
        ("CONFIG SET", lambda redis: redis.config_set("maxmemory-policy", "allkeys-lru")),
        ("FLUSHALL", lambda redis: redis.flushall()),
        ("SCRIPT FLUSH", lambda redis: redis.script_flush()),
        ("CLIENT KILL", lambda redis: redis.client_kill_filter(_id=10**6)),
        ("CLIENT PAUSE", lambda redis: redis.execute_command("CLIENT", "PAUSE", 1)),
        ("ACL SETUSER", lambda redis: redis.acl_setuser("somebody")),
        ("MONITOR", lambda redis: redis.monitor()),
    ],
)
def test_commands_that_others_would_feel_skip_the_test(
    given: Given, client: Redis, command: str, call: Callable[[Redis], Any]
) -> None:
    """A guest's client sends none of them: the test that wants one is skipped, and says which."""
    given.guard(client)
    with pytest.raises(pytest.skip.Exception, match=f"needs a server of its own: {command}"):
        call(client)
    assert client.config_get("maxmemory-policy") == {"maxmemory-policy": "noeviction"}
    client.__dict__.pop("execute_command")
