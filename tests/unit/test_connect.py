"""URLs become clients that never wait for long, and passwords are never shown."""

import asyncio
import contextlib
import socket
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from redis import Redis
from redis._parsers import _AsyncRESP2Parser, _RESP2Parser
from redis.asyncio import Redis as AsyncRedis
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import MovedError, RedisError, ResponseError
from redis.exceptions import TimeoutError as RedisTimeoutError

from dpq import AsyncDPQ
from dpq.link.cluster import Node
from dpq.link.connect import open_url
from dpq.link.connect_async import open_url_async
from dpq.link.connections import ask
from dpq.link.url import CONNECT_TIMEOUT_S, RETRIES, SOCKET_TIMEOUT_S, explained, read_url
from dpq.model.errors import ConfigurationError
from dpq.model.masking import mask

UNREACHABLE_S = 3.0  # the promise; and what a busy machine may add
SLOW_MACHINE_S = 30.0
Open = Callable[[str], Any]


@pytest.fixture(params=["DPQ", "AsyncDPQ"])
def opened(request: pytest.FixtureRequest) -> Iterator[Open]:
    """Opens a URL for either face: what has been opened, closed at the end."""
    made: list[Any] = []
    kind = open_url if request.param == "DPQ" else open_url_async

    def open_it(url: str) -> Any:
        made.append(kind(url))
        return made[-1]

    yield open_it
    for each in made:
        if request.param == "DPQ":
            each.close()
        else:
            asyncio.run(each.aclose())


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


# --- Settings


@pytest.mark.parametrize("url", ["redis://host", "rediss://host:1", "unix:///run/x.sock"])
def test_every_timeout_is_explicit(opened: Open, url: str) -> None:
    """None of redis-py's own timeouts and retries is left in force, whatever the scheme. A user's
    own timeout and database win; replies stay bytes, because scripts need them."""
    assert options(opened(url).client) == DEFAULTS
    query = "socket_timeout=3&socket_connect_timeout=0.5&db=2&decode_responses=True"
    own = {"socket_timeout": 3, "socket_connect_timeout": 0.5, "db": 2}
    assert options(opened(f"{url}?{query}").client) == {**DEFAULTS, **own}


def first_of_asyncio(url: str) -> AsyncDPQ[Any]:
    return AsyncDPQ.from_url(url, "q")


MALFORMED = """
host:6379 http://host redis+cluster:// redis+cluster://host,,other
redis+cluster://host/1 redis+cluster://host?db=1 redis+cluster://host,other:port
redis+cluster://host?no_such_option=1 redis+sentinel://host
redis+sentinel://host/service/name redis+sentinel://host/service?sentinel_port=1
redis+pair://host unix+cluster:///x redis://host:port redis://host:99999
redis://host/name redis://host?db=-1 redis://host?db=x redis://host?socket_timeout=0
redis://host?socket_timeout=nan redis://host?socket_connect_timeout=-1
redis://host?no_such_option=1 redis://host?protocol=9 redis://[half unix://
unix:///x?max_connections=-1 unix://run/x.sock
"""


@pytest.mark.parametrize("url", ["", None, b"redis://host", *MALFORMED.split()])
@pytest.mark.parametrize("open_it", [open_url, first_of_asyncio], ids=["DPQ", "AsyncDPQ"])
def test_a_malformed_url_is_refused_at_once_with_the_forms_that_work(
    open_it: Open, url: str
) -> None:
    """The error is a ConfigurationError at opening, shows the URL and lists the schemes.

    No event loop is needed for it.
    """
    with pytest.raises(ConfigurationError) as caught:
        open_it(url)
    assert mask(url) in str(caught.value)
    for scheme in ("redis://", "rediss://", "unix://", "embedded:"):
        assert scheme in str(caught.value)


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("redis://:23#secret@10.9.8.7:6399/0", "write # as %23"),
        ("unix:///tmp/a#b.sock", "write # as %23"),
        ("redis://user:pa/ss@127.0.0.1:6399/0", "write / ? [ in a password as %2F %3F %5B"),
        ("redis://:12?ss@host:6379", "write / ? [ in a password as %2F %3F %5B"),
        ("redis+sentinel://u:p?s@a,b/mymaster", "write / ? [ in a password as %2F %3F %5B"),
        ("redis://user:[pass@127.0.0.1:6399/0", "write / ? [ in a password as %2F %3F %5B"),
    ],
)
@pytest.mark.parametrize("open_it", [open_url, first_of_asyncio], ids=["DPQ", "AsyncDPQ"])
def test_a_sign_that_is_not_escaped_is_named(open_it: Open, url: str, said: str) -> None:
    """It would cut the URL there: the error says in a line how to write it."""
    with pytest.raises(ConfigurationError) as caught:
        open_it(url)
    assert str(caught.value) == f"cannot use the URL {mask(url)!r}: {said}"


