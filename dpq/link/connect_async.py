"""A URL -> an asyncio Redis client with the timeouts and retries of `connect`."""

import asyncio
from collections.abc import Coroutine
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from redis import asyncio as aioredis
from redis.asyncio import connection as aio
from redis.asyncio import sentinel as aio_sentinel
from redis.asyncio.cluster import ClusterNode
from redis.asyncio.retry import Retry
from redis.backoff import ExponentialWithJitterBackoff
from redis.connection import Connection, SSLConnection, UnixDomainSocketConnection
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import TimeoutError as RedisTimeoutError

from dpq.link.connect import SentinelFault, address_of, no_master, open_as, sentinels_of
from dpq.link.internals import startup_nodes
from dpq.link.url import (
    BACKOFF_BASE_S,
    BACKOFF_CAP_S,
    RETRIES,
    ParsedUrl,
    connect_bound,
    explained,
    read_url,
)

if TYPE_CHECKING:
    from dpq.server import Server


@dataclass(frozen=True)
class AsyncOpened:
    """An asyncio client that DPQ opened, and the private server to close with it. See `Opened`."""

    client: Any = field(repr=False)
    label: str
    server: "Server | None" = None

    async def aclose(self) -> None:
        """Close the client, then the private server if there is one. Idempotent."""
        await self.client.aclose()
        for sentinel in sentinels_of(self.client):
            await sentinel.aclose()
        self.abandon()

    def abandon(self) -> None:
        """Close the private server of a client that has not connected yet."""
        if self.server:
            self.server.close()


def open_url_async(url: str) -> AsyncOpened:
    """Open an asyncio client for `url`, as `open_url` does; to be called in an event loop or
    not."""
    return open_as(AsyncOpened, _client, url)


def _client(url: str, label: str) -> Any:
    with explained(label):
        parsed = read_url(url)
        kind = _BOUNDED[parsed.connection_class]
        backoff = ExponentialWithJitterBackoff(BACKOFF_CAP_S, BACKOFF_BASE_S)
        parsed.settings["retry"] = Retry(backoff, RETRIES)
        for settings in parsed.of_connections():
            kind(**settings)
        if parsed.kind == "cluster":
            return _cluster(parsed, kind)
        if parsed.kind == "sentinel":
            return aioredis.Redis.from_pool(_master_pool(parsed, kind))
        pool = aio.ConnectionPool(connection_class=kind, **parsed.settings)
        return aioredis.Redis.from_pool(pool)


def _cluster(parsed: ParsedUrl, kind: type[aio.AbstractConnection]) -> Any:
    """Make a cluster client, and set the connection class, for which redis-py has no argument."""
    client = aioredis.RedisCluster(
        startup_nodes=[ClusterNode(host.name, host.port) for host in parsed.hosts],
        retry=parsed.settings["retry"],
    )
    settings = client.connection_kwargs
    settings |= parsed.settings | {"connection_class": kind}
    for name in ("host", "port", "retry"):
        settings.pop(name, None)
    nodes = startup_nodes(client)
    nodes.update((name, ClusterNode(at.host, at.port, **settings)) for name, at in nodes.items())
    return client


class _Asked(aioredis.Redis):
    """Async `connect._Asked`."""

    def __repr__(self) -> str:
        return address_of(self)

    async def sentinel_masters(self) -> Any:
        try:
            return await super().sentinel_masters()
        except (RedisConnectionError, RedisTimeoutError) as error:
            raise SentinelFault(str(error)) from error


class _Sentinel(aio_sentinel.Sentinel):
    """Async `connect._Sentinel`."""

    async def discover_master(self, service_name: str) -> Any:
        try:
            return await super().discover_master(service_name)
        except aio_sentinel.MasterNotFoundError as error:
            raise aio_sentinel.MasterNotFoundError(no_master(service_name, error)) from None


def _master_pool(parsed: ParsedUrl, kind: type[aio.AbstractConnection]) -> aio.ConnectionPool:
    sentinel = _Sentinel([])  # type: ignore[no-untyped-call]  # redis-py's
    sentinel.sentinels = [
        _Asked.from_pool(aio.ConnectionPool(connection_class=kind, **settings))
        for settings in parsed.sentinel_settings()
    ]
    return aio_sentinel.SentinelConnectionPool(  # type: ignore[no-untyped-call]  # redis-py's
        parsed.service, sentinel, connection_class=_MASTER[kind], **parsed.settings
    )


class _Bounded(aio.AbstractConnection):
    """A connection that connects within one time limit: all addresses, TLS, handshake, retries."""

    async def connect(self) -> None:
        """Connect unless connected."""
        await self._within_bound(super().connect())  # type: ignore[no-untyped-call]  # redis-py's

    async def connect_check_health(
        self, check_health: bool = True, retry_socket_connect: bool = True
    ) -> None:
        """Connect in the middle of a command, unless connected."""
        if not self.is_connected:
            await self._within_bound(
                super().connect_check_health(check_health, retry_socket_connect)
            )

    async def _within_bound(self, connecting: Coroutine[Any, Any, None]) -> None:
        give_up = connect_bound(self.socket_connect_timeout)
        try:
            async with asyncio.timeout(give_up):
                await connecting
        except TimeoutError:
            await self.disconnect(nowait=True)  # the handshake may have begun
            raise RedisTimeoutError(f"no connection within {give_up:g} s") from None


class _BoundedTCP(_Bounded, aio.Connection):
    pass


class _BoundedTLS(_Bounded, aio.SSLConnection):
    pass


class _BoundedUnix(_Bounded, aio.UnixDomainSocketConnection):
    pass


class _BoundedMasterTCP(_Bounded, aio_sentinel.SentinelManagedConnection):
    pass


class _BoundedMasterTLS(_Bounded, aio_sentinel.SentinelManagedSSLConnection):
    pass


_BOUNDED = {
    Connection: _BoundedTCP,
    SSLConnection: _BoundedTLS,
    UnixDomainSocketConnection: _BoundedUnix,
}
_MASTER = {
    _BoundedTCP: _BoundedMasterTCP,
    _BoundedTLS: _BoundedMasterTLS,
}
