"""redis-py's connections, made to connect in time, and its client of a cluster.

bounded_async.py has the same names for asyncio.
"""

import threading
from functools import cache
from typing import Any

from redis import RedisCluster, sentinel
from redis.cluster import ClusterNode
from redis.connection import AbstractConnection

from dpq.link.cluster import reachable
from dpq.link.internals import socket_of
from dpq.link.url import ParsedUrl


def with_retries(settings: dict[str, Any]) -> dict[str, Any]:
    """Return settings with the retries of blocking connections, which they have already."""
    return settings


def cluster_client(parsed: ParsedUrl, kind: type[AbstractConnection]) -> Any:
    """Make a client of a cluster, which connects at its first use."""
    return LateCluster(parsed, kind)


class LateCluster(RedisCluster):
    """A `RedisCluster` that connects at its first use, as a plain client does.

    A `RedisCluster` of redis-py connects in its constructor. If that fails, there is no client.
    """

    connection_pool = None  # a class attribute, so that reading it does not connect

    def __init__(self, parsed: ParsedUrl, kind: type[AbstractConnection]) -> None:
        self._parsed, self._kind = parsed, kind
        self._joining, self._late = threading.RLock(), True

    def __getattr__(self, name: str) -> Any:
        """Connect, and return an attribute that redis-py's constructor has set."""
        with self._joining:
            if self._late:
                self._late = False  # the constructor reads attributes, too
                try:
                    with reachable():
                        self._join()
                except BaseException:
                    self._late = True
                    raise
        return super().__getattribute__(name)

    def _join(self) -> None:  # with a URL: without one redis-py ignores the class of connections
        first, *others = self._parsed.hosts
        nodes = [ClusterNode(host.name, host.port) for host in others]  # type: ignore[no-untyped-call]
        settings = {**self._parsed.settings, "connection_class": self._kind}
        super().__init__(url=f"redis://{first.netloc}", startup_nodes=nodes, **settings)

    def close(self) -> None:
        """Close the connections."""
        if not self._late:
            super().close()


class _Bounded(AbstractConnection):
    """A connection whose TLS and handshake end within the timeout of connecting, too."""

    def connect_check_health(
        self, check_health: bool = True, retry_socket_connect: bool = True
    ) -> None:
        """Connect unless connected; redis-py calls it in the middle of a command, too."""
        if socket_of(self) is not None:
            return
        self._for_reply, self.socket_timeout = self.socket_timeout, self.socket_connect_timeout
        try:
            super().connect_check_health(check_health, retry_socket_connect)
        finally:
            self.socket_timeout = self._for_reply
        socket_of(self).settimeout(self.socket_timeout)

    def on_connect_check_health(self, check_health: bool = True) -> None:
        """Do the handshake (HELLO, AUTH, SELECT)."""
        self.socket_timeout = self._for_reply  # the parser keeps the timeout that it finds
        super().on_connect_check_health(check_health)


@cache
def bounded(kind: type[Any], *, to_master: bool = False) -> type[Any]:
    """Make the bounded class of redis-py's class of connections; `to_master`: Sentinels name it."""
    base = getattr(sentinel, f"SentinelManaged{kind.__name__}") if to_master else kind
    return type(f"Bounded{base.__name__}", (_Bounded, base), {})
