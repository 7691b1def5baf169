"""URLs of servers, read into hosts and settings of connections.

redis-py's `parse_url` reads the URL of one server; those of clusters and Sentinels are read here.
(The package redis-sentinel-url 1.0 loses users and TLS, and refuses IPv6.) redis-py's own defaults,
five seconds to connect, times ten retries of everything, do not suit a queue.
"""

import re
import ssl
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import unquote, urlsplit, urlunsplit

from redis.backoff import ExponentialWithJitterBackoff, NoBackoff
from redis.connection import Connection, SSLConnection, parse_url
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import RedisError
from redis.exceptions import TimeoutError as RedisTimeoutError
from redis.retry import Retry

from dpq.link.internals import QUIET
from dpq.model.errors import ConfigurationError
from dpq.model.masking import SCHEMES

# For one address. The kernel repeats a lost SYN after 1 s, so one SYN may be lost.
CONNECT_TIMEOUT_S = 2.0
CONNECT_SLACK_S = 0.7  # for further addresses, TLS, HELLO and retries: under 3 s in all
# For one reply. Scripts take milliseconds, but an AOF fsync can stall a server for seconds.
SOCKET_TIMEOUT_S = 10.0
FAILOVER_TIMEOUT_S = 3.0  # for one reply if another server may take over: DPQ goes on within 5 s
RETRIES = 2  # after a dropped connection; the caller's own loop handles longer outages
BACKOFF_BASE_S = 0.1  # pauses are random, up to 0.2 and 0.4 s: clients do not return in step
BACKOFF_CAP_S = 0.4
LEAST_CONNECT_S = 0.3  # the least connect timeout for each server if a URL names several
DEFAULT_PORTS = {"cluster": 6379, "sentinel": 26379}
_SSL_CHECKS = ("none", "optional", "required")
_SSL_PATHS = ("ssl_ca_certs", "ssl_ca_path", "ssl_certfile", "ssl_keyfile")
_OF_THE_MASTER = {"username", "password", "db"}


class UnescapedError(ConfigurationError):
    """A URL has a sign that stands for something else, most likely in its password."""


@contextmanager
def explained(label: str) -> Iterator[None]:
    """Convert the errors of a bad URL into a `ConfigurationError` that shows no secret."""
    try:
        yield
    except UnescapedError as error:
        raise ConfigurationError(f"cannot use the URL {label!r}: {error}") from None
    except (ValueError, TypeError, AttributeError, RedisError) as error:
        # The cause may quote the password, so the text shows a cause only if this module wrote it.
        why = f" ({error})" if isinstance(error, ConfigurationError) else ""
        if label == "***":
            why = " (write redis:// before the host)"
        if isinstance(error, TypeError):
            why = " (it has a parameter that redis-py does not know)"
        raise ConfigurationError(f"cannot use the URL {label!r}{why}: use {SCHEMES}") from None


def connect_bound(timeout: float | None) -> float:
    """Return the seconds for all of a connect, from the client's timeout for one address."""
    patience = timeout or CONNECT_TIMEOUT_S
    return patience + max(CONNECT_SLACK_S * patience / CONNECT_TIMEOUT_S, LEAST_CONNECT_S)


class BoundedRetry(Retry):
    """The retries of DPQ's clients: none after an attempt that took as long as a connect may take.

    redis-py repeats a command, and within it each connect, whatever time that takes.
    """

    def __init__(self, seconds: float, retries: int = RETRIES) -> None:
        backoff = ExponentialWithJitterBackoff(BACKOFF_CAP_S, BACKOFF_BASE_S)
        # Redis-py 6 repeats a connect that the system refuses only if OSError is named.
        super().__init__(backoff, retries, (RedisConnectionError, RedisTimeoutError, OSError))
        self._seconds = 0.9 * seconds

    def call_with_retry(self, do: Any, fail: Any, *args: Any, **named: Any) -> Any:
        """Call `do`, again if it fails soon; call `fail` after each failure."""
        give_up = time.monotonic() + self._seconds

        def failed(error: Exception, *more: Any) -> Any:
            done = fail(error, *more)
            if time.monotonic() >= give_up:
                raise error
            return done

        return super().call_with_retry(do, failed, *args, **named)


