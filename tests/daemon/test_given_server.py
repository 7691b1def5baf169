"""`--url`: the suite as a guest on a server that somebody else runs."""

import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from given_server import Given
from redis import Redis

from dpq.server import Server

TESTS = Path(__file__).parents[1]


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


def test_what_is_left_or_gone_is_told(private: Server, client: Redis) -> None:
    """A run that leaves a key, or has taken one away, ends with an error that names it."""
    client.set("orders", 1)
    given = Given.open(options(beside_keys=True), private.url)
    client.rename("orders", "orders-2")
    with pytest.raises(pytest.UsageError, match=r"left: \{b'orders-2'\}, gone: \{b'orders'\}"):
        given.close()


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


def test_a_password_and_a_database(private: Server, client: Redis) -> None:
    """Tests log in, keep to the database of the URL, and show no password."""
    client.set("customer", 1)
    client.config_set("requirepass", "SECRET")
    url = private.url.replace("unix://", "unix://:SECRET@") + "?db=3"
    tests = [f"{TESTS}/lua/test_lost_replies.py::test_{name}" for name in ("pause", "register")]
    command = [*(sys.executable, "-m", "pytest"), *("-p", "no:cacheprovider", "--url", url), *tests]
    with Redis.from_url(url.replace("db=3", "db=0")) as root:
        done = subprocess.run(command, check=False, capture_output=True, text=True, cwd=TESTS)
        root.config_set("requirepass", "")
        assert (done.returncode, "4 passed" in done.stdout) == (0, True), done.stdout
        assert "SECRET" not in done.stdout + done.stderr
        assert root.keys("*") == [b"customer"]


def test_several_processes_are_refused(private: Server) -> None:
    """Each test looks at all keys, so two must not run at once."""
    with pytest.raises(pytest.UsageError, match="one process"):
        Given.open(options(numprocesses=2), private.url)


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


@pytest.mark.parametrize("what", ["pid", "binary", "directory"])
def test_what_only_an_owner_has_skips_the_test(given: Given, what: str) -> None:
    """A test that wants the server's process, program or files is skipped."""
    with pytest.raises(pytest.skip.Exception, match="needs a server of its own: its"):
        getattr(given, what)


def test_it_is_named_as_other_servers_are(private: Server, given: Given) -> None:
    """The ids of its tests have the family and the version."""
    family, version = private.binary.family, private.binary.version
    assert given.label == f"{family}-{version.rpartition('.')[0]}"
