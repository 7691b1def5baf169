"""A URL -> a Redis client with explicit timeouts and retries.

redis-py's own defaults do not suit a queue: five seconds to connect, ten retries of everything,
both multiplied by each other. Here an unreachable server is reported within three seconds, all
retries included (a slow name server may add its own time), and a command is sent again a few times
at most. A script whose reply is lost may have run, so each is written to be sent again:

    push                    nothing twice: the id was made by the client
    pop                     costs a lease and one attempt: the first answer's task comes back later
    ack                     answers False: the first one did it
    extend, set_visibility  the second answer stands
    fail, release, bury     change nothing the second time, and succeed

This module must not read the environment, hold a client, or know what a queue is.
"""

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

from redis import Redis, RedisCluster
from redis.cluster import ClusterNode
from redis.connection import (
    AbstractConnection,
    Connection,
    ConnectionPool,
    SSLConnection,
    UnixDomainSocketConnection,
)
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import TimeoutError as RedisTimeoutError
from redis.sentinel import (
    MasterNotFoundError,
    Sentinel,
    SentinelConnectionPool,
    SentinelManagedConnection,
    SentinelManagedSSLConnection,
)

from dpq.link.cluster import reachable
from dpq.link.internals import socket_of
from dpq.link.url import (
    CONNECT_TIMEOUT_S,
    Host,
    ParsedUrl,
    connect_bound,
    explained,
    read_url,
)
from dpq.model.masking import mask

if TYPE_CHECKING:
    from dpq.server import Server

T = TypeVar("T")


@dataclass(frozen=True)
class Opened:
    """A client that DPQ opened, and the private server to close with it.

    Attributes:
        client: A `Redis`, or a `RedisCluster`; it returns bytes (`decode_responses` is off).
        label: The URL for errors and logs, without its password.
        server: The private server behind an `embedded:` URL.
    """

    client: Any = field(repr=False)  # the repr of a client may show a user name
    label: str
    server: "Server | None" = None

    def close(self) -> None:
        """Close the client, then the private server if there is one. Idempotent."""
        self.client.close()
        for sentinel in sentinels_of(self.client):
            sentinel.close()
        if self.server:
            self.server.close()

    abandon = close


def open_url(url: str) -> Opened:
    """Open a client for `url`; nothing is sent yet (an embedded server is started, though)."""
    return open_as(Opened, _client, url)


def open_as(
    opened: Callable[[Any, str, "Server | None"], T], client: Callable[[str, str], Any], url: str
) -> T:
    """Start the private server that `url` may name, and make a blocking or asyncio client."""
    label = mask(url)
    if not isinstance(url, str) or not url.startswith("embedded:"):
        return opened(client(url, label), label, None)
    from dpq.server import open_embedded  # here: only a POSIX system can run a private server

    server = open_embedded(url)
    try:
        return opened(client(server.url, label), label, server)
    except BaseException:
        server.close()
        raise


def connect(url: str) -> Any:
    """Return the client of `open_url`; a private server lives until this process ends."""
    return open_url(url).client


def _client(url: str, label: str) -> Any:
    with explained(label):
        parsed = read_url(url)
        kind = _BOUNDED[parsed.connection_class]
        # Built at once, though it connects later: a bad parameter fails here, not at 3 a.m.
        for settings in parsed.of_connections():
            kind(**settings)
        if parsed.kind == "cluster":
            return LateCluster(lambda: _cluster_settings(parsed, kind))
        if parsed.kind == "sentinel":
            return Redis.from_pool(_master_pool(parsed, kind))
        return Redis.from_pool(ConnectionPool(connection_class=kind, **parsed.settings))


def _cluster_settings(parsed: ParsedUrl, kind: type[AbstractConnection]) -> dict[str, Any]:
    """Make the arguments of redis-py's `RedisCluster`, with a URL: else it ignores the class."""
    others = [
        ClusterNode(host.name, host.port)  # type: ignore[no-untyped-call]  # redis-py's
        for host in parsed.hosts[1:]
    ]
    first = {"url": f"redis://{parsed.hosts[0].netloc}", "startup_nodes": others}
    return {**parsed.settings, **first, "connection_class": kind}


class SentinelFault(RedisConnectionError):
    """The error of a Sentinel, shown with its text: redis-py shows only the class."""

    def __repr__(self) -> str:
        return str(self)


class _Asked(Redis):
    """A client of one Sentinel, shown without the settings of its connections."""

    def __repr__(self) -> str:
        return address_of(self)

    def sentinel_masters(self) -> Any:
        """Ask for the masters that it watches."""
        try:
            return super().sentinel_masters()
        except (RedisConnectionError, RedisTimeoutError) as error:
            raise SentinelFault(str(error)) from error


def address_of(client: Any) -> str:
    """Return the host and port of a Sentinel."""
    settings = client.connection_pool.connection_kwargs
    return Host(settings["host"], settings["port"]).netloc


class _Sentinel(Sentinel):
    """redis-py's `Sentinel`, with DPQ's text if no master is found."""

    def discover_master(self, service_name: str) -> Any:
        """Ask for the address of the master."""
        try:
            return super().discover_master(service_name)  # type: ignore[no-untyped-call]
        except MasterNotFoundError as error:
            raise MasterNotFoundError(no_master(service_name, error)) from None


