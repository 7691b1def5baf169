"""The counterpart of bounded.py for asyncio."""

import asyncio
from collections.abc import Coroutine
from functools import cache
from typing import Any

from redis.asyncio import RedisCluster
from redis.asyncio import connection as aio
from redis.asyncio import sentinel as aio_sentinel
from redis.asyncio.cluster import ClusterNode
from redis.asyncio.retry import Retry
from redis.backoff import ExponentialWithJitterBackoff
from redis.exceptions import TimeoutError as RedisTimeoutError

from dpq.link.internals import startup_nodes
from dpq.link.url import BACKOFF_BASE_S, BACKOFF_CAP_S, RETRIES, ParsedUrl, connect_bound


def with_retries(settings: dict[str, Any]) -> dict[str, Any]:
    """Return settings with the retries of asyncio connections."""
    backoff = ExponentialWithJitterBackoff(BACKOFF_CAP_S, BACKOFF_BASE_S)
    return {**settings, "retry": Retry(backoff, RETRIES)}


def cluster_client(parsed: ParsedUrl, kind: type[aio.AbstractConnection]) -> Any:
    """Make a client of a cluster, with the connection class, for which redis-py has no argument."""
    client = RedisCluster(
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


@cache
def bounded(kind: type[Any], *, to_master: bool = False) -> type[Any]:
    """Make the bounded class for asyncio of redis-py's class of blocking connections."""
    name = kind.__name__
    base = getattr(aio_sentinel, f"SentinelManaged{name}") if to_master else getattr(aio, name)
    return type(f"Bounded{base.__name__}", (_Bounded, base), {})
