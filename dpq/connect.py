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

import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlsplit

from redis import Redis
from redis.backoff import ExponentialWithJitterBackoff
from redis.connection import (
    AbstractConnection,
    Connection,
    ConnectionPool,
    SSLConnection,
    UnixDomainSocketConnection,
    parse_url,
)
from redis.exceptions import RedisError
from redis.maint_notifications import MaintNotificationsConfig
from redis.retry import Retry

from ._tls import check_certificates
from .errors import ConfigurationError

if TYPE_CHECKING:
    from .server import Server

T = TypeVar("T")

CONNECT_TIMEOUT_S = 2.0  # one address; the kernel repeats a lost SYN after 1 s, so one may be lost
CONNECT_SLACK_S = 0.7  # more for further addresses, TLS, HELLO and retries: under 3 s in all
SOCKET_TIMEOUT_S = 10.0  # a reply: scripts take milliseconds, but an AOF fsync can stall seconds
RETRIES = 2  # for a dropped connection; longer outages are for the caller's own loop
BACKOFF_BASE_S = 0.1  # random, up to 0.2 and 0.4 s: clients do not come back in step
BACKOFF_CAP_S = 0.4
HEALTH_CHECK_S = 0  # none: a PING in front costs a round trip and, at a dead peer, times out just
# as the command would, which is then sent again; TCP keepalive (30 s, 3 x 5 s) finds the idle dead.

SCHEMES = "redis://[user:password@]host[:port][/db], rediss://..., unix:///path/to.sock[?db=0], \
embedded: or embedded:DIR"
_SECRET = re.compile(r"([^?&;,\s]*(?:pass|pwd|secret|token|auth|cred)[^=&]*=)[^&]*", re.IGNORECASE)
_NOT_A_PORT = re.compile(r"(//[^/?#:\[\]]*:)(?!\d*(?:[/?#,]|$)).*", re.DOTALL)


@dataclass(frozen=True)
class Opened:
    """A client that DPQ opened, and what has to be closed with it.

    Attributes:
        client: It returns bytes (`decode_responses` is off).
        label: The URL, fit for a log: without its password.
        server: The private server behind an `embedded:` URL.
    """

    client: Redis = field(repr=False)  # its repr may name a user
    label: str
    server: "Server | None" = None

    def close(self) -> None:
        """Close the client, then the private server if there is one. Idempotent."""
        self.client.close()
        if self.server:
            self.server.close()


def open_url(url: str) -> Opened:
    """Open a client for `url`; nothing is sent yet (an embedded server is started, though).

    Args:
        url: One of the forms in `SCHEMES`. redis-py's query parameters override the defaults of
            this module, such as `?socket_timeout=3` (seconds); `decode_responses` stays off. Those
            of TLS (`ssl_ca_certs`, `ssl_certfile`, ...) are in docs/security.md.

    Raises:
        ConfigurationError: The URL is malformed, or the embedded server does not start.
    """
    return open_as(Opened, _client, url)


def open_as(
    opened: Callable[[Any, str, "Server | None"], T], client: Callable[[str, str], Any], url: str
) -> T:
    """Start the private server that `url` may ask for, and make a client of one kind or another.

    Args:
        opened: Takes the client, the masked URL, and the private server if there is one.
        client: Makes a client of a URL and its masked form.
        url: As for `open_url`.
    """
    label = mask(url)
    if not isinstance(url, str) or not url.startswith("embedded:"):
        return opened(client(url, label), label, None)
    from .server import open_embedded  # here: only a POSIX system can run a private server

    server = open_embedded(url)
    try:
        return opened(client(server.url, label), label, server)
    except BaseException:
        server.close()
        raise


def connect(url: str) -> Redis:
    """Return the client of `open_url`; a private server lives until this process ends."""
    return open_url(url).client


def mask(url: object) -> str:
    """Return `url` with its password and secret parameters as `***`; accepts anything.

    A malformed URL is masked rather too much than too little.
    """
    if not isinstance(url, str):
        return f"<{type(url).__name__}>"
    head, at, host = url.rpartition("@")
    if at:  # a password may hold "/", "?" and "@" by mistake: all up to the last "@" is suspect
        scheme, slashes, user = head.rpartition("//") if head.count("//") == 1 else _cut(head)
        name, colon, _ = user.partition(":")
        url = f"{scheme}{slashes}{name}{':***' if colon else ''}@{host}"
    else:
        url = _NOT_A_PORT.sub(r"\1***", url)  # "redis://:password", the host forgotten
    return _SECRET.sub(r"\1***", url)


def _cut(head: str) -> tuple[str, str, str]:
    scheme, slashes, user = head.partition("//")
    return (scheme, slashes, user) if slashes else ("", "", head)