def test_a_node_of_a_cluster_says_how_to_write_its_url() -> None:
    """A plain client follows no redirection; the error names the scheme that does."""

    class Client:
        def execute_command(self, *_: object, **__: object) -> None:
            raise MovedError("3999 127.0.0.1:6381")

    with pytest.raises(ResponseError, match=r"node of a cluster: write redis\+cluster://"):
        ask(Client(), "GET", "key")


# --- Masking


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("redis://user:s3cret@host:6379/0?db=1", "redis://user:***@host:6379/0?db=1"),
        ("redis://:s3cret@host", "redis://:***@host"),
        ("redis://:s3@cret@host", "redis://:***@host"),
        ("redis://:s3:cret@host", "redis://:***@host"),
        ("redis://s3cret@host", "redis://***@host"),
        ("redis://s3cret:@host", "redis://***@host"),
        ("redis+cluster://u:s3cret@a:1,[::1]:2,c", "redis+cluster://u:***@a:1,[::1]:2,c"),
        ("redis+sentinel://u:s3cret@a:1,b/s/3", "redis+sentinel://u:***@a:1,b/s/3"),
        (
            "rediss+sentinel://a/s?sentinel_password=x",
            "rediss+sentinel://a/s?sentinel_password=***",
        ),
        ("unix:///a.sock?password=s3cret&db=1", "unix:///a.sock?password=***&db=1"),
        ("rediss://h?ssl_password=s3cret", "rediss://h?ssl_password=***"),
        ("redis://h?socket_timeout=2&client_name=x", "redis://h?socket_timeout=2&client_name=x"),
        ("redis://h?p%61ssword=s3cret&db=1", "redis://h?***&db=1"),
        ("redis://us%40er:s3cret@h?db=1", "redis://us%40er:***@h?db=1"),
        ("redis://host:6379/0", "redis://host:6379/0"),
        ("redis://[::1]:6379/0", "redis://[::1]:6379/0"),
        ("embedded:/var/lib/x", "embedded:/var/lib/x"),
        ("embedded:", "embedded:"),
        ("", ""),
        (None, "<NoneType>"),
        # Malformed: the password may stand anywhere
        ("redis://:s3/?#cret//@host", "redis://***"),
        ("host:6380,password=s3cret,ssl=True", "***"),
        ("redis://host:6379,u:s3cret", "redis://***"),
        ("redis://u:12/s3cret", "redis://***"),
        ("redis://u]:s3cret", "redis://***"),
        ("redis://host?password:s3cret", "redis://***"),
        ("redis://host?pasword=s3cret", "redis://host?***"),
        ("redis://s3cret?@host", "redis://***"),
        ("s3cret", "***"),
    ],
)
def test_a_masked_url_shows_all_but_the_password(url: str, shown: str) -> None:
    """What is surely no secret stays readable; of a malformed URL only the scheme does."""
    assert mask(url) == shown


PASSWORD = "s3cretPassw0rd"  # noqa: S105 - no real one
WITH_A_PASSWORD = [
    f"redis://user:{PASSWORD}@host:6379/0?db=1",
    f"rediss://:{PASSWORD}@host",
    f"redis://{PASSWORD}@host:6379",
    f"redis+cluster://user:{PASSWORD}@a:7000,b:7001,[::1]:7002",
    f"redis+sentinel://user:{PASSWORD}@a,b:26379/mymaster/2?socket_timeout=3",
    f"redis+sentinel://a,b/mymaster?sentinel_password={PASSWORD}&db=1",
    f"unix://user:{PASSWORD}@/run/redis.sock",
    f"unix:///run/redis.sock?db=1&password={PASSWORD}",
    f"rediss://host?ssl_password={PASSWORD}#x",
]
STRUCTURE = list(":/@?#&=;,.%[]+-_ \\\"'\n\t0xé\uff20\uff1a")


@st.composite
def misspelled(draw: st.DrawFn) -> str:
    """A URL with a password and up to two typing errors around it."""
    head, tail = draw(st.sampled_from(WITH_A_PASSWORD)).split(PASSWORD)
    for _ in range(draw(st.integers(0, 2))):
        in_head = draw(st.booleans())
        part = head if in_head else tail
        at = draw(st.integers(0, len(part)))
        end = draw(st.integers(at, min(at + 3, len(part))))
        part = part[:at] + draw(st.sampled_from(["", *STRUCTURE])) + part[end:]
        head, tail = (part, tail) if in_head else (head, part)
    return head + PASSWORD + tail


