"""Asyncio clients of unreachable and embedded servers; what both faces open: test_connect.py."""

import asyncio
import socket
import time
from collections.abc import Iterator
from typing import Any

import pytest
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import TimeoutError as RedisTimeoutError

from dpq import AsyncDPQ, ConfigurationError
from dpq.transport.connect_async import open_url_async

UNREACHABLE_S = 3.0  # the promise; and what a busy machine may add
SLOW_MACHINE_S = 1.5


@pytest.fixture
def refusing() -> Iterator[str]:
    """A port that nobody listens on, and nobody else can have."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield f"redis://u:s3cret@127.0.0.1:{taken.getsockname()[1]}"


@pytest.fixture
def silent() -> Iterator[str]:
    """A TCP port that accepts and never answers."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(16)
        yield f"redis://u:s3cret@127.0.0.1:{listener.getsockname()[1]}"


@pytest.mark.parametrize("port", ["refusing", "silent"])
@pytest.mark.parametrize("tls", [False, True], ids=["plain", "TLS"])
def test_an_unreachable_server_is_told_in_time(
    request: pytest.FixtureRequest, port: str, tls: bool
) -> None:
    """However many calls are made at once, they all know soon; the error names the server only."""
    url: str = request.getfixturevalue(port)
    url = url.replace("redis:", "rediss:") if tls else url

    async def work() -> None:
        async with AsyncDPQ.from_url(url, "q") as q:
            began = time.monotonic()
            answers = await asyncio.gather(*(q.push(n) for n in range(20)), return_exceptions=True)
            assert time.monotonic() - began < UNREACHABLE_S + SLOW_MACHINE_S
            for error in answers:
                assert isinstance(error, (RedisConnectionError, RedisTimeoutError))
                assert "127.0.0.1" in str(error)
                assert "s3cret" not in str(error)

    asyncio.run(work())


def test_an_embedded_server_lives_until_its_client_is_closed() -> None:
    """`from_url("embedded:")` owns the server: closing, even twice, ends it."""

    async def work() -> None:
        q: AsyncDPQ[Any] = AsyncDPQ.from_url("embedded:", "q")
        assert q._opened
        assert q._opened.server
        await q.push("a")
        assert (await q.pop()).task.payload == "a"
        await q.close()
        await q.close()
        assert not q._opened.server.directory.exists()

    asyncio.run(work())


def test_a_wrong_setting_leaves_no_server_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    """A queue that cannot be made closes the server that was started for it."""
    started = []
    open_url = open_url_async
    monkeypatch.setattr(
        "dpq.queue.queue_async.open_url_async",
        lambda url: started.append(open_url(url)) or started[0],
    )
    with pytest.raises(ConfigurationError, match="default_visibility"):
        AsyncDPQ.from_url("embedded:", "q", default_visibility=-1)
    assert not started[0].server.directory.exists()