class Host(NamedTuple):
    """One of the servers that a URL names."""

    name: str
    port: int

    @property
    def netloc(self) -> str:
        """The host and port as in a URL."""
        return f"[{self.name}]:{self.port}" if ":" in self.name else f"{self.name}:{self.port}"


class ParsedUrl(NamedTuple):
    """The content of a URL."""

    kind: str  # "" for one server, "cluster", or "sentinel"
    hosts: tuple[Host, ...]  # the nodes, or Sentinels, that it names
    service: str  # the Sentinels' name of the master
    connection_class: Any  # of redis-py
    settings: dict[str, Any]  # of connections to the servers that hold tasks, and of their pools
    sentinel: dict[str, str]  # the user and password at the Sentinels

    def of_connections(self) -> list[dict[str, Any]]:
        """List the settings of each kind of connection, without those of pools."""
        all_kinds = [self.settings, *(self.sentinel_settings() if self.kind == "sentinel" else ())]
        return [
            {name: each[name] for name in each.keys() - {"max_connections"}} for each in all_kinds
        ]

    def sentinel_settings(self) -> list[dict[str, Any]]:
        """List the settings of connections to each Sentinel. All share half the connect timeout."""
        shared = {name: self.settings[name] for name in self.settings.keys() - _OF_THE_MASTER}
        timeout = self._share(self.settings["socket_connect_timeout"] / 2)
        timeouts = {"socket_connect_timeout": timeout, "socket_timeout": timeout}
        own = {**shared, **self.sentinel, **timeouts, "retry": Retry(NoBackoff(), 0)}
        return [{**own, "host": host.name, "port": host.port} for host in self.hosts]

    def _share(self, seconds: float) -> float:
        """Divide a time among all hosts, which are tried one by one."""
        return max(seconds / len(self.hosts), LEAST_CONNECT_S)


def read_url(url: str) -> ParsedUrl:
    """Read a URL."""
    if isinstance(url, str) and "#" in url:  # `urlsplit` would drop what stands behind it
        raise UnescapedError("write # as %23")
    try:
        return _read(url)
    except (ValueError, TypeError, AttributeError, RedisError):
        netloc, tail = _cut(url.partition("://")[2])
        if "@" in tail or "[" in netloc.rpartition("@")[0]:
            raise UnescapedError("write / ? [ in a password as %2F %3F %5B") from None
        raise


def _cut(rest: str) -> tuple[str, str]:
    netloc = re.split("[/?]", rest, maxsplit=1)[0]
    return netloc, rest.removeprefix(netloc)


def _read(url: str) -> ParsedUrl:
    schemes, _, rest = url.partition("://")
    scheme, _, kind = schemes.lower().partition("+")
    if not kind:
        settings = _settings(url)
        return ParsedUrl("", (), "", settings.pop("connection_class", Connection), settings, {})
    if kind not in DEFAULT_PORTS or scheme not in ("redis", "rediss"):
        # The scheme is not shown, since it may hold the password.
        raise ConfigurationError("unknown scheme")
    netloc, tail = _cut(rest)
    parts = urlsplit(f"//host{tail}")  # `urlsplit` refuses several hosts in brackets
    user, at, names = netloc.rpartition("@")
    hosts = tuple(_host(name, DEFAULT_PORTS[kind]) for name in names.split(","))
    service, _, database = ("", "", parts.path.strip("/"))
    if kind == "sentinel":
        service, _, database = database.partition("/")
        if not service:
            raise ConfigurationError("the name of the Sentinel service is missing, as in /mymaster")
    first = urlunsplit((scheme, f"{user}{at}{hosts[0].netloc}", database, parts.query, ""))
    settings = _settings(first, FAILOVER_TIMEOUT_S)
    connection_class = settings.pop("connection_class", Connection)
    sentinel = {
        name.removeprefix("sentinel_"): settings.pop(name)
        for name in ("sentinel_username", "sentinel_password")
        if kind == "sentinel" and name in settings
    }
    parsed = ParsedUrl(kind, hosts, unquote(service), connection_class, settings, sentinel)
    if kind == "cluster":
        if settings.pop("db", 0):
            raise ConfigurationError("a cluster has only database 0")
        settings["socket_connect_timeout"] = parsed._share(settings["socket_connect_timeout"])
    return parsed


