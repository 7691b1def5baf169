"""URLs become asyncio clients with the same bounds, and passwords are never shown."""

import asyncio
import contextlib
import socket
import time
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import TimeoutError as RedisTimeoutError

from dpq import AsyncDPQ, ConfigurationError
from dpq.model.masking import mask
from dpq.transport.connect_async import AsyncOpened, open_url_async
from dpq.transport.url import CONNECT_TIMEOUT_S, RETRIES, SOCKET_TIMEOUT_S

UNREACHABLE_S = 3.0  # the promise; and what a busy machine may add
SLOW_MACHINE_S = 1.5


@contextlib.asynccontextmanager
async def opened(url: str) -> AsyncIterator[AsyncOpened]:
    client = open_url_async(url)
    try:
        yield client
    finally:
        await client.aclose()


def options(client: Any) -> dict[str, object]:
    """Return the settings of a connection of the client's, none being open."""
    connection = client.connection_pool.make_connection()
    return {
        "socket_timeout": connection.socket_timeout,
        "socket_connect_timeout": connection.socket_connect_timeout,
        "db": connection.db,
        "decodes": connection.encoder.decode_responses,
        "retries": connection.retry.get_retries(),
        "health_check_interval": connection.health_check_interval,
    }


DEFAULTS = {
    "socket_timeout": SOCKET_TIMEOUT_S,
    "socket_connect_timeout": CONNECT_TIMEOUT_S,
    "db": 0,
    "decodes": False,
    "retries": RETRIES,
    "health_check_interval": 0,
}


@pytest.mark.parametrize("url", ["redis://host", "rediss://host:1", "unix:///run/x.sock"])
def test_every_timeout_is_explicit(url: str) -> None:
    """Whatever the scheme, timeouts and retries are those of the blocking client."""

    async def work() -> None:
        async with opened(url) as found:
            assert options(found.client) == DEFAULTS

    asyncio.run(work())


def test_query_parameters_go_before_the_defaults_except_decoding() -> None:
    """A user's own timeout and database win; replies stay bytes, because scripts need them."""

    async def work() -> None:
        query = "socket_timeout=3&socket_connect_timeout=0.5&db=2&decode_responses=True"
        async with opened(f"redis://host?{query}") as found:
            own = {"socket_timeout": 3, "socket_connect_timeout": 0.5, "db": 2}
            assert options(found.client) == {**DEFAULTS, **own}

    asyncio.run(work())


@pytest.mark.parametrize(
    "url",
    [
        "",
        "host:6379",
        "http://host",
        "redis://host:99999",
        "redis://host?socket_timeout=0",
        "redis://host?no_such_option=1",
        "unix://",
        "unix:///x?max_connections=-1",
        None,
        b"redis://host",
    ],
)
def test_a_malformed_url_is_refused_at_once(url: Any) -> None:
    """A ConfigurationError that shows the URL and the schemes; no event loop is needed for it."""
    with pytest.raises(ConfigurationError) as caught:
        AsyncDPQ.from_url(url, "q")
    assert mask(url) in str(caught.value)
    for scheme in ("redis://", "rediss://", "unix://", "embedded:"):
        assert scheme in str(caught.value)


@pytest.mark.parametrize("url", ["redis://u:s3cret@h/name", "redis://:s3cret", "http://:s3cret@h"])
def test_an_error_never_shows_the_password(url: str) -> None:
    """Neither the message nor a chained cause holds it."""
    with pytest.raises(ConfigurationError) as caught:
        open_url_async(url)
    assert "s3cret" not in str(caught.value)
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__


def test_what_was_opened_hides_its_password() -> None:
    """The label and the text form of what a URL opens are masked."""

    async def work() -> None:
        async with opened("redis://u:s3cret@host") as found:
            assert found.label == "redis://u:***@host"
            assert "s3cret" not in repr(found)

    asyncio.run(work())


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