@contextmanager
def explained(label: str) -> Iterator[None]:
    """Turn what a bad URL runs into into a `ConfigurationError` that shows no secret."""
    try:
        yield
    except (ValueError, TypeError, AttributeError, RedisError) as error:
        # The cause may quote the password, so it is told only where this module wrote it.
        why = f" ({error})" if isinstance(error, ConfigurationError) else ""
        if isinstance(error, TypeError):
            why = " (it has a parameter that redis-py does not know)"
        raise ConfigurationError(f"cannot use the URL {label!r}{why}: use {SCHEMES}") from None


def _client(url: str, label: str) -> Redis:
    with explained(label):
        options = url_options(url)
        kind = options.pop("connection_class", Connection)
        # Built at once, though it connects later: a bad parameter fails here, not at 3 a.m.
        _BOUNDED[kind](**{k: v for k, v in options.items() if k not in POOL_OPTIONS})
        return Redis.from_pool(ConnectionPool(connection_class=_BOUNDED[kind], **options))


def url_options(url: str) -> dict[str, Any]:
    """What a URL says about connections, with the defaults of this module."""
    parts = urlsplit(url)
    options: dict[str, Any] = {
        "socket_connect_timeout": CONNECT_TIMEOUT_S,
        "socket_timeout": SOCKET_TIMEOUT_S,
        "health_check_interval": HEALTH_CHECK_S,
        "retry": Retry(ExponentialWithJitterBackoff(BACKOFF_CAP_S, BACKOFF_BASE_S), RETRIES),
        **parse_url(url),  # type: ignore[no-untyped-call]  # redis-py's
        "decode_responses": False,
    }
    if parts.scheme == "unix":
        if not options.get("path"):
            raise ConfigurationError("no path to a socket")
    elif not re.fullmatch(r"/?\d*", parts.path):
        raise ConfigurationError("the path is a database number")  # redis-py would take 0
    else:
        # Redis Enterprise's relaxed timeouts are off: the ones above hold; and the pool looks
        # whether an idle connection was closed meanwhile only with them off.
        options["maint_notifications_config"] = MaintNotificationsConfig(enabled=False)
        options.setdefault("socket_keepalive", True)
    if options.get("connection_class") is SSLConnection:
        check_certificates(options)
    if options.get("db", 0) < 0:
        raise ConfigurationError("db is a number from 0")
    for name in ("socket_connect_timeout", "socket_timeout"):
        if not 0 < options[name] < float("inf"):
            raise ConfigurationError(f"{name} is a number of seconds above 0")
    return options


class _Bounded(AbstractConnection):
    """Connects, with all addresses, TLS, handshake and retries, within one bound.

    redis-py grants each address its connect timeout, TLS and handshake the socket timeout, and
    repeats it all: an address that swallows packets costs minutes.
    """

    _give_up = float("inf")  # monotonic

    @property
    def socket_connect_timeout(self) -> float:
        """Seconds for the next address."""
        return max(0.001, min(self._patience, self._give_up - time.monotonic()))

    @socket_connect_timeout.setter
    def socket_connect_timeout(self, value: float | None) -> None:
        self._socket_connect_timeout = value

    @property
    def _patience(self) -> float:
        return self._socket_connect_timeout or CONNECT_TIMEOUT_S

    def connect(self) -> None:
        """Connect unless connected; retry what fails fast, such as a restarting server."""
        if not self.is_connected:
            give_up = time.monotonic() + self._patience + CONNECT_SLACK_S
            self.retry.call_with_retry(
                lambda: self._attempt(give_up),
                self.disconnect,
                is_retryable=lambda _: time.monotonic() < give_up,
            )

    def connect_check_health(
        self, check_health: bool = True, retry_socket_connect: bool = True
    ) -> None:
        """Reconnect in the middle of a command, once: the command has retries of its own."""
        if not self.is_connected:
            self._attempt(time.monotonic() + self._patience, check_health)

    def _attempt(self, give_up: float, check_health: bool = True) -> None:
        self._give_up = give_up
        super().connect_check_health(check_health, retry_socket_connect=False)
        self._allow(self.socket_timeout)

    def _connect(self) -> Any:
        reply_timeout = self.socket_timeout
        self.socket_timeout = self.socket_connect_timeout  # what the TLS handshake waits
        try:
            # The next class of each combination below has one.
            return super()._connect()  # type: ignore[safe-super, no-untyped-call]
        finally:
            self.socket_timeout = reply_timeout

    def on_connect_check_health(self, check_health: bool = True) -> None:
        """Shake hands (HELLO, AUTH, SELECT) in what time is left."""
        self._allow(self.socket_connect_timeout)
        super().on_connect_check_health(check_health)

    def _allow(self, seconds: float | None) -> None:
        if sock := self._get_socket():
            sock.settimeout(seconds)


class _BoundedTCP(_Bounded, Connection):
    pass


class _BoundedTLS(_Bounded, SSLConnection):
    pass


class _BoundedUnix(_Bounded, UnixDomainSocketConnection):
    pass


_BOUNDED = {
    Connection: _BoundedTCP,
    SSLConnection: _BoundedTLS,
    UnixDomainSocketConnection: _BoundedUnix,
}
POOL_OPTIONS = {"max_connections"}
