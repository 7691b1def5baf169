"""Confirmation of changes, as data: the scripts that need it, its commands, its error. No I/O.

A server answers before its replicas, and often before its disk, have a change. WAIT asks the
replicas, and WAITAOF the disk, for all that one connection has written so far. So `transport` sends
it behind the scripts, over the same connection and in the same round trip:

    HINCRBY before a drop, scripts, HINCRBY, WAIT 1 2100
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from typing import Any, Literal, NamedTuple

from dpq.model.errors import ConfigurationError, NotConfirmedError
from dpq.protocol.keys import beside

Durability = Literal["async", "replica", "fsync"]
"""The places that have a change before its call returns: the server; a replica too; a disk too."""

CONFIRM_SECONDS = 3.0
"""Seconds that a call waits: a healthy replica answers in 1 ms, a disk within a second."""

SHARE_OF_TIMEOUT = 0.7
"""Share of the client's own timeout that a call waits at most: the timeout ends the connection."""

PROMISES = frozenset(
    {
        *("push", "update", "cancel", "purge", "drop", "replay"),
        *("ack", "fail", "release", "set_visibility", "rate_limited", "bury"),
        *("pause", "close", "delay_group", "set_limit", "configure"),
    }
)
"""The scripts whose changes are to be confirmed. Not pop and extend: a lost lease costs another
delivery, which may come anyway. Not upkeep either: it is done again."""

WAITAOF_SINCE = (7, 2)


class Words(NamedTuple):
    """A plain Redis command, not a script."""

    words: tuple[Any, ...]


class Unconfirmed(NamedTuple):
    """The reply of a script that has run, but was not confirmed in time.

    Attributes:
        reply: The reply of the script.
        durability: The durability that was asked for.
        confirmed: The number of replicas, or disks, that have answered.
        reason: The error, if it was not just the time.
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


def promises(commands: Sequence[Any]) -> bool:
    """Return True if one of these commands needs a confirmation."""
    return any(
        command.needs_confirmation and command.script.name in PROMISES for command in commands
    )


def confirmation(
    durability: Durability, commands: Sequence[Any], timeout: float | None
) -> tuple[list[Words], list[Words]]:
    """Make the commands to send before and behind others: a write without effect, and WAIT.

    A newer server waits only for what this connection has written. If a call is repeated and finds
    its work done, it writes nothing; so there is a write without effect. For a drop it comes
    before, and the drop removes it; behind the drop it would stay.

    Args:
        durability: "replica" or "fsync".
        commands: The commands to confirm.
        timeout: The client's own timeout, seconds.
    """
    seconds = min(CONFIRM_SECONDS, SHARE_OF_TIMEOUT * (timeout or CONFIRM_SECONDS * 2))
    milliseconds = max(1, round(seconds * 1000))
    wait = ("WAIT", 1, milliseconds) if durability == "replica" else ("WAITAOF", 1, 0, milliseconds)
    promised = [command for command in commands if promises((command,))]
    before = _nothing(command for command in promised if command.script.name == "drop")
    behind = _nothing(command for command in promised if command.script.name != "drop")
    return before, [*behind, Words(wait)]


def _nothing(commands: Iterable[Any]) -> list[Words]:
    """Make a write without effect to the queue of the first command, if there is one."""
    return [
        Words(("HINCRBY", beside(command.keys[0], "stats"), "pushed", 0))
        for command in islice(commands, 1)
    ]


def missing_confirmation(durability: Durability, answers: Sequence[Any]) -> Unconfirmed | None:
    """Read the answers to the commands of `confirmation`: None if all is confirmed.

    If one answer is an error, the last one says nothing about the changes of an earlier call.
    """
    answer = answers[-1]
    if refusal := next((each for each in answers if isinstance(each, Exception)), None):
        return Unconfirmed(None, durability, reason=str(refusal))
    confirmed = int(answer if durability == "replica" else answer[0])
    return None if confirmed else Unconfirmed(None, durability)


def require_direct(durability: Durability, direct: bool, client: Any) -> None:
    """Refuse a client over which WAIT may take another connection than the script."""
    if not direct:
        kind = type(client)
        raise ConfigurationError(
            f"durability is {durability!r}: that needs a Redis or RedisCluster client of redis-py "
            f"itself, with a pool, and not a {kind.__module__}.{kind.__name__}, over which nobody "
            "knows which connection a command takes"
        )


def require_fsync(info: Mapping[str, Any]) -> None:
    """Refuse a server that cannot say when something is on its disk."""
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
