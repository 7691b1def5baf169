"""A URL -> an asyncio Redis client with the timeouts and retries of `connect`."""

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from redis import asyncio as aioredis
from redis.asyncio import connection as aio
from redis.asyncio.retry import Retry
from redis.backoff import ExponentialWithJitterBackoff
from redis.connection import Connection, SSLConnection, UnixDomainSocketConnection
from redis.exceptions import TimeoutError as RedisTimeoutError

from dpq.connect import (
    BACKOFF_BASE_S,
    BACKOFF_CAP_S,
    CONNECT_SLACK_S,
    CONNECT_TIMEOUT_S,
    POOL_OPTIONS,
    RETRIES,
    explained,
    open_as,
    url_options,
)

if TYPE_CHECKING:
    from dpq.server import Server


@dataclass(frozen=True)
class AsyncOpened:
    """An asyncio client that DPQ opened, and what has to be closed with it. See `Opened`."""

    client: "aioredis.Redis" = field(repr=False)
    label: str
    server: "Server | None" = None

    async def aclose(self) -> None:
        """Close the client, then the private server if there is one. Idempotent."""
        await self.client.aclose()
        if self.server:
            self.server.close()


def open_url_async(url: str) -> AsyncOpened:
    """Open an asyncio client for `url`, as `open_url` does; to be called in an event loop or not.

    Raises:
        ConfigurationError: The URL is malformed, or the embedded server does not start.
    """
    return open_as(AsyncOpened, _client, url)


def _client(url: str, label: str) -> "aioredis.Redis":
    with explained(label):
        options: dict[str, Any] = url_options(url)
        options["retry"] = Retry(
            ExponentialWithJitterBackoff(BACKOFF_CAP_S, BACKOFF_BASE_S), RETRIES
        )
        kind = _BOUNDED[options.pop("connection_class", Connection)]
        kind(**{name: value for name, value in options.items() if name not in POOL_OPTIONS})
        pool = aio.ConnectionPool(connection_class=kind, **options)
        return aioredis.Redis.from_pool(pool)


class _Bounded(aio.AbstractConnection):
    """Connects, with all addresses, TLS, handshake and retries, within one bound."""

    async def connect(self) -> None:
        """Connect unless connected."""
        give_up = (self.socket_connect_timeout or CONNECT_TIMEOUT_S) + CONNECT_SLACK_S
        try:
            async with asyncio.timeout(give_up):
                await super().connect()  # type: ignore[no-untyped-call]  # redis-py's
        except TimeoutError:
            raise RedisTimeoutError(f"no connection within {give_up:g} s") from None


class _BoundedTCP(_Bounded, aio.Connection):
    pass


class _BoundedTLS(_Bounded, aio.SSLConnection):
    pass


class _BoundedUnix(_Bounded, aio.UnixDomainSocketConnection):
    pass


_BOUNDED = {
    Connection: _BoundedTCP,
    SSLConnection: _BoundedTLS,
    UnixDomainSocketConnection: _BoundedUnix,
}
