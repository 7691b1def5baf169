"""A URL -> a client of redis-py with explicit timeouts and retries.

An unreachable server is reported within three seconds, all retries included (a slow name server and
more addresses add time), and a command is sent again a few times: scripts are written for that.
Must not read the environment, hold a client, or know what a queue is.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from redis.asyncio import Redis
from redis.asyncio.connection import ConnectionPool
from redis.asyncio.sentinel import Sentinel, SentinelConnectionPool
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import TimeoutError as RedisTimeoutError

from dpq.link.bounded_async import bounded, cluster_client, with_retries
from dpq.link.url import Host, ParsedUrl, explained, read_url
from dpq.model.masking import mask

if TYPE_CHECKING:
    from dpq.server import Server


@dataclass(frozen=True)
class AsyncOpened:
    """A client that DPQ opened, and the private server (`embedded:`) to close with it.

    The client returns bytes. `label` is the URL for errors and logs, without its password.
    """

    client: Any = field(repr=False)  # the repr of a client may show a user name
    label: str
    server: "Server | None" = None

    async def aclose(self) -> None:
        """Close the client, then the private server if there is one. Idempotent."""
        await self.client.aclose()
        for sentinel in _sentinels_of(self.client):
            await sentinel.aclose()
        self.abandon()

    def abandon(self) -> None:
        """Close the private server of a client that has not connected yet."""
        if self.server:
            self.server.close()


def open_url_async(url: str) -> AsyncOpened:
    """Open a client for `url`; nothing is sent yet (an embedded server is started, though)."""
    label = mask(url)
    if not isinstance(url, str) or not url.startswith("embedded:"):
        return AsyncOpened(_client(url, label), label)
    from dpq.server import open_embedded  # here: only a POSIX system can run a private server

    server = open_embedded(url)
    return AsyncOpened(_client(server.url, label), label, server)


def _client(url: str, label: str) -> Any:
    with explained(label):
        parsed = read_url(url)
        parsed = parsed._replace(settings=with_retries(parsed.settings))
        kind = bounded(parsed.connection_class)
        # Built at once, though it connects later: a bad parameter fails here, not at 3 a.m.
        for settings in parsed.of_connections():
            kind(**settings)
        if parsed.kind == "cluster":
            return cluster_client(parsed, kind)
        if parsed.kind == "sentinel":
            return Redis.from_pool(_master_pool(parsed, kind))
        return Redis.from_pool(ConnectionPool(connection_class=kind, **parsed.settings))


class _SentinelError(RedisConnectionError):
    """The error of a Sentinel, shown with its text: redis-py shows only the class."""

    def __repr__(self) -> str:
        return str(self)


class _Asked(Redis):
    """A client of one Sentinel, shown without the settings of its connections."""

    def __repr__(self) -> str:
        settings = self.connection_pool.connection_kwargs
        return Host(settings["host"], settings["port"]).netloc

    async def sentinel_masters(self) -> Any:
        try:
            return await super().sentinel_masters()
        except (RedisConnectionError, RedisTimeoutError) as error:
            raise _SentinelError(str(error)) from error


def _master_pool(parsed: ParsedUrl, kind: type[Any]) -> ConnectionPool:
    sentinel = Sentinel([])  # type: ignore[no-untyped-call]  # redis-py's
    sentinel.sentinels = [
        _Asked.from_pool(ConnectionPool(connection_class=kind, **settings))
        for settings in parsed.sentinel_settings()
    ]
    to_master = bounded(parsed.connection_class, to_master=True)
    return SentinelConnectionPool(  # type: ignore[no-untyped-call]  # redis-py's
        parsed.service, sentinel, connection_class=to_master, **parsed.settings
    )


def _sentinels_of(client: Any) -> Sequence[Any]:
    manager = getattr(getattr(client, "connection_pool", None), "sentinel_manager", None)
    return getattr(manager, "sentinels", ())
