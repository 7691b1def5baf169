"""The setting `durability`: its values, its time, what it needs, and its error. No I/O.

The queue objects check the setting, and sessions check their server, with this module;
`confirmation` says how a change is confirmed.
"""

import re
from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

from dpq.model.errors import ConfigurationError, NotConfirmedError

Durability = Literal["async", "replica", "fsync"]
"""The places that have a change before its call returns: the server; a replica too; a disk too."""

CONFIRM_SECONDS = 3.0
"""Seconds that a call waits: a healthy replica answers in 1 ms, a disk within a second."""

SHARE_OF_TIMEOUT = 0.7
"""Share of the client's own timeout that a call waits at most: the timeout ends the connection."""

WAITAOF_SINCE = (7, 2)


class Unconfirmed(NamedTuple):
    """The reply of a script whose changes were not confirmed in time.

    Attributes:
        reply: The reply of the script. If it is an error, the script has changed nothing, or its
            reply is missing.
        durability: The durability that was asked for.
        confirmed: The number of replicas, or disks, that have answered.
        reason: The error, if the cause was not just the time.
    """

    reply: Any
    durability: Durability
    confirmed: int = 0
    reason: str = ""

    def error(self, action: str, result: Any) -> NotConfirmedError:
        """Make the error that the caller gets instead of the result."""
        return NotConfirmedError(action, result, self.durability, self.confirmed, self.reason)

    def mark(self, reply: Any) -> "Unconfirmed":
        """Mark a reply as not confirmed, unless it is marked."""
        return reply if isinstance(reply, Unconfirmed) else self._replace(reply=reply)


def error_in(reply: Any) -> Exception | None:
    """Return the error in a reply, also in an `Unconfirmed` reply; None if there is none."""
    error = reply.reply if isinstance(reply, Unconfirmed) else reply
    return error if isinstance(error, Exception) else None


def named_durability(value: Any) -> Durability:
    """Check the setting `durability`."""
    if value not in ("async", "replica", "fsync"):
        raise ConfigurationError(
            f"durability is {value!r}: it must be 'async', 'replica' or 'fsync'"
        )
    durability: Durability = value
    return durability


def wait_milliseconds(timeout: float | None) -> int:
    """Return the milliseconds that WAIT may take, for a client with this timeout in seconds."""
    seconds = min(CONFIRM_SECONDS, SHARE_OF_TIMEOUT * (timeout or CONFIRM_SECONDS * 2))
    return max(1, round(seconds * 1000))


def require_direct(durability: Durability, direct: bool, client: Any) -> None:
    """Refuse a client that may send WAIT over another connection than the script."""
    if not direct:
        kind = type(client)
        raise ConfigurationError(
            f"durability is {durability!r}: it needs a Redis or RedisCluster client of redis-py "
            f"itself, with a pool. This client is a {kind.__module__}.{kind.__name__}: DPQ cannot "
            "know which connection it takes for a command"
        )


def require_fsync(info: Mapping[str, Any]) -> None:
    """Refuse a server that cannot say when a change is on its disk."""
    version = str(info.get("redis_version", ""))
    found = re.match(r"(\d+)\.(\d+)", version)
    if found and (int(found[1]), int(found[2])) < WAITAOF_SINCE:
        raise ConfigurationError(
            f"durability is 'fsync', and Redis {version} has no WAITAOF: that needs Redis 7.2 or "
            "Valkey. With `appendfsync always` on the server, 'async' promises the same"
        )
    if str(info.get("aof_enabled", 1)) == "0":
        raise ConfigurationError(
            "durability is 'fsync', and the server writes no AOF: set `appendonly yes`"
        )
