"""The setting `durability`: what it needs, how a change is confirmed, and its error. No I/O.

A server answers before its replicas, and often before its disk, have a change. WAIT asks the
replicas, and WAITAOF the disk, for all that one connection has written so far. So connections send
them behind the scripts, over the same connection and in one round trip:

    confirming(commands, durability, timeout)    HINCRBY, WAIT 1 2100
    judged(commands, durability, replies)        those of the scripts, some `Unconfirmed`
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple

from dpq.model.errors import ConfigurationError, NotConfirmedError
from dpq.script.keys import beside

Durability = Literal["async", "replica", "fsync"]
"""The places that have a change before its call returns: the server; a replica too; a disk too."""

CONFIRM_SECONDS = 3.0
"""Seconds that a call waits: a healthy replica answers in 1 ms, a disk within a second."""

SHARE_OF_TIMEOUT = 0.7
"""Share of the client's own timeout that a call waits at most: the timeout ends the connection."""

WAITAOF_SINCE = (7, 2)

CONFIRMED_SCRIPTS = frozenset(
    {
        *("push", "push_plain", "seal_batch", "update", "cancel", "purge", "drop", "replay"),
        "forget",
        *("ack", "ack_plain", "fail", "release", "set_visibility", "rate_limited", "bury"),
        *("pause", "delay_group", "met_limit", "set_limit", "configure", "import"),
    }
)
"""The scripts whose changes are confirmed. Not pop and extend: a lost lease costs another delivery,
which may come anyway. Not upkeep either: it is done again."""

BY_CLIENT = "its connection was cut or it was sent elsewhere, and the client has sent it again"


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


def named_durability(value: Any) -> Durability:
    """Check the setting `durability`."""
    if value not in ("async", "replica", "fsync"):
        raise ConfigurationError(
            f"durability is {value!r}: it must be 'async', 'replica' or 'fsync'"
        )
    durability: Durability = value
    return durability


def needs_confirmation(command: Any) -> bool:
    """Return True if a command changes something that is to be confirmed."""
    return command.needs_confirmation and command.script.name in CONFIRMED_SCRIPTS


def confirming(
    commands: Sequence[Any], durability: Durability, timeout: float | None
) -> list[Sequence[str | bytes | float]]:
    """Make the commands that confirm others: a write without effect, and WAIT; [] for none."""
    changing = [command for command in commands if needs_confirmation(command)]
    if not changing:
        return []
    seconds = min(CONFIRM_SECONDS, SHARE_OF_TIMEOUT * (timeout or CONFIRM_SECONDS * 2))
    ms = max(1, round(seconds * 1000))
    stored = [command.keys[0] for command in changing if command.script.name != "drop"]
    writes: list[Sequence[str | bytes | float]] = [
        ("HINCRBY", beside(key, "stats"), "pushed", 0) for key in stored[:1]
    ]
    return [*writes, ("WAIT", 1, ms) if durability == "replica" else ("WAITAOF", 1, 0, ms)]


def judged(commands: Sequence[Any], durability: Durability, replies: list[Any]) -> list[Any]:
    """Return the replies of scripts; as `Unconfirmed` if the answers behind them say so."""
    replies, answers = replies[: len(commands)], replies[len(commands) :]
    refusals = [answer for answer in answers if isinstance(answer, Exception)]
    if not refusals and int(answers[-1] if durability == "replica" else answers[-1][0]):
        return replies
    reason = str(refusals[0]) if refusals else ""
    return [
        unconfirmed(command, durability, reply, reason)
        for command, reply in zip(commands, replies, strict=True)
    ]


def unconfirmed(command: Any, durability: Durability, reply: Any, reason: str) -> Any:
    """Mark the reply of a command as not confirmed, if it is one that needs a confirmation."""
    if isinstance(reply, Exception) or not needs_confirmation(command):
        return reply
    return Unconfirmed(reply, durability, reason=reason)


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