def _host(netloc: str, default_port: int) -> Host:
    parts = urlsplit(f"//{netloc}")
    if not parts.hostname:
        raise ConfigurationError("a host is missing")
    return Host(parts.hostname, parts.port or default_port)


def _settings(url: str, reply_timeout: float = SOCKET_TIMEOUT_S) -> dict[str, Any]:
    """Read the settings of connections from a URL, with the defaults of this module."""
    parts = urlsplit(url)
    options: dict[str, Any] = {
        "socket_connect_timeout": CONNECT_TIMEOUT_S,
        "socket_timeout": reply_timeout,
        "health_check_interval": 0,  # a PING before a command; TCP keepalive finds dead ones
        **parse_url(url),  # type: ignore[no-untyped-call]  # redis-py's
        "decode_responses": False,
    }
    if any("=" not in each for each in parts.query.split("&") if each):
        raise ConfigurationError("a parameter has no value")  # redis-py would pass over it
    if parts.scheme == "unix":
        if not options.get("path") or (parts.netloc and "@" not in parts.netloc):
            raise ConfigurationError("the path to the socket is missing")
    elif not re.fullmatch(r"/?\d*", parts.path):
        # Redis-py would use database 0.
        raise ConfigurationError("the path must be a database number")
    else:
        # The relaxed timeouts of Redis Enterprise are off, so that the timeouts above hold. Only
        # then does the pool check whether an idle connection was closed meanwhile.
        options |= QUIET
        options.setdefault("socket_keepalive", True)
    if options.get("connection_class") is SSLConnection:
        _check_certificates(options)
    if options.get("db", 0) < 0:
        raise ConfigurationError("db must be a whole number from 0")
    for name in ("socket_connect_timeout", "socket_timeout"):
        if not 0 < options[name] < float("inf"):
            raise ConfigurationError(f"{name} must be seconds above 0")
    options["retry"] = BoundedRetry(options["socket_connect_timeout"])
    return options


def _check_certificates(options: Mapping[str, Any]) -> None:
    """Check the certificates here, not at the first call; redis-py reads the files once more."""
    wanted = options.get("ssl_cert_reqs", "required")
    if isinstance(wanted, str) and wanted not in _SSL_CHECKS:
        raise ConfigurationError(f"ssl_cert_reqs must be one of {', '.join(_SSL_CHECKS)}")
    for name in _SSL_PATHS:
        if name in options and not Path(options[name]).exists():
            raise ConfigurationError(f"{name}: there is no such file")
    authorities, certificate, key = map(
        options.get, ("ssl_ca_certs", "ssl_certfile", "ssl_keyfile")
    )
    if key and not certificate:
        raise ConfigurationError("ssl_keyfile needs ssl_certfile")
    context, reading = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT), "ssl_ca_certs holds no certificates"
    try:
        if authorities:
            context.load_verify_locations(authorities)
        reading = "ssl_certfile and ssl_keyfile do not belong together, or ssl_password is wrong"
        if certificate:  # with None as password OpenSSL would ask at the terminal, and wait
            context.load_cert_chain(certificate, key, options.get("ssl_password") or "")
    except (OSError, ValueError) as error:  # an SSLError is an OSError
        reason = getattr(error, "reason", None) or getattr(error, "strerror", None) or "unreadable"
        raise ConfigurationError(f"{reading}: {reason}") from None