def _master_pool(parsed: ParsedUrl, kind: type[AbstractConnection]) -> ConnectionPool:
    sentinel = _Sentinel([])  # type: ignore[no-untyped-call]  # redis-py's
    sentinel.sentinels = [
        _Asked.from_pool(ConnectionPool(connection_class=kind, **settings))
        for settings in parsed.sentinel_settings()
    ]
    return SentinelConnectionPool(  # type: ignore[no-untyped-call]  # redis-py's
        parsed.service, sentinel, connection_class=_MASTER[kind], **parsed.settings
    )


def no_master(service: str, error: Exception) -> str:
    """Make the text of the error that no master is found, from redis-py's error."""
    reasons = str(error).removeprefix(f"No master found for {service!r}").removeprefix(" : ")
    return f"no Sentinel names a master {service!r} that is up{reasons and f' ({reasons})'}"


def sentinels_of(client: Any) -> Sequence[Any]:
    """List the clients that a client asks for the master; none without Sentinels."""
    manager = getattr(getattr(client, "connection_pool", None), "sentinel_manager", None)
    return getattr(manager, "sentinels", ())


class LateCluster(RedisCluster):
    """A `RedisCluster` that connects at its first use, as a plain client does.

    A `RedisCluster` of redis-py connects in its constructor. If that fails, there is no client.
    """

    connection_pool = None  # a class attribute, so that reading it does not connect

    def __init__(self, settings: Callable[[], dict[str, Any]]) -> None:
        self._settings = settings
        self._joining = threading.RLock()
        self._joined = self._under_way = False

    def __getattr__(self, name: str) -> Any:
        """Connect, and return an attribute that redis-py's constructor has set."""
        with self._joining:
            if not (self._joined or self._under_way):
                self._under_way = True
                try:
                    with reachable():
                        super().__init__(**self._settings())
                    self._joined = True
                finally:
                    self._under_way = False
        return super().__getattribute__(name)

    def close(self) -> None:
        """Close the connections."""
        if self._joined:
            super().close()


class _Bounded(AbstractConnection):
    """A connection that connects within one time limit: all addresses, TLS, and the handshake."""

    _give_up: float | None = None  # monotonic seconds, while it connects

    def __init__(self, *args: Any, **settings: Any) -> None:
        self._patience = settings.get("socket_connect_timeout") or CONNECT_TIMEOUT_S
        self._for_reply = settings.get("socket_timeout")
        super().__init__(*args, **settings)

    @property
    def socket_connect_timeout(self) -> float:
        """Seconds for the next address."""
        return min(self._patience, self._left())

    @socket_connect_timeout.setter
    def socket_connect_timeout(self, value: float | None) -> None:
        self._patience = value or CONNECT_TIMEOUT_S

    @property
    def socket_timeout(self) -> float | None:
        """Seconds for a reply; for TLS while it connects."""
        return self._for_reply if self._give_up is None else self._left()

    @socket_timeout.setter
    def socket_timeout(self, value: float | None) -> None:
        self._for_reply = value

    def _left(self) -> float:
        give_up = self._give_up
        return float("inf") if give_up is None else max(0.001, give_up - time.monotonic())

    def connect_check_health(
        self, check_health: bool = True, retry_socket_connect: bool = True
    ) -> None:
        """Connect unless connected; redis-py calls it in the middle of a command, too."""
        if socket_of(self) is None:
            self._give_up = time.monotonic() + connect_bound(self._patience)
            try:
                super().connect_check_health(check_health, retry_socket_connect)
            finally:
                self._give_up = None
            socket_of(self).settimeout(self.socket_timeout)

    def on_connect_check_health(self, check_health: bool = True) -> None:
        """Do the handshake (HELLO, AUTH, SELECT) in the time that is left."""
        socket_of(self).settimeout(self._left())
        self._give_up = None  # the parser keeps the timeout that it finds
        super().on_connect_check_health(check_health)


class _BoundedTCP(_Bounded, Connection):
    pass


class _BoundedTLS(_Bounded, SSLConnection):
    pass


class _BoundedUnix(_Bounded, UnixDomainSocketConnection):
    pass


class _BoundedMaster(_Bounded):
    """A connection to the server that the Sentinels name as the master now."""

    connection_pool: Any
    connect = AbstractConnection.connect  # the next class would locate the master twice

    def connect_check_health(
        self, check_health: bool = True, retry_socket_connect: bool = True
    ) -> None:
        """Connect to the server that is the master now, unless connected."""
        if socket_of(self) is None:
            self.host, self.port = self.connection_pool.get_master_address()
            super().connect_check_health(check_health, retry_socket_connect)

    def connect_to(self, address: tuple[str, int]) -> None:
        """Connect to a server whose address is known already."""
        self.host, self.port = address
        super().connect_check_health()


class _BoundedMasterTCP(_BoundedMaster, SentinelManagedConnection):
    pass


class _BoundedMasterTLS(_BoundedMaster, SentinelManagedSSLConnection):
    pass


_BOUNDED: dict[type, type[Any]] = {
    Connection: _BoundedTCP,
    SSLConnection: _BoundedTLS,
    UnixDomainSocketConnection: _BoundedUnix,
}

_MASTER: dict[type, type[Any]] = {
    _BoundedTCP: _BoundedMasterTCP,
    _BoundedTLS: _BoundedMasterTLS,
}