def taken_for_something_else(url: str) -> bool:
    """Whether the URL is well-formed, and what was the password is now a host, a path, a name."""
    try:
        read = read_url(url).settings
    except (ValueError, TypeError, AttributeError, RedisError):
        return False
    secrets = [read.get(name) for name in ("password", "ssl_password", "username")]
    return not any(PASSWORD in secret for secret in secrets if secret)


@given(misspelled())
@settings(max_examples=100)
@example("redis://user:12/" + PASSWORD)
@example("redis:user:" + PASSWORD)
def test_no_malformed_url_shows_its_password(url: str) -> None:
    """Whatever is mistyped in a URL, its password is in no text that DPQ shows of it: not in the
    masked URL, not in the reason beside it, and no cause is chained."""
    assert PASSWORD not in mask(url) or taken_for_something_else(url)
    told: Any = None
    try:
        with explained("redis://***"):
            read_url(url)
    except ConfigurationError as error:
        told = error
    assert PASSWORD not in str(told)
    assert told is None or told.__suppress_context__


# --- Unreachable servers


@contextlib.contextmanager
def reported() -> Iterator[Any]:
    """Expect a connection error within the promised time."""
    begin = time.monotonic()
    with pytest.raises((RedisConnectionError, RedisTimeoutError)) as caught:
        yield caught
    assert time.monotonic() - begin < UNREACHABLE_S + SLOW_MACHINE_S


@pytest.fixture
def silent() -> Iterator[socket.socket]:
    """A TCP port that accepts and never answers."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(16)
        yield listener


@pytest.fixture
def blackhole() -> Iterator[tuple[str, int]]:
    """An address that swallows SYNs: its backlog is full."""
    with contextlib.ExitStack() as stack:
        listener = stack.enter_context(socket.socket())
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        for _ in range(4):
            filler = stack.enter_context(socket.socket())
            filler.setblocking(False)
            filler.connect_ex(listener.getsockname())
        yield listener.getsockname()


@pytest.mark.parametrize("scheme", ["redis", "rediss"])
def test_a_port_that_never_answers_is_reported_in_time(silent: socket.socket, scheme: str) -> None:
    """The handshake, TLS included, belongs to connecting: it does not wait the socket timeout."""
    with open_url(f"{scheme}://127.0.0.1:{silent.getsockname()[1]}").client as client, reported():
        client.ping()


def test_a_unix_socket_that_never_answers_is_reported_in_time() -> None:
    """So is a unix socket on which nobody accepts."""
    with tempfile.TemporaryDirectory(dir="/tmp") as directory, socket.socket(socket.AF_UNIX) as s:
        path = Path(directory) / "s"
        s.bind(str(path))
        s.listen(4)
        with open_url(f"unix://{path}").client as client, reported():
            client.ping()


def test_an_address_that_swallows_packets_is_reported_in_time(blackhole: tuple[str, int]) -> None:
    """It is tried once."""
    with open_url(f"redis://127.0.0.1:{blackhole[1]}").client as client, reported():
        client.ping()


# --- Against a server


def test_an_embedded_server_lives_until_its_client_is_closed() -> None:
    """`open_url("embedded:")` owns the server: closing, even twice, ends it."""
    opened = open_url("embedded:")
    assert opened.label == "embedded:"
    assert opened.server
    assert opened.client.set("key", "value")
    assert opened.client.get("key") == b"value"
    assert options(opened.client)["retries"] == RETRIES
    opened.close()
    opened.close()
    assert not opened.server.directory.exists()


@pytest.mark.parametrize(
    ("kind", "parser"), [(Redis, _RESP2Parser), (AsyncRedis, _AsyncRESP2Parser)], ids=("", "async")
)
def test_a_plain_client_serves_without_hiredis(kind: Any, parser: Any) -> None:
    """DPQ's own connections of `Redis()`, which asks for maintenance notices, need no hiredis."""
    client = kind()
    client.connection_pool.connection_kwargs["parser_class"] = parser  # redis-py's own choice then
    notices = client.connection_pool.connection_kwargs.get("maint_notifications_config")
    assert notices is None or notices.enabled  # redis-py 6 has none
    connection = Node("", client, {}).connection()
    assert isinstance(connection._parser, parser)
